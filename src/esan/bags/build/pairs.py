"""Numbers for (node, subgraph) pairs and (subgraph, edge) entries, in the order graph, subgraph, node or edge."""

import torch
from torch import Tensor

from esan.graphs import Graphs
from esan.ops import ragged
from esan.policies import Selection


class Pairs:
    """The n·m pairs of each graph, numbered graph by graph and, in a graph, subgraph by subgraph.

    Args:
        graphs: whose nodes are meant.
        selection: whose subgraphs are meant.
    """

    def __init__(self, graphs: Graphs, selection: Selection) -> None:
        per_graph = graphs.num_nodes * selection.num_subgraphs
        graph = selection.subgraph_graph
        local = torch.arange(graph.numel(), device=graph.device) - selection.subgraph_start[graph]
        #: The number of the pair (first node of the graph, s), less that node's own number.
        self._shift = ragged.starts(per_graph)[graph] + local * graphs.num_nodes[graph] - graphs.node_start[graph]
        self._first = self._shift + graphs.node_start[graph]

    def number(self, node: Tensor, subgraph: Tensor) -> Tensor:
        return self._shift[subgraph] + node

    def split(self, pair: Tensor) -> tuple[Tensor, Tensor]:
        """The (node, subgraph) of each pair number."""
        subgraph = torch.searchsorted(self._first, pair, right=True) - 1
        return pair - self._shift[subgraph], subgraph


def entry_keys(graphs: Graphs, subgraph: Tensor, edge: Tensor) -> Tensor:
    """One number an entry (subgraph, edge); those of a selection's own entries are sorted."""
    return subgraph * max(graphs.edges.size(1), 1) + edge
