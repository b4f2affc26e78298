"""`LayerView`: index tensors of the rows and edges of one layer; in a compact bag, later layers have more rows."""

from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor

from esan.bags.edge_readout import EdgeReadout, PairLookup
from esan.bags.rows import Rows
from esan.graphs import Graphs
from esan.ops import rows as ops
from esan.ops.caching import cached, plain_tensors
from esan.ops.dispatch import implementation
from esan.ops.edges import Edges
from esan.ops.segments import CSR, RowRanges
from esan.policies import Selection


class Differences:
    """For each subgraph its stored rows, each followed by the background row of the same node.

    Attributes:
        rows: row, background row, row, background row, …
        sign: 1, −1, 1, −1, …
        ptr: where the entries of each subgraph begin.
        count: how many entries each subgraph has; None for all up to the next subgraph.
    """

    def __init__(self, rows: Tensor, sign: Tensor, ptr: Tensor, count: Tensor | None) -> None:
        self.rows, self.sign, self.ptr, self.count = rows, sign, ptr, count


class PoolCounts:
    """How many subgraphs and nodes the pools average over; computed once for all layer views of a bag."""

    def __init__(self, graphs: Graphs, selection: Selection) -> None:
        self._graphs, self._selection = graphs, selection

    @cached
    def subgraphs_of_node(self) -> Tensor:
        """The number of subgraphs of each node, `[N]`."""
        return self._selection.num_subgraphs[self._graphs.node_graph]

    @cached
    def inverse_subgraphs(self) -> Tensor:
        """1 / m for each node, in double precision: the factor of a pair in the mean over the bag."""
        return self.subgraphs_of_node.double().reciprocal()

    @cached
    def inverse_nodes(self) -> Tensor:
        """1 / n for each subgraph, in double precision: the factor of a node in the mean over the nodes."""
        return self._graphs.num_nodes[self._selection.subgraph_graph].double().reciprocal()


