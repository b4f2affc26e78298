"""Triton: weighted batch norm: moments of lines from tiles, normalising, and the gradient through both."""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

#: Lines of a tile.
TILE = 64
#: Tiles, and columns, that the last step of a sum over tiles works on at once.
_TILES, _COLUMNS = 128, 16


def tiles(lines: Tensor) -> int:
    return triton.cdiv(lines.size(0), TILE)


def padded(width: int) -> int:
    return max(16, triton.next_power_of_2(width))


@dataclass(frozen=True, eq=False)
class TileMoments:
    """Of each tile of lines: its weight `[T]`, the weighted mean and sum of squared deviations, `[T, d]`."""

    weight: Tensor
    mean: Tensor
    deviation: Tensor

    @staticmethod
    def empty(lines: Tensor, width: int) -> "TileMoments":
        count = tiles(lines)
        part = lines.new_empty(2, count, width)
        return TileMoments(lines.new_empty(count), part[0], part[1])


@dataclass(frozen=True, eq=False)
class Moments:
    """What normalising takes: `[d]` each; y = scale · x + shift, and 1 / N."""

    mean: Tensor
    inverse: Tensor
    scale: Tensor
    shift: Tensor
    share: Tensor


@triton.jit
def store_tile_moments(y, w, tile, column, width, tile_weight, tile_mean, tile_deviation):
    """Of one tile: y `[TILE, WIDTH]`, w `[TILE]`."""
    total = tl.sum(w, 0)
    mean = tl.sum(y * w[:, None], 0) / tl.maximum(total, 1e-30)
    centred = y - mean[None, :]
    deviation = tl.sum(centred * centred * w[:, None], 0)
    tl.store(tile_weight + tile, total)
    at = tile * width + column
    tl.store(tile_mean + at, mean, mask=column < width)
    tl.store(tile_deviation + at, deviation, mask=column < width)


