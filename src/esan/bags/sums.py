"""Sums of lines that belong together, and their spreading back: what message passing and pooling are made of."""

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from esan import ops as kernels
from esan.ops import ragged
from esan.ops.numba import runtime as cpu

if TYPE_CHECKING:
    from esan.ops.real import Real

#: On a CPU lines are worked on in pieces of this many, so that what is between two steps stays in the cache.
_PIECE = 4096


def pieces(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The same lines of all tensors, some at a time; all at once on a GPU."""
    size = _PIECE if tensors[0].device.type == "cpu" else max(tensors[0].size(0), 1)
    return zip(*(tensor.split(size) for tensor in tensors), strict=True)


def add_up(
    lines: Tensor, which: Tensor, first: Tensor, weight: Tensor | None = None, count: Tensor | None = None
) -> Tensor:
    """Sum i is that of the lines `which[first[i]], ..., which[first[i + 1] - 1]`, each times its weight.

    Where `count` is given, a GPU may stop after that many terms: the others are padding, whose sums nobody reads.
    """
    if kernels.on_gpu(lines, weight):
        from esan.ops.triton.sums import sum_lines

        return sum_lines(lines, which, first, count, weight=weight)
    if cpu.fits(lines):
        from esan.ops.numba.segments import sums

        return sums(lines, which, first, weight)
    if lines.size(0) == 0 or which.numel() == 0:
        return lines.new_zeros(first.numel(), lines.size(1))
    # `embedding_bag` reads each line once and writes only the sums; index_add would first write every term out.
    return F.embedding_bag(which, lines.contiguous(), first, mode="sum", per_sample_weights=weight)


class Grouping:
    """Which lines belong to which group.

    Args:
        owner: the group of each line.
        size: how many groups there are.
        ordered: whether the owners are sorted already.
        count: how many lines of each group are not padding; None if none is.
    """

    #: Where the lines lie that are not padding, if nobody reads the others.
    real: "Real | None" = None
    #: What this is a prefix of.
    _whole: "Grouping | None" = None

    def __init__(self, owner: Tensor, size: int, ordered: bool = False, count: Tensor | None = None) -> None:
        self.owner, self.size, self._ordered, self.count = owner, size, ordered, count

    @staticmethod
    def known(owner: Tensor, size: int, order: Tensor, first: Tensor, count: Tensor | None = None) -> "Grouping":
        """A grouping whose order is known already."""
        grouping = Grouping(owner, size, count=count)
        grouping.__dict__.update(order=order, first=first)
        return grouping

    @property
    def whole(self) -> "Grouping":
        """The groups of all lines, whose order has those of this grouping first in each group."""
        # Not kept where it is the grouping itself: that would live until the collector comes.
        return self if self._whole is None else self._whole

    @cached_property
    def order(self) -> Tensor:
        """The lines group by group."""
        if self._ordered:
            return torch.arange(self.owner.numel(), device=self.owner.device)
        return self._sorted[0] if self._counted else torch.argsort(self.owner, stable=True)

    @cached_property
    def first(self) -> Tensor:
        """Where each group begins in `order`."""
        if self.owner.is_cuda:
            # `bincount` would wait for the device to tell the largest owner.
            count = self.owner.new_zeros(self.size).scatter_add_(0, self.owner, torch.ones_like(self.owner))
            return ragged.starts(count)
        if self._counted and not self._ordered:
            return self._sorted[1]
        return ragged.starts(torch.bincount(self.owner, minlength=self.size))

    @cached_property
    def _sorted(self) -> tuple[Tensor, Tensor]:
        from esan.ops.numba.segments import in_order

        return in_order(self.owner, self.size)

    @property
    def _counted(self) -> bool:
        """Whether lines are put in order by counting, which is linear."""
        return self.owner.device.type == "cpu" and cpu.available()

    def prefix(self, lines: int) -> "Grouping":
        """The groups of the first `lines` lines alone; nothing is sorted anew."""
        if lines == self.owner.numel():
            return self
        part = Grouping(self.owner[:lines], self.size, self._ordered)
        if not self._ordered and not self._counted:
            part.__dict__["order"] = self.order[self.order < lines]
        part._whole = self.whole
        return part

    def sum(self, lines: Tensor, weight: Tensor | None = None) -> Tensor:
        """The sum of the lines of each group, each times its weight (a constant), `[size, d]`."""
        return _Sum.apply(lines, self, None if weight is None else weight.to(lines.dtype))

    def max(self, lines: Tensor) -> Tensor:
        """The entrywise maximum of the lines of each group, 0 where a group is empty, `[size, d]`."""
        index = self.owner[:, None].expand_as(lines)
        return lines.new_zeros(self.size, lines.size(1)).scatter_reduce(0, index, lines, "amax", include_self=False)

    def spread(self, groups: Tensor) -> Tensor:
        """A line a group → each of its lines."""
        return _Spread.apply(groups, self)

    def add_spread(self, lines: Tensor, groups: Tensor) -> Tensor:
        """Lines, each with the line of its group added."""
        return _AddSpread.apply(lines, groups, self)

    def sum_of_differences(self, lines: Tensor, base: "Grouping") -> Tensor:
        """The sum of (line less its base) of each group, for the lines behind the first `base.size`, `[size, d]`.

        Args:
            lines: `[base.size + len(owner), d]`; the first are the bases.
            base: which base each of the other lines has.
        """
        return _SumOfDifferences.apply(lines, self, base)


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, lines: Tensor, grouping: Grouping, weight: Tensor | None) -> Tensor:
        ctx.grouping, ctx.weight = grouping, weight
        ordered = None if weight is None else weight[grouping.order]
        return add_up(lines, grouping.order, grouping.first, ordered, grouping.count)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        if kernels.on_gpu(grad):
            return _spread_on_gpu(grad, ctx.grouping, ctx.weight), None, None
        spread = grad.index_select(0, ctx.grouping.owner)
        return spread if ctx.weight is None else spread.mul_(ctx.weight[:, None]), None, None


def _spread_on_gpu(groups: Tensor, grouping: Grouping, weight: Tensor | None) -> Tensor:
    from esan.ops.triton.pools import spread

    return spread(groups, grouping.owner, weight, grouping.real)


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, groups: Tensor, grouping: Grouping) -> Tensor:
        ctx.grouping = grouping
        if kernels.on_gpu(groups):
            return _spread_on_gpu(groups, grouping, None)
        if cpu.fits(groups):
            from esan.ops.numba.workspace import empty_table

            lines = empty_table(groups, grouping.owner.numel(), groups.size(1))
            return torch.index_select(groups, 0, grouping.owner, out=lines)
        return groups.index_select(0, grouping.owner)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return add_up(grad, ctx.grouping.order, ctx.grouping.first, count=ctx.grouping.count), None


class _AddSpread(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, lines: Tensor, groups: Tensor, grouping: Grouping) -> Tensor:
        ctx.grouping = grouping
        total = torch.empty_like(lines)
        for some, owner, out in pieces(lines, grouping.owner, total):
            torch.index_select(groups, 0, owner, out=out).add_(some)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        return grad, add_up(grad, ctx.grouping.order, ctx.grouping.first, count=ctx.grouping.count), None


class _SumOfDifferences(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, lines: Tensor, grouping: Grouping, base: Grouping) -> Tensor:
        ctx.grouping, ctx.base = grouping, base
        order, first, count = grouping.order, grouping.first, grouping.count
        bases = add_up(lines, base.owner[order], first, count=count)
        return add_up(lines, order + base.size, first, count=count).sub_(bases)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        grouping, base = ctx.grouping, ctx.base
        into_bases = add_up(grad, grouping.owner[base.order], base.first, count=base.count).neg_()
        return torch.cat([into_bases, grad.index_select(0, grouping.owner)]), None, None
