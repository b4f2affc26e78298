"""Of what kind features are: none, categories or numbers, read off the features themselves."""

from typing import Literal, TypeAlias

import torch
from torch import Tensor

from esan.graphs import Categories, Channels

#: Channels, or "infer" to have them read off the features.
Asked: TypeAlias = Channels | Literal["infer"]

#: Above this, integers are more likely identifiers than categories.
MOST_CATEGORIES = 10_000


def inferred(value: Tensor | None, name: str) -> Channels:
    """What the features hold.

    None or the same line everywhere → None; integers → `Categories`, a column each; other numbers → their count.

    Args:
        value: a line a node or arc, or None.
        name: for errors.
    """
    if value is None or value.numel() == 0:
        return None
    lines = _lines(value, name)
    if bool((lines == lines[0]).all()):
        return None
    if lines.is_floating_point():
        return lines.size(1)
    low, high = lines.long().amin(0), lines.long().amax(0)
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
    """The features in the form that `channels` says: numbers as floats, categories as integers, nothing as None."""
    if not channels or value is None:
        return None
    lines = value[:, None] if value.dim() == 1 else value
    if isinstance(channels, int):
        return lines.to(torch.float32)
    whole = not lines.is_floating_point() or bool((lines == lines.round()).all())
    return lines.long() if whole else lines


def _lines(value: Tensor, name: str) -> Tensor:
    if value.dim() > 2 or value.is_complex():
        raise ValueError(
            f"Expected {name} of one or two dimensions (got {value.dtype} of shape {tuple(value.shape)}). Flatten it."
        )
    return value[:, None] if value.dim() == 1 else value
