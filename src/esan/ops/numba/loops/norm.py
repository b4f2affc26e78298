"""The loops of `cpu_norm`: weighted mean and variance, the normalised lines, and the way back."""

import numpy as np
from numba import carray, njit

from esan.ops.numba.loops.entry import MATHS, Entry, before_relu, next_piece, table, vector


@njit(fastmath=MATHS)
def moments_of_some(begin, end, x, weight, weighted, mu, var):
    """The weight of the lines from `begin` to `end`; their mean and squared rest are left in `mu` and `var`."""
    d = x.shape[1]
    zero, one = x.dtype.type(0), x.dtype.type(1)
    total = zero
    for j in range(d):
        mu[j] = zero
        var[j] = zero
    # Four lines at a time: the sums are then read and written a quarter as often.
    fours = begin + (end - begin) // 4 * 4
    for i in range(begin, fours, 4):
        w0, w1, w2, w3 = one, one, one, one
        if weighted:
            w0, w1, w2, w3 = weight[i], weight[i + 1], weight[i + 2], weight[i + 3]
        total += (w0 + w1) + (w2 + w3)
        a, b, c, e = x[i], x[i + 1], x[i + 2], x[i + 3]
        for j in range(d):
            mu[j] += (w0 * a[j] + w1 * b[j]) + (w2 * c[j] + w3 * e[j])
    for i in range(fours, end):
        w, line = weight[i] if weighted else one, x[i]
        total += w
        for j in range(d):
            mu[j] += w * line[j]
    inverse = one / total if total > zero else zero
    for j in range(d):
        mu[j] *= inverse
    for i in range(begin, fours, 4):
        w0, w1, w2, w3 = one, one, one, one
        if weighted:
            w0, w1, w2, w3 = weight[i], weight[i + 1], weight[i + 2], weight[i + 3]
        a, b, c, e = x[i], x[i + 1], x[i + 2], x[i + 3]
        for j in range(d):
            m = mu[j]
            p, q, r, s = a[j] - m, b[j] - m, c[j] - m, e[j] - m
            var[j] += (w0 * p * p + w1 * q * q) + (w2 * r * r + w3 * s * s)
    for i in range(fours, end):
        w, line = weight[i] if weighted else one, x[i]
        for j in range(d):
            rest = line[j] - mu[j]
            var[j] += w * rest * rest
    return total


@njit(fastmath=MATHS)
def _moments(block, real):
    """Of each piece: the sum of its weights, its mean, and the weighted squares of what is left without that mean."""
    n, d, size, count = block[2], block[3], block[4], block[1]
    x, weight = table(block[5], n, d, real), vector(block[6], n, real)
    total = vector(block[7], count, np.float64)
    mean, square = table(block[8], count, d, real), table(block[9], count, d, real)
    piece = next_piece(block)
    while piece < count:
        begin, end = piece * size, min(n, (piece + 1) * size)
        total[piece] = moments_of_some(begin, end, x, weight, block[6] != 0, mean[piece], square[piece])
        piece = next_piece(block)


@njit(fastmath=MATHS)
def _apply(block, real):
    """(x - mean) scale + shift, with the line of its group added and ReLU taken if wanted."""
    n, d, size, groups, relu = block[2], block[3], block[4], block[5], block[6]
    x, y = table(block[7], n, d, real), table(block[8], n, d, real)
    mean, scale, shift = vector(block[9], d, real), vector(block[10], d, real), vector(block[11], d, real)
    added, owner = table(block[12], groups, d, real), vector(block[13], n, np.int64)
    zero = real(0)
    piece = next_piece(block)
    while piece < block[1]:
        for i in range(piece * size, min(n, (piece + 1) * size)):
            line, out = x[i], y[i]
            if block[12]:
                more = added[owner[i]]
                for j in range(d):
                    value = (line[j] - mean[j]) * scale[j] + (shift[j] + more[j])
                    out[j] = zero if relu and value <= zero else value
            else:
                for j in range(d):
                    value = (line[j] - mean[j]) * scale[j] + shift[j]
                    out[j] = zero if relu and value <= zero else value
        piece = next_piece(block)


