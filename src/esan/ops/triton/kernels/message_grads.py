"""Triton: the gradients of sums of messages with respect to rows; nothing is written out a message."""

from dataclasses import dataclass
from itertools import accumulate

import torch
import triton
import triton.language as tl
from torch import Tensor

from esan.ops.limits import SMALL_TABLE
from esan.ops.real import Real
from esan.ops.triton.ahead import Normed
from esan.ops.triton.kernels.tiles import cdiv, columns, left_over, range_of, tiles, totals
from esan.ops.triton.segments import Tuning, ends_of, together, with_rest

_BACK = Tuning(8, 1, 4)
#: Programs that share the rows of one network, at most; each keeps sums over its rows.
_PROGRAMS = 528


@dataclass(frozen=True, eq=False)
class Pooled:
    """Where rows were pooled into: the gradient of the pools, the pool of each row, its weight there (None for 1)."""

    grad: Tensor
    owner: Tensor
    weight: Tensor | None


@dataclass(frozen=True, eq=False)
class MessageGrads:
    """Gradients of sums of messages: of x; of o; of a table; and the `grad_sums` of what x is the ReLU of."""

    x: Tensor
    own: Tensor | None
    table: Tensor | None
    sums: Tensor | None


@triton.jit(do_not_specialize=["total", "per_network", "part_width", "table"])
def _messages_backward_kernel(
    grad, x, e, own, target, line, first, count, weight, pooled, owner, share, lines, mean, inverse, out, part,
    real, total, width, per_network, part_width, table,
    GROUPS: tl.constexpr, WIDTH: tl.constexpr, TABLE: tl.constexpr, COUNTED: tl.constexpr,
    MESSAGES: tl.constexpr, OWN: tl.constexpr, OF_OWN: tl.constexpr, WEIGHTED: tl.constexpr, POOLED: tl.constexpr,
    SHARED: tl.constexpr, NORMED: tl.constexpr, SLOTS: tl.constexpr, TOGETHER: tl.constexpr, BESIDE: tl.constexpr,
):  # fmt: skip
    network = tl.program_id(1)
    column = tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)
    there = column[None, :] < width
    # A sum a line of the table and place in the block; one tensor for all lines would have to change its layout.
    of_0 = tl.zeros((GROUPS, WIDTH), tl.float32)
    of_1, of_2, of_3, of_own, sum_g, sum_gs = of_0, of_0, of_0, of_0, of_0, of_0
    if NORMED:
        m = tl.load(mean + network * width + column, mask=column < width, other=0.0)
        i = tl.load(inverse + network * width + column, mask=column < width, other=0.0)
    ahead = tl.program_id(0)
    for slot in range(SLOTS if SLOTS > 0 else 1):
        begin, end = range_of(slot, per_network, real, network, SLOTS)
        blocks = tl.cdiv(end - begin, GROUPS)
        for block in range(ahead, blocks, tl.num_programs(0)):
            line_here = begin + block * GROUPS + tl.arange(0, GROUPS)
            group = network.to(tl.int64) * per_network + line_here
            inside = line_here < end
            keep = inside[:, None] & there
            here = group[:, None] * width + column[None, :]
            # All that does not wait for other numbers is fetched first, and the ends of an arc while those before it
            # are worked on: the loop waits once a round, not for one thing after another.
            start, number = ends_of(first, count, group, inside, per_network * tl.num_programs(1), total, COUNTED)
            if POOLED:
                pool = tl.load(owner + group, mask=inside, other=0).to(tl.int64)
            if MESSAGES or OF_OWN or NORMED:
                x_here = tl.load(x + here, mask=keep, other=0.0)
            if NORMED:
                standard = (tl.load(lines + here, mask=keep, other=0.0) - m[None, :]) * i[None, :]
            acc = tl.zeros((GROUPS, WIDTH), tl.float32)
            if OWN:
                g_here = tl.load(grad + here, mask=keep, other=0.0)
                acc += tl.load(own + network) * g_here
                if OF_OWN:
                    of_own += g_here * x_here
            row = tl.load(target + start, mask=number > 0, other=0)
            if MESSAGES:
                kind = tl.load(line + start, mask=number > 0, other=0)
            if POOLED:
                g = tl.load(pooled + pool[:, None] * width + column[None, :], mask=keep, other=0.0)
                if SHARED:
                    g = g * tl.load(share + group, mask=inside, other=0.0)[:, None]
                acc += g
            longest = tl.max(number, 0)
            for k in range(longest if TOGETHER == 0 else tl.minimum(longest, BESIDE)):
                more = k < number
                mask = more[:, None] & there
                g = tl.load(grad + row.to(tl.int64)[:, None] * width + column[None, :], mask=mask, other=0.0)
                row = tl.load(target + start + k + 1, mask=k + 1 < number, other=0)
                if WEIGHTED:
                    g = g * tl.load(weight + start + k, mask=more, other=0.0)[:, None]
                if MESSAGES:
                    at = kind + network * table
                    bond = tl.load(e + at[:, None] * width + column[None, :], mask=mask, other=0.0)
                    g = tl.where(x_here + bond > 0, g, 0.0)
                    if TABLE > 0:
                        of_0 += tl.where((kind == 0)[:, None], g, 0.0)
                    if TABLE > 1:
                        of_1 += tl.where((kind == 1)[:, None], g, 0.0)
                    if TABLE > 2:
                        of_2 += tl.where((kind == 2)[:, None], g, 0.0)
                    if TABLE > 3:
                        of_3 += tl.where((kind == 3)[:, None], g, 0.0)
                    kind = tl.load(line + start + k + 1, mask=k + 1 < number, other=0)
                acc += g
            if TOGETHER > 0:
                acc = with_rest(
                    acc, grad, target, weight, weight, grad, start, number, column, there, width,
                    WEIGHTED, False, False, BESIDE, TOGETHER, GROUPS, WIDTH,
                )  # fmt: skip
            if NORMED:
                acc = tl.where(x_here > 0, acc, 0.0)
                sum_g += acc
                sum_gs += acc * standard
            tl.store(out + here, acc, mask=keep)
        ahead = left_over(ahead, blocks)
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
    line: Tensor | None,
    first: Tensor,
    count: Tensor | None,
    weight: Tensor | None,
    networks: int = 1,
    pooled: Pooled | None = None,
    normed: Normed | None = None,
    of_own: bool = True,
    real: Real | None = None,
) -> MessageGrads:
    r"""The gradient of x, :math:`o\, g_u + \sum_{u \to v} w\, g_v\, [x_u + e_{uv} > 0]`, and what is found with it.

    Args:
        grad: g, a line a row.
        x: as in the forward pass; None if nothing needs it.
        e: as in the forward pass; a table `[S, C, d]`, C at most `TABLE`, gets a gradient here, other lines by
            `edges_backward`. None if the messages are the rows.
        own: o, one number a network, or None.
        target: v of each arc, the arcs by the row u that they come from.
        line: the line of e of each of these arcs.
        first: where the arcs of each row begin.
        count: how many there are, or None for all up to the next row.
        weight: w of each of these arcs, or None.
        networks: how many networks the rows are of.
        pooled: what is added to the gradient of x, as x was pooled too.
        normed: what x is the ReLU of; the gradient is then that of what is under the ReLU.
        of_own: whether the gradient of o is wanted.
        real: which rows are not filler; None if all are.
    """
    of_own = of_own and own is not None and x is not None
    grad, e = grad.contiguous(), None if e is None else e.contiguous()
    x = grad if x is None else x.contiguous()
    out = torch.empty_like(grad)
    rows, width = grad.size(0) // networks, grad.size(1)
    table = e.size(1) if e is not None and e.dim() == 3 else 0
    if table > SMALL_TABLE:
        raise ValueError(f"Expected a table of {SMALL_TABLE} rows at most (got {table}). Give e one row per edge.")
    wide = columns(width)
    tuning = _BACK.of(width, wide)
    programs, pieces = max(1, min(tiles(rows, real, tuning.groups), _PROGRAMS)), cdiv(width, wide)
    factors = pieces if of_own else 0
    sizes = [table * width, factors, *([width, width] if normed is not None else [])]
    part = grad.new_empty(networks, programs, sum(sizes))
    before = Normed(x, x, x) if normed is None else normed
    p = Pooled(grad, target, None) if pooled is None else pooled
    ranges, slots = Real.given(real, x)
    _messages_backward_kernel[(programs, networks, pieces)](
        grad, x, e if e is not None else x, own if own is not None else x, target, line if line is not None else target,
        first, count if count is not None else first, weight if weight is not None else x, p.grad.contiguous(), p.owner,
        p.weight if p.weight is not None else x, before.lines, before.mean, before.inverse, out, part,
        ranges, target.numel(), width, rows, part.size(2), table,
        GROUPS=tuning.groups, WIDTH=wide, TABLE=table, COUNTED=count is not None,
        MESSAGES=e is not None, OWN=own is not None, OF_OWN=of_own, WEIGHTED=weight is not None,
        POOLED=pooled is not None, SHARED=p.weight is not None, NORMED=normed is not None, SLOTS=slots,
        # Messages with features come of few arcs a row; their gradients are sums of more than one kind.
        TOGETHER=together(wide) if e is None else 0, BESIDE=tuning.beside,
        num_warps=tuning.warps,
    )  # fmt: skip
    if not part.size(2):
        return MessageGrads(out, None, None, None)
    found = totals(part, *sizes)
    of_table, of_factor, sums = found.tensor_split([networks * size for size in accumulate(sizes[:2])])
    return MessageGrads(
        out,
        _of_own(of_factor, pieces).view(own.shape) if own is not None and of_own else None,
        of_table.view(e.shape) if e is not None and table else None,
        sums.view(2, networks, width) if normed is not None else None,
    )


def _of_own(parts: Tensor, pieces: int) -> Tensor:
    """The gradient of o from that of each piece of columns."""
    return parts if pieces == 1 else parts.view(-1, pieces).sum(1)
