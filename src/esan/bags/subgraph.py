"""`Subgraph`: one subgraph of a selection, also as PyG data."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from esan.checks import shown, whole_number
from esan.graphs import Graphs
from esan.policies import Selection


@dataclass(frozen=True, eq=False)
class Subgraph:
    """The edges and marks of a subgraph, in the numbering of its own graph.

    Attributes:
        graph: the number of its graph.
        has_edge: whether it has each undirected edge of that graph.
        marked: whether each node is marked in it.
    """

    graph: int
    has_edge: Tensor
    marked: Tensor

    @staticmethod
    def of(graphs: Graphs, selection: Selection, i: int) -> "Subgraph":
        """Subgraph i, numbered through all graphs; negative numbers count from the end."""
        i = whole_number("a subgraph", i, -(2**63), "Number subgraphs from 0 through all graphs.")
        if not -selection.total <= i < selection.total:
            raise IndexError(
                f"Expected the number of a subgraph from {-selection.total} to {selection.total - 1} (got {shown(i)}). "
                "bag.num_subgraphs says how many there are."
            )
        i %= selection.total
        graph = int(selection.subgraph_graph[i])
        has_edge = torch.full((int(graphs.num_edges[graph]),), selection.keeps_edges, device=graphs.device)
        listed = selection.entry_edge[selection.entry_subgraph == i]
        has_edge[listed - graphs.edge_start[graph]] = not selection.keeps_edges
        marked = torch.zeros(int(graphs.num_nodes[graph]), dtype=torch.bool, device=graphs.device)
        marked[selection.mark_node[selection.mark_subgraph == i] - graphs.node_start[graph]] = True
        return Subgraph(graph, has_edge, marked)

    def data(self, graphs: Graphs, marks: bool) -> Data:
        """The subgraph as PyG data; with `marks`, the attribute `mark` says which nodes are marked."""
        one = graphs.take(torch.tensor([self.graph], device=graphs.device))
        columns = self.has_edge[one.undirected_edge]
        data = Data(x=one.x, edge_index=one.edge_index[:, columns], num_nodes=int(one.num_nodes), graph=self.graph)
        if one.edge_attr is not None:
            data.edge_attr = one.edge_attr[columns]
        if one.edge_weight is not None:
            data.edge_weight = one.edge_weight[columns]
        if marks:
            data.mark = self.marked
        return data
