"""Triton: pools of rows, rows of a later stage, and lookups in tables, with gradients that are sums in a fixed order."""

from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from esan.kernels.gpu_norm import TILE, padded, tiles, total
from esan.kernels.gpu_sums import sum_lines

if TYPE_CHECKING:
    from esan.bags.stage import Lifted
    from esan.bags.sums import Grouping


@triton.jit
def _spread_kernel(x, owner, weight, y, rows, width, TILE: tl.constexpr, WIDTH: tl.constexpr, WEIGHTED: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    column = tl.arange(0, WIDTH)
    inside = row < rows
    mask = inside[:, None] & (column < width)[None, :]
    at = tl.load(owner + row, mask=inside, other=0)
    value = tl.load(x + at[:, None] * width + column[None, :], mask=mask, other=0.0)
    if WEIGHTED:
        value = value * tl.load(weight + row, mask=inside, other=0.0)[:, None]
    tl.store(y + row[:, None] * width + column[None, :], value, mask=mask)


def spread(x: Tensor, owner: Tensor, weight: Tensor | None) -> Tensor:
    """Line r is weight r times line `owner[r]` of x."""
    x = x.contiguous()
    y = x.new_empty(owner.numel(), x.size(1))
    _spread_kernel[(tiles(y),)](
        x, owner, weight if weight is not None else x, y, y.size(0), y.size(1),
        TILE=TILE, WIDTH=padded(y.size(1)), WEIGHTED=weight is not None,
    )  # fmt: skip
    return y


class Pool(torch.autograd.Function):
    """The weighted sum of the lines of each group."""

    @staticmethod
    def forward(ctx: Any, lines: Tensor, group: "Grouping", weight: Tensor | None) -> Tensor:
        ctx.owner, ctx.weight = group.owner, weight
        return sum_lines(lines, group.order, group.first, group.count, line_weight=weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return spread(grad, ctx.owner, ctx.weight), None, None


class Lift(torch.autograd.Function):
    """Rows of an earlier stage → rows of a later one."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, lifted: "Lifted") -> Tensor:
        ctx.lifted, ctx.rows = lifted, h.size(0)
        return h.index_select(0, lifted.index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        lifted = ctx.lifted
        back = grad[: ctx.rows].contiguous()
        bases = lifted.first.numel()
        back[:bases] += sum_lines(grad, lifted.order, lifted.first, lifted.count)
        return back, None


@triton.jit
def _table_grad_kernel(
    grad, index, part, rows, width, size, tile_count,
    TILE: tl.constexpr, WIDTH: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    column, entry = tl.arange(0, WIDTH), tl.arange(0, SIZE)
    there = column < width
    acc = tl.zeros((SIZE, WIDTH), tl.float32)
    for tile in range(program, tile_count, tl.num_programs(0)):
        row = (tile * TILE + tl.arange(0, TILE)).to(tl.int64)
        inside = row < rows
        at = tl.load(index + row, mask=inside, other=-1)
        g = tl.load(grad + row[:, None] * width + column[None, :], mask=inside[:, None] & there[None, :], other=0.0)
        chosen = tl.where(entry[:, None] == at[None, :], 1.0, 0.0)
        acc += tl.dot(chosen, g, input_precision="tf32x3")
    at = (program * size + entry[:, None]) * width + column[None, :]
    tl.store(part + at, acc, mask=(entry < size)[:, None] & there[None, :])


class Lookup(torch.autograd.Function):
    """Lines of a small table."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.size = table.size(0)
        return table.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        grad = grad.contiguous()
        rows, width = grad.shape
        count = tiles(grad)
        programs = max(1, min(count, 64))
        part = grad.new_empty(1, programs, ctx.size * width)
        _table_grad_kernel[(programs,)](
            grad, index, part, rows, width, ctx.size, count,
            TILE=TILE, WIDTH=padded(width), SIZE=padded(ctx.size),
        )  # fmt: skip
        return total(part).reshape(ctx.size, width), None
