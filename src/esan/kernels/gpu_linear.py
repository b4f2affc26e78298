"""Triton: linear layers with the norm before them and the moments after them in one pass, and their gradients."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from esan.kernels.gpu_norm import (
    TILE,
    Moments,
    TileMoments,
    norm_backward_tile,
    padded,
    store_tile_moments,
    tiles,
    total,
)

#: Wider layers go through torch's own matrix products.
WIDEST = 128
#: Three products of the tensor cores' short floats, which together have the precision of single.
_PRECISION = tl.constexpr("tf32x3")


@triton.jit
def _linear_kernel(
    x, matrix, bias, scale, shift, weight, y, tile_weight, tile_mean, tile_deviation, rows, inner, outer,
    TILE: tl.constexpr, INNER: tl.constexpr, OUTER: tl.constexpr, NORMED: tl.constexpr, WEIGHTED: tl.constexpr,
    MOMENTS: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    row = (tile * TILE + tl.arange(0, TILE)).to(tl.int64)
    k, n = tl.arange(0, INNER), tl.arange(0, OUTER)
    inside = row < rows
    value = tl.load(x + row[:, None] * inner + k[None, :], mask=inside[:, None] & (k < inner)[None, :], other=0.0)
    if NORMED:
        value = value * tl.load(scale + k, mask=k < inner, other=0.0) + tl.load(shift + k, mask=k < inner, other=0.0)
        value = tl.maximum(value, 0.0)
    across = tl.load(
        matrix + n[None, :] * inner + k[:, None], mask=(n < outer)[None, :] & (k < inner)[:, None], other=0.0
    )
    out = tl.dot(value, across, input_precision=_PRECISION) + tl.load(bias + n, mask=n < outer, other=0.0)[None, :]
    tl.store(y + row[:, None] * outer + n[None, :], out, mask=inside[:, None] & (n < outer)[None, :])
    if MOMENTS:
        w = tl.load(weight + row, mask=inside, other=0.0) if WEIGHTED else tl.where(inside, 1.0, 0.0)
        store_tile_moments(out, w, tile, n, outer, tile_weight, tile_mean, tile_deviation)


def linear(
    x: Tensor, matrix: Tensor, bias: Tensor, normed: Moments | None, weight: Tensor | None, moments: bool = True
) -> tuple[Tensor, TileMoments]:
    """W f(x) + b, with f = ReLU of the normalised x, or the identity; and the moments of the result, tile by tile."""
    outer, inner = matrix.shape
    y = x.new_empty(x.size(0), outer)
    part = TileMoments.empty(x, outer)
    _linear_kernel[(tiles(x),)](
        x, matrix, bias, x if normed is None else normed.scale, x if normed is None else normed.shift,
        weight if weight is not None else x, y, part.weight, part.mean, part.deviation, x.size(0), inner, outer,
        TILE=TILE, INNER=padded(inner), OUTER=padded(outer), NORMED=normed is not None, WEIGHTED=weight is not None,
        MOMENTS=moments,
    )  # fmt: skip
    return y, part


@triton.jit
def _linear_backward_kernel(
    grad, out, weight, out_mean, out_inverse, out_scale, out_share, out_sums,
    x, mean, inverse, scale, shift, matrix, grad_x, grad_matrix, grad_bias, part, rows, inner, outer, tile_count,
    TILE: tl.constexpr, INNER: tl.constexpr, OUTER: tl.constexpr, OUT_NORMED: tl.constexpr, NORMED: tl.constexpr,
    WEIGHTED: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    k, n = tl.arange(0, INNER), tl.arange(0, OUTER)
    there_k, there_n = k < inner, n < outer
    back = tl.load(matrix + n[:, None] * inner + k[None, :], mask=there_n[:, None] & there_k[None, :], other=0.0)
    if OUT_NORMED:
        om = tl.load(out_mean + n, mask=there_n, other=0.0)
        oi = tl.load(out_inverse + n, mask=there_n, other=0.0)
        oscale = tl.load(out_scale + n, mask=there_n, other=0.0)
        sum_g = tl.load(out_sums + n, mask=there_n, other=0.0)
        sum_gs = tl.load(out_sums + outer + n, mask=there_n, other=0.0)
        share = tl.load(out_share)
    if NORMED:
        m = tl.load(mean + k, mask=there_k, other=0.0)
        i = tl.load(inverse + k, mask=there_k, other=0.0)
        s = tl.load(scale + k, mask=there_k, other=0.0)
        b = tl.load(shift + k, mask=there_k, other=0.0)
    acc = tl.zeros((OUTER, INNER), tl.float32)
    acc_bias = tl.zeros((OUTER,), tl.float32)
    acc_g = tl.zeros((INNER,), tl.float32)
    acc_gs = tl.zeros((INNER,), tl.float32)
    for tile in range(program, tile_count, tl.num_programs(0)):
        row = (tile * TILE + tl.arange(0, TILE)).to(tl.int64)
        inside = row < rows
        mask_n = inside[:, None] & there_n[None, :]
        mask_k = inside[:, None] & there_k[None, :]
        at_n = row[:, None] * outer + n[None, :]
        at_k = row[:, None] * inner + k[None, :]
        g = tl.load(grad + at_n, mask=mask_n, other=0.0)
        if OUT_NORMED:
            standard = (tl.load(out + at_n, mask=mask_n, other=0.0) - om[None, :]) * oi[None, :]
            w = tl.load(weight + row, mask=inside, other=0.0) if WEIGHTED else tl.where(inside, 1.0, 0.0)
            g = norm_backward_tile(g, standard, w, share, oscale, sum_g, sum_gs)
            g = tl.where(mask_n, g, 0.0)
        value = tl.load(x + at_k, mask=mask_k, other=0.0)
        gx = tl.dot(g, back, input_precision=_PRECISION)
        if NORMED:
            before = value * s[None, :] + b[None, :]
            standard_x = (value - m[None, :]) * i[None, :]
            value = tl.where(mask_k, tl.maximum(before, 0.0), 0.0)
            gx = tl.where(mask_k & (before > 0), gx, 0.0)
            acc_g += tl.sum(gx, 0)
            acc_gs += tl.sum(gx * standard_x, 0)
        acc += tl.dot(tl.trans(g), value, input_precision=_PRECISION)
        acc_bias += tl.sum(g, 0)
        tl.store(grad_x + at_k, gx, mask=mask_k)
    at = program * (outer * inner) + n[:, None] * inner + k[None, :]
    tl.store(grad_matrix + at, acc, mask=there_n[:, None] & there_k[None, :])
    tl.store(grad_bias + program * outer + n, acc_bias, mask=there_n)
    if NORMED:
        tl.store(part + program * inner + k, acc_g, mask=there_k)
        tl.store(part + (tl.num_programs(0) + program) * inner + k, acc_gs, mask=there_k)


class LinearGrads:
    """The gradients of a linear layer, summed over tiles when they are asked for."""

    def __init__(self, grad_x: Tensor, matrix: Tensor, bias: Tensor, sums: Tensor | None) -> None:
        self.grad_x, self._matrix, self._bias = grad_x, matrix, bias
        #: Sums of the gradient of the normalised x, and of it times the standardised x, `[2, d]`.
        self.sums = None if sums is None else total(sums)

    @property
    def matrix(self) -> Tensor:
        programs, outer, inner = self._matrix.shape
        return total(self._matrix.reshape(1, programs, outer * inner)).reshape(outer, inner)

    @property
    def bias(self) -> Tensor:
        return total(self._bias[None])[0]


def linear_backward(
    grad: Tensor,
    x: Tensor,
    matrix: Tensor,
    normed: Moments | None,
    *,
    after: tuple[Tensor, Moments, Tensor] | None = None,
    weight: Tensor | None = None,
) -> LinearGrads:
    """The gradients of `linear`.

    Args:
        grad: of its result y; or of the normalised y, if `after` is given.
        x: what it was given.
        matrix: W.
        normed: as in `linear`; the gradient is then that of the normalised x.
        after: (y, its moments, sums of `grad`) if y was normalised next.
        weight: of the lines, for that norm.
    """
    outer, inner = matrix.shape
    count = tiles(x)
    programs = min(count, 264)
    grad_x = torch.empty_like(x)
    grad_matrix, grad_bias = x.new_empty(programs, outer, inner), x.new_empty(programs, outer)
    part = x.new_empty(2, programs, inner) if normed is not None else None
    y, of, sums = (x, None, x) if after is None else after
    o = (x,) * 4 if of is None else (of.mean, of.inverse, of.scale, of.share)
    i = (x,) * 4 if normed is None else (normed.mean, normed.inverse, normed.scale, normed.shift)
    _linear_backward_kernel[(programs,)](
        grad, y, weight if weight is not None else x, *o, sums, x, *i, matrix, grad_x, grad_matrix, grad_bias,
        part if part is not None else x, x.size(0), inner, outer, count,
        TILE=TILE, INNER=padded(inner), OUTER=padded(outer), OUT_NORMED=after is not None, NORMED=normed is not None,
        WEIGHTED=weight is not None,
    )  # fmt: skip
    return LinearGrads(grad_x, grad_matrix, grad_bias, part)
