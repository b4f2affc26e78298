"""`Shape`: the capacities of a padded batch; `Counts`: what the graphs of a bag need of them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F

from esan.bags.bag import Bag

#: Random batches that a shape is found from, but no more than hold so many graphs; and what is added to it.
_TRIED, _DRAWN, _MARGIN = 10_000, 10_000_000, 1.02
#: Graphs that are drawn at once.
_AT_ONCE = 250_000


@dataclass(frozen=True)
class Shape:
    """The capacities of a batch; at least one node, subgraph, row and edge of each kind is padding.

    Attributes:
        graphs: graphs, without the padding graph.
        nodes: nodes.
        arcs: edges of the graphs, each in both directions.
        subgraphs: subgraphs.
        rows: rows of each slot.
        row_arcs: edges between rows, of each slot that they end in.
    """

    graphs: int
    nodes: int
    arcs: int
    subgraphs: int
    rows: tuple[int, ...]
    row_arcs: tuple[int, ...]

    def holds(self, other: "Shape") -> bool:
        """Whether batches of the other shape fit in."""
        return all(mine >= theirs for mine, theirs in zip(self._numbers, other._numbers, strict=True))

    def joined(self, other: "Shape") -> "Shape":
        """The least shape that holds both."""
        _, nodes, arcs, subgraphs, *slots = map(max, self._numbers, other._numbers)
        rows, row_arcs = tuple(slots[: len(self.rows)]), tuple(slots[len(self.rows) :])
        return Shape(self.graphs, nodes, arcs, subgraphs, rows, row_arcs)

    def grown(self, factor: float) -> "Shape":
        """The same with larger capacities."""

        def more(n: int) -> int:
            return n if n == 0 else 8 * (int(n * factor) // 8 + 1)

        rows, row_arcs = [more(n) for n in self.rows], tuple(more(n) for n in self.row_arcs)
        nodes = more(self.nodes)
        if rows[0]:
            rows[0] = nodes  # background rows are the nodes
        return Shape(self.graphs, nodes, more(self.arcs), more(self.subgraphs), tuple(rows), row_arcs)

    def smaller(self, factor: float, arcs: bool = False) -> "Shape":
        """The same with that part of the capacity for stored rows, and for the edges into them if `arcs` is true."""

        def less(capacity: tuple[int, ...]) -> tuple[int, ...]:
            # Little would be gained in a slot that is small beside others, and fewer batches would fit.
            much = max(capacity[1:], default=0) / 16
            return (capacity[0], *(n if n < much else min(n, 8 * (int(factor * n) // 8 + 1)) for n in capacity[1:]))

        return replace(self, rows=less(self.rows), row_arcs=less(self.row_arcs) if arcs else self.row_arcs)

    @property
    def stored(self) -> tuple[int, ...]:
        """The capacities for stored rows, slot by slot, and then for the edges into them."""
        return (*self.rows[1:], *self.row_arcs[1:])

    def alike(self, other: "Shape") -> bool:
        """Whether both have rows and edges in the same slots."""
        return all((mine == 0) == (theirs == 0) for mine, theirs in zip(self._numbers, other._numbers, strict=True))

    @property
    def _numbers(self) -> tuple[int, ...]:
        return (self.graphs, self.nodes, self.arcs, self.subgraphs, *self.rows, *self.row_arcs)


@dataclass(frozen=True)
class Sizes:
    """Smaller shapes for batches that need less.

    Attributes:
        part: the capacity for stored rows of a shape, as a part of that of the next larger one.
        number: how many smaller shapes there are at most.
        arcs: whether capacities for edges into these rows become smaller too; where the largest graphs have far more
            rows than others and not far more edges, no batch would fit.
    """

    part: float
    number: int
    arcs: bool = False

    def of(self, most: Shape) -> list[Shape]:
        """The shapes, the largest first."""
        return [*dict.fromkeys(most.smaller(self.part**k, self.arcs) for k in range(self.number + 1))]


#: For networks whose padding costs as much as rows; and for those who skip it.
FINE, COARSE = Sizes(0.8, 12), Sizes(0.5, 3, arcs=True)


class Counts:
    """The counts of every graph of a bag, on the host: what a batch needs is known without asking the device."""

    def __init__(self, bag: Bag) -> None:
        graphs, selection, rows = bag.graphs, bag.selection, bag.rows
        parts = [graphs.num_nodes[None], graphs.num_arcs[None], selection.num_subgraphs[None]]
        table = torch.cat([*parts, rows.num_rows, rows.num_arcs]).cpu()
        # One array per count, and behind its numbers 0 for no graph.
        self._counts = [counts.numpy() for counts in F.pad(table, (0, 1))]
        self._slots = rows.num_rows.size(0)

    def shape(self, ids: np.ndarray) -> Shape:
        """The shape that the largest of these batches needs, padding included; ids `[K, B]`, −1 for no graph."""
        # One count at a time: all at once would take some ten megabytes for an epoch, and new memory costs time.
        most = [1 + int(counts[ids].sum(1).max()) if counts.any() else 0 for counts in self._counts]
        nodes, arcs, subgraphs = (max(n, 1) for n in most[:3])
        rows, row_arcs = most[3 : 3 + self._slots], most[3 + self._slots :]
        if rows[0]:
            rows[0] = nodes
        # A slot with rows can hold an edge, even if none ends there.
        row_arcs = [max(n, 1) if r else 0 for n, r in zip(row_arcs, rows, strict=True)]
        return Shape(ids.shape[1], nodes, arcs, subgraphs, tuple(rows), tuple(row_arcs))

    def stored(self, ids: np.ndarray) -> np.ndarray:
        """What `Shape.stored` each of these batches needs, `[K, 2 · (slots − 1)]`; ids `[K, B]`."""
        rows, arcs = self._counts[4 : 3 + self._slots], self._counts[4 + self._slots :]
        needed = [1 + counts[ids].sum(1) if counts.any() else np.zeros(len(ids), int) for counts in (*rows, *arcs)]
        return np.stack(needed, 1)

    def tried(self, size: int) -> Shape:
        """The shape that the largest of many random batches of this size needs; always the same ones."""
        count = len(self._counts[0]) - 1
        if size >= count:
            return self.shape(np.pad(np.arange(count), (0, size - count), constant_values=-1)[None])
        draw, each = np.random.default_rng(0), count // size
        # As many batches as a random order of the graphs has, again and again; some orders at a time.
        orders, some = -(-min(_TRIED, _DRAWN // size) // each), max(1, _AT_ONCE // count)
        found = None
        for first in range(0, orders, some):
            every = np.tile(np.arange(count), (min(some, orders - first), 1))
            shape = self.shape(draw.permuted(every, axis=1)[:, : each * size].reshape(-1, size))
            found = shape if found is None else found.joined(shape)
        assert found is not None
        return found


class Rooms:
    """The shapes of batches, by how many graphs they have: large enough for random ones, and for all that were met."""

    def __init__(self) -> None:
        self.known: dict[int, Shape] = {}

    def holding(self, ids: np.ndarray, counts: Counts) -> Shape:
        """A shape for these batches, `[K, B]`; the same as before unless they need more."""
        size, need = ids.shape[1], counts.shape(ids)
        known = self.known.get(size) or counts.tried(size).grown(_MARGIN)
        self.known[size] = known if known.holds(need) else known.joined(need.grown(_MARGIN))
        return self.known[size]


def sized(most: Shape, steps: np.ndarray, counts: Counts, sizes: Sizes = FINE) -> Iterator[tuple[Shape, slice]]:
    """The smallest shapes for the steps `[K, S, B]`, which fit into `most`, and which of them have each, in order.

    There are few shapes: what is captured for one serves many steps.
    """
    shapes = sizes.of(most)
    needed = counts.stored(steps.reshape(-1, steps.shape[-1])).reshape(*steps.shape[:2], -1).max(1)
    capacities = np.array([shape.stored for shape in shapes])
    # Shapes become smaller, so that the last that holds a step is as many as do.
    size = (capacities[None] >= needed[:, None]).all(2).sum(1) - 1
    for begin, end in pairwise([0, *(1 + np.flatnonzero(np.diff(size))).tolist(), len(steps)]):
        yield shapes[size[begin]], slice(begin, end)
