"""Groups of lines on a CPU: their order by counting, their sums, rows of a stage and their pools."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from esan.ops.numba.runtime import pieces, run
from esan.ops.numba.workspace import empty_numbers, empty_table

#: Groups that are one piece of work: a group has some ten lines.
_GROUPS = 16


def in_order(owner: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The lines group by group, and where each group begins: a stable sort in linear time."""
    from esan.ops.numba import segments_loops as groups_loops

    order, first = empty_numbers(owner.numel()), empty_numbers(size)
    groups_loops.in_order(owner.numpy(), order.numpy(), first.numpy())
    return order, first


def weights(subgraphs: Tensor, node: Tensor) -> Tensor:
    """How many pairs each row stands for, in single precision; `subgraphs` are a node's, `node` a stored row's."""
    from esan.ops.numba import segments_loops as groups_loops

    return torch.from_numpy(groups_loops.weights(subgraphs.numpy(), node.numpy()))


@dataclass(frozen=True, eq=False)
class Routes:
    """Arcs between rows: their ends, where those into each row begin, and their order by source."""

    ends: Tensor
    into: Tensor
    order: Tensor
    first: Tensor


def routes(source: Tensor, target: Tensor, node: Tensor, background: int, known: int, rows: int) -> Routes:
    """Arcs, sorted by target, of which the sources behind the first `known` rows are the rows of their nodes.

    Args:
        source: the row that each comes from.
        target: the row that each ends at.
        node: of the rows behind the background.
        background: how many rows are nodes.
        known: how many rows there are to read from.
        rows: how many there are to send to.
    """
    from esan.ops.numba import segments_loops as groups_loops

    arcs = source.numel()
    found = Routes(
        empty_numbers(2 * arcs).view(2, arcs), empty_numbers(rows), empty_numbers(arcs), empty_numbers(known)
    )
    into = found.ends.numpy(), found.into.numpy(), found.order.numpy(), found.first.numpy()
    groups_loops.routes(source.numpy(), target.numpy(), node.numpy(), background, *into)
    return found


def sums(
    lines: Tensor, which: Tensor, first: Tensor, weight: Tensor | None = None, start: Tensor | None = None
) -> Tensor:
    """Sum i is that of the lines `which[first[i]], ..., which[first[i + 1] - 1]`, each times its weight, on a start."""
    from esan.ops.numba import segments_loops as groups_loops

    lines, which, first = lines.contiguous(), which.contiguous(), first.contiguous()
    (n, d), groups, terms = lines.shape, first.numel(), which.numel()
    total = empty_table(lines, groups, d)
    weight, start = (None if t is None else t.contiguous() for t in (weight, start))
    count = pieces(groups, _GROUPS)
    run(groups_loops.sums, lines, count, n, d, groups, terms, _GROUPS, lines, total, which, first, weight, start)
    return total


@dataclass(frozen=True, eq=False)
class Rise:
    """How the rows of an earlier stage become those of this one.

    Attributes:
        by_node: the rows of this stage by their node.
        weight: how many pairs each stands for, in the precision of the rows; None for 1.
        factor: a factor a node for the pool; None for 1.
    """

    by_node: Any
    weight: Tensor | None
    factor: Tensor | None


class Lift(torch.autograd.Function):
    """Rows of an earlier stage → rows of this one, and their pool over the bag, a line a node."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, rise: Rise) -> tuple[Tensor, Tensor]:
        from esan.ops.numba import segments_loops as groups_loops

        given, group = h.contiguous(), rise.by_node
        (known, d), n = given.shape, group.owner.numel()
        lifted = None if known == n else empty_table(given, n, d)
        pool = empty_table(given, group.size, d)
        run(
            groups_loops.lift, given, pieces(group.size, _GROUPS), known, n, d, group.size, _GROUPS, given, lifted,
            pool, group.whole.order, group.whole.first, rise.weight, rise.factor, group.whole.owner.numel(),
        )  # fmt: skip
        ctx.rise, ctx.known = rise, known
        return h if lifted is None else lifted, pool

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, grad_pool: Tensor) -> tuple[Tensor, None]:
        from esan.ops.numba import segments_loops as groups_loops

        grad, grad_pool, rise = grad.contiguous(), grad_pool.contiguous(), ctx.rise
        (n, d), group = grad.shape, rise.by_node
        into = empty_table(grad, ctx.known, d)
        run(
            groups_loops.lift_back, grad, pieces(group.size, _GROUPS), ctx.known, n, d, group.size, _GROUPS, into,
            grad, grad_pool, group.whole.order, group.whole.first, rise.weight, rise.factor,
            group.whole.owner.numel(),
        )  # fmt: skip
        return into, None


@dataclass(frozen=True, eq=False)
class Subgraphs:
    """Which rows of a compact bag each subgraph has.

    Attributes:
        stored: the stored pairs by their subgraph.
        by_node: all rows by their node; the first rows are the nodes' own.
        nodes: the nodes by their graph.
        graph: the subgraphs by their graph.
        share: a factor a subgraph, in the precision of the rows; None for 1.
    """

    stored: Any
    by_node: Any
    nodes: Any
    graph: Any
    share: Tensor | None

    def totals(self, h: Tensor, alike: Tensor, colour: Tensor | None) -> Tensor:
        """The sum of each subgraph.

        Args:
            h: a line a row, or a line a colour.
            alike: the sum of each graph's background.
            colour: of each row; None where there is a line a row.
        """
        from esan.ops.numba import segments_loops as groups_loops

        (lines, d), n, stored, nodes = h.shape, self.by_node.owner.numel(), self.stored.whole, self.by_node.size
        total, subgraphs = empty_table(h, self.stored.size, d), self.stored.size
        run(
            groups_loops.pool, h, pieces(subgraphs, _GROUPS), n, d, nodes, subgraphs, self.nodes.size, _GROUPS, h,
            alike, total, stored.order, stored.first, self.by_node.owner, self.graph.owner, self.share,
            stored.owner.numel(), lines, colour,
        )  # fmt: skip
        return total


class PoolNodes(torch.autograd.Function):
    """The sum over the nodes of each subgraph, times its factor: its graph's background, and what its pairs differ."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, of: Subgraphs) -> Tensor:
        ctx.of, h, nodes = of, h.contiguous(), of.by_node.size
        alike = sums(h[:nodes], of.nodes.order, of.nodes.first)
        return of.totals(h, alike, None)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        from esan.ops.numba import segments_loops as groups_loops

        of, grad = ctx.of, grad.contiguous()
        rows, (subgraphs, d) = of.by_node, grad.shape
        of_graph = sums(grad, of.graph.order, of.graph.first, of.share)
        n, into = rows.owner.numel(), empty_table(grad, rows.owner.numel(), d)
        run(
            groups_loops.pool_back, grad, pieces(rows.size, _GROUPS), n, d, rows.size, subgraphs, of.nodes.size,
            _GROUPS, into, of_graph, grad, rows.whole.order, rows.whole.first, of.stored.owner, of.nodes.owner,
            of.share, rows.whole.owner.numel(),
        )  # fmt: skip
        return into, None
