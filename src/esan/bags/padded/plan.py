"""`Plan`: the table of fields compiled for batches of one shape; it lays them out wherever they are needed."""

from collections.abc import Sequence
from itertools import accumulate
from math import prod
from typing import Any

import torch
from torch import Tensor

from esan.bags.padded.axes import AnyAxis, Axis
from esan.bags.padded.buffers import Batches, Places
from esan.bags.padded.columns import Columns, as_int32
from esan.bags.padded.fields import At, Field, Part, Remaining
from esan.bags.padded.shapes import Shape
from esan.bags.padded.source import index_bits
from esan.ops import ragged
from esan.ops.device import event
from esan.ops.dispatch import implementation
from esan.ops.layout import Fill, Gather, Segments, lay_out_reference


class Plan:
    """Fields and their places for batches of a shape; nothing in it depends on which graphs a batch has.

    Args:
        fields: what the batches have.
        columns: of the dataset.
        shape: of the batch of one network.
        networks: how many networks a batch is for.
    """

    def __init__(self, fields: Sequence[Field], columns: Columns, shape: Shape, networks: int) -> None:
        parts = [part for field in fields for part in field.parts]
        axes = [axis for part in parts for axis in _axes(part)]
        axes = [*dict.fromkeys([*axes, *(axis.base for axis in axes)])]
        columns.make([part.column for part in parts], axes)
        self._networks, self._places = networks, Places()
        compiler = _Compiler(columns, shape, axes)
        self._segments = compiler.segments()
        self._gathers = [gather for field in fields for gather in compiler.gathers(field, self._places, networks)]
        wide = any(gather.values.dtype == torch.int64 for gather in self._gathers)
        self._narrowest = torch.int64 if wide else torch.int32
        self._tables: Any = None
        self._read: Any = None

    def lay_out(self, ids: Tensor) -> Batches:
        """The batches of these graphs, `[K, S, B]` or `[K, 1, B]`, −1 for no graph."""
        fast = implementation("layout", ids)
        kind = torch.int64 if fast is None else self._narrowest
        ints = ids.new_empty(len(ids), self._places.ends[torch.int64], dtype=kind)
        floats = ids.new_empty(len(ids), self._places.ends[torch.float32], dtype=torch.float32)
        if fast is not None:
            self._tables = self._tables or fast.Tables.of(self._gathers, self._segments)
            fast.lay_out(self._tables, ids, ints, floats, self._networks)
            self._read = event(ids.device)
        else:
            lay_out_reference(self._gathers, self._segments, ids, ints, floats, self._networks)
        return Batches(ints, floats, self._places.fields)

    def __del__(self) -> None:
        # Pinned memory may be used again when it is freed, whether or not a kernel still reads it by its address.
        if (read := getattr(self, "_read", None)) is not None:
            read.synchronize()


def _axes(part: Part) -> list[AnyAxis]:
    """The axes that a part runs over or refers to."""
    named = [part.column.axis, part.to, part.padding.axis if isinstance(part.padding, Remaining) else None]
    return [axis for axis in named if axis is not None]


