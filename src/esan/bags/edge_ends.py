"""`EdgeEnds`: the rows at both ends of every edge of every subgraph, and the pool over them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from esan.graphs import Graphs
from esan.ops import ragged
from esan.ops.segments import Grouping
from esan.policies import Selection


@dataclass(frozen=True, eq=False)
class EdgeEnds:
    """The (edge, subgraph) couples with an end that is stored; in all others both ends are background rows.

    Attributes:
        graphs: the graphs of the bag.
        selection: its selection.
        rows: the rows at both ends of each couple, `[2, couples]`.
        edge: the edge of each couple, sorted.
        alike: how many subgraphs of each edge are not among the couples; None in a literal bag, where all are.
    """

    graphs: Graphs
    selection: Selection
    rows: Tensor
    edge: Tensor
    alike: Tensor | None

    @staticmethod
    def of(graphs: Graphs, selection: Selection, node: Tensor, subgraph: Tensor, background: int) -> "EdgeEnds":
        """The ends among the stored pairs (node, subgraph), whose rows are behind those of the background."""
        n, m = graphs.node_graph.numel(), selection.total
        degree = graphs.degree[node]
        arc = ragged.ranges(graphs.first_arc[node], degree)
        key = torch.unique(graphs.arc_edge[arc] * m + subgraph.repeat_interleave(degree))
        edge, holder = key // m, key % m
        stored, row = torch.sort(subgraph * n + node)
        rows = []
        for end in graphs.edges[:, edge]:
            there, place = ragged.member(holder * n + end, stored)
            rows.append(torch.where(there, row[place] + background, end) if stored.numel() else end)
        found = torch.bincount(edge, minlength=graphs.edges.size(1))
        alike = selection.num_subgraphs[graphs.edge_graph] - found if background else None
        return EdgeEnds(graphs, selection, torch.stack(rows), edge, alike)

    def pool(self, h: Tensor) -> Tensor:
        r"""The mean over the bag of :math:`[h_u + h_v,\; h_u \odot h_v]`, a line an edge {u, v}, `[E, 2d]`."""
        edges, m = self.graphs.edges, self.selection.num_subgraphs[self.graphs.edge_graph, None]
        total = Grouping(self.edge, edges.size(1), ordered=True).sum(_joined(h, self.rows))
        return (total if self.alike is None else total + self.alike[:, None] * _joined(h, edges)) / m


def _joined(h: Tensor, ends: Tensor) -> Tensor:
    left, right = (h.index_select(0, end) for end in ends)
    return torch.cat([left + right, left * right], 1)
