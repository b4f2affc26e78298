"""Numba: sums over groups of rows, and one row per group broadcast to its rows."""

import torch
from torch import Tensor

from esan.ops.numba.loops import segments as segments_loops
from esan.ops.numba.runtime import num_chunks, run
from esan.ops.numba.workspace import empty_matrix
from esan.ops.segments import RowRanges

#: Groups of one chunk of work: a group has some ten rows.
_CHUNK = 16


def segment_sum(x: Tensor, perm: Tensor, ptr: Tensor, count: Tensor | None, weight: Tensor | None) -> Tensor:  # noqa: ARG001
    """The sum of the rows of each group, each times its weight."""
    return sum_groups(x, perm, ptr, None if weight is None else weight[perm])


def broadcast(x: Tensor, index: Tensor, weight: Tensor | None, row_ranges: RowRanges | None) -> Tensor:  # noqa: ARG001
    """Row r is weight r times row `index[r]` of x."""
    rows = torch.index_select(x, 0, index, out=empty_matrix(x, index.numel(), x.size(1)))
    return rows if weight is None else rows.mul_(weight[:, None])


def sum_groups(x: Tensor, perm: Tensor, ptr: Tensor, weight: Tensor | None = None) -> Tensor:
    """Sum i is that of the rows `perm[ptr[i]], ..., perm[ptr[i + 1] - 1]`, each times its weight (in that order)."""
    x, perm, ptr = x.contiguous(), perm.contiguous(), ptr.contiguous()
    (rows, width), groups = x.shape, ptr.numel()
    y = empty_matrix(x, groups, width)
    run(
        segments_loops.sums, x, num_chunks(groups, _CHUNK), rows=rows, width=width, groups=groups, terms=perm.numel(),
        chunk_groups=_CHUNK, x=x, y=y, perm=perm, ptr=ptr, weight=None if weight is None else weight.contiguous(),
    )  # fmt: skip
    return y
