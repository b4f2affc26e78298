"""Triton: rows of embedding tables, whose gradient is a sum in a fixed order, and the input rows of the first layer."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from esan.ops.dispatch import MAX_WIDTH, first_order
from esan.ops.segments import CSR, RowRanges
from esan.ops.triton.kernels.tiles import TILE, cdiv, columns, num_networks_of, padded, tile_rows, tiles, total
from esan.ops.triton.segments import sum_rows


@triton.jit(do_not_specialize=["rows", "size"])
def _lookup_kernel(table, index, y, rows, width, size, TILE: tl.constexpr, WIDTH: tl.constexpr):
    network = tl.program_id(1)
    local = tl.program_id(0) * TILE + tl.arange(0, TILE)
    row = network.to(tl.int64) * rows + local
    column = tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)
    inside = local < rows
    mask = inside[:, None] & (column < width)[None, :]
    at = network * size + tl.load(index + row, mask=inside, other=0)
    value = tl.load(table + at[:, None] * width + column[None, :], mask=mask, other=0.0)
    tl.store(y + row[:, None] * width + column[None, :], value, mask=mask)


@triton.jit(do_not_specialize=["rows", "size", "tile_count"])
def _table_grad_kernel(
    grad, index, part, rows, width, size, tile_count,
    TILE: tl.constexpr, WIDTH: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    program, network = tl.program_id(0), tl.program_id(1)
    column, entry = tl.program_id(2) * WIDTH + tl.arange(0, WIDTH), tl.arange(0, SIZE)
    there = column < width
    acc = tl.zeros((SIZE, WIDTH), tl.float32)
    for tile in range(program, tile_count, tl.num_programs(0)):
        local = tile * TILE + tl.arange(0, TILE)
        row = network.to(tl.int64) * rows + local
        inside = local < rows
        at = tl.load(index + row, mask=inside, other=-1)
        g = tl.load(grad + row[:, None] * width + column[None, :], mask=inside[:, None] & there[None, :], other=0.0)
        chosen = tl.where(entry[:, None] == at[None, :], 1.0, 0.0)
        acc += tl.dot(chosen, g, input_precision="tf32x3")
    at = ((network * tl.num_programs(0) + program) * size + entry[:, None]) * width + column[None, :]
    tl.store(part + at, acc, mask=(entry < size)[:, None] & there[None, :])


class LookupFunction(torch.autograd.Function):
    """Rows of a small table; a leading dimension means one table per network, each for an equal part of the indices."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor) -> Tensor:
        networks, (size, width) = num_networks_of(table, 2), table.shape[-2:]
        rows = index.numel() // networks
        y = table.new_empty(index.numel(), width)
        wide = columns(width)
        _lookup_kernel[(tiles(rows), networks, cdiv(width, wide))](
            table.contiguous(), index, y, rows, width, size, TILE=TILE, WIDTH=wide
        )
        ctx.save_for_backward(index)
        ctx.shape = table.shape
        return y

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        grad = grad.contiguous()
        size, width = ctx.shape[-2:]
        networks = ctx.shape.numel() // (size * width)
        rows = grad.size(0) // networks
        count = tiles(rows)
        programs = max(1, min(count, 64))
        part = grad.new_empty(networks, programs, size * width)
        wide = columns(width)
        _table_grad_kernel[(programs, networks, cdiv(width, wide))](
            grad, index, part, rows, width, size, count, TILE=TILE, WIDTH=wide, SIZE=padded(size)
        )
        return total(part).reshape(ctx.shape), None


def lookup(table: Tensor, index: Tensor) -> Tensor:
    """`esan.ops.features.lookup`."""
    return LookupFunction.apply(table, index)


@triton.jit(do_not_specialize=["rows"])
def _input_kernel(
    x, node, marked, y, ranges, rows, x_width, width,
    TILE: tl.constexpr, WIDTH: tl.constexpr, MARKED: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    begin, end = tile_rows(tl.program_id(0), rows, ranges, tl.program_id(1), TILE, SLOTS)
    if SLOTS > 0 and begin >= end:
        return
    local = begin + tl.arange(0, TILE)
    row = tl.program_id(1).to(tl.int64) * rows + local
    column = tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)
    inside = local < end
    at = tl.load(node + row, mask=inside, other=0).to(tl.int64)
    of_x = column - 2 if MARKED else column
    there = inside[:, None] & ((of_x >= 0) & (of_x < x_width))[None, :]
    value = tl.load(x + at[:, None] * x_width + of_x[None, :], mask=there, other=0.0)
    if MARKED:
        mark = tl.load(marked + row, mask=inside, other=0).to(tl.float32)
        value = tl.where((column == 0)[None, :], mark[:, None], value)
        value = tl.where((column == 1)[None, :], 1.0 - mark[:, None], value)
    tl.store(y + row[:, None] * width + column[None, :], value, mask=inside[:, None] & (column < width)[None, :])


class InputRowsFunction(torch.autograd.Function):
    """One row per node → each of its rows, after the two marks if there are marks, and zeros up to a width."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, by_node: CSR, marked: Tensor | None, width: int) -> Tensor:
        x = x.contiguous()
        node = by_node.index
        y = x.new_empty(node.numel(), width)
        wide, row_ranges = min(padded(width), MAX_WIDTH), by_node.row_ranges
        networks = 1 if row_ranges is None else row_ranges.networks
        rows, (ranges, slots) = y.size(0) // networks, RowRanges.for_kernel(row_ranges, x)
        _input_kernel[(tiles(rows, row_ranges), networks, cdiv(width, wide))](
            x, node, node if marked is None else marked.view(torch.uint8), y, ranges, rows, x.size(1), width,
            TILE=TILE, WIDTH=wide, MARKED=marked is not None, SLOTS=slots,
        )  # fmt: skip
        ctx.by_node, ctx.begin, ctx.x_width = by_node, 0 if marked is None else 2, x.size(1)
        return y

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        by_node = ctx.by_node
        of_node = sum_rows(grad, by_node.perm, by_node.ptr, by_node.count)
        return of_node[:, ctx.begin : ctx.begin + ctx.x_width], None, None, None


def input_rows(x: Tensor, by_node: CSR, marked: Tensor | None, width: int) -> Tensor:
    """`esan.ops.features.input_rows`."""
    return InputRowsFunction.apply(x, by_node, marked, width)
