"""Policies that keep a little: ego-networks (EGO, EGO+) and single edges (SE)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from esan import ragged
from esan.checks import whole_number
from esan.graphs import Graphs
from esan.kernels import cpu_rows
from esan.policies.policy import Policy
from esan.policies.selection import Selection


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
        whole_number("hops", self.hops, 1, "A network of 0 hops has no edges; use 1 or more.")

    def select(self, graphs: Graphs) -> Selection:
        subgraph, edge = self._kept_edges(graphs)
        nodes = torch.arange(graphs.node_graph.numel(), device=graphs.device)
        marks = (nodes, nodes) if self.marked else None
        return Selection.keeping(graphs, graphs.num_nodes, subgraph, edge, marks)

    def _kept_edges(self, graphs: Graphs) -> tuple[Tensor, Tensor]:
        """An edge is in the ego-network of every root that reaches both of its ends."""
        if cpu_rows.fits(graphs):
            return cpu_rows.ego_edges(graphs, self.hops)
        reached = _balls(graphs, self.hops)
        n = graphs.node_graph.numel()
        root, node = reached // max(n, 1), reached % max(n, 1)
        degree = graphs.degree[node]
        arc = ragged.ranges(graphs.first_arc[node], degree)
        source, root = graphs.edge_index[0, arc], root.repeat_interleave(degree)
        # Each edge is met from both of its ends; the arc towards the smaller one stands for it.
        once = source >= graphs.edge_index[1, arc]
        arc, source, root = arc[once], source[once], root[once]
        inside, _ = ragged.member(root * n + source, reached)
        return root[inside], graphs.arc_edge[arc[inside]]


@dataclass(frozen=True)
class SingleEdges(Policy):
    """SE: one subgraph an undirected edge, which holds only that edge; a graph without edges gives itself."""

    def select(self, graphs: Graphs) -> Selection:
        subgraphs = graphs.num_edges.clamp(min=1)
        edge = torch.arange(graphs.edges.size(1), device=graphs.device)
        shift = ragged.starts(subgraphs) - graphs.edge_start
        return Selection.keeping(graphs, subgraphs, edge + shift[graphs.edge_graph], edge)


def _balls(graphs: Graphs, hops: int) -> Tensor:
    """All (root, node within `hops` of it) as sorted keys root * N + node: one breadth-first search from every root."""
    n = graphs.node_graph.numel()
    nodes = torch.arange(n, device=graphs.device)
    reached = frontier = nodes * n + nodes
    for _ in range(hops):
        root, node = frontier // n, frontier % n
        degree = graphs.degree[node]
        arc = ragged.ranges(graphs.first_arc[node], degree)
        candidates = torch.unique(root.repeat_interleave(degree) * n + graphs.edge_index[0, arc])
        known, _ = ragged.member(candidates, reached)
        frontier = candidates[~known]
        if not frontier.numel():
            break
        reached = torch.cat([reached, frontier]).sort().values
    return reached
