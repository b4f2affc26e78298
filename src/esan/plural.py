"""`counted`: a number and its noun, singular or plural: 1 graph, 1,200 graphs."""


def counted(number: int, noun: str) -> str:
    """The number and the noun, with an s unless it is one."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
