"""`SharedEdges`: the edges of the pooled adjacency matrix, along which the subgraphs of a DSS-GNN share information."""

import torch
from torch import Tensor

from esan.bags.build.literal import literal_copies
from esan.checks import check_known
from esan.graphs import Graphs
from esan.ops.caching import plain_tensors
from esan.ops.edges import Edges
from esan.ops.segments import CSR
from esan.policies import Selection

#: How the adjacency matrices are pooled over the bag.
ADJACENCIES = ("max", "sum", "original")


def edges_of(graphs: Graphs) -> Edges:
    """The edges of the graphs themselves, between nodes."""
    every = torch.arange(graphs.edge_index.size(1), device=graphs.device)
    copies = CSR(every, every.numel(), is_sorted=True)
    return Edges(graphs.edge_index, copies, graphs.node_graph.numel(), graphs.edge_weight)


class SharedEdges:
    r"""The edges of :math:`\operatorname{agg}_j A_j`, computed once per kind of pooling.

    "max": the edges that some subgraph has; "sum": the same, weighted by how many subgraphs have them; "original": all
    edges of the graph, which equals "max" for every policy that covers the edges.

    Args:
        graphs: the graphs of the bag.
        selection: its selection.
        literal: whether the bag has one row per pair.
    """

    def __init__(self, graphs: Graphs, selection: Selection, literal: bool) -> None:
        self._graphs, self._selection, self._literal = graphs, selection, literal
        self._nodes: dict[str, Edges] = {}
        self._rows: dict[str, Edges] = {}

    def between_nodes(self, adjacency: str) -> Edges:
        """The edges between the nodes of the graphs."""
        check_known("adjacency", adjacency, ADJACENCIES)
        if adjacency not in self._nodes:
            with plain_tensors():
                edges = edges_of(self._graphs)
                self._nodes[adjacency] = edges if adjacency == "original" else self._held(edges, adjacency == "sum")
        return self._nodes[adjacency]

    def between_rows(self, adjacency: str) -> Edges:
        """The same edges in every subgraph, between the rows of a literal bag."""
        if not self._literal:
            raise ValueError("Expected a literal bag (got a compact one). Call bag.to_literal() first.")
        if adjacency not in self._rows:
            with plain_tensors():
                self._rows[adjacency] = literal_copies(self._graphs, self._selection, self.between_nodes(adjacency))
        return self._rows[adjacency]

    def _held(self, edges: Edges, weighted: bool) -> Edges:
        """The edges that at least one subgraph has; with the number of subgraphs as weight if `weighted`."""
        holders: Tensor = self._selection.subgraphs_per_edge(self._graphs)[self._graphs.undirected_edge]
        held = holders.nonzero().squeeze(1)
        copies = CSR(held, edges.by_edge_id.size, is_sorted=True)
        weight = None if edges.weight is None else edges.weight[held]
        if weighted:
            weight = holders[held] if weight is None else holders[held] * weight
        return Edges(edges.edge_index[:, held], copies, edges.num_rows, weight)
