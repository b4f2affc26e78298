"""`SharedArcs`: the adjacency of a whole bag, along which its subgraphs share what they know."""

import torch
from torch import Tensor

from esan.bags.build.literal import literal_copies
from esan.checks import check_known
from esan.graphs import Graphs
from esan.ops.caching import kept_tensors
from esan.ops.edges import Arcs
from esan.ops.segments import Grouping
from esan.policies import Selection

#: How the adjacency matrices are pooled over the bag.
ADJACENCIES = ("max", "sum", "original")


def edges_of(graphs: Graphs) -> Arcs:
    """The edges of the graphs themselves, between nodes."""
    every = torch.arange(graphs.edge_index.size(1), device=graphs.device)
    copies = Grouping(every, every.numel(), ordered=True)
    return Arcs(graphs.edge_index, copies, graphs.node_graph.numel(), graphs.edge_weight)


class SharedArcs:
    r"""The arcs of :math:`\operatorname{agg}_j A_j`, computed once each.

    "max": the arcs that some subgraph holds; "sum": the same, weighted by how many hold them; "original": all arcs of
    the graph, which is "max" for every policy that covers the edges.

    Args:
        graphs: the graphs of the bag.
        selection: its selection.
        literal: whether the bag has a row for every pair.
    """

    def __init__(self, graphs: Graphs, selection: Selection, literal: bool) -> None:
        self._graphs, self._selection, self._literal = graphs, selection, literal
        self._nodes: dict[str, Arcs] = {}
        self._rows: dict[str, Arcs] = {}

    def between_nodes(self, adjacency: str) -> Arcs:
        check_known("adjacency", adjacency, ADJACENCIES)
        if adjacency not in self._nodes:
            with kept_tensors():
                arcs = edges_of(self._graphs)
                self._nodes[adjacency] = arcs if adjacency == "original" else self._held(arcs, adjacency == "sum")
        return self._nodes[adjacency]

    def between_rows(self, adjacency: str) -> Arcs:
        """The same arcs in every subgraph, between the rows of a literal bag."""
        if not self._literal:
            raise ValueError("Expected a literal bag (got a compact one). Call bag.to_literal() first.")
        if adjacency not in self._rows:
            with kept_tensors():
                self._rows[adjacency] = literal_copies(self._graphs, self._selection, self.between_nodes(adjacency))
        return self._rows[adjacency]

    def _held(self, arcs: Arcs, counted: bool) -> Arcs:
        holders: Tensor = self._selection.holders(self._graphs)[self._graphs.arc_edge]
        held = holders.nonzero().squeeze(1)
        copies = Grouping(held, arcs.copies.size, ordered=True)
        weight = None if arcs.weight is None else arcs.weight[held]
        if counted:
            weight = holders[held] if weight is None else holders[held] * weight
        return Arcs(arcs.edge_index[:, held], copies, arcs.num_rows, weight)
