"""Segments of unequal length laid end to end: where each starts, and how to pick some of them."""

from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from esan.ops.dispatch import implementation


def starts(counts: Tensor) -> Tensor:
    """Where each segment begins: the exclusive cumulative sum of `counts`, in the same shape."""
    flat = counts.reshape(-1)
    return (flat.cumsum(0) - flat).reshape(counts.shape)


def counted(owner: Tensor, size: int) -> Tensor:
    """How many elements each segment has, from the segment of each element."""
    # Not `bincount`: it would wait for a GPU to tell the largest owner.
    return owner.new_zeros(size).scatter_add_(0, owner, owner.new_ones(1).expand_as(owner))


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


class Segments:
    """Segments to be picked out of lists, one after another.

    Args:
        first: where each begins.
        counts: how long it is.
    """

    def __init__(self, first: Tensor, counts: Tensor) -> None:
        self.first, self.counts = first, counts

    @cached_property
    def total(self) -> int:
        """Elements of all segments."""
        return int(self.counts.sum())

    @cached_property
    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where each begins and how long it is, for compiled loops."""
        return self.first.contiguous().numpy(), self.counts.contiguous().numpy()

    @cached_property
    def owner(self) -> Tensor:
        """The segment of each element."""
        return owner(self.counts)

    @cached_property
    def places(self) -> Tensor:
        """Where the elements are, segment after segment."""
        return ranges(self.first, self.counts)

    def take(self, ids: Tensor) -> "Segments":
        """The segments of these numbers, in that order."""
        return Segments(self.first[ids], self.counts[ids])

    def pick(self, values: Tensor, shift: Tensor) -> Tensor:
        """The whole numbers of the segments, the `shift` of each added to them.

        Args:
            values: a list, or lists of one length as lines of a table.
            shift: a number a segment.
        """
        fast = implementation("indices", values)
        if fast is not None:
            return fast.pick(values, self, shift)
        return values.index_select(-1, self.places).add_(shift.index_select(0, self.owner))

    def pick_lines(self, values: Tensor) -> Tensor:
        """The lines of the segments, as they are."""
        fast = None if values.requires_grad else implementation("indices", values)
        return values.index_select(0, self.places) if fast is None else fast.pick_lines(values, self)
