"""Checks of plain arguments: what a number or a device must be, said the same way everywhere."""

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


def device_here(device: torch.device | str) -> torch.device:
    """The device of that name, "cuda" for the current GPU, if torch has it on this machine."""
    try:
        # Only a tensor there tells whether it works, and which GPU is the current one.
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError):
        gpus = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
        if str(device) in ("cuda", *gpus) and gpus:
            raise  # it is there, and torch knows better what is wrong with it
        raise ValueError(
            f"Expected a device of this machine: {', '.join(['cpu', *gpus])} (got {str(device)!r}). "
            "Choose one of these, or install a build of torch for the device."
        ) from None
