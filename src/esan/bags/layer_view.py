"""`Stage`: the rows of a bag that one layer works on, as index tensors, and what layers do with them."""

from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor

from esan.bags.edge_ends import EdgeEnds, Stored
from esan.bags.rows import Rows
from esan.bags.shares import Shares
from esan.graphs import Graphs
from esan.ops import rows as ops
from esan.ops.caching import cached, kept_tensors
from esan.ops.dispatch import implementation
from esan.ops.edges import Arcs
from esan.ops.real import Real
from esan.ops.segments import Grouping
from esan.policies import Selection


class Differences:
    """For each subgraph the rows that it stores, each followed by the background row of the same node.

    Attributes:
        rows: row, background row, row, background row, …
        sign: 1, −1, 1, −1, …
        first: where those of each subgraph begin.
        count: how many they are; None for all up to the next subgraph.
    """

    def __init__(self, rows: Tensor, sign: Tensor, first: Tensor, count: Tensor | None) -> None:
        self.rows, self.sign, self.first, self.count = rows, sign, first, count


class Stage:
    """The rows that layer t of a network computes, an ordinary graph to any convolution.

    In a literal bag this is every pair, in every layer. In a compact bag it is the background and the pairs of level
    t at most; a message from a pair that is not among them comes from that node's background row.

    Args:
        graphs: the graphs of the bag.
        selection: the selection of the bag.
        rows: the rows of the bag.
        slot: the last slot of the rows that the layer needs.
        whole: the stage of all rows, which this one is a prefix of; None if it is that stage.
    """

    #: Whether the rows are those of one network, without padding.
    plain = True
    #: How many networks the rows are of, one after another, each with as many.
    networks = 1
    #: Which rows are not padding; None if all are, or padding is read too.
    real: Real | None = None
    #: A second stream that layers may do independent work on; None for none.
    side: object = None

    def __init__(self, graphs: Graphs, selection: Selection, rows: Rows, slot: int, whole: Self | None = None) -> None:
        self._graphs, self._selection, self._rows, self._whole, self.slot = graphs, selection, rows, whole, slot
        self.num_rows, self.num_arcs = rows.row_ends[slot], rows.arc_ends[slot]
        self.background = rows.background
        self._stored = self.num_rows - self.background
        self._arcs: dict[int, Arcs] = {}
        self._weights: dict[tuple[str, torch.dtype], Tensor] = {}

    # -- what layers do with the rows ----------------------------------------------------------------------------

    def lift(self, h: Tensor) -> Tensor:
        """Rows of an earlier stage → rows of this one: a pair that was not stored takes its background's value."""
        return h if h.size(0) == self.num_rows else ops.lift(h, self)

    def zero_empty_rows(self, h: Tensor) -> Tensor:
        """The rows, with 0 in those of multiplicity 0."""
        return ops.zero_empty_rows(h, self)

    def spread(self, x: Tensor) -> Tensor:
        """One row per node → each of its rows."""
        return self.by_node.spread(x)

    def lift_and_pool(self, h: Tensor, reduce: str) -> tuple[Tensor, Tensor]:
        """`lift`, and `pool_bag` of what it gives, by sum or mean."""
        return ops.lift_and_pool(h, self, reduce)

    def pool_bag(self, h: Tensor, reduce: str) -> Tensor:
        r"""Rows → one per node: :math:`\sum_s h_{v,s}`, its mean over the bag, or the maximum (literal bags)."""
        return ops.pool_bag(h, self, reduce)

    def pool_nodes(self, h: Tensor, reduce: str) -> Tensor:
        r"""Rows → one per subgraph: :math:`\sum_v h_{v,s}`, its mean over the nodes, or the maximum (literal bags)."""
        return ops.pool_nodes(h, self, reduce)

    def pool_edges(self, h: Tensor) -> Tensor:
        r"""Rows → one per edge {u, v}: the mean over the bag of :math:`[h_u + h_v,\; h_u \odot h_v]`, `[E, 2d]`.

        If the graphs have `edge_label_index`, its columns take the place of the edges.
        """
        return self._ends.pool(h)

    @cached
    def _ends(self) -> EdgeEnds:
        graphs, num_subgraphs = self._graphs, self._selection.num_subgraphs
        node = self._rows.node[: self._stored]
        stored = Stored(node, self.subgraph, self.background, num_subgraphs[graphs.node_graph])
        return EdgeEnds.of(graphs.extra.get("edge_label_index", graphs.edges), stored, self._selection.total)

    # -- whose rows they are -------------------------------------------------------------------------------------

    @cached
    def node(self) -> Tensor:
        """The node of each row."""
        if self._whole is not None:
            return self._whole.node[: self.num_rows]
        stored = self._rows.node[: self._stored]
        return torch.cat([torch.arange(self.background, device=stored.device), stored])

    @property
    def subgraph(self) -> Tensor:
        """The subgraph of each stored pair."""
        return self._rows.subgraph[: self._stored]

    @cached
    def marked(self) -> Tensor:
        """Whether each row is a marked node; a background row never is."""
        stored = self._rows.marked[: self._stored]
        return torch.cat([stored.new_zeros(self.background), stored])

    @property
    def degree(self) -> Tensor:
        """How many edges the node of each row has in its subgraph; a background row, in the background."""
        into = self.arcs.into
        # A padded batch knows it, and may not be asked to count: that waits for the device.
        return self.arcs.degree if into.count is None else into.count

    @cached
    def multiplicity(self) -> Tensor | None:
        """How many pairs each row stands for, in single precision, or None where every row stands for one."""
        if not self.background:
            return None
        subgraphs, node = self.shares.subgraphs, self._rows.node[: self._stored]
        fast = implementation("indices", node)
        if fast is not None:
            return fast.multiplicities(subgraphs, node)
        alike = subgraphs - torch.bincount(node, minlength=self.background)
        return torch.cat([alike, torch.ones_like(self.subgraph)]).float()

    def multiplicity_in(self, kind: torch.dtype) -> Tensor | None:
        """The multiplicities in some precision."""
        given = self.multiplicity
        if given is None or given.dtype == kind:
            return given
        return self._kept("multiplicity", kind, lambda: given.to(kind))

    def bag_weight(self, reduce: str, kind: torch.dtype) -> Tensor | None:
        """The factor of each row in the sum or mean over the bag of its node."""
        return self.multiplicity_in(kind) if reduce == "sum" else self._kept("mean", kind, self._mean_weight)

    def _mean_weight(self) -> Tensor:
        share = self.shares.of_subgraph.index_select(0, self.node)
        return share if self.multiplicity is None else share * self.multiplicity

    def _kept(self, name: str, kind: torch.dtype, make: Callable[[], Tensor]) -> Tensor:
        if (name, kind) not in self._weights:
            with kept_tensors():
                self._weights[name, kind] = make().to(kind)
        return self._weights[name, kind]

    @cached
    def empty_rows(self) -> Tensor:
        """The rows of multiplicity 0."""
        assert self.multiplicity is not None
        return (self.multiplicity[: self.background] == 0).nonzero().squeeze(1)

    @cached
    def shares(self) -> Shares:
        """The parts of subgraphs and nodes in means."""
        return Shares(self._graphs, self._selection) if self._whole is None else self._whole.shares

    @property
    def subgraph_graph(self) -> Tensor:
        """The graph of each subgraph."""
        return self._selection.subgraph_graph

    @property
    def nodes_of_subgraph(self) -> Tensor:
        """How many nodes each subgraph has."""
        return self._graphs.num_nodes[self.subgraph_graph]

    def lift_index(self, rows: int) -> Tensor:
        """Where `lift` reads each row among the first `rows` rows."""
        return torch.cat([torch.arange(rows, device=self.node.device), self.node[rows:]])

    def background_first(self, h: Tensor) -> Tensor:
        """The rows, those of the background before all stored ones, as they are here."""
        return h

    # -- edges ---------------------------------------------------------------------------------------------------

    @property
    def arcs(self) -> Arcs:
        return self.arcs_from(self.num_rows)

    def arcs_from(self, known: int) -> Arcs:
        """The edges into the rows, from the first `known` rows; a source behind them is its node's background row."""
        if known not in self._arcs:
            with kept_tensors():
                self._arcs[known] = self._arcs_from(known)
        return self._arcs[known]

    def _arcs_from(self, known: int) -> Arcs:
        rows = self._rows
        source, target, arc = (x[: self.num_arcs] for x in (rows.source, rows.target, rows.arc))
        fast = implementation("indices", source)
        if fast is not None:
            found = fast.routes(source, target, rows.node, rows.background, known, self.num_rows)
            arcs = Arcs(found.ends, self._copies, self.num_rows, self._edge_weight(arc))
            arcs.__dict__["out_of"] = Grouping.known(found.ends[0], known, found.order, found.first)
            arcs.into.__dict__["first"] = found.into
            return arcs
        if self.background and known < rows.row_ends[-1]:
            source = torch.where(source < known, source, self._graphs.edge_index[0, arc])
        arcs = Arcs(torch.stack([source, target]), self._copies, self.num_rows, self._edge_weight(arc))
        arcs.__dict__["out_of"] = Grouping(arcs.edge_index[0], known)
        return arcs

    def _edge_weight(self, arc: Tensor) -> Tensor | None:
        """The user's `edge_weight` of each of these edges of the graph; None if there is none."""
        weight = self._graphs.edge_weight
        return None if weight is None else weight.index_select(0, arc)

    @cached
    def _copies(self) -> Grouping:
        """The edges by the edge of the graph that they are copies of."""
        arc, whole = self._rows.arc[: self.num_arcs], self._whole
        return whole._copies.prefix(self.num_arcs) if whole else Grouping(arc, self._graphs.edge_index.size(1))

    # -- rows, nodes and subgraphs by what they belong to --------------------------------------------------------

    @cached
    def by_node(self) -> Grouping:
        """All rows by their node."""
        whole = self._whole
        return whole.by_node.prefix(self.num_rows) if whole else Grouping(self.node, self._graphs.node_graph.numel())

    @cached
    def stored_by_node(self) -> Grouping:
        """The stored pairs by their node, which is their background row."""
        node, whole = self._rows.node[: self._stored], self._whole
        return whole.stored_by_node.prefix(self._stored) if whole else Grouping(node, self.background)

    @cached
    def by_subgraph(self) -> Grouping:
        """The stored pairs by their subgraph."""
        if self._whole is not None:
            return self._whole.by_subgraph.prefix(self._stored)
        return Grouping(self.subgraph, self._selection.total, ordered=not self.background)

    @cached
    def by_graph(self) -> Grouping:
        """The nodes by their graph."""
        if self._whole is not None:
            return self._whole.by_graph
        return Grouping(self._graphs.node_graph, len(self._graphs), ordered=True)

    @cached
    def subgraphs_by_graph(self) -> Grouping:
        """The subgraphs by their graph."""
        if self._whole is not None:
            return self._whole.subgraphs_by_graph
        return Grouping(self.subgraph_graph, len(self._graphs), ordered=True)

    # -- the same in the order that a GPU sums in ----------------------------------------------------------------

    @cached
    def differences(self) -> Differences:
        """The stored rows of each subgraph and their background rows."""
        by_subgraph = self.by_subgraph
        row = by_subgraph.order + self.background
        rows = torch.stack([row, self.node.index_select(0, row)], 1).reshape(-1)
        sign = torch.ones(rows.numel(), device=rows.device)
        sign[1::2] = -1
        return Differences(rows, sign, 2 * by_subgraph.first, None)

    @property
    def background_by_graph(self) -> Grouping:
        """The background rows by their graph."""
        return self.by_graph

    @cached
    def subgraph_of_stored(self) -> Tensor:
        """The subgraphs of the stored pairs, node by node."""
        return self.subgraph.index_select(0, self.stored_by_node.order)

    @cached
    def pooled_into(self) -> Tensor:
        """Where each row is pooled into: a stored one its subgraph, a background row its graph (behind the former)."""
        return torch.cat([self._graphs.node_graph + self._selection.total, self.subgraph])
