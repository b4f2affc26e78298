"""Triton: all fields of padded batches in one launch; the reference is `esan.ops.padded_layout.lay_out_reference`."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from itertools import accumulate, pairwise

import torch
import triton
import triton.language as tl
from torch import Tensor

from esan.ops.padded_layout import BatchSegments, FieldGather
from esan.ops.triton.kernels.tiles import cdiv

_BLOCK = 256
#: Programs that share the work: two per processor of an H100. They wait for the bus most of the time; more of them
#: would keep the kernels of a step, which runs beside, from the processors.
_PROGRAMS = 264


@dataclass(frozen=True, eq=False)
class LayoutTables:
    """What the kernel reads, on the device.

    A *search* is a set of gathers along the same axis with as many values: for all of them a program finds once which
    items of the dataset its values come from.

    Attributes:
        segments: the segments of a batch.
        searches: of each search its first segment, how many there are, the width, the number of values, its first
            gather and that of the next search, `[S, 6]`.
        gathers: the gathers, search by search, `[E, 14]`.
        fills: what padding segments get, `[F, 4]`.
        chunks: the search of each chunk of `_BLOCK` values, and which of its chunks it is, `[C, 2]`.
        steps: of the binary search for a segment.
    """

    segments: BatchSegments
    searches: Tensor
    gathers: Tensor
    fills: Tensor
    chunks: Tensor
    steps: int

    @staticmethod
    def of(gathers: Sequence[FieldGather], segments: BatchSegments) -> "LayoutTables":
        searches: dict[tuple[int, int, int, int], list[FieldGather]] = {}
        for gather in gathers:
            key = gather.column, gather.columns, gather.width, gather.count * gather.width
            searches.setdefault(key, []).append(gather)
        ordered = [gather for same in searches.values() for gather in same]
        ends = [0, *accumulate(map(len, searches.values()))]
        fill_ends = [0, *accumulate(len(gather.fills) for gather in ordered)]
        sizes = [cdiv(key[3], _BLOCK) for key in searches]

        def on_device(table: object, kind: torch.dtype) -> Tensor:
            return torch.tensor(table, dtype=kind).to(segments.start.device)

        return LayoutTables(
            segments=segments,
            searches=on_device(
                [(*key, *part) for key, part in zip(searches, pairwise(ends), strict=True)], torch.int32
            ),
            gathers=on_device([_numbers(*pair) for pair in zip(ordered, fill_ends, strict=False)], torch.int64),
            fills=on_device([astuple(fill) for gather in ordered for fill in gather.fills], torch.int64),
            chunks=on_device([(search, chunk) for search, n in enumerate(sizes) for chunk in range(n)], torch.int32),
            steps=max(1, (max(key[1] for key in searches) - 1).bit_length()),
        )


def _numbers(gather: FieldGather, fill: int) -> tuple[int, ...]:
    """A gather as the kernel reads it; `fill` is the first of its fills. Values are read by their address."""
    values = gather.values
    return (
        values.data_ptr(), gather.width if values.dim() else 0, values.element_size(), gather.bits, gather.to,
        gather.to_block, gather.plus, gather.times, fill, gather.step, gather.offset, gather.network, gather.stride,
        int(gather.is_float),
    )  # fmt: skip


@triton.jit(
    do_not_specialize=[
        "graphs", "size", "given", "networks", "columns", "ints_size", "floats_size", "num_chunks", "items"
    ]
)  # fmt: skip
def _lay_out_kernel(
    searches, gathers, fills, chunks, block, place, start, ids, begin, ints, floats,
    graphs, size, given, networks, columns, ints_size, floats_size, num_chunks, items,
    BLOCK: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    for item in range(tl.program_id(0), items, tl.num_programs(0)):
        chunk, here = item % num_chunks, (item // num_chunks).to(tl.int64)
        step, network = here // networks, here % networks
        batch = step * given + network % given
        begins = begin + batch * columns
        to_ints, to_floats = ints + step * ints_size, floats + step * floats_size
        search = searches + tl.load(chunks + 2 * chunk) * 6
        column, count = tl.load(search), tl.load(search + 1)
        width, total = tl.load(search + 2), tl.load(search + 3)

        q = tl.load(chunks + 2 * chunk + 1) * BLOCK + tl.arange(0, BLOCK)
        inside = q < total
        p = q // width
        # The last segment that begins at or before each item: empty ones before it begin there too.
        of = tl.zeros((BLOCK,), tl.int32)
        for i in tl.static_range(STEPS):
            further = of + (1 << (STEPS - 1 - i))
            known = inside & (further < count)
            of = tl.where(known & (tl.load(begins + column + further, mask=known, other=0) <= p), further, of)
        segment = column + of
        k = p - tl.load(begins + segment, mask=inside, other=0)
        where = tl.load(place + segment, mask=inside, other=0)
        in_graph, padding = inside & (where < size), inside & (where >= size)
        graph = tl.load(ids + batch * size + where, mask=in_graph, other=0)
        graph = tl.where(graph < 0, graphs - 1, graph)
        of_block = tl.load(block + segment, mask=in_graph, other=0).to(tl.int64)
        old = tl.load(start + of_block * graphs + graph, mask=in_graph, other=0) + k
        within = q - p * width

        for g in range(tl.load(search + 4), tl.load(search + 5)):
            gather = gathers + g * 14
            pointer, apart, bytes_each = tl.load(gather), tl.load(gather + 1), tl.load(gather + 2)
            bits, to, to_block = tl.load(gather + 3).to(tl.int32), tl.load(gather + 4), tl.load(gather + 5).to(tl.int32)
            plus, times = tl.load(gather + 6).to(tl.int32), tl.load(gather + 7).to(tl.int32)
            fill, after, at = tl.load(gather + 8), tl.load(gather + 9), tl.load(gather + 10)
            apart_networks, stride = tl.load(gather + 11), tl.load(gather + 12)
            is_float = tl.load(gather + 13)
            cell = old * apart + within
            out = at + network * apart_networks + q * stride
            if bytes_each == 8:
                number = tl.load(pointer.to(tl.pointer_type(tl.int64)) + cell, mask=in_graph, other=0)
                tl.store(to_ints + out, number.to(ints.dtype.element_ty), mask=inside)
            else:
                if bytes_each == 2:
                    code = tl.load(pointer.to(tl.pointer_type(tl.int16)) + cell, mask=in_graph, other=0).to(tl.int32)
                else:
                    code = tl.load(pointer.to(tl.pointer_type(tl.int32)) + cell, mask=in_graph, other=0)
                value = code >> bits
                if to >= 0:
                    target = (code - (value << bits)) * to_block + where
                    value += tl.load(begins + to + target, mask=in_graph, other=0)
                by = fills + (fill + where - size) * 4
                first = tl.load(begins + tl.load(by + 1, mask=padding, other=0), mask=padding, other=0)
                empty = tl.load(by, mask=padding, other=0).to(tl.int32)
                empty += tl.load(by + 2, mask=padding, other=0).to(tl.int32) * first
                empty += tl.load(by + 3, mask=padding, other=0).to(tl.int32) * k
                value = tl.where(in_graph, value + plus, empty) * times
                if is_float != 0:
                    tl.store(to_floats + out, value, mask=inside)
                else:
                    number = value.to(tl.int64) + network * after
                    tl.store(to_ints + out, number.to(ints.dtype.element_ty), mask=inside)


def lay_out(tables: LayoutTables, ids: Tensor, ints: Tensor, floats: Tensor, networks: int) -> None:
    """`lay_out_reference`, where `ints` may be int32 if no values are int64."""
    s, t, begin = tables.segments, tables, tables.segments.begin(ids.flatten(0, 1))
    num_chunks = t.chunks.size(0)
    items = num_chunks * ints.size(0) * networks
    _lay_out_kernel[(min(items, _PROGRAMS),)](
        t.searches, t.gathers, t.fills, t.chunks, s.block, s.place, s.start, ids.contiguous(), begin, ints,
        floats.view(torch.int32), s.start.size(1), ids.size(2), ids.size(1), networks, begin.size(1), ints.size(1),
        floats.size(1), num_chunks, items, BLOCK=_BLOCK, STEPS=t.steps,
    )  # fmt: skip
