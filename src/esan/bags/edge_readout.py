"""`EdgeReadout`: the rows of the ends of each edge or node pair, and means over the subgraphs."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from esan.ops import ragged
from esan.ops.segments import CSR


@dataclass(frozen=True, eq=False)
class PairLookup:
    """The stored (node, subgraph) pairs of a layer view; their rows come after the background rows.

    Attributes:
        node: the node of each pair, `[P]`.
        subgraph: its subgraph, `[P]`.
        background: the number of background rows; 0 in a literal bag.
        num_subgraphs: the number of subgraphs of each node, `[N]`.
    """

    node: Tensor
    subgraph: Tensor
    background: int
    num_subgraphs: Tensor

    @cached_property
    def _by_node(self) -> tuple[Tensor, Tensor, Tensor]:
        """The pairs sorted by node, how many each node has, and where they begin."""
        counts = torch.bincount(self.node, minlength=self.num_subgraphs.numel())
        return torch.argsort(self.node, stable=True), counts, ragged.starts(counts)

    def of_nodes(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """The stored pairs of these nodes: the position of the node in the list, and the number of the pair."""
        order, counts, first = self._by_node
        return ragged.segment_index(counts[nodes]), order[ragged.ranges(first[nodes], counts[nodes])]


@dataclass(frozen=True, eq=False)
class EdgeReadout:
    """The (edge, subgraph) entries with a stored row at one end or both; all others have two background rows.

    Attributes:
        edges: the two nodes of each edge, `[2, E]`.
        num_subgraphs: the number of subgraphs of each edge, `[E]`.
        rows: the rows at both ends of each entry, `[2, K]`.
        edge: the edge of each entry, sorted, `[K]`.
        num_background: how many subgraphs of each edge have no entry, `[E]`; None in a literal bag, where all have one.
    """

    edges: Tensor
    num_subgraphs: Tensor
    rows: Tensor
    edge: Tensor
    num_background: Tensor | None

    @staticmethod
    def of(edges: Tensor, stored: PairLookup, total: int) -> "EdgeReadout":
        """The entries of these node pairs.

        Args:
            edges: the two nodes of each, `[2, E]`.
            stored: the stored pairs.
            total: the number of subgraphs of the bag.
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
            is_stored, position = ragged.member(key, known)
            row, background = pair + stored.background, end[edge]
            rows.append(torch.where(is_stored, row[position], background) if row.numel() else background)
        num_entries = torch.bincount(edge, minlength=edges.size(1))
        num_subgraphs = stored.num_subgraphs[edges[0]]
        num_background = num_subgraphs - num_entries if stored.background else None
        return EdgeReadout(edges, num_subgraphs, torch.stack(rows), edge, num_background)

    def pool(self, h: Tensor) -> Tensor:
        r"""The mean over the bag of :math:`[h_u + h_v,\; h_u \odot h_v]`, one row per edge {u, v}, `[E, 2d]`."""
        total = CSR(self.edge, self.edges.size(1), is_sorted=True).sum(_edge_features(h, self.rows))
        if self.num_background is not None:
            total = total + self.num_background[:, None] * _edge_features(h, self.edges)
        return total / self.num_subgraphs[:, None]


def _edge_features(h: Tensor, ends: Tensor) -> Tensor:
    left, right = (h.index_select(0, end) for end in ends)
    return torch.cat([left + right, left * right], 1)
