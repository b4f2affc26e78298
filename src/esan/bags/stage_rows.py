"""`StageRows`: the rows of a bag that one layer works on, as an ordinary graph: arcs, weights, and whose they are."""

from functools import cached_property
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor

from esan.bags.arcs import Arcs
from esan.bags.gathered import Differences
from esan.bags.routes import arcs_from
from esan.bags.rows import Rows
from esan.bags.shares import Shares
from esan.bags.sums import Grouping
from esan.graphs import Graphs
from esan.ops.numba import runtime as cpu
from esan.policies import Selection

if TYPE_CHECKING:
    from esan.ops.real import Real


class StageRows:
    """The rows that layer t of a network computes, an ordinary graph to any convolution.

    In a literal bag this is every pair, in every layer. In a compact bag it is the background and the pairs of level
    t at most; a message from a pair that is not among them comes from that node's background row. It is made as a
    `Stage`, which has the work that layers do on it.

    Args:
        graphs: the graphs of the bag.
        selection: the selection of the bag.
        rows: the rows of the bag.
        slot: the last slot of the rows that the layer needs.
        whole: the stage of all rows, which this one is a prefix of; None if it is that stage.
    """

    #: Whether the rows are those of one network, without filler.
    plain = True
    #: How many networks the rows are of, one after another, each with as many.
    networks = 1
    #: Which rows are not filler; None if all are, or filler is read too.
    real: "Real | None" = None

    def __init__(self, graphs: Graphs, selection: Selection, rows: Rows, slot: int, whole: Self | None = None) -> None:
        self._graphs, self._selection, self._rows, self._whole = graphs, selection, rows, whole
        self.num_rows, self.num_arcs = rows.row_ends[slot], rows.arc_ends[slot]
        self._background = rows.background
        self._stored = self.num_rows - self._background
        self._arcs: dict[int, Arcs] = {}

    @cached_property
    def node(self) -> Tensor:
        """The node of each row."""
        if self._whole is not None:
            return self._whole.node[: self.num_rows]
        stored = self._rows.node[: self._stored]
        return torch.cat([torch.arange(self._background, device=stored.device), stored])

    @property
    def _subgraph(self) -> Tensor:
        """The subgraph of each stored pair."""
        return self._rows.subgraph[: self._stored]

    @cached_property
    def marked(self) -> Tensor:
        """Whether each row is a marked node; a background row never is."""
        stored = self._rows.marked[: self._stored]
        return torch.cat([stored.new_zeros(self._background), stored])

    @cached_property
    def weight(self) -> Tensor | None:
        """How many pairs each row stands for, or None where every row stands for one."""
        if not self._background:
            return None
        stored = torch.bincount(self._rows.node[: self._stored], minlength=self._background)
        alike = self._selection.num_subgraphs[self._graphs.node_graph] - stored
        return torch.cat([alike, torch.ones_like(self._subgraph)])

    def weight_in(self, kind: torch.dtype) -> Tensor | None:
        """The weight in some precision."""
        return self.norm_weight if kind == torch.float32 or self.weight is None else self.weight.to(kind)

    @cached_property
    def shares(self) -> Shares:
        """The parts of subgraphs and nodes in means."""
        return Shares(self._graphs, self._selection) if self._whole is None else self._whole.shares

    @property
    def _compiled(self) -> bool:
        """Whether compiled loops prepare what layers ask for."""
        return self._rows.source.device.type == "cpu" and cpu.available() and self.plain

    @cached_property
    def norm_weight(self) -> Tensor | None:
        """The weight in single precision, as fused norms take it."""
        if self._background and self._compiled:
            from esan.ops.numba.segments import weights

            return weights(self.shares.subgraphs, self._rows.node[: self._stored])
        return None if self.weight is None else self.weight.float()

    @cached_property
    def arcs(self) -> Arcs:
        return self.arcs_from(self.num_rows)

    def arcs_from(self, known: int) -> Arcs:
        """The arcs with the first `known` rows to read from (all of them, unless compiled loops read)."""
        if self._compiled:
            if known not in self._arcs:
                count = self.num_arcs
                self._arcs[known] = arcs_from(
                    self._rows, known, self.num_rows, count, self._copies, self._factors(self._rows.arc[:count])
                )
            return self._arcs[known]
        source, target, arc = (x[: self.num_arcs] for x in (self._rows.source, self._rows.target, self._rows.arc))
        if self._background and self.num_rows < self._rows.row_ends[-1]:
            # A pair that is not of this stage still equals its background.
            source = torch.where(source < self.num_rows, source, self._graphs.edge_index[0, arc])
        return Arcs(torch.stack([source, target]), self._copies, self.num_rows, self._factors(arc))

    def _factors(self, arc: Tensor) -> Tensor | None:
        """The user's edge weight of each of these arcs of the graph; None if there is none."""
        weight = self._graphs.edge_weight
        return None if weight is None else weight.index_select(0, arc)

    @cached_property
    def _copies(self) -> Grouping:
        """The arcs by the arc of the graph that they are copies of."""
        arc, whole = self._rows.arc[: self.num_arcs], self._whole
        return whole._copies.prefix(self.num_arcs) if whole else Grouping(arc, self._graphs.edge_index.size(1))

    @cached_property
    def by_node(self) -> Grouping:
        """All rows by their node."""
        whole = self._whole
        return whole.by_node.prefix(self.num_rows) if whole else Grouping(self.node, self._graphs.node_graph.numel())

    @cached_property
    def stored_by_node(self) -> Grouping:
        """The stored pairs by their node, which is their background row."""
        node, whole = self._rows.node[: self._stored], self._whole
        return whole.stored_by_node.prefix(self._stored) if whole else Grouping(node, self._background)

    @cached_property
    def _by_subgraph(self) -> Grouping:
        """The stored pairs by their subgraph."""
        if self._whole is not None:
            return self._whole._by_subgraph.prefix(self._stored)
        return Grouping(self._subgraph, self._selection.total, ordered=not self._background)

    @cached_property
    def _by_graph(self) -> Grouping:
        """The nodes by their graph."""
        if self._whole is not None:
            return self._whole._by_graph
        return Grouping(self._graphs.node_graph, len(self._graphs), ordered=True)

    # -- the same in the order that a GPU sums in ----------------------------------------------------------------

    @cached_property
    def differences(self) -> Differences:
        """The stored rows of each subgraph and their background rows."""
        by_subgraph = self._by_subgraph
        row = by_subgraph.order + self._background
        rows = torch.stack([row, self.node.index_select(0, row)], 1).reshape(-1)
        sign = torch.ones(rows.numel(), device=rows.device)
        sign[1::2] = -1
        return Differences(rows, sign, 2 * by_subgraph.first, None)

    @cached_property
    def background_by_graph(self) -> Grouping:
        """The background rows by their graph."""
        return self._by_graph

    @cached_property
    def subgraphs_by_graph(self) -> Grouping:
        """The subgraphs by their graph."""
        if self._whole is not None:
            return self._whole.subgraphs_by_graph
        return Grouping(self.subgraph_graph, len(self._graphs), ordered=True)

    @property
    def subgraph_graph(self) -> Tensor:
        """The graph of each subgraph."""
        return self._selection.subgraph_graph

    @cached_property
    def subgraph_of_stored(self) -> Tensor:
        """The subgraphs of the stored pairs, node by node."""
        return self._subgraph.index_select(0, self.stored_by_node.order)

    @cached_property
    def pooled_into(self) -> Tensor:
        """Where each row is pooled into: a stored one its subgraph, a background row its graph (behind the former)."""
        return torch.cat([self._graphs.node_graph + self._selection.total, self._subgraph])
