"""Infers the kind of features (none, categories or numbers) from their values."""

from typing import Literal, TypeAlias

import torch
from torch import Tensor

from esan.graphs import Categories, Channels

#: Channels, or "infer" to infer them from the features.
Asked: TypeAlias = Channels | Literal["infer"]

#: Above this, integers are more likely identifiers than categories.
MOST_CATEGORIES = 10_000


def inferred(value: Tensor | None, name: str) -> Channels:
    """The kind of the features.

    None or equal rows → None; integers → `Categories`, one per column; other numbers → the number of columns.

    Args:
        value: one row per node or edge, or None.
        name: for errors.
    """
    if value is None or value.numel() == 0:
        return None
    rows = _rows(value, name)
    if bool((rows == rows[0]).all()):
        return None
    if rows.is_floating_point():
        return rows.size(1)
    low, high = rows.long().amin(0), rows.long().amax(0)
    if bool((low < 0).any()):
        raise ValueError(
            f"Expected categories from 0 on in {name}, which holds integers (got {int(low.min())}). "
            f"Renumber them, or make {name} floating-point if they are quantities."
        )
    if bool((high >= MOST_CATEGORIES).any()):
        raise ValueError(
            f"Expected fewer than {MOST_CATEGORIES:,} categories in {name}, which holds integers (got "
            f"{int(high.max()):,}). Leave identifiers out; make {name} floating-point if they are quantities."
        )
    return Categories(*(high + 1).tolist())


def as_asked(value: Tensor | None, channels: Channels) -> Tensor | None:
    """The features converted to `channels`: numbers to floats, categories to integers, nothing to None."""
    if not channels or value is None:
        return None
    rows = value[:, None] if value.dim() == 1 else value
    if isinstance(channels, int):
        return rows.to(torch.float32)
    whole = not rows.is_floating_point() or bool((rows == rows.round()).all())
    return rows.long() if whole else rows


def _rows(value: Tensor, name: str) -> Tensor:
    if value.dim() > 2 or value.is_complex():
        raise ValueError(
            f"Expected {name} of one or two dimensions (got {value.dtype} of shape {tuple(value.shape)}). Flatten it."
        )
    return value[:, None] if value.dim() == 1 else value
