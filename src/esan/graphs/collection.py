"""`Graphs`: the checked collection of undirected graphs, concatenated as in a PyG batch."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

import torch
from torch import Tensor

from esan.graphs.extra_fields import ExtraFields
from esan.graphs.indexing import Ids, graph_ids
from esan.ops import ragged
from esan.ops.caching import cached
from esan.plural import counted
from esan.tensor_dataclass import TensorDataclass

Level = Literal["graph", "node", "edge"]


@dataclass(frozen=True, eq=False, repr=False)
class Graphs(TensorDataclass):
    r"""Undirected graphs :math:`G = (A, X)`, any number of them, concatenated.

    Nodes and edges are numbered through the whole collection, graph after graph. `edges` lists each *undirected* edge
    once; `edge_index` lists *directed* edges as PyG does, two columns per undirected edge and one per self-loop. Counts
    are stored, never inferred.

    Attributes:
        num_nodes: nodes of each graph, `[G]`.
        num_edges: undirected edges of each graph, `[G]`.
        num_directed_edges: directed edges (columns of `edge_index`) of each graph, `[G]`.
        edges: both ends of each undirected edge, the smaller first, sorted, `[2, E]`.
        edge_index: source and target of each directed edge, sorted by target, then source, `[2, A]`.
        undirected_edge: the undirected edge of each directed edge, as a column of `edges`, `[A]`.
        column: the position of each directed edge among the columns of the user's `edge_index`, `[A]`.
        x: node features, `[N, ...]`, or None.
        edge_attr: features of the directed edges in the order of `edge_index` here, `[A, ...]`, or None.
        y: targets, one row per graph, node or directed edge (edges in the user's order), or None.
        y_level: what a row of `y` belongs to.
        edge_weight: a factor per message in the order of `edge_index` here, `[A]`, or None for 1.
        extra: all other fields of the user's, by name.
    """

    #: As bag files of all versions have them.
    stored_names: ClassVar[Mapping[str, str]] = {"num_directed_edges": "num_arcs", "undirected_edge": "arc_edge"}

    #: Left out of the fingerprint where they hold nothing, so that files written before they were added stay valid.
    optional: ClassVar[tuple[str, ...]] = ("edge_weight", "extra")

    num_nodes: Tensor
    num_edges: Tensor
    num_directed_edges: Tensor
    edges: Tensor
    edge_index: Tensor
    undirected_edge: Tensor
    column: Tensor
    x: Tensor | None = None
    edge_attr: Tensor | None = None
    y: Tensor | None = None
    y_level: Level = "graph"
    edge_weight: Tensor | None = None
    extra: ExtraFields = field(default_factory=ExtraFields)

    def __len__(self) -> int:
        return self.num_nodes.numel()

    def __getitem__(self, ids: Ids) -> "Graphs":
        """Some of the graphs: a number, a slice, a list of numbers, or one truth value per graph."""
        return self.take(graph_ids(ids, len(self), self.device, "graphs"))

    def __repr__(self) -> str:
        n, e = int(self.num_nodes.sum()), int(self.num_edges.sum())
        return f"Graphs({counted(len(self), 'graph')}, {counted(n, 'node')}, {counted(e, 'edge')})"

    def to(self, device: torch.device | str) -> Self:
        return replace(super().to(device), extra=self.extra.to(device))

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.extra.nbytes

    @property
    def device(self) -> torch.device:
        return self.num_nodes.device

    @cached
    def node_start(self) -> Tensor:
        return ragged.starts(self.num_nodes)

    @cached
    def edge_start(self) -> Tensor:
        return ragged.starts(self.num_edges)

    @cached
    def directed_edge_start(self) -> Tensor:
        return ragged.starts(self.num_directed_edges)

    @cached
    def node_graph(self) -> Tensor:
        """The graph of each node, `[N]` (PyG's `batch`)."""
        return ragged.segment_index(self.num_nodes)

    @cached
    def edge_graph(self) -> Tensor:
        """The graph of each undirected edge, `[E]`."""
        return ragged.segment_index(self.num_edges)

    @cached
    def degree(self) -> Tensor:
        """The in-degree of each node, `[N]`."""
        return torch.bincount(self.edge_index[1], minlength=self.node_graph.numel())

    @cached
    def first_in_edge(self) -> Tensor:
        """The first column of `edge_index` that ends at each node, `[N]`; its `degree` columns are consecutive."""
        return ragged.starts(self.degree)

    @cached
    def incidence(self) -> tuple[Tensor, Tensor]:
        """Every (node, edge at that node), sorted by node; a self-loop is at its node once."""
        return self.edge_index[1], self.undirected_edge

    @cached
    def directed_edges(self) -> Tensor:
        """The two directed edges of each undirected edge, `[2, E]`; both are the same for a self-loop."""
        by_edge = torch.argsort(self.undirected_edge, stable=True)
        last = torch.bincount(self.undirected_edge, minlength=self.edges.size(1)).cumsum(0) - 1
        first = torch.cat([last.new_zeros(1), last[:-1] + 1]) if last.numel() else last
        return torch.stack([by_edge[first], by_edge[last]])

    @cached
    def columns(self) -> Tensor:
        """The user's columns sorted by graph; within a graph they keep the user's order, `[A]`."""
        of_column = torch.empty_like(self.column)
        of_column[self.column] = ragged.segment_index(self.num_directed_edges)
        return torch.argsort(of_column, stable=True)

    @cached
    def column_position(self) -> Tensor:
        """The position of each directed edge among `columns`; equals `column` unless a batch mixed edges of graphs."""
        position = torch.empty_like(self.column)
        position[self.columns] = torch.arange(position.numel(), device=self.device)
        return position[self.column]

    def take(self, ids: Tensor) -> "Graphs":
        """The graphs `ids`, in that order, renumbered."""
        nodes, edges, columns = self.num_nodes[ids], self.num_edges[ids], self.num_directed_edges[ids]
        of_edges = ragged.Segments(self.edge_start[ids], edges)
        of_columns = ragged.Segments(self.directed_edge_start[ids], columns)
        by_node = ragged.starts(nodes) - self.node_start[ids]
        by_edge = ragged.starts(edges) - self.edge_start[ids]
        by_column = ragged.starts(columns) - self.directed_edge_start[ids]
        y = self.y
        if y is not None:
            y = y[ids] if self.y_level == "graph" else y[self._y_rows(ids, nodes, columns)]
        of_nodes = ragged.Segments(self.node_start[ids], nodes)
        return Graphs(
            num_nodes=nodes,
            num_edges=edges,
            num_directed_edges=columns,
            edges=of_edges.pick(self.edges, by_node),
            edge_index=of_columns.pick(self.edge_index, by_node),
            undirected_edge=of_columns.pick(self.undirected_edge, by_edge),
            column=of_columns.pick(self.column_position, by_column),
            x=None if self.x is None else of_nodes.pick_rows(self.x),
            edge_attr=None if self.edge_attr is None else of_columns.pick_rows(self.edge_attr),
            y=y,
            y_level=self.y_level,
            edge_weight=None if self.edge_weight is None else of_columns.pick_rows(self.edge_weight),
            extra=self.extra.take(ids),
        )

    def _y_rows(self, ids: Tensor, nodes: Tensor, columns: Tensor) -> Tensor:
        if self.y_level == "node":
            return ragged.ranges(self.node_start[ids], nodes)
        return self.columns[ragged.ranges(self.directed_edge_start[ids], columns)]
