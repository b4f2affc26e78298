"""Triton: sums of gathered lines and of messages; nothing is written out but the sums."""

from dataclasses import dataclass, replace

import triton
import triton.language as tl
from torch import Tensor

from esan.ops.real import Real
from esan.ops.triton.kernels.tiles import TILE, cdiv, columns, lines_of, tiles


@dataclass(frozen=True)
class Tuning:
    """How a program sums.

    Attributes:
        groups: that it works on at once.
        unroll: terms of each that are fetched one after another without waiting.
        warps: of it.
        beside: terms of a sum that are added up beside those of the others, a multiple of `unroll`; what a longer one
            has more, that of a hub, is added up by itself, many terms at a time.
    """

    groups: int
    unroll: int
    warps: int
    beside: int = 64

    def of(self, width: int, wide: int) -> "Tuning":
        """The same for programs that work on so many columns of a width: on more groups, if these are some of them."""
        return self if wide >= width else replace(self, groups=max(1, 64 * self.groups // wide))


_SHORT, _LONG, _LONGEST = Tuning(16, 1, 4), Tuning(4, 4, 2), Tuning(1, 1, 4, beside=0)


def tuning_of(terms: int, groups: int) -> Tuning:
    """For sums of few terms many at once, as their loops run as long as the longest; for long sums few."""
    return _SHORT if terms <= 4 * groups else _LONG


def together(wide: int) -> int:
    """Terms of one long sum, of so many columns, that are fetched together."""
    return max(1, 2048 // wide)


@triton.jit
def ends_of(first, count, group, inside, groups, total, COUNTED: tl.constexpr):
    """Where each group begins, and how many lines it has."""
    start = tl.load(first + group, mask=inside, other=0)
    if COUNTED:
        number = tl.load(count + group, mask=inside, other=0)
    else:
        after = tl.load(first + group + 1, mask=inside & (group + 1 < groups), other=total)
        number = tl.where(inside, after - start, 0)
    return start, number


@triton.jit
def _terms(
    x, e, which, line, weight, line_weight, gate, at, more, column, there, width, table,
    MESSAGES: tl.constexpr, WEIGHTED: tl.constexpr, LINE_WEIGHTED: tl.constexpr, GATED: tl.constexpr,
):  # fmt: skip
    """The terms at some places, a line each."""
    row = tl.load(which + at, mask=more, other=0).to(tl.int64)
    cell = row[:, None] * width + column[None, :]
    mask = more[:, None] & there
    value = tl.load(x + cell, mask=mask, other=0.0)
    if MESSAGES:
        own = tl.load(line + at, mask=more, other=0) + table
        value = tl.maximum(value + tl.load(e + own[:, None] * width + column[None, :], mask=mask, other=0.0), 0.0)
    if GATED:
        value = tl.where(tl.load(gate + cell, mask=mask, other=0.0) > 0, value, 0.0)
    if WEIGHTED:
        value = value * tl.load(weight + at, mask=more, other=0.0)[:, None]
    if LINE_WEIGHTED:
        value = value * tl.load(line_weight + row, mask=more, other=0.0)[:, None]
    return value


@triton.jit
def with_rest(
    acc, x, which, weight, line_weight, gate, start, number, column, there, width,
    WEIGHTED: tl.constexpr, LINE_WEIGHTED: tl.constexpr, GATED: tl.constexpr,
    BESIDE: tl.constexpr, TOGETHER: tl.constexpr, GROUPS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Sums of the first `BESIDE` terms of each group, none a message, with the others, of hubs, many at a time."""
    for place in range(tl.where(tl.max(number, 0) > BESIDE, GROUPS, 0)):
        mine = tl.arange(0, GROUPS) == place
        begins = tl.sum(tl.where(mine, start, 0), 0)
        ends = begins + tl.sum(tl.where(mine, number, 0), 0)
        rest = tl.zeros((TOGETHER, WIDTH), tl.float32)
        for done in range(begins + BESIDE, ends, TOGETHER):
            at = done + tl.arange(0, TOGETHER)
            rest += _terms(
                x, x, which, which, weight, line_weight, gate, at, at < ends, column, there, width, 0,
                False, WEIGHTED, LINE_WEIGHTED, GATED,
            )  # fmt: skip
        acc += tl.where(mine[:, None], tl.sum(rest, 0)[None, :], 0.0)
    return acc


@triton.jit(do_not_specialize=["total", "per_network", "table"])
def _sum_kernel(
    x, e, own, which, line, first, count, weight, line_weight, gate, y, real,
    total, width, per_network, table,
    GROUPS: tl.constexpr, WIDTH: tl.constexpr, UNROLL: tl.constexpr, COUNTED: tl.constexpr, MESSAGES: tl.constexpr,
    OWN: tl.constexpr, WEIGHTED: tl.constexpr, LINE_WEIGHTED: tl.constexpr, GATED: tl.constexpr, SLOTS: tl.constexpr,
    TOGETHER: tl.constexpr, BESIDE: tl.constexpr,
):  # fmt: skip
    network = tl.program_id(1)
    begin, end = lines_of(tl.program_id(0), per_network, real, network, GROUPS, SLOTS)
    if SLOTS > 0 and begin >= end:
        return
    group = begin + tl.arange(0, GROUPS)
    inside = group < end
    group += network.to(tl.int64) * per_network
    column = tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)
    there = column[None, :] < width
    start, number = ends_of(first, count, group, inside, per_network * tl.num_programs(1), total, COUNTED)
    acc = tl.zeros((GROUPS, WIDTH), tl.float32)
    tl.static_assert(BESIDE % UNROLL == 0)
    longest = tl.max(number, 0)
    for done in range(0, longest if TOGETHER == 0 else tl.minimum(longest, BESIDE), UNROLL):
        for j in tl.static_range(UNROLL):
            k = done + j
            acc += _terms(
                x, e, which, line, weight, line_weight, gate, start + k, k < number, column, there, width,
                network * table, MESSAGES, WEIGHTED, LINE_WEIGHTED, GATED,
            )  # fmt: skip
    if TOGETHER > 0:
        acc = with_rest(
            acc, x, which, weight, line_weight, gate, start, number, column, there, width,
            WEIGHTED, LINE_WEIGHTED, GATED, BESIDE, TOGETHER, GROUPS, WIDTH,
        )  # fmt: skip
    out = group[:, None] * width + column[None, :]
    keep = inside[:, None] & there
    if OWN:
        acc += tl.load(own + network) * tl.load(x + out, mask=keep, other=0.0)
    tl.store(y + out, acc, mask=keep)


def sum_lines(
    x: Tensor,
    which: Tensor,
    first: Tensor,
    count: Tensor | None = None,
    *,
    weight: Tensor | None = None,
    line_weight: Tensor | None = None,
    gate: Tensor | None = None,
    own: Tensor | None = None,
    messages: tuple[Tensor, Tensor] | None = None,
    networks: int = 1,
    real: Real | None = None,
) -> Tensor:
    r""":math:`y_i = o\, x_i + \sum_{j} w_j\, f(x_{k_j})`, j from `first[i]` on, `count[i]` of them, k = `which`.

    Args:
        x: the lines, `[R, d]`.
        which: the line that each term is about.
        first: where the terms of each sum begin.
        count: how many there are; None for all up to the next sum.
        weight: a factor a term.
        line_weight: a factor a line of x.
        gate: terms count only where this, like x, is positive.
        own: o, one number a network; None leaves the term out.
        messages: (e, line): f adds line `line[j]` of e and takes the ReLU; None for the identity. If e has three
            dimensions, it is a table of each network, and `line[j]` a line of the table of the network.
        networks: how many networks the sums are of, one after another.
        real: which sums are not filler; None if all are.
    """
    x = x.contiguous()
    groups = first.numel()
    y = x.new_empty(groups, x.size(1))
    if not y.numel():
        return y
    e, line = (x, which) if messages is None else (messages[0].contiguous(), messages[1])
    table = e.size(1) if e.dim() == 3 else 0
    wide = columns(x.size(1))
    tuning = tuning_of(which.numel(), groups)
    if messages is None and which.numel() > tuning.beside * groups:
        tuning = _LONGEST
    tuning = tuning.of(x.size(1), wide)
    ranges, slots = Real.given(real, x)
    per_network = groups // networks
    _sum_kernel[(tiles(per_network, real, tuning.groups), networks, cdiv(x.size(1), wide))](
        x, e, own if own is not None else x, which, line, first, count if count is not None else first,
        weight if weight is not None else x, line_weight if line_weight is not None else x,
        gate.contiguous() if gate is not None else x, y, ranges, which.numel(), x.size(1), per_network, table,
        GROUPS=tuning.groups, WIDTH=wide, UNROLL=tuning.unroll, COUNTED=count is not None,
        MESSAGES=messages is not None, OWN=own is not None, WEIGHTED=weight is not None,
        LINE_WEIGHTED=line_weight is not None, GATED=gate is not None, SLOTS=slots,
        # Messages come of few arcs a row.
        TOGETHER=together(wide) if messages is None else 0, BESIDE=tuning.beside, num_warps=tuning.warps,
    )  # fmt: skip
    return y


@triton.jit(do_not_specialize=["rows"])
def _expand_kernel(
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


def expand(x: Tensor, owner: Tensor, weight: Tensor | None, real: Real | None = None) -> Tensor:
    """Row r is weight r times row `owner[r]` of x; padding is not written."""
    x = x.contiguous()
    y = x.new_empty(owner.numel(), x.size(1))
    if not y.numel():
        return y
    wide = columns(y.size(1))
    networks = 1 if real is None else real.networks
    rows, (ranges, slots) = y.size(0) // networks, Real.given(real, x)
    _expand_kernel[(tiles(rows, real), networks, cdiv(y.size(1), wide))](
        x, owner, weight if weight is not None else x, y, ranges, rows, y.size(1),
        TILE=TILE, WIDTH=wide, WEIGHTED=weight is not None, SLOTS=slots,
    )  # fmt: skip
    return y


def segment_sum(x: Tensor, order: Tensor, first: Tensor, count: Tensor | None, weight: Tensor | None) -> Tensor:
    """The sum of the rows of each group, each times its weight."""
    return sum_lines(x, order, first, count, line_weight=weight)