class LayerView:
    """The rows that layer t of a network computes; to a convolution they are an ordinary graph.

    In a literal bag these are all pairs, for every layer. In a compact bag they are the background rows and the pairs
    of level t or less; a message from a pair that is not among them comes from the background row of its node.

    Args:
        graphs: the graphs of the bag.
        selection: the selection of the bag.
        rows: the rows of the bag.
        block: the last block of rows that the layer needs.
        full: the view of all rows, of which this one is a prefix; None if this is it.
    """

    #: Whether the rows are those of one network, without padding.
    plain = True
    #: How many networks the rows belong to: equally many rows each, one network after another.
    networks = 1
    #: Which rows are not padding; None if none is, or if padding rows are computed too.
    row_ranges: RowRanges | None = None
    #: A second CUDA stream for independent work; None for none.
    side: object = None

    def __init__(self, graphs: Graphs, selection: Selection, rows: Rows, block: int, full: Self | None = None) -> None:
        self._graphs, self._selection, self._rows, self.block, self._full = graphs, selection, rows, block, full
        self.num_rows, self.num_edges = rows.row_ends[block], rows.edge_ends[block]
        self.background = rows.background
        self._num_pairs = self.num_rows - self.background
        self._edges: dict[int, Edges] = {}
        self._factors: dict[tuple[str, torch.dtype], Tensor] = {}

    # -- operations of layers ------------------------------------------------------------------------------------

    def expand(self, h: Tensor) -> Tensor:
        """Rows of an earlier layer → rows of this one: a pair that was not stored takes its background row's value."""
        return h if h.size(0) == self.num_rows else ops.expand(h, self)

    def zero_empty_rows(self, h: Tensor) -> Tensor:
        """The rows, with 0 in those of multiplicity 0."""
        return ops.zero_empty_rows(h, self)

    def broadcast(self, x: Tensor) -> Tensor:
        """One row per node → all rows of the node."""
        return self.by_node.broadcast(x)

    def expand_and_pool(self, h: Tensor, reduce: str) -> tuple[Tensor, Tensor]:
        """`expand`, and `pool_bag` of its result, by sum or mean."""
        return ops.expand_and_pool(h, self, reduce)

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
        return self._edge_pool.pool(h)

    @cached
    def _edge_pool(self) -> EdgeReadout:
        graphs, num_subgraphs = self._graphs, self._selection.num_subgraphs
        node = self._rows.node[: self._num_pairs]
        stored = PairLookup(node, self.subgraph, self.background, num_subgraphs[graphs.node_graph])
        return EdgeReadout.of(graphs.extra.get("edge_label_index", graphs.edges), stored, self._selection.total)

    # -- the node, subgraph and multiplicity of each row ---------------------------------------------------------

    @cached
    def node(self) -> Tensor:
        """The node of each row."""
        if self._full is not None:
            return self._full.node[: self.num_rows]
        stored = self._rows.node[: self._num_pairs]
        return torch.cat([torch.arange(self.background, device=stored.device), stored])

    @property
    def subgraph(self) -> Tensor:
        """The subgraph of each stored pair."""
        return self._rows.subgraph[: self._num_pairs]

    @cached
    def marked(self) -> Tensor:
        """Whether each row is a marked node; background rows are not."""
        stored = self._rows.marked[: self._num_pairs]
        return torch.cat([stored.new_zeros(self.background), stored])

    @property
    def degree(self) -> Tensor:
        """How many edges the node of each row has in its subgraph; a background row, in the background."""
        by_target = self.edges.by_target
        # A padded batch stores it: counting would wait for the device.
        return self.edges.degree if by_target.count is None else by_target.count

    @cached
    def multiplicity(self) -> Tensor | None:
        """How many pairs each row stands for, in single precision; None if every row stands for one."""
        return self._rows.multiplicity(self.block, self.pool_counts.subgraphs_of_node) if self.background else None

    def multiplicity_in(self, kind: torch.dtype) -> Tensor | None:
        """The multiplicities in some precision."""
        multiplicity = self.multiplicity
        if multiplicity is None or multiplicity.dtype == kind:
            return multiplicity
        return self._cached_factor("multiplicity", kind, lambda: multiplicity.to(kind))

    def pool_factor(self, reduce: str, kind: torch.dtype) -> Tensor | None:
        """The factor of each row in the sum or mean over the bag of its node."""
        return self.multiplicity_in(kind) if reduce == "sum" else self._cached_factor("mean", kind, self._mean_factor)

    def _mean_factor(self) -> Tensor:
        factor = self.pool_counts.inverse_subgraphs.index_select(0, self.node)
        return factor if self.multiplicity is None else factor * self.multiplicity

    def _cached_factor(self, name: str, kind: torch.dtype, make: Callable[[], Tensor]) -> Tensor:
        if (name, kind) not in self._factors:
            with plain_tensors():
                self._factors[name, kind] = make().to(kind)
        return self._factors[name, kind]

    @cached
    def empty_rows(self) -> Tensor:
        """The rows of multiplicity 0."""
        assert self.multiplicity is not None
        return (self.multiplicity[: self.background] == 0).nonzero().squeeze(1)

    @cached
    def pool_counts(self) -> PoolCounts:
        """The numbers of subgraphs and nodes that pools average over."""
        return PoolCounts(self._graphs, self._selection) if self._full is None else self._full.pool_counts

    @property
    def subgraph_graph(self) -> Tensor:
        """The graph of each subgraph."""
        return self._selection.subgraph_graph

    @property
    def nodes_of_subgraph(self) -> Tensor:
        """The number of nodes of each subgraph."""
        return self._graphs.num_nodes[self.subgraph_graph]

    def expand_index(self, rows: int) -> Tensor:
        """Where `expand` reads each row among the first `rows` rows."""
        return torch.cat([torch.arange(rows, device=self.node.device), self.node[rows:]])

    def background_first(self, h: Tensor) -> Tensor:
        """The rows with all background rows before all stored ones; here they are in that order already."""
        return h

    # -- edges ---------------------------------------------------------------------------------------------------

    @property
    def edges(self) -> Edges:
        """The edges between the rows."""
        return self.edges_from(self.num_rows)

    def edges_from(self, num_sources: int) -> Edges:
        """The edges into the rows, from the first `num_sources` rows; later sources become their background rows."""
        if num_sources not in self._edges:
            with plain_tensors():
                self._edges[num_sources] = self._edges_from(num_sources)
        return self._edges[num_sources]

    def _edges_from(self, num_sources: int) -> Edges:
        rows = self._rows
        source, target, edge_id = (x[: self.num_edges] for x in (rows.source, rows.target, rows.edge_id))
        weight = self._edge_weight(edge_id)
        fast = implementation("indices", source)
        if fast is not None:
            sorted_edges = fast.sort_edges(source, target, rows.node, rows.background, num_sources, self.num_rows)
            edges = Edges(sorted_edges.ends, self._copies, self.num_rows, weight)
            edges.__dict__["by_source"] = CSR.from_sorted(
                sorted_edges.ends[0], num_sources, sorted_edges.source_perm, sorted_edges.source_ptr
            )
            edges.by_target.__dict__["ptr"] = sorted_edges.target_ptr
            return edges
        if self.background and num_sources < rows.row_ends[-1]:
            source = torch.where(source < num_sources, source, self._graphs.edge_index[0, edge_id])
        edges = Edges(torch.stack([source, target]), self._copies, self.num_rows, weight)
        edges.__dict__["by_source"] = CSR(edges.edge_index[0], num_sources)
        return edges

    def _edge_weight(self, edge_id: Tensor) -> Tensor | None:
        """The user's `edge_weight` of each edge; None if there is none."""
        weight = self._graphs.edge_weight
        return None if weight is None else weight.index_select(0, edge_id)

    @cached
    def _copies(self) -> CSR:
        """The edges grouped by the edge of the graph that they are copies of."""
        edge_id, full = self._rows.edge_id[: self.num_edges], self._full
        return full._copies.prefix(self.num_edges) if full else CSR(edge_id, self._graphs.edge_index.size(1))

    # -- rows by node and subgraph, nodes and subgraphs by graph -------------------------------------------------

    @cached
    def by_node(self) -> CSR:
        """All rows by node."""
        full = self._full
        return full.by_node.prefix(self.num_rows) if full else CSR(self.node, self._graphs.node_graph.numel())

    @cached
    def stored_by_node(self) -> CSR:
        """The stored pairs by node, which is also their background row."""
        node, full = self._rows.node[: self._num_pairs], self._full
        return full.stored_by_node.prefix(self._num_pairs) if full else CSR(node, self.background)

    @cached
    def by_subgraph(self) -> CSR:
        """The stored pairs by subgraph."""
        if self._full is not None:
            return self._full.by_subgraph.prefix(self._num_pairs)
        return CSR(self.subgraph, self._selection.total, is_sorted=not self.background)

    @cached
    def by_graph(self) -> CSR:
        """The nodes by graph."""
        if self._full is not None:
            return self._full.by_graph
        return CSR(self._graphs.node_graph, len(self._graphs), is_sorted=True)

    @cached
    def subgraphs_by_graph(self) -> CSR:
        """The subgraphs by graph."""
        if self._full is not None:
            return self._full.subgraphs_by_graph
        return CSR(self.subgraph_graph, len(self._graphs), is_sorted=True)

    # -- the same, sorted as the GPU kernels of the pool over nodes read it --------------------------------------

    @cached
    def differences(self) -> Differences:
        """The stored rows of each subgraph and their background rows."""
        by_subgraph = self.by_subgraph
        row = by_subgraph.perm + self.background
        rows = torch.stack([row, self.node.index_select(0, row)], 1).reshape(-1)
        sign = torch.ones(rows.numel(), device=rows.device)
        sign[1::2] = -1
        return Differences(rows, sign, 2 * by_subgraph.ptr, None)

    @property
    def background_by_graph(self) -> CSR:
        """The background rows by graph."""
        return self.by_graph

    @cached
    def subgraph_of_stored(self) -> Tensor:
        """The subgraphs of the stored pairs, sorted by node."""
        return self.subgraph.index_select(0, self.stored_by_node.perm)

    @cached
    def pool_target(self) -> Tensor:
        """What each row is pooled into: a stored row its subgraph, a background row its graph (after the subgraphs)."""
        return torch.cat([self._graphs.node_graph + self._selection.total, self.subgraph])
