"""Triton: all fields of padded batches in one pass, each line gathered from the dataset and numbered anew."""

from dataclasses import astuple, dataclass, fields

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 1024


@dataclass(frozen=True)
class Entry:
    """How one stretch of numbers is laid out, as the kernel reads it; columns are those of the table of segments.

    Attributes:
        pointer: where the dataset's numbers are, whole numbers of 32 bits (or 64), or fractions as their bits.
        apart: how far those of two lines are apart; 0 if all lines have the first.
        width: numbers a line.
        long: 1 if they have 64 bits, else 0.
        bits: how many of the lowest bits say which block a reference goes to.
        column: the first segment of the lines.
        columns: how many segments they have.
        to: the first segment of what is referred to; −1 if the numbers are no references.
        block: segments from one block of what is referred to to the next.
        plus: added to every number of a graph.
        times: what all numbers are multiplied by.
        fill: the first of the fillers.
        step: added for every network before.
        size: how many numbers there are.
        begin: where they begin in the line of a batch.
        network: numbers from one network to the next.
        stride: numbers from one to the next.
        fraction: 1 if they go to the line of fractions.
        ended: 1 if the last number is 0.
    """

    pointer: int
    apart: int
    width: int
    long: int
    bits: int
    column: int
    columns: int
    to: int
    block: int
    plus: int
    times: int
    fill: int
    step: int
    size: int
    begin: int
    network: int
    stride: int
    fraction: int
    ended: int


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
        entries: the stretches, `[E, ...]`.
        blocks: which stretch each program of a batch works on, and which piece of it, `[P, 2]`.
        fills: the fillers, `[F, ...]`.
        row: the row of `old` of each segment, `[T]`.
        place: the place of its graph in the batch, or from the number of graphs on a filler, `[T]`.
        old: where the lines of each graph begin in the dataset, for each kind of lines; an empty graph last, `[R, G]`.
        most: how many segments the lines of one stretch have at most.
    """

    entries: Tensor
    blocks: Tensor
    fills: Tensor
    row: Tensor
    place: Tensor
    old: Tensor
    most: int

    @staticmethod
    def of(entries: list[Entry], fills: list[Fill], row: list[int], place: list[int], old: Tensor) -> "Program":
        blocks = [(e, block) for e, entry in enumerate(entries) for block in range(triton.cdiv(entry.size, _BLOCK))]

        def sent(table: object, kind: torch.dtype) -> Tensor:
            return torch.tensor(table, dtype=kind).to(old.device)

        return Program(
            entries=sent([astuple(entry) for entry in entries], torch.int64),
            blocks=sent(blocks, torch.int32),
            fills=sent([astuple(fill) for fill in fills], torch.int64),
            row=sent(row, torch.int32),
            place=sent(place, torch.int32),
            old=old,
            most=max(entry.columns for entry in entries),
        )


@triton.jit(do_not_specialize=["graphs", "size", "given", "networks", "columns", "ints_line", "floats_line"])
def _lay_out_kernel(
    entries, blocks, fills, row, place, old, ids, begin, ints, floats,
    graphs, size, given, networks, columns, ints_line, floats_line,
    BLOCK: tl.constexpr, STEPS: tl.constexpr, NUMBERS: tl.constexpr,
):  # fmt: skip
    here = tl.program_id(1).to(tl.int64)
    step, network = here // networks, here % networks
    batch = step * given + network % given
    begin += batch * columns
    entry = entries + tl.load(blocks + 2 * tl.program_id(0)) * NUMBERS
    pointer = tl.load(entry)
    apart, width, long, bits = tl.load(entry + 1), tl.load(entry + 2), tl.load(entry + 3), tl.load(entry + 4)
    column, count = tl.load(entry + 5), tl.load(entry + 6).to(tl.int32)
    to, block, plus, times = tl.load(entry + 7), tl.load(entry + 8), tl.load(entry + 9), tl.load(entry + 10)
    fill, after, total = tl.load(entry + 11), tl.load(entry + 12), tl.load(entry + 13).to(tl.int32)
    at, apart_networks, stride = tl.load(entry + 14), tl.load(entry + 15), tl.load(entry + 16)
    fraction, ended = tl.load(entry + 17), tl.load(entry + 18)

    q = tl.load(blocks + 2 * tl.program_id(0) + 1) * BLOCK + tl.arange(0, BLOCK)
    inside = q < total
    p = q // width.to(tl.int32)
    # The last segment that begins at or before each line: empty ones before it begin there too.
    of = tl.zeros((BLOCK,), tl.int32)
    for i in tl.static_range(STEPS):
        further = of + (1 << (STEPS - 1 - i))
        known = inside & (further < count)
        of = tl.where(known & (tl.load(begin + column + further, mask=known, other=0) <= p), further, of)
    segment = column + of
    k = p - tl.load(begin + segment, mask=inside, other=0)
    where = tl.load(place + segment, mask=inside, other=0)
    real = inside & (where < size)

    graph = tl.load(ids + batch * size + where, mask=real, other=0)
    graph = tl.where(graph < 0, graphs - 1, graph)
    line = tl.load(old + tl.load(row + segment, mask=real, other=0).to(tl.int64) * graphs + graph, mask=real, other=0)
    cell = (line + k) * apart + (q - p * width.to(tl.int32))
    if long != 0:
        value = tl.load(pointer.to(tl.pointer_type(tl.int64)) + cell, mask=real, other=0)
    else:
        code = tl.load(pointer.to(tl.pointer_type(tl.int32)) + cell, mask=real, other=0).to(tl.int64)
        value = code >> bits
        if to >= 0:
            target = to + (code - (value << bits)) * block + where
            value += tl.load(begin + target, mask=real, other=0)
    value += plus

    filler = inside & (where >= size)
    by = fills + (fill + where - size) * 4
    beginning = tl.load(begin + tl.load(by + 1, mask=filler, other=0), mask=filler, other=0)
    empty = tl.load(by, mask=filler, other=0) + tl.load(by + 2, mask=filler, other=0) * beginning
    empty += tl.load(by + 3, mask=filler, other=0) * k

    value = tl.where(real, value, empty) * times
    if ended != 0:
        value = tl.where(q == total - 1, 0, value)
    value += network * after
    cell = at + network * apart_networks + q * stride
    if fraction != 0:
        tl.store(floats + step * floats_line + cell, value.to(tl.int32), mask=inside)
    else:
        tl.store(ints + step * ints_line + cell, value, mask=inside)


def lay_out(
    program: Program, ids: Tensor, begin: Tensor, ints: Tensor, floats: Tensor, given: int, networks: int
) -> None:
    """Write the fields of batches.

    Args:
        program: what is written where.
        ids: the graphs of each batch, −1 for none, `[K · given, B]`.
        begin: where each segment begins in each batch, `[K · given, T]`.
        ints: the line of whole numbers of each step, `[K, ...]`.
        floats: that of fractions.
        given: how many networks the batches are of; 1 if all get the same.
        networks: how many there are.
    """
    _lay_out_kernel[(program.blocks.size(0), ints.size(0) * networks)](
        program.entries, program.blocks, program.fills, program.row, program.place, program.old, ids.contiguous(),
        begin, ints, floats.view(torch.int32), program.old.size(1), ids.size(1), given, networks, begin.size(1),
        ints.size(1), floats.size(1), BLOCK=_BLOCK, STEPS=max(1, (program.most - 1).bit_length()), NUMBERS=_NUMBERS,
    )  # fmt: skip
