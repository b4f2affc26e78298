"""Checks of plain arguments (numbers, choices, seeds, devices), with the same messages everywhere."""

from collections.abc import Collection
from numbers import Integral, Real
from typing import Any

import torch

#: Seeds are below this: scikit-learn draws folds from no other numbers, and torch takes these everywhere.
SEEDS = 2**32
#: The most layers of a network; every layer costs one count of rows per graph, even if it adds no rows.
MOST_LAYERS = 10_000


def shown(value: Any, most: int = 80) -> str:
    """The `repr` of any value for an error message: short and in one line."""
    if isinstance(value, torch.Tensor):
        return f"a tensor of {value.dtype} and shape {tuple(value.shape)}"
    try:
        text = repr(value)
    except Exception:  # of a class of the user's, or a number with more digits than Python prints
        text = f"{type(value).__name__} of about 10^{_digits(value)}" if isinstance(value, int) else _bare(value)
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 4]} ..."


def _digits(value: int) -> int:
    return round(value.bit_length() * 0.30103)


def _bare(value: Any) -> str:
    return f"an object of {type(value).__name__}"


def whole_number(name: str, value: Any, least: int, remedy: str, most: int | None = None) -> int:
    """`value` as an int if it is a whole number from `least` to `most`, else an error that ends with `remedy`."""
    # True is an Integral to Python, but it is not meant as a number.
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"Expected {name} to be a whole number (got {shown(value)}). {remedy}")
    number = int(value)
    if number < least:
        raise ValueError(f"Expected {name} of at least {least} (got {shown(number)}). {remedy}")
    if most is not None and number > most:
        raise ValueError(f"Expected {name} of at most {most:,} (got {shown(number)}). {remedy}")
    return number


def seed_number(value: Any) -> int:
    """`value` if it is a seed: a whole number from 0 to 2^32 - 1."""
    return whole_number("seed", value, 0, "Number seeds from 0.", SEEDS - 1)


def real_number(name: str, value: Any, remedy: str) -> float:
    """`value` as a float if it is a number, else an error that ends with `remedy`."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"Expected {name} to be a number (got {shown(value)}). {remedy}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"Expected {name} to be a number that fits a float (got {shown(value)}). {remedy}") from None


def truth_value(name: str, value: Any, remedy: str) -> bool:
    """`value` if it is True or False, else an error that ends with `remedy`."""
    # No truthy values: the text "no" is one.
    if not isinstance(value, bool):
        raise TypeError(f"Expected {name} to be True or False (got {shown(value)}). {remedy}")
    return value


def text_value(name: str, value: Any, remedy: str) -> str:
    """`value` if it is text, else an error that ends with `remedy`."""
    if not isinstance(value, str):
        raise TypeError(f"Expected {name} to be text (got {shown(value)}). {remedy}")
    return value


def random_source(value: Any) -> torch.Generator | None:
    """`value` if it is a generator of torch, or None for torch's own; else an error."""
    if value is not None and not isinstance(value, torch.Generator):
        raise TypeError(
            f"Expected generator to be a torch.Generator (got {shown(value)}). "
            "Pass torch.Generator().manual_seed(5), or leave it out."
        )
    return value


def check_known(name: str, value: Any, known: Collection[Any]) -> None:
    """An error that lists the known values, unless `value` is one of them."""
    # By type too: an array compares with text entry by entry, and an unhashable value is no key of a dict.
    if not any(isinstance(value, type(one)) and value == one for one in known):
        listed = ", ".join(str(one) or "''" for one in known)
        raise ValueError(f"Expected {name} to be one of {listed} (got {shown(value)}). Choose one of these.")


def device_named(device: torch.device | str) -> torch.device | str:
    """The device itself; for "auto" the current GPU, or the CPU where there is none."""
    if isinstance(device, str) and device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return device


def device_here(device: torch.device | str, shapes_only: bool = False) -> torch.device:
    """The device of that name, "cuda" for the current GPU, if torch has it on this machine.

    Args:
        device: its name.
        shapes_only: whether "meta" will do, whose tensors have shapes but hold no numbers.
    """
    gpus = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    try:
        # Only a tensor there tells whether it works, and which GPU is the current one.
        available = torch.empty(0, device=device).device if isinstance(device, torch.device | str) else None
    except (RuntimeError, AssertionError, TypeError, ValueError, ImportError):
        if str(device) in ("cuda", *gpus) and gpus:
            raise  # it exists, and torch says better what is wrong
        available = None
    if available is None or (available.type == "meta" and not shapes_only):
        raise ValueError(
            f"Expected a device of this machine: {', '.join(['cpu', *gpus])} (got {shown(_called(device))}). "
            "Choose one of these, or install a build of torch for the device."
        )
    return available


def _called(device: Any) -> str:
    try:
        return str(device)
    except Exception:  # of a class of the user's
        return shown(device)
