"""`CSR`: rows by the group they belong to; sums over groups of rows, and one row per group broadcast to its rows."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from esan.ops import ragged
from esan.ops.caching import cached
from esan.ops.dispatch import first_order, implementation
from esan.ops.shape_errors import misfit


@dataclass(frozen=True, eq=False)
class RowRanges:
    """Where the rows of a padded batch lie that are not padding.

    Rows come block by block (kernels say slot, since their blocks are programs), and in each block padding comes last.
    How much of it there is differs between batches of one shape. Kernels that are given the ranges neither read nor
    write padding: it costs no time, and its memory is uninitialised.

    Attributes:
        ranges: where the rows of each block begin and end among the rows of its network, `[S · blocks · 2]`.
        capacity: how many rows each block has, padding included.
    """

    ranges: Tensor
    capacity: tuple[int, ...]

    @property
    def networks(self) -> int:
        return self.ranges.numel() // (2 * len(self.capacity))

    @staticmethod
    def for_kernel(row_ranges: "RowRanges | None", other: Tensor) -> tuple[Tensor, int]:
        """What a kernel takes: the ranges and the number of blocks; `other` and 0 where there is no padding."""
        return (other, 0) if row_ranges is None else (row_ranges.ranges, len(row_ranges.capacity))


class CSR:
    """Rows by the group they belong to, in compressed sparse row form.

    Args:
        index: the group of each row, `[rows]`.
        size: the number of groups.
        is_sorted: whether `index` is sorted already.
        count: how many rows of each group are not padding, `[size]`; None if there is no padding.
    """

    #: Where the rows lie that are not padding, if padding is neither read nor written; None otherwise.
    row_ranges: RowRanges | None = None
    #: Whether its tensors are there; those of a padded batch are made only if they are read, so they are not looked at.
    plain = True
    #: What this is a prefix of.
    _parent: "CSR | None" = None

    def __init__(self, index: Tensor, size: int, is_sorted: bool = False, count: Tensor | None = None) -> None:
        self.index, self.size, self._is_sorted, self.count = index, size, is_sorted, count

    @staticmethod
    def from_sorted(index: Tensor, size: int, perm: Tensor, ptr: Tensor, count: Tensor | None = None) -> "CSR":
        """A CSR whose `perm` and `ptr` are known already."""
        csr = CSR(index, size, count=count)
        csr.__dict__.update(perm=perm, ptr=ptr)
        return csr

    @property
    def parent(self) -> "CSR":
        """The CSR of all rows that this one is a prefix of, or itself; its `perm` has the rows of the prefix first in
        each group.
        """
        # Not stored where it is the CSR itself: a reference cycle would live until the garbage collector runs.
        return self if self._parent is None else self._parent

    @cached
    def perm(self) -> Tensor:
        """The rows group by group, `[rows]`."""
        if self._is_sorted:
            return torch.arange(self.index.numel(), device=self.index.device)
        return self._sorted[0]

    @cached
    def ptr(self) -> Tensor:
        """Where each group begins in `perm`, `[size]`; the end of the last group is not listed."""
        return ragged.starts(ragged.segment_counts(self.index, self.size)) if self._is_sorted else self._sorted[1]

    @cached
    def _sorted(self) -> tuple[Tensor, Tensor]:
        return sort(self.index, self.size)

    def prefix(self, rows: int) -> "CSR":
        """The CSR of the first `rows` rows alone; nothing is sorted again."""
        if rows == self.index.numel():
            return self
        prefix = CSR(self.index[:rows], self.size, self._is_sorted)
        if not self._is_sorted and implementation("indices", self.index) is None:
            # Where sorting is not linear, the order of the prefix is that of all rows.
            prefix.__dict__["_sorted"] = (
                self.perm[self.perm < rows],
                ragged.starts(ragged.segment_counts(prefix.index, prefix.size)),
            )
        prefix._parent = self.parent
        return prefix

    def sum(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        """`segment_sum`."""
        return segment_sum(x, self, weight)

    def max(self, x: Tensor) -> Tensor:
        """The entrywise maximum of the rows of each group, 0 where a group is empty, `[size, d]`."""
        index = self.index[:, None].expand_as(x)
        return x.new_zeros(self.size, x.size(1)).scatter_reduce(0, index, x, "amax", include_self=False)

    def broadcast(self, x: Tensor) -> Tensor:
        """`broadcast`."""
        return broadcast(x, self)


def sort(index: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """`perm` and `ptr` of a CSR: the rows group by group, in a stable order, and where each group begins."""
    fast = implementation("indices", index)
    if fast is not None:
        return fast.sort(index, size)
    return torch.argsort(index, stable=True), ragged.starts(ragged.segment_counts(index, size))


def segment_sum(x: Tensor, csr: CSR, weight: Tensor | None = None) -> Tensor:
    r"""The sum of the rows of each group, each times its weight (a constant): :math:`y_g = \sum_{i \in g} w_i x_i`."""
    if csr.plain and x.size(0) != csr.index.numel():
        raise misfit(f"{csr.index.numel():,} rows, one for each that has a group", f"{x.size(0):,}")
    weight = None if weight is None else weight.to(x.dtype)
    fast = implementation("segments", x, weight) if x.dim() == 2 else None
    if fast is not None:
        return _SegmentSum.apply(x, csr, weight, fast)
    terms = x if weight is None else x * weight[:, None]
    return x.new_zeros(csr.size, *x.shape[1:]).index_add(0, csr.index, terms)


def broadcast(x: Tensor, csr: CSR) -> Tensor:
    r"""One row per group → each of its rows: :math:`y_i = x_{g(i)}`."""
    if csr.plain and x.size(0) != csr.size:
        raise misfit(f"{csr.size:,} rows, one for each group", f"{x.size(0):,}")
    fast = implementation("segments", x) if x.dim() == 2 else None
    return x.index_select(0, csr.index) if fast is None else _Broadcast.apply(x, csr, fast)


class _SegmentSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, csr: CSR, weight: Tensor | None, fast: Any) -> Tensor:
        ctx.csr, ctx.weight, ctx.fast = csr, weight, fast
        return fast.segment_sum(x, csr.perm, csr.ptr, csr.count, weight)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        return ctx.fast.broadcast(grad, ctx.csr.index, ctx.weight, ctx.csr.row_ranges), None, None, None


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, csr: CSR, fast: Any) -> Tensor:
        ctx.csr, ctx.fast = csr, fast
        return fast.broadcast(x, csr.index, None, csr.row_ranges)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        csr = ctx.csr
        return ctx.fast.segment_sum(grad, csr.perm, csr.ptr, csr.count, None), None, None
