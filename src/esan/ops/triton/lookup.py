"""Triton: rows in tables of embeddings; the gradient of a table is a sum in a fixed order."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from esan.ops.dispatch import first_order
from esan.ops.triton.kernels.tiles import TILE, cdiv, columns, copies, padded, tiles, total


@triton.jit(do_not_specialize=["rows", "size"])
def _lookup_kernel(table, index, y, rows, width, size, TILE: tl.constexpr, WIDTH: tl.constexpr):
    network = tl.program_id(1)
    line = tl.program_id(0) * TILE + tl.arange(0, TILE)
    row = network.to(tl.int64) * rows + line
    column = tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)
    inside = line < rows
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
        line = tile * TILE + tl.arange(0, TILE)
        row = network.to(tl.int64) * rows + line
        inside = line < rows
        at = tl.load(index + row, mask=inside, other=-1)
        g = tl.load(grad + row[:, None] * width + column[None, :], mask=inside[:, None] & there[None, :], other=0.0)
        chosen = tl.where(entry[:, None] == at[None, :], 1.0, 0.0)
        acc += tl.dot(chosen, g, input_precision="tf32x3")
    at = ((network * tl.num_programs(0) + program) * size + entry[:, None]) * width + column[None, :]
    tl.store(part + at, acc, mask=(entry < size)[:, None] & there[None, :])


class Lookup(torch.autograd.Function):
    """Lines of a small table; of several tables, if it has a leading dimension, each for as many of the indices."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor) -> Tensor:
        networks, (size, width) = copies(table, 2), table.shape[-2:]
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
    return Lookup.apply(table, index)
