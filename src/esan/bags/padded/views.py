"""The layer views, edges and CSR indices of a padded batch, read from its fields instead of being computed."""

from collections.abc import Mapping
from functools import cached_property

import torch
from torch import Tensor

from esan.bags.layer_view import Differences, LayerView
from esan.bags.padded.shapes import Shape
from esan.bags.rows import Rows
from esan.bags.shared_edges import ADJACENCIES, SharedEdges
from esan.graphs import Graphs
from esan.ops.edges import Edges
from esan.ops.segments import CSR, RowRanges
from esan.policies import Selection

#: The tensors of a batch by name.
Fields = Mapping[str, Tensor]


class PaddedCSR(CSR):
    """A CSR index of a padded batch; its tensors are read from the fields of the batch when they are needed.

    Args:
        fields: of the batch.
        name: of the index among them.
        owner: the name of the field of owners.
        is_sorted: whether the owners are sorted.
        row_ranges: which rows are not padding; None if none is, or if padding rows are computed too.
    """

    plain = False

    def __init__(
        self, fields: Fields, name: str, owner: str, *, is_sorted: bool = False, row_ranges: RowRanges | None = None
    ) -> None:
        self._fields, self._name, self._owner, self._is_sorted, self.row_ranges = (
            fields,
            name,
            owner,
            is_sorted,
            row_ranges,
        )

    @cached_property
    def index(self) -> Tensor:  # type: ignore[override]
        return self._fields[self._owner]

    @cached_property
    def size(self) -> int:  # type: ignore[override]
        return self.ptr.numel()

    @cached_property
    def perm(self) -> Tensor:
        return super().perm if self._is_sorted else self._fields[f"{self._name}.order"]

    @cached_property
    def ptr(self) -> Tensor:
        return self._fields[f"{self._name}.first"]

    @cached_property
    def count(self) -> Tensor:  # type: ignore[override]
        return self._fields[f"{self._name}.count"]


class PaddedEdges(Edges):
    """The edges of a padded batch; their tensors are read from the fields of the batch when they are needed.

    Args:
        fields: of the batch.
        name: of the layer view between whose rows they are, or `graph` for the edges of the graphs themselves.
        num_rows: the number of rows.
        weight: one factor per message, or None for 1.
        row_ranges: which rows are not padding; None if none is, or if padding rows are computed too.
    """

    plain = False

    def __init__(
        self,
        fields: Fields,
        name: str,
        num_rows: int,
        weight: Tensor | None = None,
        row_ranges: RowRanges | None = None,
    ) -> None:
        self.__dict__.update(_fields=fields, _name=name, _types=None)
        self.__dict__.update(num_rows=num_rows, weight=weight, row_ranges=row_ranges)
        self.__dict__["_ends"] = [f"edge_{end}" if name == "graph" else f"{name}.{end}" for end in ("source", "target")]

    def _field(self, name: str) -> Tensor:
        return self.__dict__["_fields"][f"{self.__dict__['_name']}.{name}"]

    def _csr(self, name: str, owner: str, is_sorted: bool = False) -> CSR:
        return PaddedCSR(self.__dict__["_fields"], f"{self.__dict__['_name']}.{name}", owner, is_sorted=is_sorted)

    @property
    def _of_graphs(self) -> bool:
        return self.__dict__["_name"] == "graph"

    @cached_property
    def source(self) -> Tensor:
        return self.__dict__["_fields"][self.__dict__["_ends"][0]]

    @cached_property
    def edge_index(self) -> Tensor:
        return torch.stack([self.source, self.__dict__["_fields"][self.__dict__["_ends"][1]]])

    @cached_property
    def by_edge_id(self) -> CSR:
        if not self._of_graphs:
            return self._csr("copies", f"{self.__dict__['_name']}.edge_id")
        # Each edge of the graphs is its own copy.
        every = torch.arange(self.source.numel(), device=self.source.device)
        return CSR.from_sorted(every, every.numel(), every, every, torch.ones_like(every))

    @cached_property
    def by_target(self) -> CSR:
        return self._csr("into", self.__dict__["_ends"][1], is_sorted=True)

    @cached_property
    def by_source(self) -> CSR:
        return self._csr("out", self.__dict__["_ends"][0])

    @cached_property
    def target_by_source(self) -> Tensor:
        return self._field("out.target")

    @cached_property
    def edge_id_by_source(self) -> Tensor:
        return self._field("out.order") if self._of_graphs else self._field("out.edge_id")

    def _types_of(self, types: Tensor) -> tuple[Tensor, Tensor]:
        own = self.__dict__["_fields"].get("edge_attr")
        if own is None or types.is_floating_point() or types.data_ptr() != own.data_ptr():
            return super()._types_of(types)
        return types.reshape(-1) if self._of_graphs else self._field("type"), self._field("out.type")

    @cached_property
    def ends_by_edge_id(self) -> tuple[Tensor, Tensor]:
        if self._of_graphs:
            return self.edge_index[0], self.edge_index[1]
        return self._field("copies.source"), self._field("copies.target")


