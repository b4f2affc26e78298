"""Triton: pools of rows, lookups in tables; their gradients are sums in a fixed order."""

from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from esan.ops.real import Real
from esan.ops.triton.sums import sum_lines
from esan.ops.triton.tiles import TILE, columns, copies, lines_of, padded, tiles, total

if TYPE_CHECKING:
    from esan.bags.stage import Stage
    from esan.bags.sums import Grouping


@triton.jit(do_not_specialize=["rows"])
def _spread_kernel(
    x, owner, weight, y, real, rows, width,
    TILE: tl.constexpr, WIDTH: tl.constexpr, WEIGHTED: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    first, end = lines_of(tl.program_id(0), rows, real, tl.program_id(1), TILE, SLOTS)
    if SLOTS > 0 and first >= end:
        return
    line = first + tl.arange(0, TILE)
    row = tl.program_id(1).to(tl.int64) * rows + line
    column = tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)
    inside = line < end
    mask = inside[:, None] & (column < width)[None, :]
    at = tl.load(owner + row, mask=inside, other=0)
    value = tl.load(x + at[:, None] * width + column[None, :], mask=mask, other=0.0)
    if WEIGHTED:
        value = value * tl.load(weight + row, mask=inside, other=0.0)[:, None]
    tl.store(y + row[:, None] * width + column[None, :], value, mask=mask)


def spread(x: Tensor, owner: Tensor, weight: Tensor | None, real: Real | None = None) -> Tensor:
    """Line r is weight r times line `owner[r]` of x; filler is not written."""
    x = x.contiguous()
    y = x.new_empty(owner.numel(), x.size(1))
    if not y.numel():
        return y
    wide = columns(y.size(1))
    networks = 1 if real is None else real.networks
    rows, (ranges, slots) = y.size(0) // networks, Real.given(real, x)
    _spread_kernel[(tiles(rows, real), networks, triton.cdiv(y.size(1), wide))](
        x, owner, weight if weight is not None else x, y, ranges, rows, y.size(1),
        TILE=TILE, WIDTH=wide, WEIGHTED=weight is not None, SLOTS=slots,
    )  # fmt: skip
    return y


class Pool(torch.autograd.Function):
    """The weighted sum of the lines of each group."""

    @staticmethod
    def forward(ctx: Any, lines: Tensor, group: "Grouping", weight: Tensor | None) -> Tensor:
        ctx.owner, ctx.weight, ctx.real = group.owner, weight, group.real
        return sum_lines(lines, group.order, group.first, group.count, line_weight=weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return spread(grad, ctx.owner, ctx.weight, ctx.real), None, None


def _slabs(lines: Tensor, networks: int) -> Tensor:
    """The lines of each network, `[S, lines, d]`."""
    return lines.view(networks, -1, lines.size(1))


class PoolNodes(torch.autograd.Function):
    """The sum over the nodes of each subgraph: of its graph's background rows, and of what its own rows differ by."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, stage: "Stage") -> Tensor:
        ctx.stage, ctx.rows = stage, h.size(0)
        differences, graphs = stage.differences, stage.background_by_graph
        own = sum_lines(h, differences.rows, differences.first, differences.count, weight=differences.sign)
        alike = sum_lines(h, graphs.order, graphs.first, graphs.count)
        return own.add_(spread(alike, stage.subgraph_graph, None))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        stage = ctx.stage
        by_graph, stored = stage.subgraphs_by_graph, stage.stored_by_node
        of_graph = sum_lines(grad, by_graph.order, by_graph.first, by_graph.count)
        # A stored row has its subgraph's gradient; a background row its graph's, less what its stored pairs took over.
        networks = stage.networks
        both = torch.cat([_slabs(grad.contiguous(), networks), _slabs(of_graph, networks)], 1)
        back = spread(both.reshape(-1, grad.size(1)), stage.pooled_into, None, stage.real)
        taken = sum_lines(grad, stage.subgraph_of_stored, stored.first, stored.count)
        _slabs(back, networks)[:, : taken.size(0) // networks] -= _slabs(taken, networks)
        return back, None


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
        _lookup_kernel[(tiles(rows), networks, triton.cdiv(width, wide))](
            table.contiguous(), index, y, rows, width, size, TILE=TILE, WIDTH=wide
        )
        ctx.save_for_backward(index)
        ctx.shape = table.shape
        return y

    @staticmethod
    @once_differentiable
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
        _table_grad_kernel[(programs, networks, triton.cdiv(width, wide))](
            grad, index, part, rows, width, size, count, TILE=TILE, WIDTH=wide, SIZE=padded(size)
        )
        return total(part).reshape(ctx.shape), None
