"""The ragged axes of a dataset (nodes, edges, rows, ...) that the fields of a padded batch run over."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from esan.bags.bag import Bag
from esan.bags.padded.shapes import Shape


@dataclass(frozen=True)
class Axis:
    """Items of a dataset in the order of the bag: sorted by block, then by graph.

    Axes of rows have the blocks of `Rows`, from `first_block` on; all others have a single block.

    Attributes:
        name: of the axis.
        capacity: items of each block in a batch of a shape.
        counts: items of each block and graph of a bag, `[blocks, G]`.
        ends: the number of items of a bag up to the end of each block.
        first_block: the block of `Rows` that the axis begins with; None for an axis of a single block.
        absent: how many items "no graph" has.
    """

    name: str
    capacity: Callable[[Shape], tuple[int, ...]]
    counts: Callable[[Bag], Tensor]
    ends: Callable[[Bag], list[int]]
    first_block: int | None = None
    absent: int = 0

    @property
    def base(self) -> "Axis":
        return self

    def num_blocks(self, last: int | None) -> int | None:
        """The number of blocks of the axis up to a block of `Rows`; None for all."""
        return None if last is None or self.first_block is None else last + 1 - self.first_block

    def block_index(self, block: int | None) -> int:
        """The position on the axis of a block of `Rows`."""
        return 0 if block is None or self.first_block is None else block - self.first_block

    def row_block(self, index: int) -> int | None:
        """The block of `Rows` at a position on the axis; None for an axis of a single block."""
        return None if self.first_block is None else index + self.first_block

    def size(self, shape: Shape, last: int | None) -> int:
        """The number of items in a batch, up to a block of `Rows`."""
        return sum(self.capacity(shape)[: self.num_blocks(last)])

    def padding(self, shape: Shape) -> list[list[int]]:
        """For each block of a batch, the blocks of `base` whose padding it ends with."""
        return [[index] for index in range(len(self.capacity(shape)))]


@dataclass(frozen=True)
class Reordered:
    """The items of an axis up to a block, in another order that still keeps the items of each graph together.

    Attributes:
        base: the axis.
        last: the last block of `Rows`; None for all.
        by: the order, if its owners are rows: then a block holds the items whose owner is in that block. None for all
            items in one block.
    """

    base: Axis
    last: int | None
    by: "Order | None" = None

    def size(self, shape: Shape, _: int | None) -> int:
        return self.base.size(shape, self.last)

    def block_index(self, block: int | None) -> int:
        return 0 if self.by is None else self.by.owner.block_index(block)

    def padding(self, shape: Shape) -> list[list[int]]:
        indices = range(len(self.base.capacity(shape)))[: self.base.num_blocks(self.last)]
        # A layer view of background rows alone has no pairs: the first block of pairs has capacity 0.
        indices = indices or range(1)
        return [[*indices]] if self.by is None else [[index] for index in indices]


AnyAxis = Axis | Reordered


@dataclass(frozen=True)
class Order:
    """Items of an axis grouped by their owners, as in CSR: the permutation, and where each group begins and its size.

    Attributes:
        base: the axis of the items.
        owner: the axis of the owners.
        owner_of: the index of each item's owner, from a `ColumnSource`.
        last: the last block of a layer view; None for all items.
        is_sorted: whether the items are in this order already.
    """

    base: Axis
    owner: Axis
    owner_of: Callable[[Any], Tensor]
    last: int | None = None
    is_sorted: bool = False

    @property
    def axis(self) -> AnyAxis:
        """The items in this order."""
        if self.is_sorted or self.base.first_block is None:
            return self.base
        return Reordered(self.base, self.last, None if self.owner.first_block is None else self)


GRAPHS = Axis(
    "graphs", lambda s: (s.graphs + 1,), lambda b: torch.ones_like(b.graphs.num_nodes)[None], lambda b: [len(b)],
    absent=1,
)  # fmt: skip
#: The graphs without the padding graph.
TARGETS = Axis("targets", lambda s: (s.graphs,), GRAPHS.counts, GRAPHS.ends, absent=1)
NODES = Axis("nodes", lambda s: (s.nodes,), lambda b: b.graphs.num_nodes[None], lambda b: [b.graphs.node_graph.numel()])
EDGES = Axis(
    "edges", lambda s: (s.edges,), lambda b: b.graphs.num_directed_edges[None],
    lambda b: [b.graphs.edge_index.size(1)],
)  # fmt: skip
SUBGRAPHS = Axis(
    "subgraphs", lambda s: (s.subgraphs,), lambda b: b.selection.num_subgraphs[None],
    lambda b: [b.selection.subgraph_graph.numel()],
)  # fmt: skip
ROWS = Axis("rows", lambda s: s.rows, lambda b: b.rows.num_rows, lambda b: b.rows.row_ends, first_block=0)
#: The stored pairs: all rows but the background rows.
PAIRS = Axis(
    "pairs", lambda s: s.rows[1:], lambda b: b.rows.num_rows[1:],
    lambda b: [end - b.rows.background for end in b.rows.row_ends[1:]], first_block=1,
)  # fmt: skip
#: The edges between rows, by the block of their target.
ROW_EDGES = Axis(
    "row edges", lambda s: s.row_edges, lambda b: b.rows.num_edges, lambda b: b.rows.edge_ends, first_block=0,
)  # fmt: skip
#: One item of padding per block that has rows, and no item of any graph.
BLOCKS = Axis(
    "blocks", lambda s: tuple(int(n > 0) for n in s.rows), lambda b: torch.zeros_like(b.rows.num_rows),
    lambda b: [0 for _ in b.rows.row_ends], first_block=0,
)  # fmt: skip
