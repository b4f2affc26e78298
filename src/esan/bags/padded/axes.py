"""The ragged axes that fields run over: nodes, edges, rows, ... of the dataset's graphs, as they are or reordered."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from esan.bags.bag import Bag
from esan.bags.padded.shapes import Shape


@dataclass(frozen=True)
class Axis:
    """Items of a dataset in the order of the bag: block by block (slots, where rows have them), then graph by graph.

    Attributes:
        name: of the axis.
        capacity: items of each block in a batch of a shape.
        counts: items of each block and graph of a bag, `[blocks, G]`.
        ends: how many items of a bag there are up to the end of each block.
        first_slot: the slot of the first block; None for an axis of a single block.
        absent: how many items "no graph" has.
    """

    name: str
    capacity: Callable[[Shape], tuple[int, ...]]
    counts: Callable[[Bag], Tensor]
    ends: Callable[[Bag], list[int]]
    first_slot: int | None = None
    absent: int = 0

    @property
    def base(self) -> "Axis":
        return self

    def blocks(self, slot: int | None) -> int | None:
        """How many blocks there are up to a slot; None for all."""
        return None if slot is None or self.first_slot is None else slot + 1 - self.first_slot

    def block_of(self, slot: int | None) -> int:
        """The block of the items of a slot."""
        return 0 if slot is None or self.first_slot is None else slot - self.first_slot

    def slot_of(self, block: int) -> int | None:
        return None if self.first_slot is None else block + self.first_slot

    def size(self, shape: Shape, slot: int | None) -> int:
        """Items in a batch, up to a slot."""
        return sum(self.capacity(shape)[: self.blocks(slot)])

    def padding(self, shape: Shape) -> list[list[int]]:
        """For each block of a batch, the blocks of `base` whose padding it ends with."""
        return [[block] for block in range(len(self.capacity(shape)))]


@dataclass(frozen=True)
class Reordered:
    """Items of an axis up to a slot in another order; still the items of one graph follow those of another.

    Attributes:
        base: the axis.
        slot: the last slot; None for all blocks.
        by: the order, where its owners are rows: then a block holds the items whose owner is of one slot. None for all
            in one block.
    """

    base: Axis
    slot: int | None
    by: "Order | None" = None

    def size(self, shape: Shape, _: int | None) -> int:
        return self.base.size(shape, self.slot)

    def block_of(self, slot: int | None) -> int:
        return 0 if self.by is None else self.by.owner.block_of(slot)

    def padding(self, shape: Shape) -> list[list[int]]:
        blocks = range(len(self.base.capacity(shape)))[: self.base.blocks(self.slot)]
        # A stage of the background alone has no pairs: the first block of them has no capacity.
        blocks = blocks or range(1)
        return [[*blocks]] if self.by is None else [[block] for block in blocks]


AnyAxis = Axis | Reordered


@dataclass(frozen=True)
class Order:
    """Items of an axis grouped by an owner of each, as in CSR: their order, where each group begins, its size.

    Attributes:
        base: the items' axis.
        owner: the owners' axis.
        owner_of: the index of each item's owner, from a `Source`.
        slot: the last slot of a stage; None for all items.
        is_sorted: whether the items are in this order already.
    """

    base: Axis
    owner: Axis
    owner_of: Callable[[Any], Tensor]
    slot: int | None = None
    is_sorted: bool = False

    @property
    def axis(self) -> AnyAxis:
        """The items in this order."""
        if self.is_sorted or self.base.first_slot is None:
            return self.base
        return Reordered(self.base, self.slot, None if self.owner.first_slot is None else self)


GRAPHS = Axis(
    "graphs", lambda s: (s.graphs + 1,), lambda b: torch.ones_like(b.graphs.num_nodes)[None], lambda b: [len(b)],
    absent=1,
)  # fmt: skip
#: The graphs without the padding graph.
TARGETS = Axis("targets", lambda s: (s.graphs,), GRAPHS.counts, GRAPHS.ends, absent=1)
NODES = Axis("nodes", lambda s: (s.nodes,), lambda b: b.graphs.num_nodes[None], lambda b: [b.graphs.node_graph.numel()])
EDGES = Axis("edges", lambda s: (s.arcs,), lambda b: b.graphs.num_arcs[None], lambda b: [b.graphs.edge_index.size(1)])
SUBGRAPHS = Axis(
    "subgraphs", lambda s: (s.subgraphs,), lambda b: b.selection.num_subgraphs[None],
    lambda b: [b.selection.subgraph_graph.numel()],
)  # fmt: skip
ROWS = Axis("rows", lambda s: s.rows, lambda b: b.rows.num_rows, lambda b: b.rows.row_ends, first_slot=0)
#: The stored pairs: all rows but the background's.
PAIRS = Axis(
    "pairs", lambda s: s.rows[1:], lambda b: b.rows.num_rows[1:],
    lambda b: [end - b.rows.background for end in b.rows.row_ends[1:]], first_slot=1,
)  # fmt: skip
#: The edges between rows, by the slot of the row that they end at.
ROW_EDGES = Axis("row edges", lambda s: s.row_arcs, lambda b: b.rows.num_arcs, lambda b: b.rows.arc_ends, first_slot=0)
#: One item of padding per slot that has rows, and none of any graph.
SLOTS = Axis(
    "slots", lambda s: tuple(int(n > 0) for n in s.rows), lambda b: torch.zeros_like(b.rows.num_rows),
    lambda b: [0 for _ in b.rows.row_ends], first_slot=0,
)  # fmt: skip
