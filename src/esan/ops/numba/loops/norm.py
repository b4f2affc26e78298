"""Compiled loops of `numba.norm`: weighted mean and variance, the normalised rows, and their gradients."""

import numpy as np
from numba import carray, njit

from esan.ops.numba.loops.entry import MATHS, CompiledLoop, Loop, arguments, before_relu, matrix, next_chunk, vector


@njit(fastmath=MATHS)
def chunk_moments(begin, end, x, multiplicity, has_multiplicity, mu, var):
    """The total multiplicity of the rows from `begin` to `end`; their mean and squared deviations go to `mu`, `var`."""
    d = x.shape[1]
    zero, one = x.dtype.type(0), x.dtype.type(1)
    total = zero
    for j in range(d):
        mu[j] = zero
        var[j] = zero
    # Four rows at a time: the sums are then read and written a quarter as often.
    last_four = begin + (end - begin) // 4 * 4
    for i in range(begin, last_four, 4):
        w0, w1, w2, w3 = one, one, one, one
        if has_multiplicity:
            w0, w1, w2, w3 = multiplicity[i], multiplicity[i + 1], multiplicity[i + 2], multiplicity[i + 3]
        total += (w0 + w1) + (w2 + w3)
        a, b, c, e = x[i], x[i + 1], x[i + 2], x[i + 3]
        for j in range(d):
            mu[j] += (w0 * a[j] + w1 * b[j]) + (w2 * c[j] + w3 * e[j])
    for i in range(last_four, end):
        w, row = multiplicity[i] if has_multiplicity else one, x[i]
        total += w
        for j in range(d):
            mu[j] += w * row[j]
    inverse = one / total if total > zero else zero
    for j in range(d):
        mu[j] *= inverse
    for i in range(begin, last_four, 4):
        w0, w1, w2, w3 = one, one, one, one
        if has_multiplicity:
            w0, w1, w2, w3 = multiplicity[i], multiplicity[i + 1], multiplicity[i + 2], multiplicity[i + 3]
        a, b, c, e = x[i], x[i + 1], x[i + 2], x[i + 3]
        for j in range(d):
            m = mu[j]
            p, q, r, s = a[j] - m, b[j] - m, c[j] - m, e[j] - m
            var[j] += (w0 * p * p + w1 * q * q) + (w2 * r * r + w3 * s * s)
    for i in range(last_four, end):
        w, row = multiplicity[i] if has_multiplicity else one, x[i]
        for j in range(d):
            deviation = row[j] - mu[j]
            var[j] += w * deviation * deviation
    return total


_MOMENTS = arguments("rows width chunk_rows x multiplicity total mean square")


@njit(fastmath=MATHS)
def _moments(block, dtype):
    """Of each chunk: its total multiplicity, its mean, and the weighted sum of squared deviations from that mean."""
    args = block[0]
    n, d, size, count = args.rows, args.width, args.chunk_rows, args.chunks
    x, multiplicity = matrix(args.x, n, d, dtype), vector(args.multiplicity, n, dtype)
    total = vector(args.total, count, np.float64)
    mean, square = matrix(args.mean, count, d, dtype), matrix(args.square, count, d, dtype)
    chunk = next_chunk(block)
    while chunk < count:
        begin, end = chunk * size, min(n, (chunk + 1) * size)
        total[chunk] = chunk_moments(begin, end, x, multiplicity, args.multiplicity != 0, mean[chunk], square[chunk])
        chunk = next_chunk(block)


_APPLY = arguments("rows width chunk_rows groups relu x y mean scale shift added index")


@njit(fastmath=MATHS)
def _apply(block, dtype):
    """(x - mean) scale + shift, plus the row of its group and under ReLU if wanted."""
    args = block[0]
    n, d, size, groups, relu = args.rows, args.width, args.chunk_rows, args.groups, args.relu
    x, y = matrix(args.x, n, d, dtype), matrix(args.y, n, d, dtype)
    mean, scale, shift = vector(args.mean, d, dtype), vector(args.scale, d, dtype), vector(args.shift, d, dtype)
    added, index = matrix(args.added, groups, d, dtype), vector(args.index, n, np.int64)
    zero = dtype(0)
    chunk = next_chunk(block)
    while chunk < args.chunks:
        for i in range(chunk * size, min(n, (chunk + 1) * size)):
            row, out = x[i], y[i]
            if args.added:
                more = added[index[i]]
                for j in range(d):
                    value = (row[j] - mean[j]) * scale[j] + (shift[j] + more[j])
                    out[j] = zero if relu and value <= zero else value
            else:
                for j in range(d):
                    value = (row[j] - mean[j]) * scale[j] + shift[j]
                    out[j] = zero if relu and value <= zero else value
        chunk = next_chunk(block)


_SUMS = arguments("rows width chunk_rows relu x y grad mean grad_sum grad_dot")


