"""Deduplication on a CPU: which rows a network without shared terms cannot tell apart; layers on representatives."""

from typing import Any

import torch
from torch import Tensor

from esan.ops.dispatch import first_order
from esan.ops.edges import Arcs
from esan.ops.gin import GINBranch
from esan.ops.numba.gin import RowsRead, branch
from esan.ops.numba.loops import dedup as dedup_loops
from esan.ops.numba.messages import Onward
from esan.ops.numba.rows import Subgraphs
from esan.ops.numba.runtime import pieces, run
from esan.ops.numba.segments import sums
from esan.ops.numba.workspace import empty_numbers, empty_table
from esan.ops.segments import Grouping

#: Representatives that are one piece of work: most have a few rows, and some have thousands.
_AT_ONCE = 16


def numbered(values: Tensor) -> tuple[Tensor, Tensor]:
    """A number for each row of values, the same for the same, in the order in which they occur; the first of each."""
    values = values.detach()
    values = values.flatten(1) if values.dim() > 1 else values[:, None]
    whole = values.double().view(torch.int64) if values.is_floating_point() else values.long()
    number, first = dedup_loops.numbered(whole.contiguous().numpy())
    return torch.from_numpy(number), torch.from_numpy(first)


class Refinement:
    """Colour refinement of the rows of a compact bag, layer by layer.

    Args:
        rows: of the bag.
        kinds: a number per edge of the graphs, the same only where messages along them have the same features.
    """

    def __init__(self, rows: Any, kinds: Tensor) -> None:
        self._rows, self._kinds = rows, kinds
        self._begin = dedup_loops.begins(rows.target.numpy(), rows.row_ends[-1])

    def refined(
        self, colour: Tensor, colours: int, num_rows: int, num_arcs: int, multiplicity: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Arcs, Grouping]:
        """The colour of each row behind a layer, from those before.

        Returns:
            the colours; the first row of each; its multiplicity in double precision; the edges into it from the colours
            before; and the colours by the colour that they go on from.
        """
        rows = self._rows
        of_rows, of_arcs = empty_numbers(4 * num_rows).view(4, -1), empty_numbers(4 * num_arcs).view(4, -1)
        by_source = empty_numbers(colours)
        # How many go on from each colour, a hash table of lists of keys, and these: one per edge, and four per row.
        scratch = empty_numbers(colours + dedup_loops.room(num_rows) + num_arcs + 4 * num_rows)
        arrays = (rows.source, rows.arc)
        count, total, weight = dedup_loops.refined(
            colour.numpy(), rows.node.numpy(), rows.background, *(x.numpy() for x in arrays), self._begin,
            self._kinds.numpy(), multiplicity.numpy(), *(x.numpy() for x in (of_rows, of_arcs, by_source, scratch)),
        )  # fmt: skip
        (found, *of_colours), (source, _, arc, order) = of_rows, of_arcs[:, :total]
        first, own, into = (x[:count] for x in of_colours)
        arcs = Arcs(of_arcs[:2, :total], Grouping(arc, self._kinds.numel()), count)
        arcs.__dict__["out_of"] = Grouping.known(source, colours, order, by_source)
        arcs.into.__dict__["first"] = into
        return found, first, torch.from_numpy(weight), arcs, Grouping(own, colours)


def layer(h: Tensor, of: GINBranch, stage: Any) -> Tensor:
    """A layer without shared terms, one row per representative, from those of the layer before."""
    rows = RowsRead(stage.arcs, stage.multiplicity, Onward(0, stage.goes_on))
    return branch(of, h, rows, relu=True)


def pool_nodes(h: Tensor, stage: Any, rows: Grouping, reduce: str) -> Tensor:
    """`esan.ops.rows.pool_nodes` of rows whose representatives are h."""
    return _PoolNodes.apply(h, Subgraphs.of(stage, reduce, h.dtype), rows)


class _PoolNodes(torch.autograd.Function):
    """The sum over the nodes of each subgraph, times its factor; `rows` are the rows by their representative."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, of: Subgraphs, rows: Any) -> Tensor:
        ctx.of, ctx.rows, h = of, rows, h.contiguous()
        alike = sums(h, rows.owner.index_select(0, of.nodes.order), of.nodes.first)
        return of.totals(h, alike, rows.owner)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        of, rows, grad = ctx.of, ctx.rows, grad.contiguous()
        of_graph = sums(grad, of.graph.order, of.graph.first, of.share)
        by_node, (subgraphs, d) = of.by_node, grad.shape
        n, into = rows.owner.numel(), empty_table(grad, rows.size, d)
        run(
            dedup_loops.pool_back, grad, pieces(rows.size, _AT_ONCE), n, d, by_node.size, subgraphs,
            of.nodes.size, _AT_ONCE, into, of_graph, grad, by_node.whole.order, by_node.whole.first, of.stored.owner,
            of.nodes.owner, of.share, by_node.whole.owner.numel(), rows.size, rows.order, rows.first,
        )  # fmt: skip
        return into, None, None
