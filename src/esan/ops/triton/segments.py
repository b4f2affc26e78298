"""Triton: sums of gathered rows and of messages, and one row per group broadcast to its rows."""

from dataclasses import dataclass, replace

import triton
import triton.language as tl
from torch import Tensor

from esan.ops.segments import RowRanges
from esan.ops.triton.kernels.tiles import TILE, cdiv, columns, tile_rows, tiles


@dataclass(frozen=True)
class Tuning:
    """How a program sums.

    Attributes:
        groups: how many it works on at once.
        unroll: terms of each group that are loaded one after another without waiting.
        warps: its number of warps.
        parallel: terms of a group that are summed in parallel with those of the other groups, a multiple of `unroll`;
            the remaining terms of a longer group, a hub, are summed afterwards, many at a time.
    """

    groups: int
    unroll: int
    warps: int
    parallel: int = 64

    def of(self, width: int, wide: int) -> "Tuning":
        """The same for programs that work on `wide` columns of a width: on more groups if these are not all columns."""
        return self if wide >= width else replace(self, groups=max(1, 64 * self.groups // wide))


_SHORT, _LONG, _LONGEST = Tuning(16, 1, 4), Tuning(4, 4, 2), Tuning(1, 1, 4, parallel=0)


def tuning_of(terms: int, groups: int) -> Tuning:
    """Many groups at once for short sums, since a loop runs as long as the longest; few for long sums."""
    return _SHORT if terms <= 4 * groups else _LONG


def terms_at_once(wide: int) -> int:
    """How many terms of one long sum, of so many columns, are loaded at once."""
    return max(1, 2048 // wide)


@triton.jit
def ends_of(ptr, count, group, inside, groups, total, COUNTED: tl.constexpr):
    """Where each group begins, and how many terms it has."""
    start = tl.load(ptr + group, mask=inside, other=0)
    if COUNTED:
        number = tl.load(count + group, mask=inside, other=0)
    else:
        after = tl.load(ptr + group + 1, mask=inside & (group + 1 < groups), other=total)
        number = tl.where(inside, after - start, 0)
    return start, number


@triton.jit
def _terms(
    x, e, which, e_row, weight, row_weight, gate, at, more, column, there, width, table,
    MESSAGES: tl.constexpr, WEIGHTED: tl.constexpr, ROW_WEIGHTED: tl.constexpr, GATED: tl.constexpr,
):  # fmt: skip
    """The terms at some positions, one row each."""
    row = tl.load(which + at, mask=more, other=0).to(tl.int64)
    cell = row[:, None] * width + column[None, :]
    mask = more[:, None] & there
    value = tl.load(x + cell, mask=mask, other=0.0)
    if MESSAGES:
        own = tl.load(e_row + at, mask=more, other=0) + table
        value = tl.maximum(value + tl.load(e + own[:, None] * width + column[None, :], mask=mask, other=0.0), 0.0)
    if GATED:
        value = tl.where(tl.load(gate + cell, mask=mask, other=0.0) > 0, value, 0.0)
    if WEIGHTED:
        value = value * tl.load(weight + at, mask=more, other=0.0)[:, None]
    if ROW_WEIGHTED:
        value = value * tl.load(row_weight + row, mask=more, other=0.0)[:, None]
    return value


@triton.jit
def add_long_sums(
    acc, x, which, weight, row_weight, gate, start, number, column, there, width,
    WEIGHTED: tl.constexpr, ROW_WEIGHTED: tl.constexpr, GATED: tl.constexpr,
    PARALLEL: tl.constexpr, TERMS_AT_ONCE: tl.constexpr, GROUPS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Add to the sums of the first `PARALLEL` terms of each group those of its remaining terms, many at a time."""
    for place in range(tl.where(tl.max(number, 0) > PARALLEL, GROUPS, 0)):
        mine = tl.arange(0, GROUPS) == place
        begins = tl.sum(tl.where(mine, start, 0), 0)
        ends = begins + tl.sum(tl.where(mine, number, 0), 0)
        rest = tl.zeros((TERMS_AT_ONCE, WIDTH), tl.float32)
        for done in range(begins + PARALLEL, ends, TERMS_AT_ONCE):
            at = done + tl.arange(0, TERMS_AT_ONCE)
            rest += _terms(
                x, x, which, which, weight, row_weight, gate, at, at < ends, column, there, width, 0,
                False, WEIGHTED, ROW_WEIGHTED, GATED,
            )  # fmt: skip
        acc += tl.where(mine[:, None], tl.sum(rest, 0)[None, :], 0.0)
    return acc


@triton.jit(do_not_specialize=["total", "per_network", "table"])
def _sum_kernel(
    x, e, own, which, e_row, ptr, count, weight, row_weight, gate, y, ranges,
    total, width, per_network, table,
    GROUPS: tl.constexpr, WIDTH: tl.constexpr, UNROLL: tl.constexpr, COUNTED: tl.constexpr, MESSAGES: tl.constexpr,
    OWN: tl.constexpr, WEIGHTED: tl.constexpr, ROW_WEIGHTED: tl.constexpr, GATED: tl.constexpr, SLOTS: tl.constexpr,
    TERMS_AT_ONCE: tl.constexpr, PARALLEL: tl.constexpr,
):  # fmt: skip
    network = tl.program_id(1)
    begin, end = tile_rows(tl.program_id(0), per_network, ranges, network, GROUPS, SLOTS)
    if SLOTS > 0 and begin >= end:
        return
    group = begin + tl.arange(0, GROUPS)
    inside = group < end
    group += network.to(tl.int64) * per_network
    column = tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)
    there = column[None, :] < width
    start, number = ends_of(ptr, count, group, inside, per_network * tl.num_programs(1), total, COUNTED)
    acc = tl.zeros((GROUPS, WIDTH), tl.float32)
    tl.static_assert(PARALLEL % UNROLL == 0)
    longest = tl.max(number, 0)
    for done in range(0, longest if TERMS_AT_ONCE == 0 else tl.minimum(longest, PARALLEL), UNROLL):
        for j in tl.static_range(UNROLL):
            k = done + j
            acc += _terms(
                x, e, which, e_row, weight, row_weight, gate, start + k, k < number, column, there, width,
                network * table, MESSAGES, WEIGHTED, ROW_WEIGHTED, GATED,
            )  # fmt: skip
    if TERMS_AT_ONCE > 0:
        acc = add_long_sums(
            acc, x, which, weight, row_weight, gate, start, number, column, there, width,
            WEIGHTED, ROW_WEIGHTED, GATED, PARALLEL, TERMS_AT_ONCE, GROUPS, WIDTH,
        )  # fmt: skip
    out = group[:, None] * width + column[None, :]
    keep = inside[:, None] & there
    if OWN:
        acc += tl.load(own + network) * tl.load(x + out, mask=keep, other=0.0)
    tl.store(y + out, acc, mask=keep)


def sum_rows(
    x: Tensor,
    which: Tensor,
    ptr: Tensor,
    count: Tensor | None = None,
    *,
    weight: Tensor | None = None,
    row_weight: Tensor | None = None,
    gate: Tensor | None = None,
    own: Tensor | None = None,
    messages: tuple[Tensor, Tensor] | None = None,
    networks: int = 1,
    row_ranges: RowRanges | None = None,
) -> Tensor:
    r""":math:`y_i = o\, x_i + \sum_{j} w_j\, f(x_{k_j})`, j from `ptr[i]` on, `count[i]` of them, k = `which`.

    Args:
        x: `[R, d]`.
        which: the row of x of each term.
        ptr: where the terms of each sum begin.
        count: how many there are; None for all up to the next sum.
        weight: one factor per term.
        row_weight: one factor per row of x.
        gate: terms count only where this, like x, is positive.
        own: o, one number per network; None leaves the term out.
        messages: (e, e_row): f adds row `e_row[j]` of e and takes the ReLU; None for the identity. If e has three
            dimensions, it is one table per network, and `e_row[j]` a row of the table of the network.
        networks: how many networks the sums belong to, one after another.
        row_ranges: which sums are not padding; None if there is no padding.
    """
    x = x.contiguous()
    groups = ptr.numel()
    y = x.new_empty(groups, x.size(1))
    if not y.numel():
        return y
    e, e_row = (x, which) if messages is None else (messages[0].contiguous(), messages[1])
    table = e.size(1) if e.dim() == 3 else 0
    wide = columns(x.size(1))
    tuning = tuning_of(which.numel(), groups)
    if messages is None and which.numel() > tuning.parallel * groups:
        tuning = _LONGEST
    tuning = tuning.of(x.size(1), wide)
    ranges, slots = RowRanges.for_kernel(row_ranges, x)
    per_network = groups // networks
    _sum_kernel[(tiles(per_network, row_ranges, tuning.groups), networks, cdiv(x.size(1), wide))](
        x, e, own if own is not None else x, which, e_row, ptr, count if count is not None else ptr,
        weight if weight is not None else x, row_weight if row_weight is not None else x,
        gate.contiguous() if gate is not None else x, y, ranges, which.numel(), x.size(1), per_network, table,
        GROUPS=tuning.groups, WIDTH=wide, UNROLL=tuning.unroll, COUNTED=count is not None,
        MESSAGES=messages is not None, OWN=own is not None, WEIGHTED=weight is not None,
        ROW_WEIGHTED=row_weight is not None, GATED=gate is not None, SLOTS=slots,
        # Rows that get messages have few edges.
        TERMS_AT_ONCE=terms_at_once(wide) if messages is None else 0, PARALLEL=tuning.parallel, num_warps=tuning.warps,
    )  # fmt: skip
    return y


@triton.jit(do_not_specialize=["rows"])
def _broadcast_kernel(
    x, index, weight, y, ranges, rows, width,
    TILE: tl.constexpr, WIDTH: tl.constexpr, WEIGHTED: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    begin, end = tile_rows(tl.program_id(0), rows, ranges, tl.program_id(1), TILE, SLOTS)
    if SLOTS > 0 and begin >= end:
        return
    local = begin + tl.arange(0, TILE)
    row = tl.program_id(1).to(tl.int64) * rows + local
    column = tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)
    inside = local < end
    mask = inside[:, None] & (column < width)[None, :]
    at = tl.load(index + row, mask=inside, other=0)
    value = tl.load(x + at[:, None] * width + column[None, :], mask=mask, other=0.0)
    if WEIGHTED:
        value = value * tl.load(weight + row, mask=inside, other=0.0)[:, None]
    tl.store(y + row[:, None] * width + column[None, :], value, mask=mask)


def broadcast(x: Tensor, index: Tensor, weight: Tensor | None, row_ranges: RowRanges | None = None) -> Tensor:
    """Row r is weight r times row `index[r]` of x; padding is not written."""
    x = x.contiguous()
    y = x.new_empty(index.numel(), x.size(1))
    if not y.numel():
        return y
    wide = columns(y.size(1))
    networks = 1 if row_ranges is None else row_ranges.networks
    rows, (ranges, slots) = y.size(0) // networks, RowRanges.for_kernel(row_ranges, x)
    _broadcast_kernel[(tiles(rows, row_ranges), networks, cdiv(y.size(1), wide))](
        x, index, weight if weight is not None else x, y, ranges, rows, y.size(1),
        TILE=TILE, WIDTH=wide, WEIGHTED=weight is not None, SLOTS=slots,
    )  # fmt: skip
    return y


def segment_sum(x: Tensor, perm: Tensor, ptr: Tensor, count: Tensor | None, weight: Tensor | None) -> Tensor:
    """The sum of the rows of each group, each times its weight."""
    return sum_rows(x, perm, ptr, count, row_weight=weight)
