"""`Shape`: the capacities of a padded batch, and how the few shapes (buckets) of a dataset are chosen."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F

from esan.bags.bag import Bag

#: Random batches that a shape is estimated from, and at most so many graphs in all.
_BATCHES, _GRAPHS = 10_000, 10_000_000
#: How much larger than the estimate a shape is.
MARGIN = 1.02
#: Graphs that are drawn at a time.
_CHUNK = 250_000


@dataclass(frozen=True)
class Shape:
    """The capacities of a batch; at least one node, subgraph, row and edge of each kind is padding.

    Attributes:
        graphs: graphs, without the padding graph.
        nodes: nodes.
        edges: columns of `edge_index`, so both directions of every edge.
        subgraphs: subgraphs.
        rows: rows per block.
        row_edges: edges between rows, per block that they end in.
    """

    graphs: int
    nodes: int
    edges: int
    subgraphs: int
    rows: tuple[int, ...]
    row_edges: tuple[int, ...]

    def holds(self, other: "Shape") -> bool:
        """Whether batches of the other shape fit in."""
        return all(mine >= theirs for mine, theirs in zip(self._numbers, other._numbers, strict=True))

    def joined(self, other: "Shape") -> "Shape":
        """The least shape that holds both."""
        _, nodes, edges, subgraphs, *blocks = map(max, self._numbers, other._numbers)
        rows, row_edges = tuple(blocks[: len(self.rows)]), tuple(blocks[len(self.rows) :])
        return Shape(self.graphs, nodes, edges, subgraphs, rows, row_edges)

    def grown(self, factor: float) -> "Shape":
        """The same with larger capacities."""

        def more(n: int) -> int:
            return n if n == 0 else 8 * (int(n * factor) // 8 + 1)

        rows, row_edges = [more(n) for n in self.rows], tuple(more(n) for n in self.row_edges)
        nodes = more(self.nodes)
        if rows[0]:
            rows[0] = nodes  # background rows are the nodes
        return Shape(self.graphs, nodes, more(self.edges), more(self.subgraphs), tuple(rows), row_edges)

    def smaller(self, factor: float, edges: bool = False) -> "Shape":
        """The same with `factor` times the capacity for stored rows, and for the edges into them if `edges` is true."""

        def less(capacity: tuple[int, ...]) -> tuple[int, ...]:
            # Blocks that are small compared with the others stay: little would be gained, and fewer batches would fit.
            much = max(capacity[1:], default=0) / 16
            return (capacity[0], *(n if n < much else min(n, 8 * (int(factor * n) // 8 + 1)) for n in capacity[1:]))

        return replace(self, rows=less(self.rows), row_edges=less(self.row_edges) if edges else self.row_edges)

    @property
    def stored(self) -> tuple[int, ...]:
        """The capacities for stored rows per block, followed by those for the edges into them."""
        return (*self.rows[1:], *self.row_edges[1:])

    def alike(self, other: "Shape") -> bool:
        """Whether both have rows and edges in the same blocks."""
        return all((mine == 0) == (theirs == 0) for mine, theirs in zip(self._numbers, other._numbers, strict=True))

    @property
    def _numbers(self) -> tuple[int, ...]:
        return (self.graphs, self.nodes, self.edges, self.subgraphs, *self.rows, *self.row_edges)


@dataclass(frozen=True)
class Sizes:
    """Smaller shapes for batches that need less.

    Attributes:
        ratio: the capacity for stored rows of a shape, relative to that of the next larger one.
        number: how many smaller shapes there are at most.
        edges: whether capacities for edges into these rows become smaller too. Not where the largest graphs have far
            more rows than others but not far more edges: no batch would fit.
    """

    ratio: float
    number: int
    edges: bool = False

    def of(self, most: Shape) -> list[Shape]:
        """The shapes, the largest first."""
        return [*dict.fromkeys(most.smaller(self.ratio**k, self.edges) for k in range(self.number + 1))]


#: For networks that compute padding rows too, and for those that skip them.
FINE, COARSE = Sizes(0.8, 12), Sizes(0.5, 3, edges=True)


class GraphCounts:
    """The counts of every graph of a bag, on the host: the shape of a batch is known without waiting for a GPU."""

    def __init__(self, bag: Bag) -> None:
        graphs, selection, rows = bag.graphs, bag.selection, bag.rows
        parts = [graphs.num_nodes[None], graphs.num_directed_edges[None], selection.num_subgraphs[None]]
        table = torch.cat([*parts, rows.num_rows, rows.num_edges]).cpu()
        # One array per count, with a 0 at the end for "no graph".
        self._counts = [counts.numpy() for counts in F.pad(table, (0, 1))]
        self._blocks = rows.num_rows.size(0)

    def shape(self, ids: np.ndarray) -> Shape:
        """The shape that the largest of these batches needs, padding included; ids `[K, B]`, −1 for no graph."""
        # One count at a time: all at once would allocate about 10 MB per epoch, which costs time.
        most = [1 + int(counts[ids].sum(1).max()) if counts.any() else 0 for counts in self._counts]
        nodes, edges, subgraphs = (max(n, 1) for n in most[:3])
        rows, row_edges = most[3 : 3 + self._blocks], most[3 + self._blocks :]
        if rows[0]:
            rows[0] = nodes
        # A block with rows has capacity for at least one edge, even if none ends there.
        row_edges = [max(n, 1) if r else 0 for n, r in zip(row_edges, rows, strict=True)]
        return Shape(ids.shape[1], nodes, edges, subgraphs, tuple(rows), tuple(row_edges))

    def stored(self, ids: np.ndarray) -> np.ndarray:
        """The `Shape.stored` that each of these batches needs, `[K, 2 · (blocks − 1)]`; ids `[K, B]`."""
        rows, edges = self._counts[4 : 3 + self._blocks], self._counts[4 + self._blocks :]
        needed = [1 + counts[ids].sum(1) if counts.any() else np.zeros(len(ids), int) for counts in (*rows, *edges)]
        return np.stack(needed, 1)

    def largest_random(self, size: int) -> Shape:
        """The shape that the largest of many random batches of this size needs; deterministic."""
        count = len(self._counts[0]) - 1
        if size >= count:
            return self.shape(np.pad(np.arange(count), (0, size - count), constant_values=-1)[None])
        draw, each = np.random.default_rng(0), count // size
        # Each random order of the graphs gives count // size batches; some orders at a time.
        orders, some = -(-min(_BATCHES, _GRAPHS // size) // each), max(1, _CHUNK // count)
        largest = None
        for first in range(0, orders, some):
            every = np.tile(np.arange(count), (min(some, orders - first), 1))
            shape = self.shape(draw.permuted(every, axis=1)[:, : each * size].reshape(-1, size))
            largest = shape if largest is None else largest.joined(shape)
        assert largest is not None
        return largest


class KnownShapes:
    """One shape per number of graphs: large enough for random batches and for all batches seen so far."""

    def __init__(self) -> None:
        self.known: dict[int, Shape] = {}

    def holding(self, ids: np.ndarray, counts: GraphCounts) -> Shape:
        """A shape for these batches, `[K, B]`; the same as before unless they need more."""
        size, need = ids.shape[1], counts.shape(ids)
        known = self.known.get(size) or counts.largest_random(size).grown(MARGIN)
        self.known[size] = known if known.holds(need) else known.joined(need.grown(MARGIN))
        return self.known[size]


def smallest_shapes(
    most: Shape, steps: np.ndarray, counts: GraphCounts, sizes: Sizes = FINE
) -> Iterator[tuple[Shape, slice]]:
    """The smallest shape for each of the steps `[K, S, B]`, which fit into `most`: runs of steps with their shape.

    There are few shapes, so that a CUDA graph captured for one serves many steps.
    """
    shapes = sizes.of(most)
    needed = counts.stored(steps.reshape(-1, steps.shape[-1])).reshape(*steps.shape[:2], -1).max(1)
    capacities = np.array([shape.stored for shape in shapes])
    # Shapes are sorted by size, so the number of shapes that hold a step is the index of the last one, plus 1.
    size = (capacities[None] >= needed[:, None]).all(2).sum(1) - 1
    for begin, end in pairwise([0, *(1 + np.flatnonzero(np.diff(size))).tolist(), len(steps)]):
        yield shapes[size[begin]], slice(begin, end)
