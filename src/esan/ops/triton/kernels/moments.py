"""Triton kernels: weighted mean and variance of rows, tile by tile and of all; the running statistics of a batch norm.

A leading dimension of the parameters is that of several networks: the rows are theirs, one network's after the
other's, each with as many rows and with parameters of its own.
"""

from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor

from esan.ops.segments import RowRanges
from esan.ops.triton.kernels.tiles import COLUMNS, TILE, block, cdiv, columns, num_networks_of, padded, tile_rows, tiles


@dataclass(frozen=True, eq=False)
class TileMoments:
    """Of each tile of rows: its total weight `[S, T]`, the weighted mean and sum of squared deviations, `[S, T, d]`."""

    weight: Tensor
    mean: Tensor
    deviation: Tensor

    @staticmethod
    def empty(
        rows: Tensor, networks: int, width: int, tile: int = TILE, row_ranges: RowRanges | None = None
    ) -> "TileMoments":
        count = tiles(rows.size(0) // networks, row_ranges, tile)
        part = rows.new_empty(2, networks, count, width)
        return TileMoments(rows.new_empty(networks, count), part[0], part[1])


@dataclass(frozen=True, eq=False)
class Moments:
    """The norm of given rows: `[S, d]` each, y = scale · x + shift; and 1 / N, `[S]`."""

    mean: Tensor
    inverse: Tensor
    scale: Tensor
    shift: Tensor
    inverse_count: Tensor


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
def store_no_moments(tile, column, width, tile_weight, tile_mean, tile_deviation):
    """Of a tile without rows."""
    none = column * 0.0
    tl.store(tile_weight + tile, 0.0)
    at = tile * width + column
    tl.store(tile_mean + at, none, mask=column < width)
    tl.store(tile_deviation + at, none, mask=column < width)


@triton.jit(do_not_specialize=["rows"])
def _moments_kernel(
    x, weight, tile_weight, tile_mean, tile_deviation, ranges, rows, width,
    TILE: tl.constexpr, WIDTH: tl.constexpr, WEIGHTED: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    begin, end = tile_rows(tl.program_id(0), rows, ranges, tl.program_id(1), TILE, SLOTS)
    column = tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)
    if SLOTS > 0 and begin >= end:
        store_no_moments(tile, column, width, tile_weight, tile_mean, tile_deviation)
        return
    local = begin + tl.arange(0, TILE)
    row = tl.program_id(1).to(tl.int64) * rows + local
    inside = local < end
    mask = inside[:, None] & (column[None, :] < width)
    y = tl.load(x + row[:, None] * width + column[None, :], mask=mask, other=0.0)
    w = tl.load(weight + row, mask=inside, other=0.0) if WEIGHTED else tl.where(inside, 1.0, 0.0)
    store_tile_moments(y, w, tile, column, width, tile_weight, tile_mean, tile_deviation)


def tile_moments(x: Tensor, weight: Tensor | None, networks: int, row_ranges: RowRanges | None = None) -> TileMoments:
    """The moments of each tile of x, each row counted `weight` times; padding is left out."""
    part = TileMoments.empty(x, networks, x.size(1), row_ranges=row_ranges)
    rows = x.size(0) // networks
    wide = columns(x.size(1))
    ranges, slots = RowRanges.for_kernel(row_ranges, x)
    _moments_kernel[(tiles(rows, row_ranges), networks, cdiv(x.size(1), wide))](
        x, weight if weight is not None else x, part.weight, part.mean, part.deviation, ranges, rows, x.size(1),
        TILE=TILE, WIDTH=wide, WEIGHTED=weight is not None, SLOTS=slots,
    )  # fmt: skip
    return part


@triton.jit(do_not_specialize=["count"])
def _finish_kernel(
    tile_weight, tile_mean, tile_deviation, gamma, beta, running_mean, running_var, running,
    mean_out, inverse_out, scale_out, shift_out, inverse_count_out, count, width, eps, momentum, spared,
    TILES: tl.constexpr, COLUMNS: tl.constexpr, TRACKS: tl.constexpr,
):  # fmt: skip
    network = tl.program_id(1)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    there = column < width
    tile_weight += network * count
    tile_mean += network * count * width
    tile_deviation += network * count * width
    total = tl.zeros((TILES,), tl.float32)
    first = tl.zeros((TILES, COLUMNS), tl.float32)
    for start in range(0, count, TILES):
        tile = start + tl.arange(0, TILES)
        w = tl.load(tile_weight + tile, mask=tile < count, other=0.0)
        mask = (tile < count)[:, None] & there[None, :]
        total += w
        first += w[:, None] * tl.load(tile_mean + tile[:, None] * width + column[None, :], mask=mask, other=0.0)
    weight = tl.sum(total, 0)
    n = tl.maximum(weight, 1.0)
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
    out = network * width + column
    scale = tl.load(gamma + out, mask=there, other=0.0) * inverse
    tl.store(mean_out + out, mean, mask=there)
    tl.store(inverse_out + out, inverse, mask=there)
    tl.store(scale_out + out, scale, mask=there)
    tl.store(shift_out + out, tl.load(beta + out, mask=there, other=0.0) - mean * scale, mask=there)
    if tl.program_id(0) == 0:
        tl.store(inverse_count_out + network, 1.0 / n)
    # An empty batch leaves no trace.
    if TRACKS and weight > 0:
        old_mean = tl.load(running_mean + out, mask=there, other=0.0)
        old_var = tl.load(running_var + out, mask=there, other=0.0)
        tl.store(running_mean + out, old_mean + momentum * (mean - old_mean), mask=there)
        own_var = var * (n / tl.maximum(n - spared, 1.0))
        tl.store(running_var + out, old_var + momentum * (own_var - old_var), mask=there)
        if tl.program_id(0) == 0:
            tl.store(running + network, tl.load(running + network) + 1)


@dataclass(frozen=True, eq=False)
class RunningStatistics:
    """The running statistics of a batch norm, their momentum, and whether the variance is over N - 1."""

    mean: Tensor
    var: Tensor
    batches: Tensor
    momentum: float
    unbiased: bool = True


def finish(part: TileMoments, gamma: Tensor, beta: Tensor, eps: float, running: RunningStatistics | None) -> Moments:
    """The moments of all rows from those of tiles; updates the running statistics."""
    networks, width = num_networks_of(gamma), gamma.size(-1)
    count = part.weight.size(1)
    out = gamma.new_empty(4, networks, width)
    inverse_count = gamma.new_empty(networks)
    mean, var, batches = (gamma, gamma, gamma) if running is None else (running.mean, running.var, running.batches)
    _finish_kernel[(cdiv(width, COLUMNS), networks)](
        part.weight, part.mean, part.deviation, gamma, beta, mean, var, batches, out[0], out[1], out[2], out[3],
        inverse_count, count, width, eps, 0.0 if running is None else running.momentum,
        0.0 if running is None or not running.unbiased else 1.0,
        TILES=block(count), COLUMNS=COLUMNS, TRACKS=running is not None,
    )  # fmt: skip
    return Moments(out[0], out[1], out[2], out[3], inverse_count)


@triton.jit
def _frozen_kernel(gamma, beta, mean, var, inverse_out, scale_out, shift_out, width, eps, WIDTH: tl.constexpr):
    column = tl.arange(0, WIDTH)
    there = column < width
    at = tl.program_id(0) * width + column
    inverse = 1.0 / tl.sqrt(tl.load(var + at, mask=there, other=1.0) + eps)
    scale = tl.load(gamma + at, mask=there, other=0.0) * inverse
    shift = tl.load(beta + at, mask=there, other=0.0) - tl.load(mean + at, mask=there, other=0.0) * scale
    tl.store(inverse_out + at, inverse, mask=there)
    tl.store(scale_out + at, scale, mask=there)
    tl.store(shift_out + at, shift, mask=there)


def frozen(gamma: Tensor, beta: Tensor, running: RunningStatistics, eps: float) -> Moments:
    """The norm in eval mode, from the running statistics."""
    networks, width = num_networks_of(gamma), gamma.size(-1)
    out = gamma.new_empty(3, networks, width)
    _frozen_kernel[(networks,)](
        gamma, beta, running.mean, running.var, out[0], out[1], out[2], width, eps, WIDTH=padded(width)
    )
    return Moments(running.mean, out[0], out[1], out[2], out[0])
