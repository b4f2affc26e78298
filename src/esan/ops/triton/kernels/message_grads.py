"""Triton kernels: the gradients of sums of messages with respect to rows and edge features; no message is stored."""

from dataclasses import dataclass
from itertools import accumulate

import torch
import triton
import triton.language as tl
from torch import Tensor

from esan.ops.dispatch import MAX_FUSED_TABLE
from esan.ops.segments import RowRanges
from esan.ops.triton.fused_gradient import NormInput
from esan.ops.triton.kernels.tiles import cdiv, columns, left_over, range_of, tiles, totals
from esan.ops.triton.segments import Tuning, add_long_sums, ends_of, terms_at_once, tuning_of

_BACK = Tuning(8, 1, 4)
#: Programs that share the rows of one network, at most; each holds sums over its rows.
_PROGRAMS = 528


@dataclass(frozen=True, eq=False)
class PoolGradient:
    """The gradient of a pool of the rows, the group of each row in it, and its weight there (None for 1)."""

    grad: Tensor
    index: Tensor
    weight: Tensor | None


@dataclass(frozen=True, eq=False)
class MessageGrads:
    """Gradients of sums of messages: of x; of o; of a table; and the `grad_sums` of the norm whose ReLU x is."""

    x: Tensor
    own: Tensor | None
    table: Tensor | None
    sums: Tensor | None


@triton.jit(do_not_specialize=["total", "per_network", "part_width", "table"])
def _messages_backward_kernel(
    grad, x, e, own, target, e_rows, ptr, count, weight, pooled, index, pool_weight, norm_rows, mean, inverse, out,
    part, ranges, total, width, per_network, part_width, table,
    GROUPS: tl.constexpr, WIDTH: tl.constexpr, TABLE: tl.constexpr, COUNTED: tl.constexpr,
    MESSAGES: tl.constexpr, OWN: tl.constexpr, OF_OWN: tl.constexpr, WEIGHTED: tl.constexpr, POOLED: tl.constexpr,
    POOL_WEIGHTED: tl.constexpr, NORMED: tl.constexpr, SLOTS: tl.constexpr, TERMS_AT_ONCE: tl.constexpr,
    PARALLEL: tl.constexpr,
):  # fmt: skip
    network = tl.program_id(1)
    column = tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)
    there = column[None, :] < width
    # One sum per row of the table and position in the block; one tensor for all rows would have to change its layout.
    of_0 = tl.zeros((GROUPS, WIDTH), tl.float32)
    of_1, of_2, of_3, of_own, sum_g, sum_gs = of_0, of_0, of_0, of_0, of_0, of_0
    if NORMED:
        m = tl.load(mean + network * width + column, mask=column < width, other=0.0)
        i = tl.load(inverse + network * width + column, mask=column < width, other=0.0)
    next_tile = tl.program_id(0)
    for slot in range(SLOTS if SLOTS > 0 else 1):
        begin, end = range_of(slot, per_network, ranges, network, SLOTS)
        blocks = tl.cdiv(end - begin, GROUPS)
        for block in range(next_tile, blocks, tl.num_programs(0)):
            local = begin + block * GROUPS + tl.arange(0, GROUPS)
            group = network.to(tl.int64) * per_network + local
            inside = local < end
            keep = inside[:, None] & there
            here = group[:, None] * width + column[None, :]
            # Loads that depend on no others come first, and the ends of an edge are loaded while the edge before is
            # worked on: the loop waits once per round, not for one load after another.
            start, number = ends_of(ptr, count, group, inside, per_network * tl.num_programs(1), total, COUNTED)
            if POOLED:
                pool = tl.load(index + group, mask=inside, other=0).to(tl.int64)
            if MESSAGES or OF_OWN or NORMED:
                x_here = tl.load(x + here, mask=keep, other=0.0)
            if NORMED:
                standard = (tl.load(norm_rows + here, mask=keep, other=0.0) - m[None, :]) * i[None, :]
            acc = tl.zeros((GROUPS, WIDTH), tl.float32)
            if OWN:
                g_here = tl.load(grad + here, mask=keep, other=0.0)
                acc += tl.load(own + network) * g_here
                if OF_OWN:
                    of_own += g_here * x_here
            row = tl.load(target + start, mask=number > 0, other=0)
            if MESSAGES:
                e_row = tl.load(e_rows + start, mask=number > 0, other=0)
            if POOLED:
                g = tl.load(pooled + pool[:, None] * width + column[None, :], mask=keep, other=0.0)
                if POOL_WEIGHTED:
                    g = g * tl.load(pool_weight + group, mask=inside, other=0.0)[:, None]
                acc += g
            longest = tl.max(number, 0)
            for k in range(longest if TERMS_AT_ONCE == 0 else tl.minimum(longest, PARALLEL)):
                more = k < number
                mask = more[:, None] & there
                g = tl.load(grad + row.to(tl.int64)[:, None] * width + column[None, :], mask=mask, other=0.0)
                row = tl.load(target + start + k + 1, mask=k + 1 < number, other=0)
                if WEIGHTED:
                    g = g * tl.load(weight + start + k, mask=more, other=0.0)[:, None]
                if MESSAGES:
                    at = e_row + network * table
                    e_value = tl.load(e + at[:, None] * width + column[None, :], mask=mask, other=0.0)
                    g = tl.where(x_here + e_value > 0, g, 0.0)
                    if TABLE > 0:
                        of_0 += tl.where((e_row == 0)[:, None], g, 0.0)
                    if TABLE > 1:
                        of_1 += tl.where((e_row == 1)[:, None], g, 0.0)
                    if TABLE > 2:
                        of_2 += tl.where((e_row == 2)[:, None], g, 0.0)
                    if TABLE > 3:
                        of_3 += tl.where((e_row == 3)[:, None], g, 0.0)
                    e_row = tl.load(e_rows + start + k + 1, mask=k + 1 < number, other=0)
                acc += g
            if TERMS_AT_ONCE > 0:
                acc = add_long_sums(
                    acc, grad, target, weight, weight, grad, start, number, column, there, width,
                    WEIGHTED, False, False, PARALLEL, TERMS_AT_ONCE, GROUPS, WIDTH,
                )  # fmt: skip
            if NORMED:
                acc = tl.where(x_here > 0, acc, 0.0)
                sum_g += acc
                sum_gs += acc * standard
            tl.store(out + here, acc, mask=keep)
        next_tile = left_over(next_tile, blocks)
    part += (network * tl.num_programs(0) + tl.program_id(0)).to(tl.int64) * part_width
    if TABLE > 0:
        tl.store(part + column, tl.sum(of_0, 0), mask=column < width)
    if TABLE > 1:
        tl.store(part + width + column, tl.sum(of_1, 0), mask=column < width)
    if TABLE > 2:
        tl.store(part + 2 * width + column, tl.sum(of_2, 0), mask=column < width)
    if TABLE > 3:
        tl.store(part + 3 * width + column, tl.sum(of_3, 0), mask=column < width)
    part += TABLE * width
    if OF_OWN:
        tl.store(part + tl.program_id(2), tl.sum(tl.sum(of_own, 1), 0))
    if NORMED:
        part += tl.num_programs(2) if OF_OWN else 0
        tl.store(part + column, tl.sum(sum_g, 0), mask=column < width)
        tl.store(part + width + column, tl.sum(sum_gs, 0), mask=column < width)


