"""How many of a thing there are, in words: 1 graph, 1,200 graphs."""


def counted(number: int, thing: str) -> str:
    """The number and the thing; more than one, or none, has an s."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
