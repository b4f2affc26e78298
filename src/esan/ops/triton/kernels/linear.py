"""Triton kernels: linear layers, with the norm before them and the moments after them in one pass."""

from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from esan.ops.segments import RowRanges
from esan.ops.triton.kernels.matrix import Matrix, add_product, load_operand
from esan.ops.triton.kernels.moments import Moments, TileMoments, store_no_moments, store_tile_moments
from esan.ops.triton.kernels.tiles import cdiv, columns, left_over, num_networks_of, padded, range_of, tiles

#: Rows that a program works on at once, and its warps: with more rows, registers spill.
_TILE, _WARPS = 64, 4
#: The widest matrix that stays in registers from tile to tile.
_MAX_RESIDENT = 64
#: Programs that go through the tiles of all networks, in turn those of one network: three per processor of an H100.
_RUNNING = 396
#: Pipeline stages: the tile that is worked on, and those that are prefetched.
_STAGES = 2


def over_tiles(inner: int, outer: int, networks: int, count: int) -> tuple[tuple[int, int], dict[str, Any]]:
    """Programs for so many tiles of each network, and how they go through them.

    A matrix that is small enough for three programs per processor stays in registers from tile to tile. Registers are
    bounded so that these three, or four that hold no matrix, fit.
    """
    if max(inner, outer) <= _MAX_RESIDENT:
        programs = min(count, max(1, _RUNNING // networks))
        return (programs, networks), {"RESIDENT": True, "STAGES": _STAGES, "maxnreg": 168}
    narrow = columns(inner) <= 64 and outer <= 64
    return (count, networks), {"RESIDENT": False, "STAGES": 1, "maxnreg": 128 if narrow else None}


@triton.jit(do_not_specialize=["rows", "tile_count"])
def _linear_kernel(
    x, matrix, bias, scale, shift, weight, y, tile_weight, tile_mean, tile_deviation, ranges, rows, inner, outer,
    tile_count, TILE: tl.constexpr, INNER: tl.constexpr, CHUNKS: tl.constexpr, OUTER: tl.constexpr,
    NORMED: tl.constexpr, WEIGHTED: tl.constexpr, MOMENTS: tl.constexpr, PRECISION: tl.constexpr, SLOTS: tl.constexpr,
    RESIDENT: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    program, network = tl.program_id(0), tl.program_id(1)
    n = tl.arange(0, OUTER)
    there_n = n < outer
    apart = tl.num_programs(1) * outer * inner
    b = tl.load(bias + network * outer + n, mask=there_n, other=0.0)
    if RESIDENT:
        every = tl.arange(0, INNER)
        there = there_n[None, :] & (every < inner)[:, None]
        at = network * outer * inner + n[None, :] * inner + every[:, None]
        w1, w2, w3 = load_operand(matrix, at, there, apart, PRECISION)
        if NORMED:
            s = tl.load(scale + network * inner + every, mask=every < inner, other=0.0)
            t = tl.load(shift + network * inner + every, mask=every < inner, other=0.0)
    next_tile, before = program, 0
    for slot in range(SLOTS if SLOTS > 0 else 1):
        begin, end = range_of(slot, rows, ranges, network, SLOTS)
        count = tl.cdiv(end - begin, TILE)
        for tile in tl.range(next_tile, count, tl.num_programs(0), num_stages=STAGES):
            local = begin + tile * TILE + tl.arange(0, TILE)
            row = network.to(tl.int64) * rows + local
            inside = local < end
            out = tl.zeros((TILE, OUTER), tl.float32)
            for chunk in tl.static_range(CHUNKS):
                k = chunk * INNER + tl.arange(0, INNER)
                there_k = k < inner
                mask = inside[:, None] & there_k[None, :]
                value = tl.load(x + row[:, None] * inner + k[None, :], mask=mask, other=0.0)
                if not RESIDENT:
                    there = there_n[None, :] & there_k[:, None]
                    at = network * outer * inner + n[None, :] * inner + k[:, None]
                    w1, w2, w3 = load_operand(matrix, at, there, apart, PRECISION)
                    if NORMED:
                        s = tl.load(scale + network * inner + k, mask=there_k, other=0.0)
                        t = tl.load(shift + network * inner + k, mask=there_k, other=0.0)
                if NORMED:
                    value = tl.maximum(value * s[None, :] + t[None, :], 0.0)
                out = add_product(out, value, w1, w2, w3, PRECISION)
            out += b[None, :]
            tl.store(y + row[:, None] * outer + n[None, :], out, mask=inside[:, None] & there_n[None, :])
            if MOMENTS:
                w = tl.load(weight + row, mask=inside, other=0.0) if WEIGHTED else tl.where(inside, 1.0, 0.0)
                to = network * tile_count + before + tile
                store_tile_moments(out, w, to, n, outer, tile_weight, tile_mean, tile_deviation)
        next_tile, before = left_over(next_tile, count), before + count
    if MOMENTS:
        for tile in range(before + program, tile_count, tl.num_programs(0)):
            store_no_moments(network * tile_count + tile, n, outer, tile_weight, tile_mean, tile_deviation)


def linear(
    x: Tensor,
    matrix: Matrix,
    bias: Tensor,
    normed: Moments | None,
    weight: Tensor | None,
    moments: bool = True,
    row_ranges: RowRanges | None = None,
) -> tuple[Tensor, TileMoments]:
    """W f(x) + b, with f = ReLU of the normalised x, or the identity; and the moments of the result, tile by tile."""
    networks = num_networks_of(matrix.weight, 2)
    outer, inner = matrix.weight.shape[-2:]
    rows = x.size(0) // networks
    y = x.new_empty(x.size(0), outer)
    part = TileMoments.empty(x, networks, outer, _TILE, row_ranges)
    ranges, slots = RowRanges.for_kernel(row_ranges, x)
    count = tiles(rows, row_ranges, _TILE)
    grid, choices = over_tiles(inner, outer, networks, count)
    _linear_kernel[grid](
        x, matrix.operand, bias, x if normed is None else normed.scale, x if normed is None else normed.shift,
        weight if weight is not None else x, y, part.weight, part.mean, part.deviation, ranges, rows, inner, outer,
        count, TILE=_TILE, INNER=columns(inner), CHUNKS=cdiv(inner, columns(inner)), OUTER=padded(outer),
        NORMED=normed is not None, WEIGHTED=weight is not None, MOMENTS=moments, PRECISION=matrix.precision,
        SLOTS=slots, num_warps=_WARPS, **choices,
    )  # fmt: skip
    return y, part
