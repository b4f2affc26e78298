"""`Graphs`: any number of undirected graphs as one disjoint union, which all of esan works on."""

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

import torch
from torch import Tensor

from esan.counted import counted
from esan.graphs.extra import Extra
from esan.graphs.ids import Ids, graph_ids
from esan.ops import ragged
from esan.ops.caching import cached
from esan.record import TensorRecord

Level = Literal["graph", "node", "edge"]


@dataclass(frozen=True, eq=False, repr=False)
class Graphs(TensorRecord):
    r"""Undirected graphs :math:`G = (A, X)`, any number of them, laid end to end.

    Nodes, edges and arcs are numbered through the whole collection, graph after graph. An *edge* is undirected
    and listed once; an *arc* is one direction of it, as a column of PyG's `edge_index` (a self-loop has one arc,
    any other edge two). Counts are stored, never inferred.

    Attributes:
        num_nodes: nodes of each graph, `[G]`.
        num_edges: undirected edges of each graph, `[G]`.
        num_arcs: arcs of each graph, `[G]`.
        edges: both ends of each edge, the smaller first, sorted, `[2, E]`.
        edge_index: source and target of each arc, sorted by target, then source, `[2, A]`.
        arc_edge: the edge of each arc, `[A]`.
        column: the place of each arc among the columns that the user gave, `[A]`.
        x: node features, `[N, ...]`, or None.
        edge_attr: arc features in the order of `edge_index` here, `[A, ...]`, or None.
        y: targets, a line a graph, node or arc (arcs in the user's order), or None.
        y_level: what a line of `y` belongs to.
        edge_weight: a factor per message in the order of `edge_index` here, `[A]`, or None for 1.
        extra: all other fields of the user's, by name.
    """

    #: Left out of the fingerprint where they hold nothing, so that files written before they were added stay valid.
    optional: ClassVar[tuple[str, ...]] = ("edge_weight", "extra")

    num_nodes: Tensor
    num_edges: Tensor
    num_arcs: Tensor
    edges: Tensor
    edge_index: Tensor
    arc_edge: Tensor
    column: Tensor
    x: Tensor | None = None
    edge_attr: Tensor | None = None
    y: Tensor | None = None
    y_level: Level = "graph"
    edge_weight: Tensor | None = None
    extra: Extra = field(default_factory=Extra)

    def __len__(self) -> int:
        return self.num_nodes.numel()

    def __getitem__(self, ids: Ids) -> "Graphs":
        """Some of the graphs: a number, a slice, a list of numbers, or a truth value a graph."""
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
    def arc_start(self) -> Tensor:
        return ragged.starts(self.num_arcs)

    @cached
    def node_graph(self) -> Tensor:
        """The graph of each node, `[N]` (PyG's `batch`)."""
        return ragged.owner(self.num_nodes)

    @cached
    def edge_graph(self) -> Tensor:
        """The graph of each edge, `[E]`."""
        return ragged.owner(self.num_edges)

    @cached
    def degree(self) -> Tensor:
        """How many arcs end at each node, `[N]`."""
        return torch.bincount(self.edge_index[1], minlength=self.node_graph.numel())

    @cached
    def first_arc(self) -> Tensor:
        """The first arc that ends at each node; its `degree` arcs follow one another, `[N]`."""
        return ragged.starts(self.degree)

    @cached
    def incidence(self) -> tuple[Tensor, Tensor]:
        """Every (node, edge at that node), sorted by node; a self-loop is at its node once."""
        return self.edge_index[1], self.arc_edge

    @cached
    def edge_arcs(self) -> Tensor:
        """The two arcs of each edge, `[2, E]`; both are the same for a self-loop."""
        by_edge = torch.argsort(self.arc_edge, stable=True)
        last = torch.bincount(self.arc_edge, minlength=self.edges.size(1)).cumsum(0) - 1
        first = torch.cat([last.new_zeros(1), last[:-1] + 1]) if last.numel() else last
        return torch.stack([by_edge[first], by_edge[last]])

    @cached
    def columns(self) -> Tensor:
        """The user's columns graph after graph, each graph's in the order they were given in, `[A]`."""
        of_column = torch.empty_like(self.column)
        of_column[self.column] = ragged.owner(self.num_arcs)
        return torch.argsort(of_column, stable=True)

    @cached
    def column_place(self) -> Tensor:
        """The place of each arc among `columns`; `column` itself unless a batch mixed the arcs of its graphs."""
        place = torch.empty_like(self.column)
        place[self.columns] = torch.arange(place.numel(), device=self.device)
        return place[self.column]

    def take(self, ids: Tensor) -> "Graphs":
        """The graphs `ids`, in that order, renumbered."""
        nodes, edges, arcs = self.num_nodes[ids], self.num_edges[ids], self.num_arcs[ids]
        of_edges = ragged.Segments(self.edge_start[ids], edges)
        of_arcs = ragged.Segments(self.arc_start[ids], arcs)
        by_node = ragged.starts(nodes) - self.node_start[ids]
        by_edge = ragged.starts(edges) - self.edge_start[ids]
        by_arc = ragged.starts(arcs) - self.arc_start[ids]
        y = self.y
        if y is not None:
            y = y[ids] if self.y_level == "graph" else y[self._lines(ids, nodes, arcs)]
        of_nodes = ragged.Segments(self.node_start[ids], nodes)
        return Graphs(
            num_nodes=nodes,
            num_edges=edges,
            num_arcs=arcs,
            edges=of_edges.pick(self.edges, by_node),
            edge_index=of_arcs.pick(self.edge_index, by_node),
            arc_edge=of_arcs.pick(self.arc_edge, by_edge),
            column=of_arcs.pick(self.column_place, by_arc),
            x=None if self.x is None else of_nodes.pick_lines(self.x),
            edge_attr=None if self.edge_attr is None else of_arcs.pick_lines(self.edge_attr),
            y=y,
            y_level=self.y_level,
            edge_weight=None if self.edge_weight is None else of_arcs.pick_lines(self.edge_weight),
            extra=self.extra.take(ids),
        )

    def _lines(self, ids: Tensor, nodes: Tensor, arcs: Tensor) -> Tensor:
        if self.y_level == "node":
            return ragged.ranges(self.node_start[ids], nodes)
        return self.columns[ragged.ranges(self.arc_start[ids], arcs)]
