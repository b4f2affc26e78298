"""Triton kernels: the gradients of linear layers, through the norms before and after them in the same pass."""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from esan.ops.segments import RowRanges
from esan.ops.triton.kernels.linear import over_tiles
from esan.ops.triton.kernels.matrix import Matrix, add_product, add_products, load_operand, split_bf16
from esan.ops.triton.kernels.moments import Moments
from esan.ops.triton.kernels.normalise import norm_backward_tile
from esan.ops.triton.kernels.tiles import (
    cdiv,
    columns,
    left_over,
    num_networks_of,
    padded,
    range_of,
    tiles,
    totals,
    two_totals,
)

#: Rows that a program works on at once for the gradient of the rows, and its warps.
_TILE, _WARPS = 32, 4
#: Rows for the gradient of the matrix.
_MATRIX_TILE = 32
#: Programs that share the rows of one network for that, at most. The same for one network and for many, so that their
#: gradients are summed in the same order. With so many, those of ten networks fill an H200 twice; one network pays 2 %.
_PROGRAMS = 104


@triton.jit(do_not_specialize=["rows", "tile_count"])
def _data_kernel(
    grad, gate, out, weight, out_mean, out_inverse, out_scale, out_inverse_count, out_sums,
    x, mean, inverse, scale, shift, matrix, through, grad_x, part, ranges, rows, inner, outer, tile_count,
    TILE: tl.constexpr, INNER: tl.constexpr, CHUNKS: tl.constexpr, OUTER: tl.constexpr, OUT_NORMED: tl.constexpr,
    NORMED: tl.constexpr, WEIGHTED: tl.constexpr, GATED: tl.constexpr, PRECISION: tl.constexpr, SLOTS: tl.constexpr,
    RESIDENT: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    program, network, networks = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    n = tl.arange(0, OUTER)
    there_n = n < outer
    of_n = network * outer + n
    if RESIDENT:
        every = tl.arange(0, INNER)
        there = there_n[:, None] & (every < inner)[None, :]
        at = network * outer * inner + n[:, None] * inner + every[None, :]
        w1, w2, w3 = load_operand(matrix, at, there, networks * outer * inner, PRECISION)
    next_tile, before = program, 0
    for slot in range(SLOTS if SLOTS > 0 else 1):
        begin, end = range_of(slot, rows, ranges, network, SLOTS)
        count = tl.cdiv(end - begin, TILE)
        for tile in tl.range(next_tile, count, tl.num_programs(0), num_stages=STAGES):
            local = begin + tile * TILE + tl.arange(0, TILE)
            row = network.to(tl.int64) * rows + local
            inside = local < end
            mask_n = inside[:, None] & there_n[None, :]
            at_n = row[:, None] * outer + n[None, :]
            g = tl.load(grad + at_n, mask=mask_n, other=0.0)
            if GATED:
                g = tl.where(tl.load(gate + at_n, mask=mask_n, other=0.0) > 0, g, 0.0)
            if OUT_NORMED:
                m = tl.load(out_mean + of_n, mask=there_n, other=0.0)
                i = tl.load(out_inverse + of_n, mask=there_n, other=0.0)
                s = tl.load(out_scale + of_n, mask=there_n, other=0.0)
                sum_g = tl.load(out_sums + of_n, mask=there_n, other=0.0)
                sum_gs = tl.load(out_sums + networks * outer + of_n, mask=there_n, other=0.0)
                standard = (tl.load(out + at_n, mask=mask_n, other=0.0) - m[None, :]) * i[None, :]
                w = tl.load(weight + row, mask=inside, other=0.0) if WEIGHTED else tl.where(inside, 1.0, 0.0)
                g = norm_backward_tile(g, standard, w, tl.load(out_inverse_count + network), s, sum_g, sum_gs)
                g = tl.where(mask_n, g, 0.0)
            if OUT_NORMED or GATED:
                tl.store(through + at_n, g, mask=mask_n)
            for chunk in tl.static_range(CHUNKS):
                k = chunk * INNER + tl.arange(0, INNER)
                there_k = k < inner
                mask_k = inside[:, None] & there_k[None, :]
                at_k = row[:, None] * inner + k[None, :]
                if not RESIDENT:
                    there = there_n[:, None] & there_k[None, :]
                    at = network * outer * inner + n[:, None] * inner + k[None, :]
                    w1, w2, w3 = load_operand(matrix, at, there, networks * outer * inner, PRECISION)
                gx = add_product(tl.zeros((TILE, INNER), tl.float32), g, w1, w2, w3, PRECISION)
                if NORMED:
                    of_k = network * inner + k
                    m = tl.load(mean + of_k, mask=there_k, other=0.0)
                    i = tl.load(inverse + of_k, mask=there_k, other=0.0)
                    s = tl.load(scale + of_k, mask=there_k, other=0.0)
                    b = tl.load(shift + of_k, mask=there_k, other=0.0)
                    value = tl.load(x + at_k, mask=mask_k, other=0.0)
                    gx = tl.where(mask_k & (value * s[None, :] + b[None, :] > 0), gx, 0.0)
                    to = part + (network * tile_count + before + tile) * 2 * inner + k
                    tl.store(to, tl.sum(gx, 0), mask=there_k)
                    tl.store(to + inner, tl.sum(gx * ((value - m[None, :]) * i[None, :]), 0), mask=there_k)
                tl.store(grad_x + at_k, gx, mask=mask_k)
        next_tile, before = left_over(next_tile, count), before + count
    if NORMED:
        for tile in range(before + program, tile_count, tl.num_programs(0)):
            for chunk in tl.static_range(CHUNKS):
                k = chunk * INNER + tl.arange(0, INNER)
                to = part + (network * tile_count + tile) * 2 * inner + k
                tl.store(to, k * 0.0, mask=k < inner)
                tl.store(to + inner, k * 0.0, mask=k < inner)


@triton.jit(do_not_specialize=["rows"])
def _weights_kernel(
    grad, x, scale, shift, part, ranges, rows, inner, outer,
    TILE: tl.constexpr, INNER: tl.constexpr, OUTER: tl.constexpr, NORMED: tl.constexpr, OUT_NORMED: tl.constexpr,
    PRECISION: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    program, network = tl.program_id(0), tl.program_id(1)
    k, n = tl.arange(0, INNER), tl.arange(0, OUTER)
    there_k, there_n = k < inner, n < outer
    if NORMED:
        s = tl.load(scale + network * inner + k, mask=there_k, other=0.0)
        b = tl.load(shift + network * inner + k, mask=there_k, other=0.0)
    acc = tl.zeros((OUTER, INNER), tl.float32)
    acc_bias = tl.zeros((OUTER,), tl.float32)
    next_tile = program
    for slot in range(SLOTS if SLOTS > 0 else 1):
        begin, end = range_of(slot, rows, ranges, network, SLOTS)
        count = tl.cdiv(end - begin, TILE)
        for tile in range(next_tile, count, tl.num_programs(0)):
            local = begin + tile * TILE + tl.arange(0, TILE)
            row = network.to(tl.int64) * rows + local
            inside = local < end
            mask_k = inside[:, None] & there_k[None, :]
            at_n = row[:, None] * outer + n[None, :]
            g = tl.load(grad + at_n, mask=inside[:, None] & there_n[None, :], other=0.0)
            value = tl.load(x + row[:, None] * inner + k[None, :], mask=mask_k, other=0.0)
            if NORMED:
                value = tl.where(mask_k, tl.maximum(value * s[None, :] + b[None, :], 0.0), 0.0)
            if PRECISION == "bf16x6":
                v1, v2, v3 = split_bf16(value)
                acc = add_products(acc, tl.trans(g), v1, v2, v3)
            else:
                acc += tl.dot(tl.trans(g), value, input_precision=PRECISION)
            # A norm removes what is added to every row: the gradient is exactly 0, where a sum would give rounding
            # errors, of which Adam makes full steps.
            if not OUT_NORMED:
                acc_bias += tl.sum(g, 0)
        next_tile = left_over(next_tile, count)
    part += (network * tl.num_programs(0) + program).to(tl.int64) * (outer * inner + outer)
    tl.store(part + n[:, None] * inner + k[None, :], acc, mask=there_n[:, None] & there_k[None, :])
    tl.store(part + outer * inner + n, acc_bias, mask=there_n)


@dataclass(frozen=True, eq=False)
class LinearGrads:
    """The gradients of a linear layer; of several networks each has a leading dimension, as the matrix has.

    Attributes:
        grad_x: of its input.
        matrix: of W.
        bias: of b.
        sums: the `grad_sums` of the normalised x, `[2, S, d]`; None if x was not normalised.
    """

    grad_x: Tensor
    matrix: Tensor
    bias: Tensor
    sums: Tensor | None


def linear_backward(
    grad: Tensor,
    x: Tensor,
    matrix: Matrix,
    normed: Moments | None,
    *,
    after: tuple[Tensor, Moments, Tensor] | None = None,
    multiplicity: Tensor | None = None,
    gate: Tensor | None = None,
    row_ranges: RowRanges | None = None,
) -> LinearGrads:
    """The gradients of `linear`.

    Args:
        grad: of its result y; or of the normalised y, if `after` is given.
        x: its input.
        matrix: W.
        normed: as in `linear`; the gradient is then that of the normalised x.
        after: (y, its moments, `grad_sums` of it) if y was normalised next.
        multiplicity: that of the rows, for that norm.
        gate: the gradient counts only where this, like y, is positive.
        row_ranges: which rows are not padding; None if all are.
    """
    shape = matrix.weight.shape
    networks = num_networks_of(matrix.weight, 2)
    outer, inner = shape[-2:]
    rows = x.size(0) // networks
    narrow = padded(inner) * padded(outer) <= 128 * 64
    tile = _TILE if narrow else _TILE // 2
    count = tiles(rows, row_ranges, tile)
    grad_x = torch.empty_like(x)
    of_norm = x.new_empty(networks, count, 2 * inner if normed is not None else 0)
    ranges, slots = RowRanges.for_kernel(row_ranges, x)
    through = torch.empty_like(grad) if after is not None or gate is not None else grad
    y, of, sums = (x, None, x) if after is None else after
    o = (x,) * 4 if of is None else (of.mean, of.inverse, of.scale, of.inverse_count)
    i = (x,) * 4 if normed is None else (normed.mean, normed.inverse, normed.scale, normed.shift)
    grid, choices = over_tiles(inner, outer, networks, count)
    _data_kernel[grid](
        grad, gate if gate is not None else x, y, multiplicity if multiplicity is not None else x, *o, sums, x, *i,
        matrix.operand, through, grad_x, of_norm, ranges, rows, inner, outer, count, TILE=tile, INNER=columns(inner),
        CHUNKS=cdiv(inner, columns(inner)), OUTER=padded(outer),
        OUT_NORMED=after is not None, NORMED=normed is not None, WEIGHTED=multiplicity is not None,
        GATED=gate is not None, PRECISION=matrix.precision, SLOTS=slots, num_warps=_WARPS, **choices,
    )  # fmt: skip
    tile = _MATRIX_TILE if narrow else _MATRIX_TILE // 2
    programs = min(tiles(rows, row_ranges, tile), _PROGRAMS)
    part = x.new_empty(networks, programs, outer * inner + outer)
    _weights_kernel[(programs, networks)](
        through, x, i[2], i[3], part, ranges, rows, inner, outer, TILE=tile, INNER=padded(inner), OUTER=padded(outer),
        NORMED=normed is not None, OUT_NORMED=after is not None, PRECISION=matrix.precision, SLOTS=slots, num_stages=1,
    )  # fmt: skip
    if normed is None:
        both, of_x = totals(part, outer * inner, outer), None
    else:
        both, of_x = two_totals(part, outer * inner, of_norm)
    of_matrix, of_bias = both.split([networks * outer * inner, networks * outer])
    return LinearGrads(grad_x, of_matrix.view(shape), of_bias.view(*shape[:-2], outer), of_x)
