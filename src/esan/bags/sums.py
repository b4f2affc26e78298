"""Sums over rows, the one operation that message passing and pooling are made of, with fast exact gradients."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from esan import ragged


class _GatherSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor, first: Tensor, owner: Tensor, weight: Tensor | None) -> Tensor:
        ctx.save_for_backward(index, owner, weight)
        ctx.lines = x.size(0)
        # `embedding_bag` reads each line once and never writes the messages out; index_select + index_add do.
        return F.embedding_bag(index, x.contiguous(), first, mode="sum", per_sample_weights=weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        index, owner, weight = ctx.saved_tensors
        spread = grad.index_select(0, owner)
        if weight is not None:
            spread = spread * weight[:, None]
        return grad.new_zeros(ctx.lines, grad.size(1)).index_add_(0, index, spread), None, None, None, None


def gather_sum(x: Tensor, index: Tensor, counts: Tensor, owner: Tensor, weight: Tensor | None = None) -> Tensor:
    r""":math:`y_i = \sum_k w_k\, x_{\text{index}_k}` over the k whose owner is i.

    Args:
        x: `[lines, d]`.
        index: which line each term reads.
        counts: how many terms each result has.
        owner: the result of each term, sorted; `repeat_interleave(counts)`.
        weight: a constant factor a term (no gradient flows to it).
    """
    if x.size(0) == 0 or index.numel() == 0:
        return x.new_zeros(counts.numel(), x.size(1)) + 0 * x.sum()
    return _GatherSum.apply(x, index, ragged.starts(counts), owner, weight)


def segment_sum(x: Tensor, counts: Tensor, owner: Tensor) -> Tensor:
    """The sum of each run of `counts[i]` consecutive lines of x."""
    return gather_sum(x, torch.arange(x.size(0), device=x.device), counts, owner)


def scatter_sum(x: Tensor, owner: Tensor, size: int) -> Tensor:
    """The sum of the lines of x with the same owner, owners in any order, `[size, d]`."""
    return x.new_zeros(size, *x.shape[1:]).index_add(0, owner, x)


def scatter_max(x: Tensor, owner: Tensor, size: int) -> Tensor:
    """The entrywise maximum of the lines of x with the same owner; 0 where an owner has none, `[size, d]`."""
    index = owner[:, None].expand_as(x)
    return x.new_zeros(size, x.size(1)).scatter_reduce(0, index, x, "amax", include_self=False)
