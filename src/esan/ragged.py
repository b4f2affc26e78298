"""Segments of unequal length laid end to end: where each starts, and how to pick some of them."""

import torch
from torch import Tensor


def starts(counts: Tensor) -> Tensor:
    """Where each segment begins: the exclusive cumulative sum of `counts`, in the same shape."""
    flat = counts.reshape(-1)
    return (flat.cumsum(0) - flat).reshape(counts.shape)


def boundaries(counts: Tensor) -> Tensor:
    """The starts of all segments, followed by the end of the last one."""
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def owner(counts: Tensor) -> Tensor:
    """Which segment each element belongs to: 0 `counts[0]` times, 1 `counts[1]` times, ..."""
    return torch.repeat_interleave(counts)


def ranges(first: Tensor, counts: Tensor) -> Tensor:
    """The ranges `first[i], first[i] + 1, ...` of `counts[i]` numbers each, one after another."""
    shift = first - starts(counts)
    total = torch.repeat_interleave(shift, counts)
    return total + torch.arange(total.numel(), device=total.device)


def member(queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """For each query whether it is among the sorted `keys`, and at which position it is (or would be)."""
    if keys.numel() == 0:
        nowhere = torch.zeros_like(queries)
        return nowhere.bool(), nowhere
    place = torch.searchsorted(keys, queries).clamp_(max=keys.numel() - 1)
    return keys[place] == queries, place
