"""Triton: rows of an earlier stage → rows of a later one, and the gradient."""

from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from esan.ops.real import Real
from esan.ops.triton.sums import ends_of, tuning_of
from esan.ops.triton.tiles import TILE, columns, lines_of, tiles

if TYPE_CHECKING:
    from esan.bags.gathered import Lifted


@triton.jit(do_not_specialize=["rows", "earlier", "nodes"])
def _lift_kernel(
    h, node, y, real, rows, earlier, nodes, width, TILE: tl.constexpr, WIDTH: tl.constexpr, SLOTS: tl.constexpr
):
    network = tl.program_id(1).to(tl.int64)
    first, end = lines_of(tl.program_id(0), rows, real, tl.program_id(1), TILE, SLOTS)
    if SLOTS > 0 and first >= end:
        return
    line = first + tl.arange(0, TILE)
    inside = line < end
    column = tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)
    mask = inside[:, None] & (column < width)[None, :]
    row = network * rows + line
    # Each network's nodes are the first of its rows.
    own = tl.load(node + row, mask=inside & (line >= earlier), other=0) - network * nodes
    at = network * earlier + tl.where(line < earlier, line, own)
    value = tl.load(h + at[:, None] * width + column[None, :], mask=mask, other=0.0)
    tl.store(y + row[:, None] * width + column[None, :], value, mask=mask)


@triton.jit(do_not_specialize=["rows", "earlier", "nodes", "total"])
def _lift_backward_kernel(
    grad, order, first, count, out, real, rows, earlier, nodes, total, width,
    GROUPS: tl.constexpr, WIDTH: tl.constexpr, UNROLL: tl.constexpr, COUNTED: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    network = tl.program_id(1).to(tl.int64)
    # The slots of the earlier stage come first; a tile behind them is of rows that it did not have.
    begin, end = lines_of(tl.program_id(0), earlier, real, tl.program_id(1), GROUPS, SLOTS)
    if SLOTS > 0 and (begin >= end or begin >= earlier):
        return
    line = begin + tl.arange(0, GROUPS)
    inside = line < end
    column = tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)
    there = (column < width)[None, :]
    added = network * rows + earlier
    start, number = ends_of(
        first, count, network * nodes + line, inside & (line < nodes), nodes * tl.num_programs(1), total, COUNTED
    )
    acc = tl.zeros((GROUPS, WIDTH), tl.float32)
    for done in range(0, tl.max(number, 0), UNROLL):
        for j in tl.static_range(UNROLL):
            row = tl.load(order + start + done + j, mask=done + j < number, other=0)
            mask = (row >= added)[:, None] & (done + j < number)[:, None] & there
            acc += tl.load(grad + row[:, None] * width + column[None, :], mask=mask, other=0.0)
    keep = inside[:, None] & there
    acc += tl.load(grad + (network * rows + line)[:, None] * width + column[None, :], mask=keep, other=0.0)
    tl.store(out + (network * earlier + line)[:, None] * width + column[None, :], acc, mask=keep)


class Lift(torch.autograd.Function):
    """A row that was there stays; one that was added is the background row of its node. Filler is not written."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, lifted: "Lifted") -> Tensor:
        ctx.lifted = lifted
        h, node, networks = h.contiguous(), lifted.by_node.owner, lifted.networks
        y = h.new_empty(node.numel(), h.size(1))
        rows, wide = y.size(0) // networks, columns(y.size(1))
        real = lifted.by_node.real
        ranges, slots = Real.given(real, h)
        _lift_kernel[(tiles(rows, real), networks, triton.cdiv(y.size(1), wide))](
            h, node, y, ranges, rows, lifted.earlier, lifted.nodes, y.size(1), TILE=TILE, WIDTH=wide, SLOTS=slots
        )
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        lifted, grad = ctx.lifted, grad.contiguous()
        group, networks, width = lifted.by_node, lifted.networks, grad.size(1)
        back = grad.new_empty(networks * lifted.earlier, width)
        wide = columns(width)
        tuning = tuning_of(group.order.numel(), back.size(0)).of(width, wide)
        ranges, slots = Real.given(group.real, grad)
        # Each slot begins with a tile of its own.
        count = tiles(lifted.earlier, tile=tuning.groups) + slots
        _lift_backward_kernel[(count, networks, triton.cdiv(width, wide))](
            grad, group.order, group.first, group.count if group.count is not None else group.first, back, ranges,
            grad.size(0) // networks, lifted.earlier, lifted.nodes, group.order.numel(), width,
            GROUPS=tuning.groups, WIDTH=wide, UNROLL=tuning.unroll, COUNTED=group.count is not None,
            SLOTS=slots, num_warps=tuning.warps,
        )  # fmt: skip
        return back, None
