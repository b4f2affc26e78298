"""Deletion policies: node-deleted (ND, k-ND) and edge-deleted (ED) subgraphs."""

from dataclasses import dataclass
from math import comb

import torch
from torch import Tensor

from esan.checks import shown, whole_number
from esan.graphs import Graphs
from esan.memory_limits import refuse_beyond_memory
from esan.ops import ragged
from esan.policies.policy import Policy
from esan.policies.selection import Selection

#: The largest k of k-ND: there are too many larger sets, unless the graph has hardly more nodes.
MOST_DELETED = 100
#: Counts of subsets are clamped to this: more are refused, and int64 ends there.
_CEILING = 2**62
#: Bytes at the peak of listing k-subsets, per node of one and per directed edge that one deletes: they are sorted.
_NODE_BYTES, _ENTRY_BYTES = 16, 60


@dataclass(frozen=True)
class NodeDeletion(Policy):
    r"""ND: one subgraph per node, without that node's edges; k-ND: one per set of k nodes, :math:`m = \binom{n}{k}`.

    The deleted nodes stay, isolated, so that all subgraphs keep the same nodes. A graph of fewer than k nodes has
    no such set; its bag is the graph itself.

    Args:
        k: how many nodes each subgraph loses.
    """

    k: int = 1

    def __post_init__(self) -> None:
        whole_number("k", self.k, 1, "NodeDeletion() deletes one node at a time.", MOST_DELETED)

    def _num_subgraphs(self, graphs: Graphs) -> Tensor:
        return _binomial(graphs.num_nodes, self.k).clamp(min=1)

    def select(self, graphs: Graphs) -> Selection:
        if self.k == 1:
            node, edge = graphs.incidence
            return Selection.deleting(graphs, graphs.num_nodes, subgraph=node, edge=edge)
        self._refuse_too_many(graphs)
        subsets = _subsets(int(graphs.num_nodes.max()), self.k, graphs.device)
        # In colexicographic order the k-subsets of the first n numbers come first, for every n at once.
        number = _binomial(graphs.num_nodes, self.k)
        subgraphs = number.clamp(min=1)
        which = ragged.ranges(torch.zeros_like(number), number)
        graph = ragged.segment_index(number)
        # With n < k the only subgraph is the graph itself: its number is skipped here.
        subgraph = ragged.starts(subgraphs)[graph] + which
        node = (subsets[which] + graphs.node_start[graph, None]).reshape(-1)
        subgraph = subgraph.repeat_interleave(self.k)
        degree = graphs.degree[node]
        edge = graphs.undirected_edge[ragged.ranges(graphs.first_in_edge[node], degree)]
        return Selection.deleting(graphs, subgraphs, subgraph.repeat_interleave(degree), edge)

    def _refuse_too_many(self, graphs: Graphs) -> None:
        """Each k-subset is listed with its nodes, and each directed edge with the subsets that contain its target."""
        sizes, which = graphs.num_nodes.unique(return_inverse=True)
        columns = torch.zeros_like(sizes).index_add_(0, which, graphs.num_directed_edges).tolist()
        count = torch.bincount(which).tolist()
        listed = subsets = 0
        for n, graphs_of_size, columns_of_size in zip(sizes.tolist(), count, columns, strict=True):
            subsets += graphs_of_size * comb(n, self.k)
            listed += columns_of_size * comb(n - 1, self.k - 1)
        what = f"{self.k}-node-deleted subgraphs, {shown(subsets)} of them,"
        remedy = "Take a smaller k, smaller graphs, or ND, which deletes one node at a time."
        needed = _NODE_BYTES * subsets * (self.k + 2) + _ENTRY_BYTES * listed
        refuse_beyond_memory(needed, what, remedy, graphs.device)


@dataclass(frozen=True)
class EdgeDeletion(Policy):
    """ED: one subgraph per undirected edge, without both directions of it; a graph without edges gives itself."""

    def _num_subgraphs(self, graphs: Graphs) -> Tensor:
        return graphs.num_edges.clamp(min=1)

    def select(self, graphs: Graphs) -> Selection:
        subgraphs = graphs.num_edges.clamp(min=1)
        edge = torch.arange(graphs.edges.size(1), device=graphs.device)
        shift = ragged.starts(subgraphs) - graphs.edge_start
        return Selection.deleting(graphs, subgraphs, edge + shift[graphs.edge_graph], edge)


def _binomial(n: Tensor, k: int) -> Tensor:
    """The binomial coefficients C(n, k), clamped to a ceiling."""
    sizes, which = n.unique(return_inverse=True)
    # Not by products of tensors: C(70, 35) overflows on the way to C(70, 69) = 70.
    return torch.tensor([min(comb(size, k), _CEILING) for size in sizes.tolist()], device=n.device)[which]


def _subsets(n: int, k: int, device: torch.device) -> Tensor:
    """All k-subsets of 0..n-1 in colexicographic order, one row each, `[C(n, k), k]`."""
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
