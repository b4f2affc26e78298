"""`EdgeEnds`: the rows at both ends of pairs of nodes (edges, or pairs to be scored), and the pool over the bag."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from esan.ops import ragged
from esan.ops.segments import CSR


@dataclass(frozen=True, eq=False)
class Stored:
    """The stored (node, subgraph) pairs of a stage, whose rows are behind those of the background.

    Attributes:
        node: the node of each, `[P]`.
        subgraph: its subgraph, `[P]`.
        background: how many background rows there are; 0 in a literal bag.
        num_subgraphs: how many subgraphs the graph of each node has, `[N]`.
    """

    node: Tensor
    subgraph: Tensor
    background: int
    num_subgraphs: Tensor

    @cached_property
    def _by_node(self) -> tuple[Tensor, Tensor, Tensor]:
        """The pairs node by node, how many each node has, and where they begin."""
        counts = torch.bincount(self.node, minlength=self.num_subgraphs.numel())
        return torch.argsort(self.node, stable=True), counts, ragged.starts(counts)

    def of_nodes(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """The stored pairs of these nodes: the place of the node in the list, and the number of the pair."""
        order, counts, first = self._by_node
        return ragged.segment_index(counts[nodes]), order[ragged.ranges(first[nodes], counts[nodes])]


@dataclass(frozen=True, eq=False)
class EdgeEnds:
    """The (edge, subgraph) couples with an end that is stored; in all others both ends are background rows.

    Attributes:
        edges: the two nodes of each edge, or of each pair that is scored as one, `[2, E]`.
        num_subgraphs: how many subgraphs its graph has, `[E]`.
        rows: the rows at both ends of each couple, `[2, couples]`.
        edge: the edge of each couple, sorted.
        alike: how many subgraphs of each edge are not among the couples; None in a literal bag, where all are.
    """

    edges: Tensor
    num_subgraphs: Tensor
    rows: Tensor
    edge: Tensor
    alike: Tensor | None

    @staticmethod
    def of(edges: Tensor, stored: Stored, total: int) -> "EdgeEnds":
        """The ends of these pairs of nodes among the stored rows.

        Args:
            edges: the two nodes of each, `[2, E]`.
            stored: the stored pairs.
            total: how many subgraphs there are in the bag.
        """
        keys, pairs = [], []
        for end in edges:
            edge, pair = stored.of_nodes(end)
            known, order = torch.sort(edge * total + stored.subgraph[pair])
            keys.append(known)
            pairs.append(pair[order])
        key = torch.unique(torch.cat(keys))
        edge = key // total
        rows = []
        for end, known, pair in zip(edges, keys, pairs, strict=True):
            there, place = ragged.member(key, known)
            row, otherwise = pair + stored.background, end[edge]
            rows.append(torch.where(there, row[place], otherwise) if row.numel() else otherwise)
        counted = torch.bincount(edge, minlength=edges.size(1))
        num_subgraphs = stored.num_subgraphs[edges[0]]
        alike = num_subgraphs - counted if stored.background else None
        return EdgeEnds(edges, num_subgraphs, torch.stack(rows), edge, alike)

    def pool(self, h: Tensor) -> Tensor:
        r"""The mean over the bag of :math:`[h_u + h_v,\; h_u \odot h_v]`, a line an edge {u, v}, `[E, 2d]`."""
        total = CSR(self.edge, self.edges.size(1), is_sorted=True).sum(_joined(h, self.rows))
        if self.alike is not None:
            total = total + self.alike[:, None] * _joined(h, self.edges)
        return total / self.num_subgraphs[:, None]


def _joined(h: Tensor, ends: Tensor) -> Tensor:
    left, right = (h.index_select(0, end) for end in ends)
    return torch.cat([left + right, left * right], 1)
