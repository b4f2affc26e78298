"""Checks of plain arguments: what a number, a choice or a device must be, said the same way everywhere."""

from collections.abc import Collection
from numbers import Integral, Real
from typing import Any

import torch


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


def truth_value(name: str, value: Any, remedy: str) -> bool:
    """`value` if it is True or False, else an error that ends with `remedy`."""
    # Not what counts as true to Python: the text "no" does.
    if not isinstance(value, bool):
        raise TypeError(f"Expected {name} to be True or False (got {value!r}). {remedy}")
    return value


def check_known(name: str, value: Any, known: Collection[Any]) -> None:
    """An error that lists the known values, unless `value` is one of them."""
    # A tuple: in a dict, a value that cannot be hashed would be a TypeError of its own.
    if value not in tuple(known):
        listed = ", ".join(str(one) or "''" for one in known)
        raise ValueError(f"Expected {name} to be one of {listed} (got {value!r}). Choose one of these.")


def device_here(device: torch.device | str) -> torch.device:
    """The device of that name, "cuda" for the current GPU, if torch has it on this machine."""
    try:
        # Only a tensor there tells whether it works, and which GPU is the current one.
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, TypeError):
        gpus = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
        if str(device) in ("cuda", *gpus) and gpus:
            raise  # it is there, and torch knows better what is wrong with it
        raise ValueError(
            f"Expected a device of this machine: {', '.join(['cpu', *gpus])} (got {str(device)!r}). "
            "Choose one of these, or install a build of torch for the device."
        ) from None