class PaddedLayerView(LayerView):
    """A layer view of a padded batch.

    Args:
        graphs: the graphs of the batch.
        selection: its selection.
        rows: its rows.
        block: the last block of rows that the layer needs.
        fields: the tensors of the batch.
        shape: their sizes.
        networks: how many networks the batch is for.
        skips_padding: whether padding rows are neither read nor written.
        side: a CUDA stream for independent work.
    """

    plain = False

    # Not the bag itself: it holds its views, and the cycle would be freed by the garbage collector only.
    def __init__(
        self,
        graphs: Graphs,
        selection: Selection,
        rows: Rows,
        block: int,
        *,
        fields: Fields,
        shape: Shape,
        networks: int,
        skips_padding: bool,
        side: "torch.cuda.Stream | None",
    ) -> None:
        super().__init__(graphs, selection, rows, block)
        self._fields, self._name, self._skips_padding = fields, f"view{block}", skips_padding
        self._capacities = tuple(capacity for capacity in shape.rows[: block + 1] if capacity)
        self.num_rows *= networks
        self.networks, self.side = networks, side

    def _field(self, name: str) -> Tensor:
        return self._fields[f"{self._name}.{name}"]

    def _csr(self, name: str, owner: str, row_ranges: RowRanges | None = None) -> CSR:
        return PaddedCSR(self._fields, f"{self._name}.{name}", f"{self._name}.{owner}", row_ranges=row_ranges)

    @cached_property
    def row_ranges(self) -> RowRanges | None:  # type: ignore[override]
        return RowRanges(self._field("real"), self._capacities) if self._skips_padding else None

    @cached_property
    def node(self) -> Tensor:
        return self._field("node")

    @cached_property
    def multiplicity(self) -> Tensor:
        return self._field("multiplicity")

    @cached_property
    def marked(self) -> Tensor:
        return self._field("marked").bool()

    def pool_factor(self, reduce: str, kind: torch.dtype) -> Tensor | None:
        if reduce == "sum":
            return self.multiplicity_in(kind)
        if kind == torch.float32:
            return self._field("mean_factor")
        subgraphs = self._selection.num_subgraphs[self._graphs.node_graph].clamp(min=1)
        return self.multiplicity.to(kind) / subgraphs.index_select(0, self.node)

    @property
    def subgraph(self) -> Tensor:
        return self._field("stored_subgraph")

    @cached_property
    def by_node(self) -> CSR:
        return self._csr("by_node", "node", self.row_ranges)

    @cached_property
    def by_subgraph(self) -> CSR:
        # Without background rows, the stored pairs are the rows.
        return self._csr("by_subgraph", "stored_subgraph", None if self.background else self.row_ranges)

    @cached_property
    def by_graph(self) -> CSR:
        return PaddedCSR(self._fields, "nodes", "node_graph", is_sorted=True)

    @cached_property
    def subgraphs_by_graph(self) -> CSR:
        return PaddedCSR(self._fields, "subgraphs", "subgraph_graph", is_sorted=True)

    @cached_property
    def stored_by_node(self) -> CSR:
        stored = self._csr("stored_by_node", "node")
        # The nodes of the stored pairs come after those of the background rows, network by network.
        stored.__dict__["index"] = self.node.view(self.networks, -1)[:, self.background :].reshape(-1)
        return stored

    @cached_property
    def background_by_graph(self) -> CSR:
        by_graph = PaddedCSR(self._fields, "nodes", "node_graph", is_sorted=True)
        by_graph.__dict__["perm"] = self._field("background")
        return by_graph

    @cached_property
    def differences(self) -> Differences:
        return Differences(*(self._field(f"differences{name}") for name in ("", ".sign", ".first", ".count")))

    @cached_property
    def subgraph_of_stored(self) -> Tensor:
        return self._field("subgraph_of_stored")

    @cached_property
    def pool_target(self) -> Tensor:
        return self._field("pool_target")

    def _edges_from(self, num_sources: int) -> Edges:  # noqa: ARG002
        return PaddedEdges(self._fields, self._name, self.num_rows, row_ranges=self.row_ranges)

    def expand_index(self, rows: int) -> Tensor:
        earlier, of_node = rows // self.networks, self.node.view(self.networks, -1)
        network = torch.arange(self.networks, device=of_node.device)[:, None]
        own = torch.arange(earlier, device=of_node.device) + network * earlier
        # In the earlier view the rows of each network begin elsewhere; its nodes are its first rows there.
        added = of_node[:, earlier:] + network * (earlier - self.background)
        return torch.cat([own, added], 1).reshape(-1)

    def background_first(self, h: Tensor) -> Tensor:
        by_network = h.view(self.networks, -1, h.size(1))
        background, stored = by_network[:, : self.background], by_network[:, self.background :]
        return torch.cat([background.reshape(-1, h.size(1)), stored.reshape(-1, h.size(1))])


class PaddedSharedEdges(SharedEdges):
    """The shared edges of a padded batch; an edge that no subgraph has stays, with the weight 0.

    Args:
        graphs: the graphs of the batch.
        selection: its selection.
        literal: whether it has one row per pair.
        fields: the tensors of the batch.
        covered: whether every edge is in some subgraph.
    """

    def __init__(self, graphs: Graphs, selection: Selection, literal: bool, fields: Fields, covered: bool) -> None:
        super().__init__(graphs, selection, literal)
        self._fields, self._covered = fields, covered

    def between_nodes(self, adjacency: str) -> Edges:
        if adjacency not in ADJACENCIES:
            return super().between_nodes(adjacency)
        if adjacency not in self._nodes:
            every = adjacency == "original" or (adjacency == "max" and self._covered)
            holders = None if every else self._fields["subgraphs_per_edge"]
            weight = (holders > 0).float() if holders is not None and adjacency == "max" else holders
            self._nodes[adjacency] = PaddedEdges(self._fields, "graph", self._graphs.node_graph.numel(), weight)
        return self._nodes[adjacency]

    def between_rows(self, adjacency: str) -> Edges:  # noqa: ARG002
        raise needs_unpadded("bag_pool='others'")


def needs_unpadded(what: str) -> ValueError:
    """The error for what a padded batch cannot do."""
    return ValueError(f"Expected a bag without padding for {what} (got a padded batch). Use Loader(..., padded=False).")