class _Compiler:
    """Numbers the segments of a batch, and puts their numbers in the place of axes.

    Args:
        columns: of the dataset.
        shape: of the batch of one network.
        axes: all axes of the batch; those that others are reordered from included.
    """

    def __init__(self, columns: Columns, shape: Shape, axes: Sequence[AnyAxis]) -> None:
        self._columns, self._shape, self._axes = columns, shape, axes
        self._padding = {axis: axis.padding(shape) for axis in axes}
        #: The first segment of each axis, how many it has, and its first block among those of all axes.
        self._first: dict[AnyAxis, int] = {}
        self._length: dict[AnyAxis, int] = {}
        self._block: dict[AnyAxis, int] = {}
        segment = block = 0
        for axis in axes:
            self._first[axis], self._block[axis] = segment, block
            self._length[axis] = sum(shape.graphs + len(blocks) for blocks in self._padding[axis])
            segment, block = segment + self._length[axis], block + len(self._padding[axis])
        self._blocks = block

    def segments(self) -> Segments:
        graphs, capacity = self._shape.graphs, [0] * self._blocks
        size: list[int] = []
        before: list[int] = []
        block_of: list[int] = []
        place: list[int] = []
        total = 0
        for axis in self._axes:
            before += [total] * self._length[axis]
            base, padded = self._block[axis.base], graphs
            items = axis.base.capacity(self._shape)
            for block, of_base in enumerate(self._padding[axis], start=self._block[axis]):
                block_of += [block] * (graphs + len(of_base))
                size += [graph * self._blocks + block for graph in range(graphs)]
                size += [graphs * self._blocks + base + b for b in of_base]
                place += [*range(graphs), *range(padded, padded + len(of_base))]
                padded += len(of_base)
                total += sum(items[b] for b in of_base)
            if isinstance(axis, Axis):
                capacity[base : base + len(items)] = items
        counts, start = [], []
        for axis in self._axes:
            mine = self._columns.counts[axis]
            absent = mine.new_full((mine.size(0), 1), axis.absent if isinstance(axis, Axis) else 0)
            counts.append(torch.cat([mine, absent], 1))
            start.append(torch.cat([ragged.starts(mine), mine.sum().expand_as(absent)], 1))

        def sent(numbers: list[int], kind: torch.dtype = torch.int32) -> Tensor:
            return torch.tensor(numbers, dtype=kind).to(self._columns.device)

        return Segments(
            counts=torch.cat(counts).int().t().contiguous(),
            start=torch.cat(start),
            capacity=sent(capacity),
            size=sent(size, torch.int64),
            before=sent(before),
            block=sent(block_of),
            place=sent(place),
        )

    def gathers(self, field: Field, places: Places, networks: int) -> list[Gather]:
        shape, slot = self._shape, field.slot
        counts = [part.column.axis.size(shape, slot) for part in field.parts]
        kind = torch.float32 if field.is_float else torch.int64
        begin = places.add(field.name, (networks * sum(counts), *field.shape), kind).begin
        step, found, before = field.times * sum(axis.size(shape, slot) for axis in field.indexed), [], 0
        for number, (part, count) in enumerate(zip(field.parts, counts, strict=True)):
            axis, to = part.column.axis, part.to
            gather = Gather(
                values=self._columns[part.column],
                column=self._first[axis],
                columns=self._length[axis],
                count=count,
                fills=self._fills(part, slot),
                to=-1 if to is None else self._first[to],
                to_block=0 if to is None else self._length[to] // len(self._padding[to]),
                bits=0 if to is None else index_bits(len(self._padding[to])),
                plus=0 if part.behind is None else part.behind.size(shape, slot),
                times=field.times,
                offset=begin + (number if field.interleaved else before),
                stride=len(field.parts) if field.interleaved else 1,
                network=sum(counts) * prod(field.shape),
                step=step,
                is_float=field.is_float,
            )
            before += count
            found.append(gather)
        return found

    def _fills(self, part: Part, slot: int | None) -> list[Fill]:
        """What the padding segments of a part get, up to a slot."""
        axis, rule = part.column.axis, part.padding
        if isinstance(rule, Remaining):
            return [Fill(rule.axis.size(self._shape, slot), self._padding_of(rule.axis, 0), times=-1)]
        segments = [block for blocks in self._padding[axis] for block in blocks][: axis.base.blocks(slot)]
        if not isinstance(rule, At):
            return [Fill(int(as_int32(rule)))] * len(segments)
        assert part.to is not None
        found = []
        for of in (axis.base.slot_of(block) for block in segments):
            block, ends = part.to.block_of(of), [0, *accumulate(part.to.base.capacity(self._shape))]
            if rule is At.FIRST:
                found.append(Fill(ends[block]))
            elif rule is At.LAST:
                behind = 0 if part.behind is None else part.behind.size(self._shape, slot)
                found.append(Fill(behind + ends[block + 1] - 1))
            else:
                found.append(Fill(0, self._padding_of(part.to, block), 1, stride=int(rule is At.OWN)))
        return found

    def _padding_of(self, axis: AnyAxis, block: int) -> int:
        """The first padding segment of a block."""
        before = sum(self._shape.graphs + len(blocks) for blocks in self._padding[axis][:block])
        return self._first[axis] + before + self._shape.graphs