@njit(fastmath=MATHS)
def _sums(block, dtype):
    """Of each chunk: the sum of the gradient, and of the gradient grad_dot (x - mean)."""
    args = block[0]
    n, d, size, count, relu = args.rows, args.width, args.chunk_rows, args.chunks, args.relu != 0
    x, y, grad = matrix(args.x, n, d, dtype), matrix(args.y, n, d, dtype), matrix(args.grad, n, d, dtype)
    mean = vector(args.mean, d, dtype)
    grad_sum, grad_dot = matrix(args.grad_sum, count, d, dtype), matrix(args.grad_dot, count, d, dtype)
    zero = dtype(0)
    chunk = next_chunk(block)
    while chunk < count:
        sums, products = grad_sum[chunk], grad_dot[chunk]
        for j in range(d):
            sums[j] = zero
            products[j] = zero
        for i in range(chunk * size, min(n, (chunk + 1) * size)):
            row, out, back = x[i], y[i], grad[i]
            for j in range(d):
                g = before_relu(back[j], out[j], relu)
                sums[j] += g
                products[j] += g * (row[j] - mean[j])
        chunk = next_chunk(block)


_GROUP_SUMS = arguments(
    "rows width chunk_groups relu groups x y grad mean grad_sum grad_dot perm ptr group_grad total_rows"
)


@njit(fastmath=MATHS)
def _group_sums(block, dtype):
    """As `_sums`, where the row of its group was added to each row: by groups, and the gradient sum of each group."""
    args = block[0]
    n, d, size, count, relu, groups = args.rows, args.width, args.chunk_groups, args.chunks, args.relu != 0, args.groups
    x, y, grad = matrix(args.x, n, d, dtype), matrix(args.y, n, d, dtype), matrix(args.grad, n, d, dtype)
    mean = vector(args.mean, d, dtype)
    grad_sum, grad_dot = matrix(args.grad_sum, count, d, dtype), matrix(args.grad_dot, count, d, dtype)
    perm, ptr = vector(args.perm, args.total_rows, np.int64), vector(args.ptr, groups, np.int64)
    group_grad = matrix(args.group_grad, groups, d, dtype)
    zero = dtype(0)
    chunk = next_chunk(block)
    while chunk < count:
        sums, products = grad_sum[chunk], grad_dot[chunk]
        for j in range(d):
            sums[j] = zero
            products[j] = zero
        for v in range(chunk * size, min(groups, (chunk + 1) * size)):
            group_sum = group_grad[v]
            for j in range(d):
                group_sum[j] = zero
            for q in range(ptr[v], ptr[v + 1] if v + 1 < groups else args.total_rows):
                i = perm[q]
                if i >= n:
                    break
                row, out, back = x[i], y[i], grad[i]
                for j in range(d):
                    g = before_relu(back[j], out[j], relu)
                    group_sum[j] += g
                    products[j] += g * (row[j] - mean[j])
            for j in range(d):
                sums[j] += group_sum[j]
        chunk = next_chunk(block)


_BACK = arguments("rows width chunk_rows relu x y grad multiplicity mean scale by_mean by_var grad_x")


@njit(fastmath=MATHS)
def _back(block, dtype):
    """The gradient of x: g scale + w (a + b (x - mean)), where a and b are the gradients through mean and variance."""
    args = block[0]
    n, d, size, relu = args.rows, args.width, args.chunk_rows, args.relu != 0
    x, y, grad = matrix(args.x, n, d, dtype), matrix(args.y, n, d, dtype), matrix(args.grad, n, d, dtype)
    multiplicity, mean, scale = (
        vector(args.multiplicity, n, dtype),
        vector(args.mean, d, dtype),
        vector(args.scale, d, dtype),
    )
    a, b, grad_x = vector(args.by_mean, d, dtype), vector(args.by_var, d, dtype), matrix(args.grad_x, n, d, dtype)
    one = dtype(1)
    chunk = next_chunk(block)
    while chunk < args.chunks:
        for i in range(chunk * size, min(n, (chunk + 1) * size)):
            w = multiplicity[i] if args.multiplicity else one
            row, out, back, to = x[i], y[i], grad[i], grad_x[i]
            for j in range(d):
                g = before_relu(back[j], out[j], relu)
                to[j] = g * scale[j] + w * (a[j] + b[j] * (row[j] - mean[j]))
        chunk = next_chunk(block)


_MERGE = arguments("parts width total mean square gamma beta bias running_mean running_var numbers out")


