"""Sums over groups of rows on a CPU, their expansion, and the pools over bags and subgraphs."""

import torch
from torch import Tensor

from esan.ops.numba.loops import segments as segments_loops
from esan.ops.numba.runtime import pieces, run
from esan.ops.numba.workspace import empty_table
from esan.ops.real import Real

#: Groups that are one piece of work: a group has some ten lines.
_GROUPS = 16


def segment_sum(x: Tensor, order: Tensor, first: Tensor, count: Tensor | None, weight: Tensor | None) -> Tensor:  # noqa: ARG001
    """The sum of the rows of each group, each times its weight."""
    return sums(x, order, first, None if weight is None else weight[order])


def expand(x: Tensor, owner: Tensor, weight: Tensor | None, real: Real | None) -> Tensor:  # noqa: ARG001
    """Row r is weight r times row `owner[r]` of x."""
    rows = torch.index_select(x, 0, owner, out=empty_table(x, owner.numel(), x.size(1)))
    return rows if weight is None else rows.mul_(weight[:, None])


def sums(
    lines: Tensor, which: Tensor, first: Tensor, weight: Tensor | None = None, start: Tensor | None = None
) -> Tensor:
    """Sum i is that of the lines `which[first[i]], ..., which[first[i + 1] - 1]`, each times its weight, on a start."""
    lines, which, first = lines.contiguous(), which.contiguous(), first.contiguous()
    (n, d), groups, terms = lines.shape, first.numel(), which.numel()
    total = empty_table(lines, groups, d)
    weight, start = (None if t is None else t.contiguous() for t in (weight, start))
    count = pieces(groups, _GROUPS)
    run(segments_loops.sums, lines, count, n, d, groups, terms, _GROUPS, lines, total, which, first, weight, start)
    return total
