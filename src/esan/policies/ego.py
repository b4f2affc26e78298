"""Policies that keep a little: ego-networks (EGO, EGO+) and single edges (SE)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from esan.checks import truth_value, whole_number
from esan.counted import counted
from esan.graphs import Graphs
from esan.limits import SMALL, available_memory, refuse_beyond_memory
from esan.ops import ragged
from esan.ops.dispatch import implementation
from esan.policies.policy import Keep, Policy
from esan.policies.selection import Selection, left_of_each

#: Most hops: no graph that is looked at subgraph by subgraph is as long.
MOST_HOPS = 1_000_000
#: Ego-networks that are looked at to tell how many edges all of them have.
_LOOKED_AT = 33


@dataclass(frozen=True)
class EgoNets(Policy):
    """EGO(k): one subgraph a node, the edges among the nodes within k hops of it; EGO+(k): the root is marked too.

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

    def some(self, graphs: Graphs, keep: Keep, generator: torch.Generator | None = None) -> Selection:
        """Only the ego-networks that are kept are looked for."""
        if type(self).select is not EgoNets.select:
            return super().some(graphs, keep, generator)  # a policy made from this one, which selects others
        roots = keep(graphs.num_nodes).nonzero().reshape(-1)
        return self._around(roots, graphs, left_of_each(graphs.node_graph[roots], len(graphs)))

    def _around(self, roots: Tensor, graphs: Graphs, counts: Tensor) -> Selection:
        """The ego-networks of some roots, so many of each graph."""
        marks = (torch.arange(roots.numel(), device=roots.device), roots) if self.marked else None
        return Selection.keeping(graphs, counts, *self._kept_edges(graphs, roots), marks)

    def _kept_edges(self, graphs: Graphs, roots: Tensor) -> tuple[Tensor, Tensor]:
        """An edge is in the ego-network of every root that reaches both of its ends."""
        self._refuse_too_many(graphs, roots)
        return self._found_edges(graphs, roots)

    def _refuse_too_many(self, graphs: Graphs, roots: Tensor) -> None:
        """An error where half of the ego-networks alone would have more edges than fit: their median times half."""
        most = 16 * int((graphs.num_nodes.double() * graphs.num_edges).sum())
        if most <= SMALL or roots.numel() <= 2 * _LOOKED_AT or most <= available_memory(graphs.device):
            return
        looked_at = roots[:: roots.numel() // _LOOKED_AT]
        ball, _ = self._found_edges(graphs, looked_at)
        median = int(torch.bincount(ball, minlength=looked_at.numel()).median())
        what = f"{counted(roots.numel(), 'ego-network')} of about {counted(median, 'edge')} each"
        needed = 16 * median * (roots.numel() // 2)
        refuse_beyond_memory(needed, what, "Take fewer hops, smaller graphs or a sample.", graphs.device)

    def _found_edges(self, graphs: Graphs, roots: Tensor) -> tuple[Tensor, Tensor]:
        fast = implementation("indices", graphs.edge_index)
        if fast is not None:
            return fast.ego_edges(graphs, roots, self.hops)
        reached = _balls(graphs, roots, self.hops)
        n = graphs.node_graph.numel()
        ball, node = reached // max(n, 1), reached % max(n, 1)
        degree = graphs.degree[node]
        arc = ragged.ranges(graphs.first_in_edge[node], degree)
        source, ball = graphs.edge_index[0, arc], ball.repeat_interleave(degree)
        # Each edge is met from both of its ends; the arc towards the smaller one stands for it.
        once = source >= graphs.edge_index[1, arc]
        arc, source, ball = arc[once], source[once], ball[once]
        inside, _ = ragged.member(ball * n + source, reached)
        return ball[inside], graphs.undirected_edge[arc[inside]]


@dataclass(frozen=True)
class SingleEdges(Policy):
    """SE: one subgraph an undirected edge, which holds only that edge; a graph without edges gives itself."""

    def select(self, graphs: Graphs) -> Selection:
        subgraphs = graphs.num_edges.clamp(min=1)
        edge = torch.arange(graphs.edges.size(1), device=graphs.device)
        shift = ragged.starts(subgraphs) - graphs.edge_start
        return Selection.keeping(graphs, subgraphs, edge + shift[graphs.edge_graph], edge)


def _balls(graphs: Graphs, roots: Tensor, hops: int) -> Tensor:
    """All (number of a root, node within `hops` of it) as sorted keys number * N + node: a search from every root."""
    n = graphs.node_graph.numel()
    reached = frontier = torch.arange(roots.numel(), device=roots.device) * n + roots
    for _ in range(hops):
        ball, node = frontier // n, frontier % n
        degree = graphs.degree[node]
        arc = ragged.ranges(graphs.first_in_edge[node], degree)
        candidates = torch.unique(ball.repeat_interleave(degree) * n + graphs.edge_index[0, arc])
        known, _ = ragged.member(candidates, reached)
        frontier = candidates[~known]
        if not frontier.numel():
            break
        reached = torch.cat([reached, frontier]).sort().values
    return reached
