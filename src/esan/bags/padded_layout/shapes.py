"""`Shape`: how much room a padded batch has; `Counts`: what the graphs of a bag need."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F

from esan.bags.bag import Bag

#: Random batches that the room of a shape is found from, but no more than hold so many graphs; and what is added to it.
_TRIED, _DRAWN, _MARGIN = 10_000, 10_000_000, 1.02
#: Graphs that are drawn at once.
_AT_ONCE = 250_000


@dataclass(frozen=True)
class Sizes:
    """Smaller rooms for batches that need less.

    Attributes:
        part: of the room for stored rows that the next smaller one has.
        number: how many smaller rooms there are at most.
        arcs: whether there is less room for arcs into these rows too; where the largest graphs have far more rows than
            others and not far more arcs, no batch would fit.
    """

    part: float
    number: int
    arcs: bool = False

    def of(self, most: "Shape") -> list["Shape"]:
        """The rooms, the largest first."""
        return [*dict.fromkeys(most.smaller(self.part**k, self.arcs) for k in range(self.number + 1))]


#: For networks whose filler costs as much as rows; and for those who skip it.
FINE, COARSE = Sizes(0.8, 12), Sizes(0.5, 3, arcs=True)


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

    def smaller(self, factor: float, arcs: bool = False) -> "Shape":
        """The same with so much of the room for stored rows, and for the arcs into them if that is said."""

        def less(room: tuple[int, ...]) -> tuple[int, ...]:
            # Little would be gained by less room in a slot that has little beside others, and fewer batches would fit.
            much = max(room[1:], default=0) / 16
            return (room[0], *(n if n < much else min(n, 8 * (int(factor * n) // 8 + 1)) for n in room[1:]))

        return replace(self, rows=less(self.rows), row_arcs=less(self.row_arcs) if arcs else self.row_arcs)

    @property
    def stored(self) -> tuple[int, ...]:
        """The room for stored rows, slot by slot, and then for the arcs into them."""
        return (*self.rows[1:], *self.row_arcs[1:])

    def alike(self, other: "Shape") -> bool:
        """Whether both have rows and arcs in the same slots."""
        return all((mine == 0) == (theirs == 0) for mine, theirs in zip(self._numbers, other._numbers, strict=True))

    @property
    def _numbers(self) -> tuple[int, ...]:
        return (self.graphs, self.nodes, self.arcs, self.subgraphs, *self.rows, *self.row_arcs)


class Counts:
    """The counts of every graph of a bag, on the host: what a batch needs is known without asking the device."""

    def __init__(self, bag: Bag) -> None:
        graphs, selection, rows = bag.graphs, bag.selection, bag.rows
        parts = [graphs.num_nodes[None], graphs.num_arcs[None], selection.num_subgraphs[None]]
        table = torch.cat([*parts, rows.num_rows, rows.num_arcs]).cpu()
        # A line of counts, and behind them 0 for no graph.
        self._lines = [line.numpy() for line in F.pad(table, (0, 1))]
        self._slots = rows.num_rows.size(0)

    def shape(self, ids: np.ndarray) -> Shape:
        """The room that the largest of these batches needs, the filler included; ids `[K, B]`, −1 for no graph."""
        # Line by line: all at once would take some ten megabytes for an epoch, and memory that is new costs time.
        most = [1 + int(line[ids].sum(1).max()) if line.any() else 0 for line in self._lines]
        nodes, arcs, subgraphs = (max(n, 1) for n in most[:3])
        rows, row_arcs = most[3 : 3 + self._slots], most[3 + self._slots :]
        if rows[0]:
            rows[0] = nodes
        # A slot with rows has room for an arc, even if none ends there.
        row_arcs = [max(n, 1) if r else 0 for n, r in zip(row_arcs, rows, strict=True)]
        return Shape(ids.shape[1], nodes, arcs, subgraphs, tuple(rows), tuple(row_arcs))

    def stored(self, ids: np.ndarray) -> np.ndarray:
        """What `Shape.stored` each of these batches needs, `[K, 2 · (slots − 1)]`; ids `[K, B]`."""
        rows, arcs = self._lines[4 : 3 + self._slots], self._lines[4 + self._slots :]
        needed = [1 + line[ids].sum(1) if line.any() else np.zeros(len(ids), int) for line in (*rows, *arcs)]
        return np.stack(needed, 1)

    def tried(self, size: int) -> Shape:
        """The room that the largest of many random batches of this size needs; always the same ones."""
        count = len(self._lines[0]) - 1
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
    """The room of batches, by how many graphs they have: enough for random ones, and for all that were met."""

    def __init__(self) -> None:
        self.known: dict[int, Shape] = {}

    def holding(self, ids: np.ndarray, counts: Counts) -> Shape:
        """Room for these batches, `[K, B]`; the same as before unless they need more."""
        size, need = ids.shape[1], counts.shape(ids)
        known = self.known.get(size) or counts.tried(size).grown(_MARGIN)
        self.known[size] = known if known.holds(need) else known.joined(need.grown(_MARGIN))
        return self.known[size]


def sized(most: Shape, steps: np.ndarray, counts: Counts, sizes: Sizes = FINE) -> Iterator[tuple[Shape, slice]]:
    """The smallest rooms for the steps `[K, S, B]`, which fit into `most`, and which of them have each, in order.

    There are few rooms: what is captured for one serves many steps.
    """
    shapes = sizes.of(most)
    needed = counts.stored(steps.reshape(-1, steps.shape[-1])).reshape(*steps.shape[:2], -1).max(1)
    rooms = np.array([shape.stored for shape in shapes])
    # Rooms become smaller, so that the last that holds a step is as many as do.
    size = (rooms[None] >= needed[:, None]).all(2).sum(1) - 1
    for begin, end in pairwise([0, *(1 + np.flatnonzero(np.diff(size))).tolist(), len(steps)]):
        yield shapes[size[begin]], slice(begin, end)
