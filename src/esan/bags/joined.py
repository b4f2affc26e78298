"""Fields of padded batches that were made for some graphs of the dataset at a time, joined to those of all."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from esan.bags.kept import Keeper
from esan.bags.lines import Filler, Lines
from esan.bags.pieces import Filled, Gathered, Piece


class Joined:
    """Joins what was made alike for one part of the graphs after another.

    References count within a graph and block, so they stay as they are; lines go block by block, in each block part
    by part. What several fields share is joined once.

    Args:
        keeper: of the numbers.
    """

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._lines: dict[Lines, Lines] = {}
        self._values: dict[int, tuple[Tensor, Tensor]] = {}

    def field(self, parts: Sequence[Gathered]) -> Gathered:
        pieces = [self._piece(same) for same in zip(*(part.pieces for part in parts), strict=True)]
        return replace(parts[0], pieces=pieces)

    def _piece(self, parts: Sequence[Piece]) -> Piece:
        fills = zip(*(part.fill for part in parts), strict=True)
        return replace(
            parts[0],
            lines=self._joined([part.lines for part in parts]),
            values=self._numbers(parts),
            fill=[self._filled(same) for same in fills],
            to=self._joined([part.to for part in parts if part.to is not None]) if parts[0].to is not None else None,
        )

    def _filled(self, parts: Sequence[Filled]) -> Filled:
        begins = [part.begin for part in parts if part.begin is not None]
        return replace(parts[0], begin=self._filler(begins)) if begins else parts[0]

    def _filler(self, parts: Sequence[Filler]) -> Filler:
        return replace(parts[0], lines=self._joined([part.lines for part in parts]))

    def _joined(self, parts: Sequence[Lines]) -> Lines:
        first = parts[0]
        if first not in self._lines:
            fillers = None
            if first.others is not None:
                blocks = zip(*(part.fillers for part in parts), strict=True)
                fillers = [[self._filler(same) for same in zip(*block, strict=True)] for block in blocks]
            counts = torch.cat([part.counts for part in parts], 1)
            total = sum(part.total for part in parts)
            self._lines[first] = Lines(counts, total, first.room, fillers, first.absent)
        return self._lines[first]

    def _numbers(self, parts: Sequence[Piece]) -> Tensor:
        first = parts[0].values
        if not first.dim():
            return first
        if id(first) not in self._values:
            blocks = [_blocks(part) for part in parts]
            ordered = [block for same in zip(*blocks, strict=True) for block in same]
            # The graph that is not there has the same line in all parts.
            absent = first[first.size(0) - parts[0].lines.absent :]
            # The first part's are kept with them: another tensor could get its number otherwise.
            self._values[id(first)] = first, self._keeper.keep(torch.cat([*ordered, absent]))
        return self._values[id(first)][1]


def aside(fields: dict[str, Gathered]) -> dict[str, Gathered]:
    """The fields of a part with their numbers on the host, so that the device holds those of one part at a time."""
    moved: dict[int, tuple[Tensor, Tensor]] = {}

    def piece(of: Piece) -> Piece:
        values = of.values
        # A number alone is that of all parts; it stays.
        if values.dim() and id(values) not in moved:
            moved[id(values)] = values, values.cpu()
        return replace(of, values=moved[id(values)][1]) if values.dim() else of

    return {name: replace(field, pieces=[piece(of) for of in field.pieces]) for name, field in fields.items()}


def _blocks(piece: Piece) -> Sequence[Tensor]:
    """The numbers of each block of lines; those that a stage does not have are empty."""
    left = piece.values.size(0) - piece.lines.absent
    sizes = []
    for size in piece.lines.sizes:
        sizes.append(min(size, left))
        left -= sizes[-1]
    return piece.values[: sum(sizes)].split(sizes)
