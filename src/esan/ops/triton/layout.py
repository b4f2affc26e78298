"""Triton: all fields of padded batches in one pass, each line gathered from the dataset and numbered anew."""

from dataclasses import astuple, dataclass, fields
from itertools import accumulate, pairwise

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 256
#: Programs that share the work: two a processor of an H100. They wait for the bus most of the time; more of them would
#: keep the kernels of a step, which runs beside, from the processors.
_PROGRAMS = 264


@dataclass(frozen=True)
class Stretch:
    """Lines that a program finds in the dataset, for all their numbers at once; segments are columns of a table.

    Attributes:
        column: the first segment.
        columns: how many segments there are.
        width: numbers a line.
        size: how many numbers there are.
    """

    column: int
    columns: int
    width: int
    size: int


@dataclass(frozen=True)
class Entry:
    """How numbers of a stretch are laid out, as the kernel reads it.

    Attributes:
        pointer: where the dataset's numbers are: whole numbers, or fractions as their bits.
        apart: how far those of two lines are apart; 0 if all lines have the first.
        size: bytes of a number, 2, 4 or 8; to those of 8 nothing is added.
        bits: how many of the lowest bits say which block a reference goes to.
        to: the first segment of what is referred to; −1 if the numbers are no references.
        block: segments from one block of what is referred to to the next.
        plus: added to every number of a graph.
        times: what all numbers are multiplied by.
        fill: the first of the fillers.
        step: added for every network before.
        begin: where they begin in the line of a batch.
        network: numbers from one network to the next.
        stride: numbers from one to the next.
        fraction: 1 if they go to the line of fractions.
    """

    pointer: int
    apart: int
    size: int
    bits: int
    to: int
    block: int
    plus: int
    times: int
    fill: int
    step: int
    begin: int
    network: int
    stride: int
    fraction: int


_NUMBERS = len(fields(Entry))


@dataclass(frozen=True)
class Fill:
    """What the k-th filler line has: `plus + times · (where the segment begins) + apart · k`."""

    plus: int = 0
    column: int = 0
    times: int = 0
    apart: int = 0


@dataclass(frozen=True, eq=False)
class Program:
    """Tables of the kernel, on the device.

    Attributes:
        stretches: the stretches, each with its first entry and that of the next, `[S, ...]`.
        entries: what is laid out of them, `[E, ...]`.
        blocks: which stretch each program of a batch works on, and which piece of it, `[P, 2]`.
        fills: the fillers, `[F, ...]`.
        row: the row of `old` of each segment, `[T]`.
        place: the place of its graph in the batch, or from the number of graphs on a filler, `[T]`.
        old: where the lines of each graph begin in the dataset, for each kind of lines; an empty graph last, `[R, G]`.
        most: how many segments a stretch has at most.
    """

    stretches: Tensor
    entries: Tensor
    blocks: Tensor
    fills: Tensor
    row: Tensor
    place: Tensor
    old: Tensor
    most: int

    @staticmethod
    def of(
        work: dict[Stretch, list[Entry]], fills: list[Fill], row: list[int], place: list[int], old: Tensor
    ) -> "Program":
        def sent(table: object, kind: torch.dtype) -> Tensor:
            return torch.tensor(table, dtype=kind).to(old.device)

        ends = [0, *accumulate(len(entries) for entries in work.values())]
        return Program(
            stretches=sent([(*astuple(s), *part) for s, part in zip(work, pairwise(ends), strict=True)], torch.int32),
            entries=sent([astuple(entry) for entries in work.values() for entry in entries], torch.int64),
            blocks=sent([(k, b) for k, s in enumerate(work) for b in range(triton.cdiv(s.size, _BLOCK))], torch.int32),
            fills=sent([astuple(fill) for fill in fills], torch.int64),
            row=sent(row, torch.int32),
            place=sent(place, torch.int32),
            old=old,
            most=max(stretch.columns for stretch in work),
        )


