"""`Lines`: nodes, arcs, rows of a dataset, graph by graph, and how a reference to one is written for any batch."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from esan.ops import ragged

if TYPE_CHECKING:
    from esan.bags.shapes import Shape


class Lines:
    """Lines of a dataset, block by block (the slots of rows), graph by graph in each block.

    In a batch the lines of its graphs stand in the same order, and each block ends with filler. A reference to a line
    is kept as its place among those of its graph and block, with the block in the lowest bits: wherever the graph
    begins in a batch, that is all there is to add.

    Args:
        counts: lines of each block and graph, `[blocks, G]`.
        total: how many lines there are.
        room: the lines of each block of a batch.
        fillers: for lines that are others in another order, the filler that ends each block, as those others have it.
        absent: lines of a graph that is not there.
    """

    def __init__(
        self,
        counts: Tensor,
        total: int,
        room: "Callable[[Shape], tuple[int, ...]] | None" = None,
        fillers: "list[list[Filler]] | None" = None,
        absent: int = 0,
    ) -> None:
        self.counts, self.total, self.room, self.absent = counts, total, room, absent
        #: The fillers that were given; None for lines in an order of their own.
        self.others = fillers

    @property
    def fillers(self) -> "list[list[Filler]]":
        """The filler that ends each block; lines in an order of their own have one a block."""
        # Made anew: if it were kept, lines would refer to themselves, and their memory would wait for the collector.
        return [[Filler(self, block)] for block in range(self.blocks)] if self.others is None else self.others

    @property
    def blocks(self) -> int:
        return self.counts.size(0)

    @property
    def bits(self) -> int:
        """How many bits tell the blocks apart."""
        return (self.blocks - 1).bit_length()

    @cached_property
    def start(self) -> Tensor:
        """Where the lines of each block and graph begin, `[blocks, G]`."""
        return ragged.starts(self.counts)

    @property
    def segment(self) -> Tensor:
        """The (block, graph) of each line, as one number."""
        return torch.repeat_interleave(self.counts.reshape(-1), output_size=self.total)

    @cached_property
    def sizes(self) -> list[int]:
        """How many lines each block has."""
        return self.counts.sum(1).tolist()

    @cached_property
    def short(self) -> bool:
        """Whether 16 bits hold any reference to one of these lines, or how many of them a group has."""
        return int(self.counts.max()) + 1 < 2 ** (15 - self.bits) if self.counts.numel() else True

    def code(self) -> Tensor:
        """A reference to each line."""
        every, segment = torch.arange(self.total, device=self.counts.device), self.segment
        return self._coded(every - self.start.reshape(-1)[segment], segment // self.counts.size(1))

    def begins(self, first: Tensor, owner: "Lines") -> Tensor:
        """References to where the groups of lines of each owner begin, which may be the end of a graph.

        Args:
            first: where they begin in the dataset.
            owner: what the groups belong to; its blocks, if there are any here, are those of the lines.
        """
        segment = owner.segment[: first.numel()]
        block, graph = segment // self.counts.size(1), segment % self.counts.size(1)
        block = block if self.blocks > 1 else torch.zeros_like(block)
        return self._coded(first - self.start[block, graph], block)

    def _coded(self, place: Tensor, block: Tensor) -> Tensor:
        return self.shortened((place << self.bits) + block)

    def shortened(self, numbers: Tensor) -> Tensor:
        """References, or counts of these lines, in as few bits as hold them."""
        return numbers.to(torch.int16 if self.short else torch.int32)


@dataclass(frozen=True, eq=False)
class Filler:
    """The filler that ends a block of lines; a block in another order may have several."""

    lines: Lines
    block: int
    place: int = 0


@dataclass(frozen=True, eq=False)
class Order:
    """Lines group by group: where each group begins, how many lines it has."""

    order: Tensor
    first: Tensor
    count: Tensor

    @staticmethod
    def of(owner: Tensor, size: int) -> "Order":
        count = counted(owner, size)
        # Short numbers are sorted in less memory, and sooner.
        order = torch.argsort(owner.int() if size < 2**31 else owner, stable=True)
        return Order(order.int() if owner.numel() < 2**31 else order, ragged.starts(count), count)


def counted(owner: Tensor, size: int) -> Tensor:
    """How many lines each owner has."""
    # `bincount` would wait for the device to tell the largest owner.
    return owner.new_zeros(size).scatter_add_(0, owner, owner.new_ones(1).expand_as(owner))
