"""Ragged lists stored end to end: where segments begin, which segment an element is in, and picking segments."""

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


def segment_counts(index: Tensor, size: int) -> Tensor:
    """How many elements each segment has, from the segment of each element."""
    # Not `bincount`: it would synchronise with a GPU to read the largest index.
    return index.new_zeros(size).scatter_add_(0, index, index.new_ones(1).expand_as(index))


def boundaries(counts: Tensor) -> Tensor:
    """The starts of all segments, followed by the end of the last one."""
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def segment_index(counts: Tensor) -> Tensor:
    """Which segment each element belongs to: 0 `counts[0]` times, 1 `counts[1]` times, ..."""
    return torch.repeat_interleave(counts)


def ranges(start: Tensor, counts: Tensor) -> Tensor:
    """The ranges `start[i], start[i] + 1, ...` of `counts[i]` numbers each, one after another."""
    shift = start - starts(counts)
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
        start: where each begins.
        counts: how long each is.
    """

    def __init__(self, start: Tensor, counts: Tensor) -> None:
        self.start, self.counts = start, counts

    @cached_property
    def total(self) -> int:
        """The number of elements of all segments."""
        return int(self.counts.sum())

    @cached_property
    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Start and length of each, for compiled loops."""
        return self.start.contiguous().numpy(), self.counts.contiguous().numpy()

    @cached_property
    def index(self) -> Tensor:
        """The segment of each element."""
        return segment_index(self.counts)

    @cached_property
    def positions(self) -> Tensor:
        """The positions of the elements, segment after segment."""
        return ranges(self.start, self.counts)

    def take(self, ids: Tensor) -> "Segments":
        """The segments with these numbers, in that order."""
        return Segments(self.start[ids], self.counts[ids])

    def pick(self, values: Tensor, shift: Tensor) -> Tensor:
        """The integers of the segments, with the `shift` of each segment added to them.

        Args:
            values: a list, or lists of one length as rows of a tensor.
            shift: one number per segment.
        """
        fast = implementation("indices", values)
        if fast is not None:
            return fast.pick(values, self, shift)
        return values.index_select(-1, self.positions).add_(shift.index_select(0, self.index))

    def pick_rows(self, values: Tensor) -> Tensor:
        """The rows of the segments, unchanged."""
        fast = None if values.requires_grad else implementation("indices", values)
        return values.index_select(0, self.positions) if fast is None else fast.pick_rows(values, self)
