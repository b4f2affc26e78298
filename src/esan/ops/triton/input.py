"""Triton: the rows that the first layer takes: lines of nodes, behind marks, filled up to whole vectors."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from esan.ops.dispatch import first_order
from esan.ops.limits import WIDEST
from esan.ops.real import Real
from esan.ops.segments import Grouping
from esan.ops.triton.kernels.tiles import TILE, cdiv, lines_of, padded, tiles
from esan.ops.triton.segments import sum_lines


@triton.jit(do_not_specialize=["rows"])
def _input_kernel(
    x, node, marked, y, real, rows, given, width,
    TILE: tl.constexpr, WIDTH: tl.constexpr, MARKED: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    first, end = lines_of(tl.program_id(0), rows, real, tl.program_id(1), TILE, SLOTS)
    if SLOTS > 0 and first >= end:
        return
    line = first + tl.arange(0, TILE)
    row = tl.program_id(1).to(tl.int64) * rows + line
    column = tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)
    inside = line < end
    at = tl.load(node + row, mask=inside, other=0).to(tl.int64)
    of_x = column - 2 if MARKED else column
    there = inside[:, None] & ((of_x >= 0) & (of_x < given))[None, :]
    value = tl.load(x + at[:, None] * given + of_x[None, :], mask=there, other=0.0)
    if MARKED:
        mark = tl.load(marked + row, mask=inside, other=0).to(tl.float32)
        value = tl.where((column == 0)[None, :], mark[:, None], value)
        value = tl.where((column == 1)[None, :], 1.0 - mark[:, None], value)
    tl.store(y + row[:, None] * width + column[None, :], value, mask=inside[:, None] & (column < width)[None, :])


class Input(torch.autograd.Function):
    """A line a node → a line a row, behind the two marks if there are marks, and zeros up to a width."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, by_node: Grouping, marked: Tensor | None, width: int) -> Tensor:
        x = x.contiguous()
        node = by_node.owner
        y = x.new_empty(node.numel(), width)
        wide, real = min(padded(width), WIDEST), by_node.real
        networks = 1 if real is None else real.networks
        rows, (ranges, slots) = y.size(0) // networks, Real.given(real, x)
        _input_kernel[(tiles(rows, real), networks, cdiv(width, wide))](
            x, node, node if marked is None else marked.view(torch.uint8), y, ranges, rows, x.size(1), width,
            TILE=TILE, WIDTH=wide, MARKED=marked is not None, SLOTS=slots,
        )  # fmt: skip
        ctx.by_node, ctx.begin, ctx.given = by_node, 0 if marked is None else 2, x.size(1)
        return y

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        by_node = ctx.by_node
        of_node = sum_lines(grad, by_node.order, by_node.first, by_node.count)
        return of_node[:, ctx.begin : ctx.begin + ctx.given], None, None, None


def input_rows(x: Tensor, by_node: Grouping, marked: Tensor | None, width: int) -> Tensor:
    """`esan.ops.features.input_rows`."""
    return Input.apply(x, by_node, marked, width)
