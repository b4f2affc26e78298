"""Sums over groups of rows and their expansion: what message passing and pooling are made of."""

from typing import Any

import torch
from torch import Tensor

from esan.ops import ragged
from esan.ops.caching import cached
from esan.ops.dispatch import first_order, implementation
from esan.ops.real import Real


class Grouping:
    """Which rows belong to which group, and the rows group by group (CSR).

    Args:
        owner: the group of each row.
        size: how many groups there are.
        ordered: whether the owners are sorted already.
        count: how many rows of each group are not padding; None if none is.
    """

    #: Where the rows lie that are not padding, if nobody reads the others.
    real: Real | None = None
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
        """The groups of all rows, whose order has those of this grouping first in each group."""
        # Not kept where it is the grouping itself: that would live until the collector comes.
        return self if self._whole is None else self._whole

    @cached
    def order(self) -> Tensor:
        """The rows group by group."""
        if self._ordered:
            return torch.arange(self.owner.numel(), device=self.owner.device)
        return self._sorted[0]

    @cached
    def first(self) -> Tensor:
        """Where each group begins in `order`."""
        return ragged.starts(ragged.counted(self.owner, self.size)) if self._ordered else self._sorted[1]

    @cached
    def _sorted(self) -> tuple[Tensor, Tensor]:
        return sort(self.owner, self.size)

    def prefix(self, rows: int) -> "Grouping":
        """The groups of the first `rows` rows alone; nothing is sorted again."""
        if rows == self.owner.numel():
            return self
        part = Grouping(self.owner[:rows], self.size, self._ordered)
        if not self._ordered and implementation("indices", self.owner) is None:
            # Where sorting is not linear, the order of the part is that of the whole.
            part.__dict__["_sorted"] = (
                self.order[self.order < rows],
                ragged.starts(ragged.counted(part.owner, part.size)),
            )
        part._whole = self.whole
        return part

    def sum(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        return segment_sum(x, self, weight)

    def max(self, x: Tensor) -> Tensor:
        """The entrywise maximum of the rows of each group, 0 where a group is empty, `[size, d]`."""
        index = self.owner[:, None].expand_as(x)
        return x.new_zeros(self.size, x.size(1)).scatter_reduce(0, index, x, "amax", include_self=False)

    def spread(self, groups: Tensor) -> Tensor:
        return expand(groups, self)


def sort(owner: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The rows group by group, in a stable order, and where each group begins."""
    fast = implementation("indices", owner)
    if fast is not None:
        return fast.in_order(owner, size)
    return torch.argsort(owner, stable=True), ragged.starts(ragged.counted(owner, size))


def segment_sum(x: Tensor, group: Grouping, weight: Tensor | None = None) -> Tensor:
    r"""The sum of the rows of each group, each times its weight (a constant): :math:`y_g = \sum_{i \in g} w_i x_i`."""
    weight = None if weight is None else weight.to(x.dtype)
    fast = implementation("segments", x, weight) if x.dim() == 2 else None
    if fast is not None:
        return _SegmentSum.apply(x, group, weight, fast)
    terms = x if weight is None else x * weight[:, None]
    return x.new_zeros(group.size, *x.shape[1:]).index_add(0, group.owner, terms)


def expand(x: Tensor, group: Grouping, weight: Tensor | None = None) -> Tensor:
    """One row per group → each of its rows, times its weight (a constant)."""
    fast = implementation("segments", x, weight) if x.dim() == 2 else None
    if fast is not None:
        return _Expand.apply(x, group, weight, fast)
    rows = x.index_select(0, group.owner)
    return rows if weight is None else rows * weight[:, None]


class _SegmentSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Grouping, weight: Tensor | None, fast: Any) -> Tensor:
        ctx.group, ctx.weight, ctx.fast = group, weight, fast
        return fast.segment_sum(x, group.order, group.first, group.count, weight)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        return ctx.fast.expand(grad, ctx.group.owner, ctx.weight, ctx.group.real), None, None, None


class _Expand(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Grouping, weight: Tensor | None, fast: Any) -> Tensor:
        ctx.group, ctx.weight, ctx.fast = group, weight, fast
        return fast.expand(x, group.owner, weight, group.real)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        group = ctx.group
        return ctx.fast.segment_sum(grad, group.order, group.first, group.count, ctx.weight), None, None, None
