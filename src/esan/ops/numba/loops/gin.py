"""The loops of `gin`: a piece of rows goes through sum, matrix product and norm while it is in the cache."""

import numpy as np
from numba import carray, njit

from esan.ops.numba.loops.entry import MATHS, Entry, before_relu, gemm, next_piece, table, vector
from esan.ops.numba.loops.messages import sum_some
from esan.ops.numba.loops.norm import moments_of_some

#: BLAS has columns first, so that a table here is transposed there.
_PLAIN, _TRANSPOSED = ord("N"), ord("T")


@njit
def rows_times_transposed(blas, rows, depth, columns, a, w, c, zero):
    """c = a w^T for tables at these addresses."""
    gemm(blas, _TRANSPOSED, _PLAIN, columns, rows, depth, w, depth, a, depth, zero, c, columns)


@njit
def rows_times(blas, rows, depth, columns, a, w, c, zero):
    """c = a w."""
    gemm(blas, _PLAIN, _PLAIN, columns, rows, depth, w, columns, a, depth, zero, c, columns)


@njit
def add_product_of_rows(blas, rows, lines, columns, a, b, c, beta):
    """c = a^T b + beta c; beta is 0 or 1."""
    gemm(blas, _PLAIN, _TRANSPOSED, columns, lines, rows, b, columns, a, lines, beta, c, columns)


@njit(fastmath=MATHS)
def _first(block, real):
    """a = the sum of messages, z = a W^T, and the moments of z, a piece of rows at a time."""
    n, d, o, lines, arcs, size, count = block[2], block[3], block[4], block[5], block[6], block[7], block[1]
    x, e, a = table(block[8], block[25], d, real), table(block[9], lines, d, real), table(block[10], n, d, real)
    source, line = vector(block[11], arcs, np.int64), vector(block[12], arcs, np.int64)
    first, factor = vector(block[13], n, np.int64), vector(block[14], arcs, real)
    own = vector(block[15], 1, real)[0] if block[15] else real(0)
    code, goes_on = vector(block[16], block[17], np.int64), vector(block[27], n, np.int64)
    bonds, coded, weighted = block[9] != 0, block[16] != 0, block[14] != 0
    z, weight = table(block[19], n, o, real), vector(block[20], n, real)
    total = vector(block[21], count, np.float64)
    mean, square = table(block[22], count, o, real), table(block[23], count, o, real)
    width = a.itemsize
    piece = next_piece(block)
    while piece < count:
        begin, end = piece * size, min(n, (piece + 1) * size)
        sum_some(
            begin, end, x, e, a, source, line, code, first, factor, block[26], goes_on, own, bonds, coded, weighted
        )
        at_a, at_z = block[10] + begin * d * width, block[19] + begin * o * width
        rows_times_transposed(block[24], end - begin, d, o, at_a, block[18], at_z, real(0))
        total[piece] = moments_of_some(begin, end, z, weight, block[20] != 0, mean[piece], square[piece])
        piece = next_piece(block)


@njit(fastmath=MATHS)
def _normed(begin, end, z, mean, scale, shift, out):
    """ReLU of the normalised lines from `begin` to `end`, at the top of `out`."""
    zero = z.dtype.type(0)
    for i in range(begin, end):
        line, to = z[i], out[i - begin]
        for j in range(z.shape[1]):
            value = (line[j] - mean[j]) * scale[j] + shift[j]
            to[j] = zero if value <= zero else value


@njit(fastmath=MATHS)
def _second(block, real):
    """c = ReLU(norm(z)) W^T and its moments, a piece of rows at a time."""
    n, d, o, size, count = block[2], block[3], block[4], block[5], block[1]
    z, c = table(block[6], n, d, real), table(block[8], n, o, real)
    mu, scale, shift = vector(block[9], d, real), vector(block[10], d, real), vector(block[11], d, real)
    weight, total = vector(block[12], n, real), vector(block[13], count, np.float64)
    mean, square = table(block[14], count, o, real), table(block[15], count, o, real)
    normed = np.empty((size, d), real)
    piece = next_piece(block)
    while piece < count:
        begin, end = piece * size, min(n, (piece + 1) * size)
        _normed(begin, end, z, mu, scale, shift, normed)
        at = block[8] + begin * o * c.itemsize
        rows_times_transposed(block[16], end - begin, d, o, normed.ctypes.data, block[7], at, real(0))
        total[piece] = moments_of_some(begin, end, c, weight, block[12] != 0, mean[piece], square[piece])
        piece = next_piece(block)