@triton.jit(
    do_not_specialize=[
        "graphs", "size", "given", "networks", "columns", "ints_line", "floats_line", "pieces", "items"
    ]
)  # fmt: skip
def _lay_out_kernel(
    stretches, entries, blocks, fills, row, place, old, ids, begin, ints, floats,
    graphs, size, given, networks, columns, ints_line, floats_line, pieces, items,
    BLOCK: tl.constexpr, STEPS: tl.constexpr, NUMBERS: tl.constexpr,
):  # fmt: skip
    for item in range(tl.program_id(0), items, tl.num_programs(0)):
        piece, here = item % pieces, (item // pieces).to(tl.int64)
        step, network = here // networks, here % networks
        batch = step * given + network % given
        begins = begin + batch * columns
        to_ints, to_floats = ints + step * ints_line, floats + step * floats_line
        stretch = stretches + tl.load(blocks + 2 * piece) * 6
        column, count = tl.load(stretch), tl.load(stretch + 1)
        width, total = tl.load(stretch + 2), tl.load(stretch + 3)

        q = tl.load(blocks + 2 * piece + 1) * BLOCK + tl.arange(0, BLOCK)
        inside = q < total
        p = q // width
        # The last segment that begins at or before each line: empty ones before it begin there too.
        of = tl.zeros((BLOCK,), tl.int32)
        for i in tl.static_range(STEPS):
            further = of + (1 << (STEPS - 1 - i))
            known = inside & (further < count)
            of = tl.where(known & (tl.load(begins + column + further, mask=known, other=0) <= p), further, of)
        segment = column + of
        k = p - tl.load(begins + segment, mask=inside, other=0)
        where = tl.load(place + segment, mask=inside, other=0)
        real, filler = inside & (where < size), inside & (where >= size)
        graph = tl.load(ids + batch * size + where, mask=real, other=0)
        graph = tl.where(graph < 0, graphs - 1, graph)
        kind = tl.load(row + segment, mask=real, other=0).to(tl.int64)
        line = tl.load(old + kind * graphs + graph, mask=real, other=0) + k
        within = q - p * width

        for e in range(tl.load(stretch + 4), tl.load(stretch + 5)):
            entry = entries + e * NUMBERS
            pointer, apart, bytes_each = tl.load(entry), tl.load(entry + 1), tl.load(entry + 2)
            bits, to, block = tl.load(entry + 3).to(tl.int32), tl.load(entry + 4), tl.load(entry + 5).to(tl.int32)
            plus, times = tl.load(entry + 6).to(tl.int32), tl.load(entry + 7).to(tl.int32)
            fill, after, at = tl.load(entry + 8), tl.load(entry + 9), tl.load(entry + 10)
            apart_networks, stride = tl.load(entry + 11), tl.load(entry + 12)
            fraction = tl.load(entry + 13)
            cell = line * apart + within
            out = at + network * apart_networks + q * stride
            if bytes_each == 8:
                number = tl.load(pointer.to(tl.pointer_type(tl.int64)) + cell, mask=real, other=0)
                tl.store(to_ints + out, number.to(ints.dtype.element_ty), mask=inside)
            else:
                if bytes_each == 2:
                    code = tl.load(pointer.to(tl.pointer_type(tl.int16)) + cell, mask=real, other=0).to(tl.int32)
                else:
                    code = tl.load(pointer.to(tl.pointer_type(tl.int32)) + cell, mask=real, other=0)
                value = code >> bits
                if to >= 0:
                    target = (code - (value << bits)) * block + where
                    value += tl.load(begins + to + target, mask=real, other=0)
                by = fills + (fill + where - size) * 4
                first = tl.load(begins + tl.load(by + 1, mask=filler, other=0), mask=filler, other=0)
                empty = tl.load(by, mask=filler, other=0).to(tl.int32)
                empty += tl.load(by + 2, mask=filler, other=0).to(tl.int32) * first
                empty += tl.load(by + 3, mask=filler, other=0).to(tl.int32) * k
                value = tl.where(real, value + plus, empty) * times
                if fraction != 0:
                    tl.store(to_floats + out, value, mask=inside)
                else:
                    number = value.to(tl.int64) + network * after
                    tl.store(to_ints + out, number.to(ints.dtype.element_ty), mask=inside)


def lay_out(
    program: Program, ids: Tensor, begin: Tensor, ints: Tensor, floats: Tensor, given: int, networks: int
) -> None:
    """Write the fields of batches.

    Args:
        program: what is written where.
        ids: the graphs of each batch, −1 for none, `[K · given, B]`.
        begin: where each segment begins in each batch, in 32 bits, `[K · given, T]`.
        ints: the line of whole numbers of each step, in 32 bits, or in 64 if some of the dataset's are, `[K, ...]`.
        floats: that of fractions.
        given: how many networks the batches are of; 1 if all get the same.
        networks: how many there are.
    """
    p = program
    pieces = p.blocks.size(0)
    items = pieces * ints.size(0) * networks
    _lay_out_kernel[(min(items, _PROGRAMS),)](
        p.stretches, p.entries, p.blocks, p.fills, p.row, p.place, p.old, ids.contiguous(), begin, ints,
        floats.view(torch.int32), p.old.size(1), ids.size(1), given, networks, begin.size(1), ints.size(1),
        floats.size(1), pieces, items, BLOCK=_BLOCK, STEPS=max(1, (p.most - 1).bit_length()), NUMBERS=_NUMBERS,
    )  # fmt: skip