@njit(fastmath=MATHS)
def _merge(block, dtype):
    """Mean and variance of all rows from those of the chunks; from them the norm and the running statistics."""
    args = block[0]
    count, d = args.parts, args.width
    total = vector(args.total, count, np.float64)
    mean, square = matrix(args.mean, count, d, dtype), matrix(args.square, count, d, dtype)
    gamma, beta, bias = vector(args.gamma, d, dtype), vector(args.beta, d, dtype), vector(args.bias, d, dtype)
    running_mean, running_var = vector(args.running_mean, d, dtype), vector(args.running_var, d, dtype)
    numbers, out = vector(args.numbers, 4, np.float64), matrix(args.out, 4, d, dtype)
    eps, momentum = numbers[0], numbers[1]
    centre, var, pairs = np.zeros(d), np.zeros(d), 0.0
    for chunk in range(count):
        w = total[chunk]
        pairs += w
        for j in range(d):
            centre[j] += w * mean[chunk, j]
    for j in range(d):
        centre[j] /= pairs
    for chunk in range(count):
        w = total[chunk]
        for j in range(d):
            deviation = mean[chunk, j] - centre[j]
            var[j] += square[chunk, j] + w * deviation * deviation
    for j in range(d):
        var[j] /= pairs
        inverse = 1.0 / np.sqrt(var[j] + eps)
        out[0, j] = centre[j]
        out[1, j] = inverse * gamma[j] if args.gamma else inverse
        out[2, j] = beta[j] if args.beta else 0.0
        out[3, j] = inverse
        if args.running_mean:
            shifted = centre[j] + bias[j] if args.bias else centre[j]
            running_mean[j] += momentum * (shifted - running_mean[j])
            running_var[j] += momentum * (var[j] * (pairs / (pairs - numbers[3])) - running_var[j])
    numbers[2] = pairs


_THROUGH = arguments("parts width grad_sum grad_dot scale inverse numbers out")


@njit(fastmath=MATHS)
def _through(block, dtype):
    """The gradients through mean and variance, and those of gamma and beta, from the sums of chunks."""
    args = block[0]
    count, d = args.parts, args.width
    grad_sum, grad_dot = matrix(args.grad_sum, count, d, dtype), matrix(args.grad_dot, count, d, dtype)
    scale, inverse = vector(args.scale, d, dtype), vector(args.inverse, d, dtype)
    total, out = vector(args.numbers, 3, np.float64)[2], matrix(args.out, 4, d, dtype)
    of_beta, of_gamma = np.zeros(d), np.zeros(d)
    for chunk in range(count):
        for j in range(d):
            of_beta[j] += grad_sum[chunk, j]
            of_gamma[j] += grad_dot[chunk, j]
    for j in range(d):
        of_gamma[j] *= inverse[j]
        # d mean / d x_i = w_i and d var / d x_i = 2 w_i (x_i - mean), with weights that sum to 1.
        out[0, j] = -scale[j] * of_beta[j] / total
        out[1, j] = -scale[j] * inverse[j] * of_gamma[j] / total
        out[2, j] = of_gamma[j]
        out[3, j] = of_beta[j]


@CompiledLoop
def _moments_single(data):
    _moments(carray(data, (1,), _MOMENTS), np.float32)


@CompiledLoop
def _moments_double(data):
    _moments(carray(data, (1,), _MOMENTS), np.float64)


@CompiledLoop
def _apply_single(data):
    _apply(carray(data, (1,), _APPLY), np.float32)


@CompiledLoop
def _apply_double(data):
    _apply(carray(data, (1,), _APPLY), np.float64)


@CompiledLoop
def _sums_single(data):
    _sums(carray(data, (1,), _SUMS), np.float32)


@CompiledLoop
def _sums_double(data):
    _sums(carray(data, (1,), _SUMS), np.float64)


@CompiledLoop
def _group_sums_single(data):
    _group_sums(carray(data, (1,), _GROUP_SUMS), np.float32)


@CompiledLoop
def _group_sums_double(data):
    _group_sums(carray(data, (1,), _GROUP_SUMS), np.float64)


@CompiledLoop
def _back_single(data):
    _back(carray(data, (1,), _BACK), np.float32)


@CompiledLoop
def _back_double(data):
    _back(carray(data, (1,), _BACK), np.float64)


@CompiledLoop
def _merge_single(data):
    _merge(carray(data, (1,), _MERGE), np.float32)


@CompiledLoop
def _merge_double(data):
    _merge(carray(data, (1,), _MERGE), np.float64)


@CompiledLoop
def _through_single(data):
    _through(carray(data, (1,), _THROUGH), np.float32)


@CompiledLoop
def _through_double(data):
    _through(carray(data, (1,), _THROUGH), np.float64)


moments = Loop(_moments_single, _moments_double, _MOMENTS)
apply = Loop(_apply_single, _apply_double, _APPLY)
sums = Loop(_sums_single, _sums_double, _SUMS)
group_sums = Loop(_group_sums_single, _group_sums_double, _GROUP_SUMS)
back = Loop(_back_single, _back_double, _BACK)
merge = Loop(_merge_single, _merge_double, _MERGE)
through = Loop(_through_single, _through_double, _THROUGH)
