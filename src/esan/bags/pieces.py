"""`Piece`: a stretch of a field of padded batches, and the numbers of the dataset that it is gathered from."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from esan.bags.lines import Filler, Lines


@dataclass(frozen=True, eq=False)
class Filled:
    """What filler lines have: `plus`, and `times` the line where a filler begins, and `apart` for each line before."""

    plus: int = 0
    begin: Filler | None = None
    times: int = 1
    apart: int = 0


@dataclass(frozen=True, eq=False)
class Piece:
    """Numbers of one kind of lines.

    Attributes:
        lines: whose numbers they are.
        count: how many of these lines a batch of one network has.
        values: the numbers of the dataset, in 16, 32 or 64 bits, `[lines]` or `[lines, width]`, maybe
            with more behind them that batches do not have; a number alone, `[]`, is that of all lines.
        fill: for each block of lines what its filler has.
        to: what the numbers are references to; None if they are just numbers.
        plus: added to the numbers of graphs.
        times: what all numbers are multiplied by.
        offset: where they begin in the field.
        stride: how far they are apart there.
    """

    lines: Lines
    count: int
    values: Tensor
    fill: Sequence[Filled]
    to: Lines | None = None
    plus: int = 0
    times: int = 1
    offset: int = 0
    stride: int = 1

    def at(self, offset: int, stride: int = 1) -> "Piece":
        return replace(self, offset=offset, stride=stride)

    def doubled(self) -> "Piece":
        return replace(self, times=2)

    def in_room_of(self, other: "Piece") -> "Piece":
        """`Gathered.in_room_of`."""
        fill = [replace(its, begin=mine.begin) for mine, its in zip(self.fill, other.fill, strict=True)]
        return replace(other, lines=self.lines, values=self.values, fill=fill, to=self.to)


@dataclass(frozen=True, eq=False)
class Gathered:
    """A field: its pieces; the lines that references of the next network are further; a line's shape."""

    pieces: Sequence[Piece]
    step: int = 0
    fraction: bool = False
    shape: tuple[int, ...] = ()

    def in_room_of(self, other: "Gathered") -> "Gathered":
        """These numbers of the dataset, in batches of the shape that another was made for, of whichever graphs."""
        pairs = zip(self.pieces, other.pieces, strict=True)
        return replace(other, pieces=[mine.in_room_of(its) for mine, its in pairs])


def bits(values: Tensor) -> Tensor:
    """Fractions as whole numbers with the same bits."""
    return values.float().contiguous().view(torch.int32)
