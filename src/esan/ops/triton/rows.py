"""Triton: expand the rows of an earlier layer to those of a later one, and sum over the nodes of each subgraph."""

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from esan.ops.dispatch import first_order
from esan.ops.segments import CSR, RowRanges
from esan.ops.triton.kernels.tiles import TILE, cdiv, columns, tile_rows, tiles
from esan.ops.triton.segments import broadcast, ends_of, sum_rows, tuning_of


@dataclass(frozen=True, eq=False)
class RowExpansion:
    """Rows of which the first, in each network, are those of an earlier layer.

    Attributes:
        by_node: the rows by their node.
        earlier: rows of the earlier layer, of one network.
        nodes: nodes of one network; its first rows are their background.
        networks: how many networks the rows belong to, one after another.
    """

    by_node: CSR
    earlier: int
    nodes: int
    networks: int = 1


@triton.jit(do_not_specialize=["rows", "earlier", "nodes"])
def _expand_kernel(
    h, node, y, ranges, rows, earlier, nodes, width, TILE: tl.constexpr, WIDTH: tl.constexpr, SLOTS: tl.constexpr
):
    network = tl.program_id(1).to(tl.int64)
    begin, end = tile_rows(tl.program_id(0), rows, ranges, tl.program_id(1), TILE, SLOTS)
    if SLOTS > 0 and begin >= end:
        return
    local = begin + tl.arange(0, TILE)
    inside = local < end
    column = tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)
    mask = inside[:, None] & (column < width)[None, :]
    row = network * rows + local
    # Each network's nodes are the first of its rows.
    own = tl.load(node + row, mask=inside & (local >= earlier), other=0) - network * nodes
    at = network * earlier + tl.where(local < earlier, local, own)
    value = tl.load(h + at[:, None] * width + column[None, :], mask=mask, other=0.0)
    tl.store(y + row[:, None] * width + column[None, :], value, mask=mask)


@triton.jit(do_not_specialize=["rows", "earlier", "nodes", "total"])
def _expand_backward_kernel(
    grad, perm, ptr, count, out, ranges, rows, earlier, nodes, total, width,
    GROUPS: tl.constexpr, WIDTH: tl.constexpr, UNROLL: tl.constexpr, COUNTED: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    network = tl.program_id(1).to(tl.int64)
    # The slots of the earlier layer come first; a tile after them is of rows that it did not have.
    begin, end = tile_rows(tl.program_id(0), earlier, ranges, tl.program_id(1), GROUPS, SLOTS)
    if SLOTS > 0 and (begin >= end or begin >= earlier):
        return
    local = begin + tl.arange(0, GROUPS)
    inside = local < end
    column = tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)
    there = (column < width)[None, :]
    added = network * rows + earlier
    start, number = ends_of(
        ptr, count, network * nodes + local, inside & (local < nodes), nodes * tl.num_programs(1), total, COUNTED
    )
    acc = tl.zeros((GROUPS, WIDTH), tl.float32)
    for done in range(0, tl.max(number, 0), UNROLL):
        for j in tl.static_range(UNROLL):
            row = tl.load(perm + start + done + j, mask=done + j < number, other=0)
            mask = (row >= added)[:, None] & (done + j < number)[:, None] & there
            acc += tl.load(grad + row[:, None] * width + column[None, :], mask=mask, other=0.0)
    keep = inside[:, None] & there
    acc += tl.load(grad + (network * rows + local)[:, None] * width + column[None, :], mask=keep, other=0.0)
    tl.store(out + (network * earlier + local)[:, None] * width + column[None, :], acc, mask=keep)


class ExpandFunction(torch.autograd.Function):
    """Rows of the earlier layer stay; a new row is the background row of its node. Padding is not written."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, expansion: RowExpansion) -> Tensor:
        ctx.expansion = expansion
        h, node, networks = h.contiguous(), expansion.by_node.index, expansion.networks
        y = h.new_empty(node.numel(), h.size(1))
        rows, wide = y.size(0) // networks, columns(y.size(1))
        row_ranges = expansion.by_node.row_ranges
        ranges, slots = RowRanges.for_kernel(row_ranges, h)
        _expand_kernel[(tiles(rows, row_ranges), networks, cdiv(y.size(1), wide))](
            h, node, y, ranges, rows, expansion.earlier, expansion.nodes, y.size(1), TILE=TILE, WIDTH=wide, SLOTS=slots
        )
        return y

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        expansion, grad = ctx.expansion, grad.contiguous()
        group, networks, width = expansion.by_node, expansion.networks, grad.size(1)
        back = grad.new_empty(networks * expansion.earlier, width)
        wide = columns(width)
        tuning = tuning_of(group.perm.numel(), back.size(0)).of(width, wide)
        ranges, slots = RowRanges.for_kernel(group.row_ranges, grad)
        # Each slot begins with a tile of its own.
        count = tiles(expansion.earlier, tile=tuning.groups) + slots
        _expand_backward_kernel[(count, networks, cdiv(width, wide))](
            grad, group.perm, group.ptr, group.count if group.count is not None else group.ptr, back, ranges,
            grad.size(0) // networks, expansion.earlier, expansion.nodes, group.perm.numel(), width,
            GROUPS=tuning.groups, WIDTH=wide, UNROLL=tuning.unroll, COUNTED=group.count is not None,
            SLOTS=slots, num_warps=tuning.warps,
        )  # fmt: skip
        return back, None


def _slabs(rows: Tensor, networks: int) -> Tensor:
    """The rows of each network, `[S, rows, d]`."""
    return rows.view(networks, -1, rows.size(1))


class SumNodesFunction(torch.autograd.Function):
    """The sum over the nodes of each subgraph: of its graph's background rows, plus the differences of its own rows."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, stage: Any) -> Tensor:
        ctx.stage, ctx.rows = stage, h.size(0)
        differences, graphs = stage.differences, stage.background_by_graph
        own = sum_rows(h, differences.rows, differences.ptr, differences.count, weight=differences.sign)
        background_sum = sum_rows(h, graphs.perm, graphs.ptr, graphs.count)
        return own.add_(broadcast(background_sum, stage.subgraph_graph, None))

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        stage = ctx.stage
        by_graph, stored = stage.subgraphs_by_graph, stage.stored_by_node
        of_graph = sum_rows(grad, by_graph.perm, by_graph.ptr, by_graph.count)
        # A stored row has its subgraph's gradient; a background row its graph's, less those of its stored rows.
        networks = stage.networks
        both = torch.cat([_slabs(grad.contiguous(), networks), _slabs(of_graph, networks)], 1)
        back = broadcast(both.reshape(-1, grad.size(1)), stage.pool_target, None, stage.row_ranges)
        taken = sum_rows(grad, stage.subgraph_of_stored, stored.ptr, stored.count)
        _slabs(back, networks)[:, : taken.size(0) // networks] -= _slabs(taken, networks)
        return back, None


def expand(h: Tensor, view: Any) -> Tensor:
    """`esan.ops.rows.expand`."""
    return ExpandFunction.apply(
        h, RowExpansion(view.by_node, h.size(0) // view.networks, view.background, view.networks)
    )


def sum_nodes(h: Tensor, view: Any) -> Tensor:
    """The sum over the nodes of each subgraph, for `esan.ops.rows.pool_nodes`."""
    return SumNodesFunction.apply(h, view)
