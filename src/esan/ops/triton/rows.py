"""Triton: rows of an earlier layer → rows of a later one, and the sum over the nodes of each subgraph."""

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from esan.ops.dispatch import first_order
from esan.ops.real import Real
from esan.ops.segments import Grouping
from esan.ops.triton.kernels.tiles import TILE, cdiv, columns, lines_of, tiles
from esan.ops.triton.segments import ends_of, expand, sum_lines, tuning_of


@dataclass(frozen=True, eq=False)
class Lifted:
    """Rows of which the first, in each network, are those of an earlier layer.

    Attributes:
        by_node: the rows by their node.
        earlier: rows of the earlier layer, of one network.
        nodes: nodes of one network; its first rows are their background.
        networks: how many networks the rows are of, one after another.
    """

    by_node: Grouping
    earlier: int
    nodes: int
    networks: int = 1


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
    def forward(ctx: Any, h: Tensor, lifted: Lifted) -> Tensor:
        ctx.lifted = lifted
        h, node, networks = h.contiguous(), lifted.by_node.owner, lifted.networks
        y = h.new_empty(node.numel(), h.size(1))
        rows, wide = y.size(0) // networks, columns(y.size(1))
        real = lifted.by_node.real
        ranges, slots = Real.given(real, h)
        _lift_kernel[(tiles(rows, real), networks, cdiv(y.size(1), wide))](
            h, node, y, ranges, rows, lifted.earlier, lifted.nodes, y.size(1), TILE=TILE, WIDTH=wide, SLOTS=slots
        )
        return y

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        lifted, grad = ctx.lifted, grad.contiguous()
        group, networks, width = lifted.by_node, lifted.networks, grad.size(1)
        back = grad.new_empty(networks * lifted.earlier, width)
        wide = columns(width)
        tuning = tuning_of(group.order.numel(), back.size(0)).of(width, wide)
        ranges, slots = Real.given(group.real, grad)
        # Each slot begins with a tile of its own.
        count = tiles(lifted.earlier, tile=tuning.groups) + slots
        _lift_backward_kernel[(count, networks, cdiv(width, wide))](
            grad, group.order, group.first, group.count if group.count is not None else group.first, back, ranges,
            grad.size(0) // networks, lifted.earlier, lifted.nodes, group.order.numel(), width,
            GROUPS=tuning.groups, WIDTH=wide, UNROLL=tuning.unroll, COUNTED=group.count is not None,
            SLOTS=slots, num_warps=tuning.warps,
        )  # fmt: skip
        return back, None


def _slabs(lines: Tensor, networks: int) -> Tensor:
    """The lines of each network, `[S, lines, d]`."""
    return lines.view(networks, -1, lines.size(1))


class PoolNodes(torch.autograd.Function):
    """The sum over the nodes of each subgraph: of its graph's background rows, and of what its own rows differ by."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, stage: Any) -> Tensor:
        ctx.stage, ctx.rows = stage, h.size(0)
        differences, graphs = stage.differences, stage.background_by_graph
        own = sum_lines(h, differences.rows, differences.first, differences.count, weight=differences.sign)
        alike = sum_lines(h, graphs.order, graphs.first, graphs.count)
        return own.add_(expand(alike, stage.subgraph_graph, None))

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        stage = ctx.stage
        by_graph, stored = stage.subgraphs_by_graph, stage.stored_by_node
        of_graph = sum_lines(grad, by_graph.order, by_graph.first, by_graph.count)
        # A stored row has its subgraph's gradient; a background row its graph's, less what its stored pairs took over.
        networks = stage.networks
        both = torch.cat([_slabs(grad.contiguous(), networks), _slabs(of_graph, networks)], 1)
        back = expand(both.reshape(-1, grad.size(1)), stage.pooled_into, None, stage.real)
        taken = sum_lines(grad, stage.subgraph_of_stored, stored.first, stored.count)
        _slabs(back, networks)[:, : taken.size(0) // networks] -= _slabs(taken, networks)
        return back, None


def lift(h: Tensor, view: Any) -> Tensor:
    """`esan.ops.rows.lift`."""
    return Lift.apply(h, Lifted(view.by_node, h.size(0) // view.networks, view.background, view.networks))


def sum_nodes(h: Tensor, view: Any) -> Tensor:
    """The sum over the nodes of each subgraph, for `esan.ops.rows.pool_nodes`."""
    return PoolNodes.apply(h, view)