def messages_backward(
    grad: Tensor,
    x: Tensor | None,
    e: Tensor | None,
    own: Tensor | None,
    target: Tensor,
    e_row: Tensor | None,
    ptr: Tensor,
    count: Tensor | None,
    weight: Tensor | None,
    networks: int = 1,
    pooled: PoolGradient | None = None,
    norm_input: NormInput | None = None,
    of_own: bool = True,
    row_ranges: RowRanges | None = None,
) -> MessageGrads:
    r"""The gradient of x, :math:`o\, g_u + \sum_{u \to v} w\, g_v\, [x_u + e_{uv} > 0]`, and others from the same pass.

    Args:
        grad: g, one row per row of the sums.
        x: as in the forward pass; None if nothing needs it.
        e: as in the forward pass; a table `[S, C, d]`, C at most `MAX_FUSED_TABLE`, gets its gradient here, one row per
            edge by `edges_backward`. None if the messages are the rows.
        own: o, one number per network, or None.
        target: v of each edge, the edges by the row u that they come from.
        e_row: the row of e of each of these edges.
        ptr: where the edges of each row begin.
        count: how many there are, or None for all up to the next row.
        weight: w of each of these edges, or None.
        networks: how many networks the rows belong to.
        pooled: the gradient of a joint pool of x, which is added.
        norm_input: given if x is the ReLU of a norm; the gradient is then that of the normalised rows.
        of_own: whether the gradient of o is wanted.
        row_ranges: which rows are not padding; None if there is no padding.
    """
    of_own = of_own and own is not None and x is not None
    grad, e = grad.contiguous(), None if e is None else e.contiguous()
    x = grad if x is None else x.contiguous()
    out = torch.empty_like(grad)
    rows, width = grad.size(0) // networks, grad.size(1)
    table = e.size(1) if e is not None and e.dim() == 3 else 0
    if table > MAX_FUSED_TABLE:
        raise ValueError(f"Expected a table of {MAX_FUSED_TABLE} rows at most (got {table}). Give e one row per edge.")
    wide = columns(width)
    tuning = _BACK.of(width, wide)
    programs, chunks = max(1, min(tiles(rows, row_ranges, tuning.groups), _PROGRAMS)), cdiv(width, wide)
    factors = chunks if of_own else 0
    sizes = [table * width, factors, *([width, width] if norm_input is not None else [])]
    part = grad.new_empty(networks, programs, sum(sizes))
    before = NormInput(x, x, x) if norm_input is None else norm_input
    p = PoolGradient(grad, target, None) if pooled is None else pooled
    ranges, slots = RowRanges.for_kernel(row_ranges, x)
    _messages_backward_kernel[(programs, networks, chunks)](
        grad, x, e if e is not None else x, own if own is not None else x, target,
        e_row if e_row is not None else target, ptr, count if count is not None else ptr,
        weight if weight is not None else x, p.grad.contiguous(), p.index,
        p.weight if p.weight is not None else x, before.rows, before.mean, before.inverse, out, part,
        ranges, target.numel(), width, rows, part.size(2), table,
        GROUPS=tuning.groups, WIDTH=wide, TABLE=table, COUNTED=count is not None,
        MESSAGES=e is not None, OWN=own is not None, OF_OWN=of_own, WEIGHTED=weight is not None,
        POOLED=pooled is not None, POOL_WEIGHTED=p.weight is not None, NORMED=norm_input is not None, SLOTS=slots,
        # Rows with edge features have few edges; their gradients are several sums.
        TERMS_AT_ONCE=terms_at_once(wide) if e is None else 0, PARALLEL=tuning.parallel,
        num_warps=tuning.warps,
    )  # fmt: skip
    if not part.size(2):
        return MessageGrads(out, None, None, None)
    found = totals(part, *sizes)
    of_table, of_factor, sums = found.tensor_split([networks * size for size in accumulate(sizes[:2])])
    return MessageGrads(
        out,
        _of_own(of_factor, chunks).view(own.shape) if own is not None and of_own else None,
        of_table.view(e.shape) if e is not None and table else None,
        sums.view(2, networks, width) if norm_input is not None else None,
    )


