"""The loops of `cpu_norm` that end a pass: what pieces of rows have found, merged into the norm and its gradients."""

import numpy as np
from numba import carray, njit

from esan.ops.numba.loops.entry import MATHS, Entry, table, vector


@njit(fastmath=MATHS)
def _merge(block, real):
    """Mean and variance of all lines from those of the pieces; with them the norm, and the running statistics."""
    count, d = block[2], block[3]
    total = vector(block[4], count, np.float64)
    mean, square = table(block[5], count, d, real), table(block[6], count, d, real)
    gamma, beta, bias = vector(block[7], d, real), vector(block[8], d, real), vector(block[9], d, real)
    running_mean, running_var = vector(block[10], d, real), vector(block[11], d, real)
    numbers, out = vector(block[12], 4, np.float64), table(block[13], 4, d, real)
    eps, momentum = numbers[0], numbers[1]
    middle, var, pairs = np.zeros(d), np.zeros(d), 0.0
    for piece in range(count):
        w = total[piece]
        pairs += w
        for j in range(d):
            middle[j] += w * mean[piece, j]
    for j in range(d):
        middle[j] /= pairs
    for piece in range(count):
        w = total[piece]
        for j in range(d):
            rest = mean[piece, j] - middle[j]
            var[j] += square[piece, j] + w * rest * rest
    for j in range(d):
        var[j] /= pairs
        inverse = 1.0 / np.sqrt(var[j] + eps)
        out[0, j] = middle[j]
        out[1, j] = inverse * gamma[j] if block[7] else inverse
        out[2, j] = beta[j] if block[8] else 0.0
        out[3, j] = inverse
        if block[10]:
            shifted = middle[j] + bias[j] if block[9] else middle[j]
            running_mean[j] += momentum * (shifted - running_mean[j])
            running_var[j] += momentum * (var[j] * (pairs / (pairs - numbers[3])) - running_var[j])
    numbers[2] = pairs


@njit(fastmath=MATHS)
def _through(block, real):
    """What reaches each line through mean and variance, and the gradients of gamma and beta, from sums of pieces."""
    count, d = block[2], block[3]
    plain, times = table(block[4], count, d, real), table(block[5], count, d, real)
    scale, inverse = vector(block[6], d, real), vector(block[7], d, real)
    total, out = vector(block[8], 3, np.float64)[2], table(block[9], 4, d, real)
    of_beta, of_gamma = np.zeros(d), np.zeros(d)
    for piece in range(count):
        for j in range(d):
            of_beta[j] += plain[piece, j]
            of_gamma[j] += times[piece, j]
    for j in range(d):
        of_gamma[j] *= inverse[j]
        # d mean / d x_i = w_i and d var / d x_i = 2 w_i (x_i - mean), with weights that sum to 1.
        out[0, j] = -scale[j] * of_beta[j] / total
        out[1, j] = -scale[j] * inverse[j] * of_gamma[j] / total
        out[2, j] = of_gamma[j]
        out[3, j] = of_beta[j]


@Entry
def _merge_single(data):
    _merge(carray(data, (14,), np.int64), np.float32)


@Entry
def _merge_double(data):
    _merge(carray(data, (14,), np.int64), np.float64)


@Entry
def _through_single(data):
    _through(carray(data, (10,), np.int64), np.float32)


@Entry
def _through_double(data):
    _through(carray(data, (10,), np.int64), np.float64)


merge = (_merge_single, _merge_double)
through = (_through_single, _through_double)
