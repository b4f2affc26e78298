"""Checks of plain arguments: what a number must be, said the same way everywhere."""

from numbers import Integral, Real
from typing import Any


def whole_number(name: str, value: Any, least: int, remedy: str) -> int:
    """`value` as an int if it is a whole number of at least `least`, else an error that ends with `remedy`."""
    # True is an Integral to Python, but nobody means one layer by it.
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"Expected {name} to be a whole number (got {value!r}). {remedy}")
    if value < least:
        raise ValueError(f"Expected {name} of at least {least} (got {value}). {remedy}")
    return int(value)


def real_number(name: str, value: Any, remedy: str) -> float:
    """`value` as a float if it is a number, else an error that ends with `remedy`."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"Expected {name} to be a number (got {value!r}). {remedy}")
    return float(value)
