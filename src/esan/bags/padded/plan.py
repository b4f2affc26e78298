"""`Plan`: the gathers of all fields of a batch of one shape; `BatchBuffers`: the memory that they fill."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Any

import torch
from torch import Tensor

from esan.bags.padded.axes import AnyAxis, Axis
from esan.bags.padded.column_store import Columns, as_int32
from esan.bags.padded.compute_columns import index_bits
from esan.bags.padded.fields import BatchField, FieldColumn, PaddingCount, PaddingIndex
from esan.bags.padded.shapes import Shape
from esan.ops import ragged
from esan.ops.device import event, let_go
from esan.ops.dispatch import implementation
from esan.ops.padded_layout import BatchSegments, FieldGather, Fill, lay_out_reference

#: Fields begin at multiples of so many numbers, so that vector loads are aligned.
_ALIGNED = 16


@dataclass(frozen=True)
class FieldPlace:
    """Where a field is in its buffer; that of integers also holds floats in double precision, as their bits."""

    begin: int
    shape: tuple[int, ...]
    dtype: torch.dtype


class BufferLayout:
    """The places of fields in the two buffers of a batch, one after another."""

    def __init__(self) -> None:
        self.fields: dict[str, FieldPlace] = {}
        self.ends = {torch.int64: 0, torch.float32: 0}

    def add(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> FieldPlace:
        buffer = torch.float32 if dtype == torch.float32 else torch.int64
        place = self.fields[name] = FieldPlace(self.ends[buffer], shape, dtype)
        size = prod(shape)
        self.ends[buffer] += size + -size % _ALIGNED
        return place


@dataclass(frozen=True, eq=False)
class BatchBuffers:
    """Padded batches of one shape: one buffer of integers and one of floats each, so that two copies load a batch.

    Integers may be int32, so that prefetched batches take less memory; computations on a batch use int64.

    Attributes:
        ints: the integers, `[K, ...]`.
        floats: the floats, `[K, ...]`.
        fields: where each field is in these buffers.
    """

    ints: Tensor
    floats: Tensor
    fields: dict[str, FieldPlace]

    def __len__(self) -> int:
        return self.ints.size(0)

    def views(self, ints: Tensor, floats: Tensor) -> dict[str, Tensor]:
        """All fields of one batch, as views of its two buffers, or of others with the same layout."""
        return {name: self.view(name, ints, floats) for name in self.fields}

    def view(self, name: str, ints: Tensor, floats: Tensor) -> Tensor:
        """One field of a batch."""
        place = self.fields[name]
        buffer = floats if place.dtype == torch.float32 else ints
        values = buffer.narrow(0, place.begin, prod(place.shape)).view(place.shape)
        return values.long().view(torch.float64) if place.dtype == torch.float64 else values


class Plan:
    """The fields of batches of a shape, compiled to gathers; independent of the graphs of a batch.

    Args:
        fields: the fields of the batches.
        columns: of the dataset.
        shape: of the batch of one network.
        networks: how many networks a batch is for.
    """

    def __init__(self, fields: Sequence[BatchField], columns: Columns, shape: Shape, networks: int) -> None:
        used = [column for field in fields for column in field.columns]
        axes = [axis for column in used for axis in _axes(column)]
        axes = [*dict.fromkeys([*axes, *(axis.base for axis in axes)])]
        columns.make([column.column for column in used], axes)
        self._networks, self._layout = networks, BufferLayout()
        compiler = _Compiler(columns, shape, axes)
        self._segments = compiler.segments()
        self._gathers = [gather for field in fields for gather in compiler.gathers(field, self._layout, networks)]
        wide = any(gather.values.dtype == torch.int64 for gather in self._gathers)
        self._narrowest = torch.int64 if wide else torch.int32
        self._tables: Any = None
        self._event: Any = None

    def lay_out(self, ids: Tensor) -> BatchBuffers:
        """The batches of these graphs, `[K, S, B]` or `[K, 1, B]`, −1 for no graph."""
        fast = implementation("padded_layout", ids) if self._gathers else None
        kind = torch.int64 if fast is None else self._narrowest
        ints = ids.new_empty(len(ids), self._layout.ends[torch.int64], dtype=kind)
        floats = ids.new_empty(len(ids), self._layout.ends[torch.float32], dtype=torch.float32)
        if fast is not None:
            self._tables = self._tables or fast.LayoutTables.of(self._gathers, self._segments)
            fast.lay_out(self._tables, ids, ints, floats, self._networks)
            self._event = event(ids.device)
        else:
            lay_out_reference(self._gathers, self._segments, ids, ints, floats, self._networks)
        return BatchBuffers(ints, floats, self._layout.fields)

    def __del__(self) -> None:
        # Freed pinned memory may be reused although a kernel still reads it by its address.
        if (event_ := getattr(self, "_event", None)) is not None:
            let_go(event_, self._gathers, self._tables)


def _axes(column: FieldColumn) -> list[AnyAxis]:
    """The axes that a column runs over or refers to."""
    of_padding = column.padding.axis if isinstance(column.padding, PaddingCount) else None
    return [axis for axis in (column.column.axis, column.to, of_padding) if axis is not None]


class _Compiler:
    """Numbers the segments of a batch, and replaces axes by the numbers of their segments.

    Args:
        columns: of the dataset.
        shape: of the batch of one network.
        axes: all axes of the batch, including those that others are reordered from.
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

    def segments(self) -> BatchSegments:
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

        def on_device(numbers: list[int], kind: torch.dtype = torch.int32) -> Tensor:
            return torch.tensor(numbers, dtype=kind).to(self._columns.device)

        return BatchSegments(
            counts=torch.cat(counts).int().t().contiguous(),
            start=torch.cat(start),
            capacity=on_device(capacity),
            size=on_device(size, torch.int64),
            before=on_device(before),
            block=on_device(block_of),
            place=on_device(place),
        )

    def gathers(self, field: BatchField, layout: BufferLayout, networks: int) -> list[FieldGather]:
        shape, last = self._shape, field.last
        counts = [column.column.axis.size(shape, last) for column in field.columns]
        kind = torch.float32 if field.is_float else torch.float64 if field.is_double else torch.int64
        begin = layout.add(field.name, (networks * sum(counts), *field.shape), kind).begin
        if not prod(field.shape):
            return []  # data without columns
        step, gathers, before = field.times * sum(axis.size(shape, last) for axis in field.indexed), [], 0
        for number, (column, count) in enumerate(zip(field.columns, counts, strict=True)):
            axis, to = column.column.axis, column.to
            gather = FieldGather(
                values=self._columns[column.column],
                column=self._first[axis],
                columns=self._length[axis],
                count=count,
                fills=self._fills(column, last),
                to=-1 if to is None else self._first[to],
                to_block=0 if to is None else self._length[to] // len(self._padding[to]),
                bits=0 if to is None else index_bits(len(self._padding[to])),
                plus=0 if column.after is None else column.after.size(shape, last),
                times=field.times,
                offset=begin + (number if field.interleaved else before),
                stride=len(field.columns) if field.interleaved else 1,
                network=sum(counts) * prod(field.shape),
                step=step,
                is_float=field.is_float,
            )
            before += count
            gathers.append(gather)
        return gathers

    def _fills(self, column: FieldColumn, last: int | None) -> list[Fill]:
        """The values of the padding segments of a column, up to a block."""
        axis, rule = column.column.axis, column.padding
        if isinstance(rule, PaddingCount):
            return [Fill(rule.axis.size(self._shape, last), self._padding_of(rule.axis, 0), times=-1)]
        segments = [index for indices in self._padding[axis] for index in indices][: axis.base.num_blocks(last)]
        if not isinstance(rule, PaddingIndex):
            return [Fill(int(as_int32(rule)))] * len(segments)
        assert column.to is not None
        fills = []
        for block in (axis.base.row_block(index) for index in segments):
            index, ends = column.to.block_index(block), [0, *accumulate(column.to.base.capacity(self._shape))]
            if rule is PaddingIndex.FIRST:
                fills.append(Fill(ends[index]))
            elif rule is PaddingIndex.LAST:
                before = 0 if column.after is None else column.after.size(self._shape, last)
                fills.append(Fill(before + ends[index + 1] - 1))
            else:
                fills.append(Fill(0, self._padding_of(column.to, index), 1, stride=int(rule is PaddingIndex.OWN)))
        return fills

    def _padding_of(self, axis: AnyAxis, block: int) -> int:
        """The first padding segment of a block."""
        before = sum(self._shape.graphs + len(blocks) for blocks in self._padding[axis][:block])
        return self._first[axis] + before + self._shape.graphs
