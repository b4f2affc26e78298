"""Rows of a bag on a CPU: from those of an earlier layer to those of a later one, and the pools over them."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from esan.ops.dispatch import first_order
from esan.ops.numba.loops import segments as segments_loops
from esan.ops.numba.runtime import pieces, run
from esan.ops.numba.segments import sums
from esan.ops.numba.workspace import empty_table

#: Groups that are one piece of work: a group has some ten rows.
_GROUPS = 16


def zero_empty_rows(h: Tensor, view: Any) -> Tensor:
    """`esan.ops.rows.zero_empty_rows`; most bags have no such row."""
    return h.index_fill(0, view.empty_rows, 0.0) if view.empty_rows.numel() else h


def lift_and_pool(h: Tensor, view: Any, reduce: str) -> tuple[Tensor, Tensor]:
    """`esan.ops.rows.lift_and_pool`."""
    share = view.shares.of_subgraph.to(h.dtype) if reduce == "mean" else None
    return Lift.apply(h, Rise(view.by_node, view.multiplicity_in(h.dtype), share))


def pool_nodes(h: Tensor, view: Any, reduce: str) -> Tensor:
    """`esan.ops.rows.pool_nodes`."""
    return PoolNodes.apply(h, Subgraphs.of(view, reduce, h.dtype))


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
        given, group = h.contiguous(), rise.by_node
        (known, d), n = given.shape, group.owner.numel()
        lifted = None if known == n else empty_table(given, n, d)
        pool = empty_table(given, group.size, d)
        run(
            segments_loops.lift, given, pieces(group.size, _GROUPS), known, n, d, group.size, _GROUPS, given, lifted,
            pool, group.whole.order, group.whole.first, rise.weight, rise.factor, group.whole.owner.numel(),
        )  # fmt: skip
        ctx.rise, ctx.known = rise, known
        return h if lifted is None else lifted, pool

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor, grad_pool: Tensor) -> tuple[Tensor, None]:
        grad, grad_pool, rise = grad.contiguous(), grad_pool.contiguous(), ctx.rise
        (n, d), group = grad.shape, rise.by_node
        into = empty_table(grad, ctx.known, d)
        run(
            segments_loops.lift_back, grad, pieces(group.size, _GROUPS), ctx.known, n, d, group.size, _GROUPS, into,
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

    @staticmethod
    def of(view: Any, reduce: str, kind: torch.dtype) -> "Subgraphs":
        """The rows of each subgraph, for a sum or mean."""
        share = None if reduce == "sum" else view.shares.of_node.to(kind)
        return Subgraphs(view.by_subgraph, view.by_node, view.by_graph, view.subgraphs_by_graph, share)

    def totals(self, h: Tensor, alike: Tensor, colour: Tensor | None) -> Tensor:
        """The sum of each subgraph.

        Args:
            h: a line a row, or a line a colour.
            alike: the sum of each graph's background.
            colour: of each row; None where there is a line a row.
        """
        (lines, d), n, stored, nodes = h.shape, self.by_node.owner.numel(), self.stored.whole, self.by_node.size
        total, subgraphs = empty_table(h, self.stored.size, d), self.stored.size
        run(
            segments_loops.pool, h, pieces(subgraphs, _GROUPS), n, d, nodes, subgraphs, self.nodes.size, _GROUPS, h,
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
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        of, grad = ctx.of, grad.contiguous()
        rows, (subgraphs, d) = of.by_node, grad.shape
        of_graph = sums(grad, of.graph.order, of.graph.first, of.share)
        n, into = rows.owner.numel(), empty_table(grad, rows.owner.numel(), d)
        run(
            segments_loops.pool_back, grad, pieces(rows.size, _GROUPS), n, d, rows.size, subgraphs, of.nodes.size,
            _GROUPS, into, of_graph, grad, rows.whole.order, rows.whole.first, of.stored.owner, of.nodes.owner,
            of.share, rows.whole.owner.numel(),
        )  # fmt: skip
        return into, None
