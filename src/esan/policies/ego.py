"""Policies that keep a small part of the graph: ego-networks (EGO; EGO+ marks the root) and single edges (SE)."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from esan.checks import truth_value, whole_number
from esan.graphs import Graphs
from esan.memory_limits import SMALL, SampledSize, available_memory, refuse_beyond_memory
from esan.ops import ragged
from esan.ops.dispatch import implementation
from esan.plural import counted
from esan.policies.policy import Keep, Policy
from esan.policies.selection import Selection, count_subgraphs

#: The most hops: no graph that is processed subgraph by subgraph is as long.
MOST_HOPS = 1_000_000
#: The number of ego-networks whose edges are counted to estimate the edges of all.
_SAMPLE = 65
#: Bytes of an entry (root, edge), and its share of the peak where the reference finds it.
_ENTRY_BYTES, _REFERENCE_BYTES = 16, 150
_REMEDY = "Take fewer hops, a sample of them, as in esan.Sampled(policy, 0.1), smaller graphs or fewer at a time."


@dataclass(frozen=True)
class EgoNets(Policy):
    """EGO(k): one subgraph per node, with the edges among the nodes within k hops; EGO+(k): its root is marked.

    Args:
        hops: the depth k of the ego-networks; the paper uses 3 on ZINC, 4 on CSL and 2 elsewhere.
        marked: whether the root carries the identifying feature (EGO+).
    """

    hops: int
    marked: bool = False

    def __post_init__(self) -> None:
        whole_number("hops", self.hops, 1, "Pass e.g. EgoNets(2).", MOST_HOPS)
        truth_value("marked", self.marked, "Leave it out, or pass marked=True for EGO+.")

    def select(self, graphs: Graphs) -> Selection:
        return self._around(torch.arange(graphs.node_graph.numel(), device=graphs.device), graphs, graphs.num_nodes)

    def _num_subgraphs(self, graphs: Graphs) -> Tensor:
        return graphs.num_nodes

    def some(self, graphs: Graphs, keep: Keep, generator: torch.Generator | None = None) -> Selection:
        """Only the ego-networks that are kept are computed."""
        if type(self).select is not EgoNets.select:
            return super().some(graphs, keep, generator)  # a subclass that selects others
        roots = keep(graphs.num_nodes).nonzero().reshape(-1)
        return self._around(roots, graphs, count_subgraphs(graphs.node_graph[roots], len(graphs)))

    def _around(self, roots: Tensor, graphs: Graphs, counts: Tensor) -> Selection:
        """The ego-networks of some roots; `counts` has how many of each graph."""
        marks = (torch.arange(roots.numel(), device=roots.device), roots) if self.marked else None
        return Selection.keeping(graphs, counts, *self._edges(graphs, roots), marks)

    def _edges(self, graphs: Graphs, roots: Tensor) -> tuple[Tensor, Tensor]:
        """An edge is in the ego-network of every root that reaches both of its ends."""
        fast = implementation("indices", graphs.edge_index)
        self._refuse_too_many(graphs, roots, fast)
        if fast is None:
            return self._compute_edges(graphs, roots)
        # Counted before any is stored; the search is repeated, which takes no memory.
        edges = fast.ego_counts(graphs, roots, self.hops)
        count = int(edges.sum())
        what = f"{counted(roots.numel(), 'ego-network')} of {counted(count, 'edge')} together"
        refuse_beyond_memory(_ENTRY_BYTES * count, what, _REMEDY, graphs.device)
        return fast.ego_edges(graphs, roots, self.hops, count)

    def _refuse_too_many(self, graphs: Graphs, roots: Tensor, fast: Any) -> None:
        """An error if the ego-networks would not fit in memory, estimated by a few; compiled loops count them later."""
        each = _REFERENCE_BYTES if fast is None else _ENTRY_BYTES
        most = each * int((graphs.num_nodes.double() * graphs.num_edges).sum())
        if most <= SMALL or roots.numel() <= 2 * _SAMPLE or most <= (available := available_memory(graphs.device)):
            return
        sample = roots[:: roots.numel() // _SAMPLE]
        if fast is None:
            edges = torch.bincount(self._compute_edges(graphs, sample)[0], minlength=sample.numel())
        else:
            edges = fast.ego_counts(graphs, sample, self.hops)
        size = SampledSize.of(each * edges, roots.numel())
        if (size.about if fast is None else size.least) > available:
            mean = size.about // (each * roots.numel())
            what = f"{counted(roots.numel(), 'ego-network')} of about {counted(mean, 'edge')} each"
            refuse_beyond_memory(size.about, what, _REMEDY, graphs.device)

    def _compute_edges(self, graphs: Graphs, roots: Tensor) -> tuple[Tensor, Tensor]:
        """The entries as the reference finds them."""
        reached = _balls(graphs, roots, self.hops)
        n = graphs.node_graph.numel()
        ball, node = reached // max(n, 1), reached % max(n, 1)
        degree = graphs.degree[node]
        edge = ragged.ranges(graphs.first_in_edge[node], degree)
        source, ball = graphs.edge_index[0, edge], ball.repeat_interleave(degree)
        # Each undirected edge is found from both ends; the direction towards the smaller node is kept.
        once = source >= graphs.edge_index[1, edge]
        edge, source, ball = edge[once], source[once], ball[once]
        inside, _ = ragged.member(ball * n + source, reached)
        return ball[inside], graphs.undirected_edge[edge[inside]]


@dataclass(frozen=True)
class SingleEdges(Policy):
    """SE: one subgraph per undirected edge, with that edge only; a graph without edges gives itself."""

    def _num_subgraphs(self, graphs: Graphs) -> Tensor:
        return graphs.num_edges.clamp(min=1)

    def select(self, graphs: Graphs) -> Selection:
        subgraphs = graphs.num_edges.clamp(min=1)
        edge = torch.arange(graphs.edges.size(1), device=graphs.device)
        shift = ragged.starts(subgraphs) - graphs.edge_start
        return Selection.keeping(graphs, subgraphs, edge + shift[graphs.edge_graph], edge)


def _balls(graphs: Graphs, roots: Tensor, hops: int) -> Tensor:
    """All (number of a root, node within `hops` of it) as sorted keys number * N + node: breadth-first search."""
    n = graphs.node_graph.numel()
    reached = frontier = torch.arange(roots.numel(), device=roots.device) * n + roots
    for _ in range(hops):
        ball, node = frontier // n, frontier % n
        degree = graphs.degree[node]
        edge = ragged.ranges(graphs.first_in_edge[node], degree)
        candidates = torch.unique(ball.repeat_interleave(degree) * n + graphs.edge_index[0, edge])
        known, _ = ragged.member(candidates, reached)
        frontier = candidates[~known]
        if not frontier.numel():
            break
        reached = torch.cat([reached, frontier]).sort().values
    return reached
