"""`misfit`: the error for a tensor whose shape does not fit the others, raised before kernels compute addresses."""


def misfit(expected: str, got: str) -> ValueError:
    """The error for a tensor whose shape does not fit the others."""
    return ValueError(
        f"Expected {expected} (got {got}). Hooks, and modules that you put into a network, must keep the numbers of "
        "rows and columns of what they replace."
    )