@njit(fastmath=MATHS)
def _back_second(block, real):
    """From the layer's end to behind ReLU(norm(z)): its gradient g, the sums of it that the norm needs, and that of W.

    A piece of work is a stretch of rows, of which the gradient of W and the sums are one part each.
    """
    n, d, o, size, parts, relu = block[2], block[3], block[4], block[5], block[1], block[6] != 0
    c, y, grad = table(block[7], n, o, real), table(block[8], n, o, real), table(block[9], n, o, real)
    weight, mean_c, scale_c = vector(block[10], n, real), vector(block[11], o, real), vector(block[12], o, real)
    by_mean, by_var = vector(block[13], o, real), vector(block[14], o, real)
    z, mean, scale = table(block[15], n, d, real), vector(block[16], d, real), vector(block[17], d, real)
    shift, g = vector(block[18], d, real), table(block[20], n, d, real)
    plain, times = table(block[22], parts, d, real), table(block[23], parts, d, real)
    into, normed = np.empty((size, o), real), np.empty((size, d), real)
    zero, one = real(0), real(1)
    pieces = (n + size - 1) // size
    part = next_piece(block)
    while part < parts:
        sums, products = plain[part], times[part]
        for j in range(d):
            sums[j] = zero
            products[j] = zero
        at_w, beta = block[21] + part * o * d * z.itemsize, zero
        for piece in range(part * pieces // parts, (part + 1) * pieces // parts):
            begin, end = piece * size, min(n, (piece + 1) * size)
            for i in range(begin, end):
                w = weight[i] if block[10] else one
                line, out, back, to = c[i], y[i], grad[i], into[i - begin]
                for j in range(o):
                    value = before_relu(back[j], out[j], relu)
                    to[j] = value * scale_c[j] + w * (by_mean[j] + by_var[j] * (line[j] - mean_c[j]))
            _normed(begin, end, z, mean, scale, shift, normed)
            rows, at_g, at_into = end - begin, block[20] + begin * d * z.itemsize, into.ctypes.data
            add_product_of_rows(block[24], rows, o, d, at_into, normed.ctypes.data, at_w, beta)
            rows_times(block[24], rows, o, d, at_into, block[19], at_g, zero)
            beta = one
            for i in range(begin, end):
                line, out, to = z[i], normed[i - begin], g[i]
                for j in range(d):
                    value = before_relu(to[j], out[j], True)
                    to[j] = value
                    sums[j] += value
                    products[j] += value * (line[j] - mean[j])
        part = next_piece(block)


@njit(fastmath=MATHS)
def _back_first(block, real):
    """Through the norm of z and W to the sums of messages: their gradient, and that of W in parts."""
    n, d, o, size, parts = block[2], block[3], block[4], block[5], block[1]
    z, g, weight = table(block[6], n, o, real), table(block[7], n, o, real), vector(block[8], n, real)
    mean, scale = vector(block[9], o, real), vector(block[10], o, real)
    by_mean, by_var = vector(block[11], o, real), vector(block[12], o, real)
    into = np.empty((size, o), real)
    zero, one = real(0), real(1)
    pieces = (n + size - 1) // size
    part = next_piece(block)
    while part < parts:
        at_w, beta = block[16] + part * o * d * z.itemsize, zero
        for piece in range(part * pieces // parts, (part + 1) * pieces // parts):
            begin, end = piece * size, min(n, (piece + 1) * size)
            for i in range(begin, end):
                w = weight[i] if block[8] else one
                line, back, to = z[i], g[i], into[i - begin]
                for j in range(o):
                    to[j] = back[j] * scale[j] + w * (by_mean[j] + by_var[j] * (line[j] - mean[j]))
            rows = end - begin
            at_a, at_out = block[13] + begin * d * z.itemsize, block[15] + begin * d * z.itemsize
            add_product_of_rows(block[17], rows, o, d, into.ctypes.data, at_a, at_w, beta)
            rows_times(block[17], rows, o, d, into.ctypes.data, block[14], at_out, zero)
            beta = one
        part = next_piece(block)


@Entry
def _first_single(data):
    _first(carray(data, (28,), np.int64), np.float32)


@Entry
def _first_double(data):
    _first(carray(data, (28,), np.int64), np.float64)


@Entry
def _second_single(data):
    _second(carray(data, (17,), np.int64), np.float32)


@Entry
def _second_double(data):
    _second(carray(data, (17,), np.int64), np.float64)


@Entry
def _back_second_single(data):
    _back_second(carray(data, (25,), np.int64), np.float32)


@Entry
def _back_second_double(data):
    _back_second(carray(data, (25,), np.int64), np.float64)


@Entry
def _back_first_single(data):
    _back_first(carray(data, (18,), np.int64), np.float32)


@Entry
def _back_first_double(data):
    _back_first(carray(data, (18,), np.int64), np.float64)


first = (_first_single, _first_double)
second = (_second_single, _second_double)
back_second = (_back_second_single, _back_second_double)
back_first = (_back_first_single, _back_first_double)
