"""Triton kernels: normalise rows by their moments, and the gradient through both.

A leading dimension of the parameters is that of several networks: the rows are theirs, one network's after the
other's, each with as many rows and with parameters of its own.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from esan.ops.segments import RowRanges
from esan.ops.triton.kernels.moments import Moments
from esan.ops.triton.kernels.tiles import TILE, cdiv, columns, tile_rows, tiles, total_pair


@triton.jit(do_not_specialize=["rows"])
def _normalise_kernel(
    x, scale, shift, shared, shared_scale, shared_shift, node, multiplicity, y, ranges, rows, width,
    TILE: tl.constexpr, WIDTH: tl.constexpr, RELU: tl.constexpr, SHARED: tl.constexpr, ZERO_EMPTY: tl.constexpr,
    SLOTS: tl.constexpr,
):  # fmt: skip
    begin, end = tile_rows(tl.program_id(0), rows, ranges, tl.program_id(1), TILE, SLOTS)
    if SLOTS > 0 and begin >= end:
        return
    local = begin + tl.arange(0, TILE)
    row = tl.program_id(1).to(tl.int64) * rows + local
    column = tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)
    inside = local < end
    there = column < width
    of = tl.program_id(1) * width + column
    mask = inside[:, None] & there[None, :]
    here = row[:, None] * width + column[None, :]
    value = tl.load(x + here, mask=mask, other=0.0)
    value = value * tl.load(scale + of, mask=there, other=0.0) + tl.load(shift + of, mask=there, other=0.0)
    if SHARED:
        at = tl.load(node + row, mask=inside, other=0)
        other = tl.load(shared + at[:, None] * width + column[None, :], mask=mask, other=0.0)
        value += other * tl.load(shared_scale + of, mask=there, other=0.0)
        value += tl.load(shared_shift + of, mask=there, other=0.0)
    if RELU:
        value = tl.maximum(value, 0.0)
    if ZERO_EMPTY:
        value = tl.where((tl.load(multiplicity + row, mask=inside, other=0.0) > 0)[:, None], value, 0.0)
    tl.store(y + here, value, mask=mask)


def normalise(
    x: Tensor,
    moments: Moments,
    relu: bool,
    shared: tuple[Tensor, Moments, Tensor] | None = None,
    row_ranges: RowRanges | None = None,
    zero_mask: Tensor | None = None,
) -> Tensor:
    """Normalised x, plus the normalised row of each row's node if `shared` = (rows, moments, node), then ReLU.

    Rows where `zero_mask` is 0 become 0.
    """
    y = torch.empty_like(x)
    s, of, node = (x, moments, x) if shared is None else shared
    networks = moments.scale.size(0)
    rows = x.size(0) // networks
    wide = columns(x.size(1))
    ranges, slots = RowRanges.for_kernel(row_ranges, x)
    _normalise_kernel[(tiles(rows, row_ranges), networks, cdiv(x.size(1), wide))](
        x, moments.scale, moments.shift, s, of.scale, of.shift, node, x if zero_mask is None else zero_mask, y, ranges,
        rows, x.size(1),
        TILE=TILE, WIDTH=wide, RELU=relu, SHARED=shared is not None, ZERO_EMPTY=zero_mask is not None, SLOTS=slots,
    )  # fmt: skip
    return y


@triton.jit(do_not_specialize=["rows"])
def _grad_sums_kernel(
    grad, gate, x, mean, inverse, part, ranges, rows, width,
    TILE: tl.constexpr, WIDTH: tl.constexpr, GATED: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    tile, network = tl.program_id(0), tl.program_id(1)
    begin, end = tile_rows(tile, rows, ranges, network, TILE, SLOTS)
    column = tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)
    there = column < width
    at = part + (network * tl.num_programs(0) + tile) * 2 * width + column
    if SLOTS > 0 and begin >= end:
        tl.store(at, column * 0.0, mask=there)
        tl.store(at + width, column * 0.0, mask=there)
        return
    local = begin + tl.arange(0, TILE)
    row = network.to(tl.int64) * rows + local
    of = network * width + column
    mask = (local < end)[:, None] & there[None, :]
    here = row[:, None] * width + column[None, :]
    g = tl.load(grad + here, mask=mask, other=0.0)
    if GATED:
        g = tl.where(tl.load(gate + here, mask=mask, other=0.0) > 0, g, 0.0)
    m = tl.load(mean + of, mask=there, other=0.0)
    standard = (tl.load(x + here, mask=mask, other=0.0) - m) * tl.load(inverse + of, mask=there, other=0.0)
    tl.store(at, tl.sum(g, 0), mask=there)
    tl.store(at + width, tl.sum(g * standard, 0), mask=there)


def grad_sums(
    grad: Tensor, gate: Tensor | None, x: Tensor, moments: Moments, row_ranges: RowRanges | None = None
) -> Tensor:
    """The sums of the gradient, and of the gradient times the standardised x, `[2, S, d]`; padding is left out."""
    networks = moments.mean.size(0) if moments.mean.dim() > 1 else 1
    rows = x.size(0) // networks
    part = x.new_empty(networks, tiles(rows, row_ranges), 2 * x.size(1))
    wide = columns(x.size(1))
    ranges, slots = RowRanges.for_kernel(row_ranges, x)
    _grad_sums_kernel[(tiles(rows, row_ranges), networks, cdiv(x.size(1), wide))](
        grad, gate if gate is not None else x, x, moments.mean, moments.inverse, part, ranges, rows, x.size(1),
        TILE=TILE, WIDTH=wide, GATED=gate is not None, SLOTS=slots,
    )  # fmt: skip
    return total_pair(part)


@triton.jit
def norm_backward_tile(g, standard, w, inverse_count, scale, sum_g, sum_gs):
    """Of one tile: the gradient of x from that of the normalised x, through mean and variance."""
    return scale[None, :] * (g - (w * inverse_count)[:, None] * (sum_g[None, :] + standard * sum_gs[None, :]))


@triton.jit(do_not_specialize=["rows"])
def _norm_backward_kernel(
    grad, gate, x, weight, mean, inverse, scale, inverse_count, sums, out, ranges, rows, width,
    TILE: tl.constexpr, WIDTH: tl.constexpr, GATED: tl.constexpr, WEIGHTED: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    network = tl.program_id(1)
    begin, end = tile_rows(tl.program_id(0), rows, ranges, network, TILE, SLOTS)
    if SLOTS > 0 and begin >= end:
        return
    local = begin + tl.arange(0, TILE)
    row = network.to(tl.int64) * rows + local
    column = tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)
    inside = local < end
    there = column < width
    of = network * width + column
    mask = inside[:, None] & there[None, :]
    here = row[:, None] * width + column[None, :]
    g = tl.load(grad + here, mask=mask, other=0.0)
    if GATED:
        g = tl.where(tl.load(gate + here, mask=mask, other=0.0) > 0, g, 0.0)
    m = tl.load(mean + of, mask=there, other=0.0)
    standard = (tl.load(x + here, mask=mask, other=0.0) - m) * tl.load(inverse + of, mask=there, other=0.0)
    w = tl.load(weight + row, mask=inside, other=0.0) if WEIGHTED else tl.where(inside, 1.0, 0.0)
    factor = tl.load(scale + of, mask=there, other=0.0)
    sum_g = tl.load(sums + of, mask=there, other=0.0)
    sum_gs = tl.load(sums + tl.num_programs(1) * width + of, mask=there, other=0.0)
    value = norm_backward_tile(g, standard, w, tl.load(inverse_count + network), factor, sum_g, sum_gs)
    tl.store(out + here, value, mask=mask)


def norm_backward(
    grad: Tensor,
    gate: Tensor | None,
    x: Tensor,
    weight: Tensor | None,
    moments: Moments,
    sums: Tensor,
    row_ranges: RowRanges | None = None,
) -> Tensor:
    """The gradient of x, given that of the normalised x where `gate` is positive, and its `grad_sums`."""
    out = torch.empty_like(x)
    networks = sums.size(1)
    rows = x.size(0) // networks
    wide = columns(x.size(1))
    ranges, slots = RowRanges.for_kernel(row_ranges, x)
    _norm_backward_kernel[(tiles(rows, row_ranges), networks, cdiv(x.size(1), wide))](
        grad, gate if gate is not None else x, x, weight if weight is not None else x, moments.mean, moments.inverse,
        moments.scale, moments.inverse_count, sums, out, ranges, rows, x.size(1),
        TILE=TILE, WIDTH=wide, GATED=gate is not None, WEIGHTED=weight is not None, SLOTS=slots,
    )  # fmt: skip
    return out