@triton.jit
def _moments_kernel(
    x, weight, tile_weight, tile_mean, tile_deviation, rows, width,
    TILE: tl.constexpr, WIDTH: tl.constexpr, WEIGHTED: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    row = tile.to(tl.int64) * TILE + tl.arange(0, TILE)
    column = tl.arange(0, WIDTH)
    inside = row < rows
    mask = inside[:, None] & (column[None, :] < width)
    y = tl.load(x + row[:, None] * width + column[None, :], mask=mask, other=0.0)
    w = tl.load(weight + row, mask=inside, other=0.0) if WEIGHTED else tl.where(inside, 1.0, 0.0)
    store_tile_moments(y, w, tile, column, width, tile_weight, tile_mean, tile_deviation)


def tile_moments(x: Tensor, weight: Tensor | None) -> TileMoments:
    """The moments of each tile of x, its lines counted `weight` times."""
    x = x.contiguous()
    part = TileMoments.empty(x, x.size(1))
    _moments_kernel[(tiles(x),)](
        x, weight if weight is not None else x, part.weight, part.mean, part.deviation, x.size(0), x.size(1),
        TILE=TILE, WIDTH=padded(x.size(1)), WEIGHTED=weight is not None,
    )  # fmt: skip
    return part


@triton.jit
def _finish_kernel(
    tile_weight, tile_mean, tile_deviation, gamma, beta, running_mean, running_var, tracked,
    mean_out, inverse_out, scale_out, shift_out, share_out, count, width, eps, momentum,
    TILES: tl.constexpr, COLUMNS: tl.constexpr, TRACKS: tl.constexpr,
):  # fmt: skip
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    there = column < width
    total = tl.zeros((TILES,), tl.float32)
    first = tl.zeros((TILES, COLUMNS), tl.float32)
    for start in range(0, count, TILES):
        tile = start + tl.arange(0, TILES)
        w = tl.load(tile_weight + tile, mask=tile < count, other=0.0)
        mask = (tile < count)[:, None] & there[None, :]
        total += w
        first += w[:, None] * tl.load(tile_mean + tile[:, None] * width + column[None, :], mask=mask, other=0.0)
    n = tl.sum(total, 0)
    mean = tl.sum(first, 0) / n
    second = tl.zeros((TILES, COLUMNS), tl.float32)
    for start in range(0, count, TILES):
        tile = start + tl.arange(0, TILES)
        w = tl.load(tile_weight + tile, mask=tile < count, other=0.0)
        mask = (tile < count)[:, None] & there[None, :]
        at = tile[:, None] * width + column[None, :]
        apart = tl.load(tile_mean + at, mask=mask, other=0.0) - mean[None, :]
        second += tl.load(tile_deviation + at, mask=mask, other=0.0) + w[:, None] * apart * apart
    var = tl.sum(second, 0) / n
    inverse = 1.0 / tl.sqrt(var + eps)
    scale = tl.load(gamma + column, mask=there, other=0.0) * inverse
    tl.store(mean_out + column, mean, mask=there)
    tl.store(inverse_out + column, inverse, mask=there)
    tl.store(scale_out + column, scale, mask=there)
    tl.store(shift_out + column, tl.load(beta + column, mask=there, other=0.0) - mean * scale, mask=there)
    if tl.program_id(0) == 0:
        tl.store(share_out, 1.0 / n)
    if TRACKS:
        old_mean = tl.load(running_mean + column, mask=there, other=0.0)
        old_var = tl.load(running_var + column, mask=there, other=0.0)
        tl.store(running_mean + column, old_mean + momentum * (mean - old_mean), mask=there)
        tl.store(running_var + column, old_var + momentum * (var * (n / (n - 1.0)) - old_var), mask=there)
        if tl.program_id(0) == 0:
            tl.store(tracked, tl.load(tracked) + 1)


@dataclass(frozen=True, eq=False)
class Tracked:
    """The buffers of a batch norm that follow its moments, and how fast."""

    mean: Tensor
    var: Tensor
    batches: Tensor
    momentum: float


def finish(part: TileMoments, gamma: Tensor, beta: Tensor, eps: float, tracked: Tracked | None) -> Moments:
    """The moments of all lines from those of tiles; the buffers follow them."""
    width = gamma.numel()
    out = gamma.new_empty(4, width)
    share = gamma.new_empty(1)
    mean, var, batches = (gamma, gamma, gamma) if tracked is None else (tracked.mean, tracked.var, tracked.batches)
    _finish_kernel[(triton.cdiv(width, _COLUMNS),)](
        part.weight, part.mean, part.deviation, gamma, beta, mean, var, batches, out[0], out[1], out[2], out[3], share,
        part.weight.numel(), width, eps, 0.0 if tracked is None else tracked.momentum,
        TILES=_TILES, COLUMNS=_COLUMNS, TRACKS=tracked is not None,
    )  # fmt: skip
    return Moments(out[0], out[1], out[2], out[3], share)


@triton.jit
def _frozen_kernel(gamma, beta, mean, var, inverse_out, scale_out, shift_out, width, eps, WIDTH: tl.constexpr):
    column = tl.arange(0, WIDTH)
    there = column < width
    inverse = 1.0 / tl.sqrt(tl.load(var + column, mask=there, other=1.0) + eps)
    scale = tl.load(gamma + column, mask=there, other=0.0) * inverse
    shift = tl.load(beta + column, mask=there, other=0.0) - tl.load(mean + column, mask=there, other=0.0) * scale
    tl.store(inverse_out + column, inverse, mask=there)
    tl.store(scale_out + column, scale, mask=there)
    tl.store(shift_out + column, shift, mask=there)


def frozen(gamma: Tensor, beta: Tensor, tracked: Tracked, eps: float) -> Moments:
    """What normalising takes in eval mode, from the buffers."""
    out = gamma.new_empty(3, gamma.numel())
    _frozen_kernel[(1,)](
        gamma, beta, tracked.mean, tracked.var, out[0], out[1], out[2], gamma.numel(), eps, WIDTH=padded(gamma.numel())
    )
    return Moments(tracked.mean, out[0], out[1], out[2], out[0])


@triton.jit
def _blend_kernel(
    x, scale, shift, shared, shared_scale, shared_shift, node, y, rows, width,
    TILE: tl.constexpr, WIDTH: tl.constexpr, RELU: tl.constexpr, SHARED: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    column = tl.arange(0, WIDTH)
    inside = row < rows
    there = column < width
    mask = inside[:, None] & there[None, :]
    here = row[:, None] * width + column[None, :]
    value = tl.load(x + here, mask=mask, other=0.0)
    value = value * tl.load(scale + column, mask=there, other=0.0) + tl.load(shift + column, mask=there, other=0.0)
    if SHARED:
        at = tl.load(node + row, mask=inside, other=0)
        other = tl.load(shared + at[:, None] * width + column[None, :], mask=mask, other=0.0)
        value += other * tl.load(shared_scale + column, mask=there, other=0.0)
        value += tl.load(shared_shift + column, mask=there, other=0.0)
    if RELU:
        value = tl.maximum(value, 0.0)
    tl.store(y + here, value, mask=mask)


def blend(x: Tensor, moments: Moments, relu: bool, shared: tuple[Tensor, Moments, Tensor] | None = None) -> Tensor:
    """Normalised x, plus the normalised line of each line's node if `shared` = (lines, moments, node), then ReLU."""
    y = torch.empty_like(x)
    s, of, node = (x, moments, x) if shared is None else shared
    _blend_kernel[(tiles(x),)](
        x, moments.scale, moments.shift, s, of.scale, of.shift, node, y, x.size(0), x.size(1),
        TILE=TILE, WIDTH=padded(x.size(1)), RELU=relu, SHARED=shared is not None,
    )  # fmt: skip
    return y


@triton.jit
def _grad_sums_kernel(
    grad, gate, x, mean, inverse, part, rows, width, tile_count,
    TILE: tl.constexpr, WIDTH: tl.constexpr, GATED: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    row = tile.to(tl.int64) * TILE + tl.arange(0, TILE)
    column = tl.arange(0, WIDTH)
    there = column < width
    mask = (row < rows)[:, None] & there[None, :]
    here = row[:, None] * width + column[None, :]
    g = tl.load(grad + here, mask=mask, other=0.0)
    if GATED:
        g = tl.where(tl.load(gate + here, mask=mask, other=0.0) > 0, g, 0.0)
    m = tl.load(mean + column, mask=there, other=0.0)
    standard = (tl.load(x + here, mask=mask, other=0.0) - m) * tl.load(inverse + column, mask=there, other=0.0)
    tl.store(part + tile * width + column, tl.sum(g, 0), mask=there)
    tl.store(part + (tile_count + tile) * width + column, tl.sum(g * standard, 0), mask=there)


def grad_sums(grad: Tensor, gate: Tensor | None, x: Tensor, moments: Moments) -> Tensor:
    """Tile by tile the sums of the gradient, and of the gradient times the standardised x, `[2, T, d]`."""
    part = x.new_empty(2, tiles(x), x.size(1))
    _grad_sums_kernel[(tiles(x),)](
        grad, gate if gate is not None else x, x, moments.mean, moments.inverse, part, x.size(0), x.size(1), tiles(x),
        TILE=TILE, WIDTH=padded(x.size(1)), GATED=gate is not None,
    )  # fmt: skip
    return part


@triton.jit
def _total_kernel(part, out, count, width, TILES: tl.constexpr, COLUMNS: tl.constexpr):
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    which = tl.program_id(1)
    there = column < width
    acc = tl.zeros((TILES, COLUMNS), tl.float32)
    for start in range(0, count, TILES):
        tile = start + tl.arange(0, TILES)
        mask = (tile < count)[:, None] & there[None, :]
        at = (which * count + tile[:, None]).to(tl.int64) * width + column[None, :]
        acc += tl.load(part + at, mask=mask, other=0.0)
    tl.store(out + which * width + column, tl.sum(acc, 0), mask=there)


def total(part: Tensor) -> Tensor:
    """The sum over tiles, `[k, T, d]` → `[k, d]`, always in the same order."""
    out = part.new_empty(part.size(0), part.size(2))
    _total_kernel[(triton.cdiv(part.size(2), _COLUMNS), part.size(0))](
        part, out, part.size(1), part.size(2), TILES=_TILES, COLUMNS=_COLUMNS
    )
    return out


@triton.jit
def norm_backward_tile(g, standard, w, share, scale, sum_g, sum_gs):
    """Of one tile: the gradient of x from that of the normalised x, through mean and variance."""
    return scale[None, :] * (g - (w * share)[:, None] * (sum_g[None, :] + standard * sum_gs[None, :]))


@triton.jit
def _norm_backward_kernel(
    grad, gate, x, weight, mean, inverse, scale, share, sums, out, rows, width,
    TILE: tl.constexpr, WIDTH: tl.constexpr, GATED: tl.constexpr, WEIGHTED: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    column = tl.arange(0, WIDTH)
    inside = row < rows
    there = column < width
    mask = inside[:, None] & there[None, :]
    here = row[:, None] * width + column[None, :]
    g = tl.load(grad + here, mask=mask, other=0.0)
    if GATED:
        g = tl.where(tl.load(gate + here, mask=mask, other=0.0) > 0, g, 0.0)
    m = tl.load(mean + column, mask=there, other=0.0)
    standard = (tl.load(x + here, mask=mask, other=0.0) - m) * tl.load(inverse + column, mask=there, other=0.0)
    w = tl.load(weight + row, mask=inside, other=0.0) if WEIGHTED else tl.where(inside, 1.0, 0.0)
    factor = tl.load(scale + column, mask=there, other=0.0)
    sum_g = tl.load(sums + column, mask=there, other=0.0)
    sum_gs = tl.load(sums + width + column, mask=there, other=0.0)
    value = norm_backward_tile(g, standard, w, tl.load(share), factor, sum_g, sum_gs)
    tl.store(out + here, value, mask=mask)


def norm_backward(
    grad: Tensor, gate: Tensor | None, x: Tensor, weight: Tensor | None, moments: Moments, sums: Tensor
) -> Tensor:
    """The gradient of x, given that of the normalised x where `gate` is positive, and `total(grad_sums(...))`."""
    out = torch.empty_like(x)
    _norm_backward_kernel[(tiles(x),)](
        grad, gate if gate is not None else x, x, weight if weight is not None else x, moments.mean, moments.inverse,
        moments.scale, moments.share, sums, out, x.size(0), x.size(1),
        TILE=TILE, WIDTH=padded(x.size(1)), GATED=gate is not None, WEIGHTED=weight is not None,
    )  # fmt: skip
    return out
