"""Policies that delete a little: node-deleted (ND, k-ND) and edge-deleted (ED) subgraphs."""

from dataclasses import dataclass

import torch
from torch import Tensor

from esan.checks import whole_number
from esan.graphs import Graphs
from esan.ops import ragged
from esan.policies.policy import Policy
from esan.policies.selection import Selection


@dataclass(frozen=True)
class NodeDeletion(Policy):
    r"""ND: one subgraph a node, without that node's edges; k-ND: one a set of k nodes, :math:`m = \binom{n}{k}`.

    The deleted nodes stay, isolated, so that all subgraphs keep the same nodes. A graph of fewer than k nodes has
    no such set; its bag is the graph itself.

    Args:
        k: how many nodes each subgraph loses.
    """

    k: int = 1

    def __post_init__(self) -> None:
        whole_number("k", self.k, 1, "NodeDeletion() deletes one node at a time.")

    def select(self, graphs: Graphs) -> Selection:
        if self.k == 1:
            node, edge = graphs.incidence
            return Selection.deleting(graphs, graphs.num_nodes, subgraph=node, edge=edge)
        subsets = _subsets(int(graphs.num_nodes.max()), self.k, graphs.device)
        # In colexicographic order the k-subsets of the first n numbers come first, for every n at once.
        number = _binomial(graphs.num_nodes, self.k)
        subgraphs = number.clamp(min=1)
        which = ragged.ranges(torch.zeros_like(number), number)
        graph = ragged.owner(number)
        # With n < k the one subgraph of the bag is the graph: its number is passed over here.
        subgraph = ragged.starts(subgraphs)[graph] + which
        node = (subsets[which] + graphs.node_start[graph, None]).reshape(-1)
        subgraph = subgraph.repeat_interleave(self.k)
        degree = graphs.degree[node]
        arc = ragged.ranges(graphs.first_arc[node], degree)
        return Selection.deleting(graphs, subgraphs, subgraph.repeat_interleave(degree), graphs.arc_edge[arc])


@dataclass(frozen=True)
class EdgeDeletion(Policy):
    """ED: one subgraph an undirected edge, without both directions of it; a graph without edges gives itself."""

    def select(self, graphs: Graphs) -> Selection:
        subgraphs = graphs.num_edges.clamp(min=1)
        edge = torch.arange(graphs.edges.size(1), device=graphs.device)
        shift = ragged.starts(subgraphs) - graphs.edge_start
        return Selection.deleting(graphs, subgraphs, edge + shift[graphs.edge_graph], edge)


def _binomial(n: Tensor, k: int) -> Tensor:
    result = torch.ones_like(n)
    for i in range(k):
        result = result * (n - i).clamp(min=0) // (i + 1)
    return result


def _subsets(n: int, k: int, device: torch.device) -> Tensor:
    """All k-subsets of 0..n-1 in colexicographic order, a line each, `[C(n, k), k]`."""
    numbers = torch.arange(n + 1, device=device)
    rank = torch.arange(int(_binomial(numbers[-1], k)), device=device)
    chosen = []
    for size in range(k, 0, -1):
        # The largest member c is the greatest number with C(c, size) <= rank.
        table = _binomial(numbers, size)
        member = torch.searchsorted(table, rank, right=True) - 1
        rank = rank - table[member]
        chosen.append(member)
    return torch.stack(chosen, 1)
