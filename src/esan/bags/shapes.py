"""`Shape`: how much room a padded batch has; `Counts`: what the graphs of a bag need."""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from esan.bags.bag import Bag

#: Whole numbers up to this are exact in single precision.
_WHOLE = 2**24


@dataclass(frozen=True)
class Shape:
    """How much room a batch has; at least one node, subgraph, row and arc of each kind is the filler's.

    Attributes:
        graphs: graphs, without the filler.
        nodes: nodes.
        arcs: arcs of the graphs.
        subgraphs: subgraphs.
        rows: rows of each slot.
        row_arcs: arcs between rows, of each slot that they end in.
    """

    graphs: int
    nodes: int
    arcs: int
    subgraphs: int
    rows: tuple[int, ...]
    row_arcs: tuple[int, ...]

    def holds(self, other: "Shape") -> bool:
        """Whether batches of the other shape fit in."""
        pairs = zip(self._numbers, other._numbers, strict=True)
        return all(mine >= theirs for mine, theirs in pairs)

    def joined(self, other: "Shape") -> "Shape":
        """Room for both."""
        rows, row_arcs = (
            tuple(map(max, mine, theirs)) for mine, theirs in ((self.rows, other.rows), (self.row_arcs, other.row_arcs))
        )
        return Shape(
            self.graphs,
            max(self.nodes, other.nodes),
            max(self.arcs, other.arcs),
            max(self.subgraphs, other.subgraphs),
            rows,
            row_arcs,
        )

    def grown(self, factor: float) -> "Shape":
        """The same with more room."""

        def more(n: int) -> int:
            return n if n == 0 else 8 * (int(n * factor) // 8 + 1)

        rows, row_arcs = [more(n) for n in self.rows], tuple(more(n) for n in self.row_arcs)
        nodes = more(self.nodes)
        if rows[0]:
            rows[0] = nodes  # background rows are the nodes
        return Shape(self.graphs, nodes, more(self.arcs), more(self.subgraphs), tuple(rows), row_arcs)

    @property
    def _numbers(self) -> tuple[int, ...]:
        return (self.graphs, self.nodes, self.arcs, self.subgraphs, *self.rows, *self.row_arcs)


class Counts:
    """The counts of every graph of a bag, on the host: what a batch needs is known without asking the device."""

    def __init__(self, bag: Bag) -> None:
        graphs, selection, rows = bag.graphs, bag.selection, bag.rows
        parts = [graphs.num_nodes[None], graphs.num_arcs[None], selection.num_subgraphs[None]]
        table = torch.cat([*parts, rows.num_rows, rows.num_arcs]).cpu()
        self._slots, self._used = rows.num_rows.size(0), table.any(1)
        # A line a graph, of what any needs, and zeros for none. In fractions, which torch adds up line by line: an
        # epoch's lines side by side would be some ten megabytes, and memory that is new each time costs more than sums.
        self._lines = F.pad(table[self._used].T, (0, 0, 0, 1)).double()
        self._largest = int(table.max())

    def shape(self, ids: np.ndarray) -> Shape:
        """The room that the largest of these batches needs, the filler included; ids `[K, B]`, −1 for no graph."""
        graphs = torch.from_numpy(ids)
        graphs = torch.where(graphs < 0, len(self._lines) - 1, graphs)
        exact = self._largest * ids.shape[1] <= _WHOLE
        sums = F.embedding_bag(graphs, self._lines.float() if exact else self._lines, mode="sum")
        most = torch.zeros(len(self._used), dtype=torch.int64)
        most[self._used] = sums.amax(0).long() + 1
        nodes, arcs, subgraphs = (max(n, 1) for n in most[:3].tolist())
        rows, row_arcs = most[3:].view(2, self._slots).tolist()
        if rows[0]:
            rows[0] = nodes
        # A slot with rows has room for an arc, even if none ends there.
        row_arcs = [max(n, 1) if r else 0 for n, r in zip(row_arcs, rows, strict=True)]
        return Shape(ids.shape[1], nodes, arcs, subgraphs, tuple(rows), tuple(row_arcs))

    def tried(self, size: int, times: int) -> Shape:
        """The room that the largest of some random batches of this size needs; always the same ones."""
        count = len(self._lines) - 1
        draw, graphs = np.random.default_rng(0), min(size, count)
        # As many as there are in a random order, again and again.
        each = count // graphs
        orders = [draw.permutation(count)[: each * graphs].reshape(each, graphs) for _ in range(-(-times // each))]
        ids = np.concatenate(orders)[:times]
        return self.shape(np.pad(ids, ((0, 0), (0, size - graphs)), constant_values=-1))
