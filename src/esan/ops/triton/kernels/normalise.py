"""Triton: normalising lines by their moments, and the gradient through both.

Parameters may have a leading dimension: then the lines are those of so many networks, one after another, each with as
many lines and with parameters of its own.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from esan.ops.real import Real
from esan.ops.triton.kernels.moments import Moments
from esan.ops.triton.kernels.tiles import TILE, cdiv, columns, lines_of, tiles, total_pair


@triton.jit(do_not_specialize=["rows"])
def _blend_kernel(
    x, scale, shift, shared, shared_scale, shared_shift, node, kept, y, real, rows, width,
    TILE: tl.constexpr, WIDTH: tl.constexpr, RELU: tl.constexpr, SHARED: tl.constexpr, SETTLED: tl.constexpr,
    SLOTS: tl.constexpr,
):  # fmt: skip
    first, end = lines_of(tl.program_id(0), rows, real, tl.program_id(1), TILE, SLOTS)
    if SLOTS > 0 and first >= end:
        return
    line = first + tl.arange(0, TILE)
    row = tl.program_id(1).to(tl.int64) * rows + line
    column = tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)
    inside = line < end
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
    if SETTLED:
        value = tl.where((tl.load(kept + row, mask=inside, other=0.0) > 0)[:, None], value, 0.0)
    tl.store(y + here, value, mask=mask)


def blend(
    x: Tensor,
    moments: Moments,
    relu: bool,
    shared: tuple[Tensor, Moments, Tensor] | None = None,
    real: Real | None = None,
    kept: Tensor | None = None,
) -> Tensor:
    """Normalised x, plus the normalised line of each line's node if `shared` = (lines, moments, node), then ReLU.

    Lines where `kept` is 0 become 0.
    """
    y = torch.empty_like(x)
    s, of, node = (x, moments, x) if shared is None else shared
    networks = moments.scale.size(0)
    rows = x.size(0) // networks
    wide = columns(x.size(1))
    ranges, slots = Real.given(real, x)
    _blend_kernel[(tiles(rows, real), networks, cdiv(x.size(1), wide))](
        x, moments.scale, moments.shift, s, of.scale, of.shift, node, x if kept is None else kept, y, ranges, rows,
        x.size(1),
        TILE=TILE, WIDTH=wide, RELU=relu, SHARED=shared is not None, SETTLED=kept is not None, SLOTS=slots,
    )  # fmt: skip
    return y


@triton.jit(do_not_specialize=["rows"])
def _grad_sums_kernel(
    grad, gate, x, mean, inverse, part, real, rows, width,
    TILE: tl.constexpr, WIDTH: tl.constexpr, GATED: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    tile, network = tl.program_id(0), tl.program_id(1)
    first, end = lines_of(tile, rows, real, network, TILE, SLOTS)
    column = tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)
    there = column < width
    at = part + (network * tl.num_programs(0) + tile) * 2 * width + column
    if SLOTS > 0 and first >= end:
        tl.store(at, column * 0.0, mask=there)
        tl.store(at + width, column * 0.0, mask=there)
        return
    line = first + tl.arange(0, TILE)
    row = network.to(tl.int64) * rows + line
    of = network * width + column
    mask = (line < end)[:, None] & there[None, :]
    here = row[:, None] * width + column[None, :]
    g = tl.load(grad + here, mask=mask, other=0.0)
    if GATED:
        g = tl.where(tl.load(gate + here, mask=mask, other=0.0) > 0, g, 0.0)
    m = tl.load(mean + of, mask=there, other=0.0)
    standard = (tl.load(x + here, mask=mask, other=0.0) - m) * tl.load(inverse + of, mask=there, other=0.0)
    tl.store(at, tl.sum(g, 0), mask=there)
    tl.store(at + width, tl.sum(g * standard, 0), mask=there)


def grad_sums(grad: Tensor, gate: Tensor | None, x: Tensor, moments: Moments, real: Real | None = None) -> Tensor:
    """The sums of the gradient, and of the gradient times the standardised x, `[2, S, d]`; filler is left out."""
    networks = moments.mean.size(0) if moments.mean.dim() > 1 else 1
    rows = x.size(0) // networks
    part = x.new_empty(networks, tiles(rows, real), 2 * x.size(1))
    wide = columns(x.size(1))
    ranges, slots = Real.given(real, x)
    _grad_sums_kernel[(tiles(rows, real), networks, cdiv(x.size(1), wide))](
        grad, gate if gate is not None else x, x, moments.mean, moments.inverse, part, ranges, rows, x.size(1),
        TILE=TILE, WIDTH=wide, GATED=gate is not None, SLOTS=slots,
    )  # fmt: skip
    return total_pair(part)


@triton.jit
def norm_backward_tile(g, standard, w, share, scale, sum_g, sum_gs):
    """Of one tile: the gradient of x from that of the normalised x, through mean and variance."""
    return scale[None, :] * (g - (w * share)[:, None] * (sum_g[None, :] + standard * sum_gs[None, :]))


@triton.jit(do_not_specialize=["rows"])
def _norm_backward_kernel(
    grad, gate, x, weight, mean, inverse, scale, share, sums, out, real, rows, width,
    TILE: tl.constexpr, WIDTH: tl.constexpr, GATED: tl.constexpr, WEIGHTED: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    network = tl.program_id(1)
    first, end = lines_of(tl.program_id(0), rows, real, network, TILE, SLOTS)
    if SLOTS > 0 and first >= end:
        return
    line = first + tl.arange(0, TILE)
    row = network.to(tl.int64) * rows + line
    column = tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)
    inside = line < end
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
    value = norm_backward_tile(g, standard, w, tl.load(share + network), factor, sum_g, sum_gs)
    tl.store(out + here, value, mask=mask)


def norm_backward(
    grad: Tensor,
    gate: Tensor | None,
    x: Tensor,
    weight: Tensor | None,
    moments: Moments,
    sums: Tensor,
    real: Real | None = None,
) -> Tensor:
    """The gradient of x, given that of the normalised x where `gate` is positive, and its `grad_sums`."""
    out = torch.empty_like(x)
    networks = sums.size(1)
    rows = x.size(0) // networks
    wide = columns(x.size(1))
    ranges, slots = Real.given(real, x)
    _norm_backward_kernel[(tiles(rows, real), networks, cdiv(x.size(1), wide))](
        grad, gate if gate is not None else x, x, weight if weight is not None else x, moments.mean, moments.inverse,
        moments.scale, moments.share, sums, out, ranges, rows, x.size(1),
        TILE=TILE, WIDTH=wide, GATED=gate is not None, WEIGHTED=weight is not None, SLOTS=slots,
    )  # fmt: skip
    return out