@njit(fastmath=MATHS)
def _sums(block, real):
    """Of each piece: the sum of the gradient, and of the gradient times (x - mean)."""
    n, d, size, count, relu = block[2], block[3], block[4], block[1], block[5] != 0
    x, y, grad = table(block[6], n, d, real), table(block[7], n, d, real), table(block[8], n, d, real)
    mean = vector(block[9], d, real)
    plain, times = table(block[10], count, d, real), table(block[11], count, d, real)
    zero = real(0)
    piece = next_piece(block)
    while piece < count:
        sums, products = plain[piece], times[piece]
        for j in range(d):
            sums[j] = zero
            products[j] = zero
        for i in range(piece * size, min(n, (piece + 1) * size)):
            line, out, back = x[i], y[i], grad[i]
            for j in range(d):
                g = before_relu(back[j], out[j], relu)
                sums[j] += g
                products[j] += g * (line[j] - mean[j])
        piece = next_piece(block)


@njit(fastmath=MATHS)
def _group_sums(block, real):
    """The same where a group's line was added: pieces are groups, and each gets the sum of its gradients."""
    n, d, size, count, relu, groups = block[2], block[3], block[4], block[1], block[5] != 0, block[6]
    x, y, grad = table(block[7], n, d, real), table(block[8], n, d, real), table(block[9], n, d, real)
    mean = vector(block[10], d, real)
    plain, times = table(block[11], count, d, real), table(block[12], count, d, real)
    order, first = vector(block[13], block[16], np.int64), vector(block[14], groups, np.int64)
    into = table(block[15], groups, d, real)
    zero = real(0)
    piece = next_piece(block)
    while piece < count:
        sums, products = plain[piece], times[piece]
        for j in range(d):
            sums[j] = zero
            products[j] = zero
        for v in range(piece * size, min(groups, (piece + 1) * size)):
            of_group = into[v]
            for j in range(d):
                of_group[j] = zero
            for q in range(first[v], first[v + 1] if v + 1 < groups else block[16]):
                i = order[q]
                if i >= n:
                    break
                line, out, back = x[i], y[i], grad[i]
                for j in range(d):
                    g = before_relu(back[j], out[j], relu)
                    of_group[j] += g
                    products[j] += g * (line[j] - mean[j])
            for j in range(d):
                sums[j] += of_group[j]
        piece = next_piece(block)


@njit(fastmath=MATHS)
def _back(block, real):
    """The gradient of x: g scale + w (a + b (x - mean)), a and b what reaches it through mean and variance."""
    n, d, size, relu = block[2], block[3], block[4], block[5] != 0
    x, y, grad = table(block[6], n, d, real), table(block[7], n, d, real), table(block[8], n, d, real)
    weight, mean, scale = vector(block[9], n, real), vector(block[10], d, real), vector(block[11], d, real)
    a, b, into = vector(block[12], d, real), vector(block[13], d, real), table(block[14], n, d, real)
    one = real(1)
    piece = next_piece(block)
    while piece < block[1]:
        for i in range(piece * size, min(n, (piece + 1) * size)):
            w = weight[i] if block[9] else one
            line, out, back, to = x[i], y[i], grad[i], into[i]
            for j in range(d):
                g = before_relu(back[j], out[j], relu)
                to[j] = g * scale[j] + w * (a[j] + b[j] * (line[j] - mean[j]))
        piece = next_piece(block)


@Entry
def _moments_single(data):
    _moments(carray(data, (10,), np.int64), np.float32)


@Entry
def _moments_double(data):
    _moments(carray(data, (10,), np.int64), np.float64)


@Entry
def _apply_single(data):
    _apply(carray(data, (14,), np.int64), np.float32)


@Entry
def _apply_double(data):
    _apply(carray(data, (14,), np.int64), np.float64)


@Entry
def _sums_single(data):
    _sums(carray(data, (12,), np.int64), np.float32)


@Entry
def _sums_double(data):
    _sums(carray(data, (12,), np.int64), np.float64)


@Entry
def _group_sums_single(data):
    _group_sums(carray(data, (17,), np.int64), np.float32)


@Entry
def _group_sums_double(data):
    _group_sums(carray(data, (17,), np.int64), np.float64)


@Entry
def _back_single(data):
    _back(carray(data, (15,), np.int64), np.float32)


@Entry
def _back_double(data):
    _back(carray(data, (15,), np.int64), np.float64)


moments = (_moments_single, _moments_double)
apply = (_apply_single, _apply_double)
sums = (_sums_single, _sums_double)
group_sums = (_group_sums_single, _group_sums_double)
back = (_back_single, _back_double)
