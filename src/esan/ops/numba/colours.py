"""Pools of rows on a CPU where there is a line a colour: rows are read, and give their gradient, through it."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from esan.ops.numba.runtime import pieces, run
from esan.ops.numba.segments import Subgraphs, sums
from esan.ops.numba.workspace import empty_table

#: Colours that are one piece of work: most have a few rows, and some have thousands.
_COLOURS = 16


@dataclass(frozen=True, eq=False)
class Pooled:
    """How colours are pooled over the bag: which of them the rows of each node have, entry by entry.

    Attributes:
        first: where the entries of each node begin.
        colour: that of each entry.
        weight: what its line counts in the pool of the node.
        back_first: where the entries of each colour begin, if they go colour by colour.
        back_node: the node of each entry, then.
        back_weight: its weight, then.
    """

    first: Tensor
    colour: Tensor
    weight: Tensor
    back_first: Tensor
    back_node: Tensor
    back_weight: Tensor

    def to(self, kind: torch.dtype) -> "Pooled":
        """The same with weights of some precision."""
        return replace(self, weight=self.weight.to(kind), back_weight=self.back_weight.to(kind))


class PoolBag(torch.autograd.Function):
    """The lines of the colours as they are, and the pool over the bag, a line a node."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, of: Pooled) -> tuple[Tensor, Tensor]:
        ctx.of = of
        return h.view_as(h), sums(h, of.colour, of.first, of.weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, grad_pool: Tensor) -> tuple[Tensor, None]:
        of = ctx.of
        return sums(grad_pool, of.back_node, of.back_first, of.back_weight, start=grad), None


class PoolNodes(torch.autograd.Function):
    """The sum over the nodes of each subgraph, times its factor; `rows` are the rows by their colour."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, of: Subgraphs, rows: Any) -> Tensor:
        ctx.of, ctx.rows, h = of, rows, h.contiguous()
        alike = sums(h, rows.owner.index_select(0, of.nodes.order), of.nodes.first)
        return of.totals(h, alike, rows.owner)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        from esan.ops.numba import colour_pool_loops

        of, rows, grad = ctx.of, ctx.rows, grad.contiguous()
        of_graph = sums(grad, of.graph.order, of.graph.first, of.share)
        by_node, (subgraphs, d) = of.by_node, grad.shape
        n, into = rows.owner.numel(), empty_table(grad, rows.size, d)
        run(
            colour_pool_loops.pool_back, grad, pieces(rows.size, _COLOURS), n, d, by_node.size, subgraphs,
            of.nodes.size, _COLOURS, into, of_graph, grad, by_node.whole.order, by_node.whole.first, of.stored.owner,
            of.nodes.owner, of.share, by_node.whole.owner.numel(), rows.size, rows.order, rows.first,
        )  # fmt: skip
        return into, None, None