def _of_own(parts: Tensor, chunks: int) -> Tensor:
    """The gradient of o from those of the chunks of columns."""
    return parts if chunks == 1 else parts.view(-1, chunks).sum(1)


@triton.jit(do_not_specialize=["groups", "total"])
def _edges_backward_kernel(
    grad, x, e, source, target, ptr, count, weight, out,
    groups, total, width,
    GROUPS: tl.constexpr, WIDTH: tl.constexpr, UNROLL: tl.constexpr, COUNTED: tl.constexpr, WEIGHTED: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(0).to(tl.int64) * GROUPS + tl.arange(0, GROUPS)
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    inside = group < groups
    there = column[None, :] < width
    keep = inside[:, None] & there
    here = group[:, None] * width + column[None, :]
    e_value = tl.load(e + here, mask=keep, other=0.0)
    start, number = ends_of(ptr, count, group, inside, groups, total, COUNTED)
    acc = tl.zeros((GROUPS, WIDTH), tl.float32)
    for begin in range(0, tl.max(number, 0), UNROLL):
        for j in tl.static_range(UNROLL):
            k = begin + j
            more = k < number
            mask = more[:, None] & there
            at = tl.load(source + start + k, mask=more, other=0)
            to = tl.load(target + start + k, mask=more, other=0)
            value = tl.load(x + at[:, None] * width + column[None, :], mask=mask, other=0.0)
            g = tl.load(grad + to[:, None] * width + column[None, :], mask=mask, other=0.0)
            if WEIGHTED:
                g = g * tl.load(weight + start + k, mask=more, other=0.0)[:, None]
            acc += tl.where(value + e_value > 0, g, 0.0)
    tl.store(out + here, acc, mask=keep)


def edges_backward(
    grad: Tensor,
    x: Tensor,
    e: Tensor,
    source: Tensor,
    target: Tensor,
    ptr: Tensor,
    count: Tensor | None,
    weight: Tensor | None,
) -> Tensor:
    r"""The gradient of e: :math:`\sum w\, g_v\, [x_u + e > 0]` over the edges u → v that carry each row of e.

    Args:
        grad: g, one row per row of the sums.
        x: as in the forward pass.
        e: as in the forward pass.
        source: u of each edge, the edges by the row of e that they carry.
        target: v of each of these edges.
        ptr: where the edges of each row of e begin.
        count: how many there are, or None for all up to the next row.
        weight: w of each of these edges, or None.
    """
    grad, x, e = grad.contiguous(), x.contiguous(), e.contiguous()
    out = torch.empty_like(e)
    if out.numel():
        wide = columns(x.size(1))
        tuning = tuning_of(source.numel(), e.size(0)).of(x.size(1), wide)
        _edges_backward_kernel[(cdiv(e.size(0), tuning.groups), cdiv(x.size(1), wide))](
            grad, x, e, source, target, ptr, count if count is not None else ptr,
            weight if weight is not None else x, out, e.size(0), source.numel(), x.size(1),
            GROUPS=tuning.groups, WIDTH=wide, UNROLL=tuning.unroll, COUNTED=count is not None,
            WEIGHTED=weight is not None, num_warps=tuning.warps,
        )  # fmt: skip
    return out
