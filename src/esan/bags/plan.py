"""`Plan`: how batches of one shape are laid out on a GPU: count where each graph begins, then gather every field."""

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from esan.bags.lines import Filler, Lines
from esan.bags.packing import Batches, Places
from esan.bags.pieces import Gathered, Piece

if TYPE_CHECKING:
    from esan.bags.shapes import Shape
    from esan.ops.triton.layout import Entry, Fill, Stretch


class Plan:
    """Fields and their places, for batches of a shape; nothing in it depends on which graphs a batch has.

    Args:
        fields: what the batches have.
        shape: of the batch of one network.
        networks: how many networks a batch is for.
    """

    def __init__(self, fields: dict[str, Gathered], shape: "Shape", networks: int) -> None:
        from esan.ops.triton.layout import Program

        self._networks = networks
        self._segments = segments = _Segments(fields, shape)
        # The kernel reads them by their addresses.
        self._values = [piece.values for field in fields.values() for piece in field.pieces]
        #: Of whole numbers: in 64 bits only if some of the dataset's are.
        self._kind = torch.int64 if any(values.dtype == torch.int64 for values in self._values) else torch.int32
        places = Places()
        work: dict[Stretch, list[Entry]] = {}
        fills: list[Fill] = []
        for name, field in fields.items():
            size = sum(piece.count for piece in field.pieces)
            kind = torch.float32 if field.fraction else torch.int64
            begin = places.add(name, (networks * size, *field.shape), kind).begin
            for piece in field.pieces:
                entry = self._entry(field, piece, len(fills), begin, size)
                work.setdefault(self._stretch(piece), []).append(entry)
                fills += self._fills(piece)
        self._places = places
        self._program = Program.of(work, fills, segments.row, segments.place, segments.old)

    def lay_out(self, ids: Tensor) -> Batches:
        """The batches of these graphs, `[K, S, B]` or `[K, 1, B]`, −1 for no graph."""
        from esan.ops.triton.layout import lay_out

        steps, given, size = ids.shape
        ids = ids.reshape(steps * given, size)
        ends = self._places.ends
        ints = ids.new_empty(steps, ends[torch.int64], dtype=self._kind)
        floats = ids.new_empty(steps, ends[torch.float32], dtype=torch.float32)
        lay_out(self._program, ids, self._segments.begin(ids), ints, floats, given, self._networks)
        self._read = torch.cuda.current_stream(ids.device).record_event() if ids.is_cuda else None
        return Batches(ints, floats, self._places.fields)

    def __del__(self) -> None:
        # Pinned memory may be used again when it is let go, whether or not a kernel still reads it by its address.
        if (read := getattr(self, "_read", None)) is not None:
            read.synchronize()

    def _stretch(self, piece: Piece) -> "Stretch":
        from esan.ops.triton.layout import Stretch

        return Stretch(
            column=self._segments.first[piece.lines],
            columns=self._segments.columns(piece.lines),
            width=_width(piece),
            size=piece.count * _width(piece),
        )

    def _entry(self, field: Gathered, piece: Piece, fill: int, begin: int, size: int) -> "Entry":
        from esan.ops.triton.layout import Entry

        values, to, width = piece.values, piece.to, _width(piece)
        return Entry(
            pointer=values.data_ptr(),
            apart=width if values.dim() else 0,
            size=values.element_size(),
            bits=0 if to is None else to.bits,
            to=-1 if to is None else self._segments.first[to],
            block=0 if to is None else self._segments.block(to),
            plus=piece.plus,
            times=piece.times,
            fill=fill,
            step=field.step,
            begin=begin + piece.offset,
            network=size * width,
            stride=piece.stride,
            fraction=int(field.fraction),
        )

    def _fills(self, piece: Piece) -> "Iterator[Fill]":
        from esan.ops.triton.layout import Fill

        for fill in piece.fill:
            column = 0 if fill.begin is None else self._segments.filler(fill.begin)
            yield Fill(fill.plus, column, 0 if fill.begin is None else fill.times, fill.apart)


def _width(piece: Piece) -> int:
    """Numbers a line."""
    return prod(piece.values.shape[1:])


class _Segments:
    """The lines of every graph and filler of a batch, of all kinds of lines one kind after another."""

    def __init__(self, fields: dict[str, Gathered], shape: "Shape") -> None:
        self._graphs = shape.graphs
        kinds = _kinds(fields)
        rows = dict(zip(kinds, np.cumsum([0, *(lines.blocks for lines in kinds)]).tolist(), strict=False))
        count = sum(lines.blocks for lines in kinds)
        room = {lines: lines.room(shape) if lines.room else (0,) * lines.blocks for lines in kinds}
        #: The first segment of each kind.
        self.first: dict[Lines, int] = {}
        #: The row of the table of counts of each segment; the place of its graph in the batch, fillers behind them.
        self.row: list[int] = []
        self.place: list[int] = []
        number: list[int] = []
        before: list[int] = []
        total = 0
        for lines in kinds:
            self.first[lines] = len(self.row)
            filler, all_before = self._graphs, total
            for block, fillers in enumerate(lines.fillers):
                row = rows[lines] + block
                self.row += [row] * (self._graphs + len(fillers))
                self.place += range(self._graphs)
                number += [place * count + row for place in range(self._graphs)]
                for like in fillers:
                    self.place.append(filler)
                    number.append(self._graphs * count + rows[like.lines] + like.block)
                    filler += 1
                    total += room[like.lines][like.block]
            before += [all_before] * (len(self.row) - len(before))
        device = kinds[0].counts.device
        rooms = [n for lines in kinds for n in room[lines]]
        self._number = torch.tensor(number, device=device)
        self._before, self._room = (torch.tensor(t, dtype=torch.int32, device=device) for t in (before, rooms))
        counts, old = [], []
        for lines in kinds:
            absent = lines.counts.new_full((lines.blocks, 1), lines.absent)
            counts.append(torch.cat([lines.counts, absent], 1))
            old.append(torch.cat([lines.start, torch.full_like(absent, lines.total)], 1))
        # A graph that is not there, −1, is the last one.
        self._counts = torch.cat(counts).int().t().contiguous()
        #: Where the lines of each graph begin in the dataset.
        self.old = torch.cat(old)

    def begin(self, ids: Tensor) -> Tensor:
        """Where each segment begins among the lines of its kind, `[batches, segments]`."""
        known = self._counts[ids]
        rest = self._room - known.sum(1, dtype=torch.int32)
        number = torch.cat([known, rest[:, None]], 1).flatten(1).index_select(1, self._number)
        return number.cumsum(1, dtype=torch.int32).sub_(number).sub_(self._before)

    def block(self, lines: Lines) -> int:
        """Segments of a block."""
        return self._graphs + len(lines.fillers[0])

    def columns(self, lines: Lines) -> int:
        return sum(self._graphs + len(fillers) for fillers in lines.fillers)

    def filler(self, filler: Filler) -> int:
        return self.first[filler.lines] + filler.block * self.block(filler.lines) + self._graphs + filler.place


def _kinds(fields: dict[str, Gathered]) -> list[Lines]:
    """All lines that these fields are about."""
    pieces = [piece for field in fields.values() for piece in field.pieces]
    named = [piece.lines for piece in pieces] + [piece.to for piece in pieces if piece.to is not None]
    named += [fill.begin.lines for piece in pieces for fill in piece.fill if fill.begin is not None]
    # Fillers are those of lines as they are, whose fillers are their own.
    like = [filler.lines for lines in dict.fromkeys(named) for fillers in lines.fillers for filler in fillers]
    return [*dict.fromkeys(named + like)]
