"""Compiled loops of `numba.gin`: chunks of rows go through message sum, matrix product and norm while in the cache."""

import numpy as np
from numba import carray, njit

from esan.ops.numba.loops.entry import (
    MATHS,
    CompiledLoop,
    Loop,
    arguments,
    before_relu,
    gemm,
    matrix,
    next_chunk,
    vector,
)
from esan.ops.numba.loops.messages import sum_messages
from esan.ops.numba.loops.norm import chunk_moments

#: BLAS is column-major: a matrix here is transposed there.
_PLAIN, _TRANSPOSED = ord("N"), ord("T")


@njit
def rows_times_transposed(blas, rows, depth, columns, a, w, c, zero):
    """c = a w^T for matrices at these addresses."""
    gemm(blas, _TRANSPOSED, _PLAIN, columns, rows, depth, w, depth, a, depth, zero, c, columns)


@njit
def rows_times(blas, rows, depth, columns, a, w, c, zero):
    """c = a w."""
    gemm(blas, _PLAIN, _PLAIN, columns, rows, depth, w, columns, a, depth, zero, c, columns)


@njit
def add_product_of_rows(blas, rows, out_rows, columns, a, b, c, beta):
    """c = a^T b + beta c; beta is 0 or 1."""
    gemm(blas, _PLAIN, _TRANSPOSED, columns, out_rows, rows, b, columns, a, out_rows, beta, c, columns)


_FIRST = arguments(
    "rows width out_width e_rows num_edges chunk_rows x e a source edge_id ptr weight own edge_type "
    "graph_edges w z multiplicity total mean square blas x_rows unchanged origin"
)


@njit(fastmath=MATHS)
def _first(block, dtype):
    """a = the sum of messages, z = a W^T, and the moments of z, one chunk of rows at a time."""
    args = block[0]
    n, d, o, size, count = args.rows, args.width, args.out_width, args.chunk_rows, args.chunks
    e_rows, num_edges = args.e_rows, args.num_edges
    x, e, a = matrix(args.x, args.x_rows, d, dtype), matrix(args.e, e_rows, d, dtype), matrix(args.a, n, d, dtype)
    source, edge_id = vector(args.source, num_edges, np.int64), vector(args.edge_id, num_edges, np.int64)
    ptr, weight = vector(args.ptr, n, np.int64), vector(args.weight, num_edges, dtype)
    own = vector(args.own, 1, dtype)[0] if args.own else dtype(0)
    edge_type, origin = vector(args.edge_type, args.graph_edges, np.int64), vector(args.origin, n, np.int64)
    has_e, has_types, has_weight = args.e != 0, args.edge_type != 0, args.weight != 0
    z, multiplicity = matrix(args.z, n, o, dtype), vector(args.multiplicity, n, dtype)
    total = vector(args.total, count, np.float64)
    mean, square = matrix(args.mean, count, o, dtype), matrix(args.square, count, o, dtype)
    chunk = next_chunk(block)
    while chunk < count:
        begin, end = chunk * size, min(n, (chunk + 1) * size)
        sum_messages(
            begin,
            end,
            x,
            e,
            a,
            source,
            edge_id,
            edge_type,
            ptr,
            weight,
            args.unchanged,
            origin,
            own,
            has_e,
            has_types,
            has_weight,
        )
        at_a, at_z = args.a + begin * d * a.itemsize, args.z + begin * o * z.itemsize
        rows_times_transposed(args.blas, end - begin, d, o, at_a, args.w, at_z, dtype(0))
        total[chunk] = chunk_moments(begin, end, z, multiplicity, args.multiplicity != 0, mean[chunk], square[chunk])
        chunk = next_chunk(block)


@njit(fastmath=MATHS)
def _normalised(begin, end, z, mean, scale, shift, out):
    """ReLU of the normalised rows from `begin` to `end`, at the top of `out`."""
    zero = z.dtype.type(0)
    for i in range(begin, end):
        row, to = z[i], out[i - begin]
        for j in range(z.shape[1]):
            value = (row[j] - mean[j]) * scale[j] + shift[j]
            to[j] = zero if value <= zero else value


_SECOND = arguments(
    "rows width out_width chunk_rows z w c norm_mean norm_scale norm_shift multiplicity total mean square blas"
)


@njit(fastmath=MATHS)
def _second(block, dtype):
    """c = ReLU(norm(z)) W^T and its moments, one chunk of rows at a time."""
    args = block[0]
    n, d, o, size, count = args.rows, args.width, args.out_width, args.chunk_rows, args.chunks
    z, c = matrix(args.z, n, d, dtype), matrix(args.c, n, o, dtype)
    mu, scale = vector(args.norm_mean, d, dtype), vector(args.norm_scale, d, dtype)
    shift = vector(args.norm_shift, d, dtype)
    multiplicity, total = vector(args.multiplicity, n, dtype), vector(args.total, count, np.float64)
    mean, square = matrix(args.mean, count, o, dtype), matrix(args.square, count, o, dtype)
    normalised = np.empty((size, d), dtype)
    chunk = next_chunk(block)
    while chunk < count:
        begin, end = chunk * size, min(n, (chunk + 1) * size)
        _normalised(begin, end, z, mu, scale, shift, normalised)
        at = args.c + begin * o * c.itemsize
        rows_times_transposed(args.blas, end - begin, d, o, normalised.ctypes.data, args.w, at, dtype(0))
        total[chunk] = chunk_moments(begin, end, c, multiplicity, args.multiplicity != 0, mean[chunk], square[chunk])
        chunk = next_chunk(block)


_BACK_SECOND = arguments(
    "rows width out_width chunk_rows relu c y grad multiplicity outer_mean outer_scale by_mean by_var z "
    "inner_mean inner_scale inner_shift w grad_normed grad_w grad_sum grad_dot blas"
)


@njit(fastmath=MATHS)
def _back_second(block, dtype):
    """From the end of the layer to ReLU(norm(z)): its gradient g, the sums of g for the norm's gradient, and that of W.

    Each part of the work covers several chunks of rows and has a gradient of W and sums of its own.
    """
    args = block[0]
    n, d, o, size, parts, relu = args.rows, args.width, args.out_width, args.chunk_rows, args.chunks, args.relu != 0
    c, y, grad = matrix(args.c, n, o, dtype), matrix(args.y, n, o, dtype), matrix(args.grad, n, o, dtype)
    multiplicity = vector(args.multiplicity, n, dtype)
    mean_c, scale_c = vector(args.outer_mean, o, dtype), vector(args.outer_scale, o, dtype)
    by_mean, by_var = vector(args.by_mean, o, dtype), vector(args.by_var, o, dtype)
    z, mean, scale = matrix(args.z, n, d, dtype), vector(args.inner_mean, d, dtype), vector(args.inner_scale, d, dtype)
    shift, g = vector(args.inner_shift, d, dtype), matrix(args.grad_normed, n, d, dtype)
    grad_sum, grad_dot = matrix(args.grad_sum, parts, d, dtype), matrix(args.grad_dot, parts, d, dtype)
    into, normalised = np.empty((size, o), dtype), np.empty((size, d), dtype)
    zero, one = dtype(0), dtype(1)
    num_chunks = (n + size - 1) // size
    part = next_chunk(block)
    while part < parts:
        sums, products = grad_sum[part], grad_dot[part]
        for j in range(d):
            sums[j] = zero
            products[j] = zero
        at_w, beta = args.grad_w + part * o * d * z.itemsize, zero
        for chunk in range(part * num_chunks // parts, (part + 1) * num_chunks // parts):
            begin, end = chunk * size, min(n, (chunk + 1) * size)
            for i in range(begin, end):
                w = multiplicity[i] if args.multiplicity else one
                row, out, back, to = c[i], y[i], grad[i], into[i - begin]
                for j in range(o):
                    value = before_relu(back[j], out[j], relu)
                    to[j] = value * scale_c[j] + w * (by_mean[j] + by_var[j] * (row[j] - mean_c[j]))
            _normalised(begin, end, z, mean, scale, shift, normalised)
            rows, at_g, at_into = end - begin, args.grad_normed + begin * d * z.itemsize, into.ctypes.data
            add_product_of_rows(args.blas, rows, o, d, at_into, normalised.ctypes.data, at_w, beta)
            rows_times(args.blas, rows, o, d, at_into, args.w, at_g, zero)
            beta = one
            for i in range(begin, end):
                row, out, to = z[i], normalised[i - begin], g[i]
                for j in range(d):
                    value = before_relu(to[j], out[j], True)
                    to[j] = value
                    sums[j] += value
                    products[j] += value * (row[j] - mean[j])
        part = next_chunk(block)


_BACK_FIRST = arguments(
    "rows width out_width chunk_rows z grad_normed multiplicity mean scale by_mean by_var a w grad_a grad_w blas"
)


@njit(fastmath=MATHS)
def _back_first(block, dtype):
    """Through the norm of z and W to the sums of messages: their gradient, and that of W in parts."""
    args = block[0]
    n, d, o, size, parts = args.rows, args.width, args.out_width, args.chunk_rows, args.chunks
    z, g = matrix(args.z, n, o, dtype), matrix(args.grad_normed, n, o, dtype)
    multiplicity = vector(args.multiplicity, n, dtype)
    mean, scale = vector(args.mean, o, dtype), vector(args.scale, o, dtype)
    by_mean, by_var = vector(args.by_mean, o, dtype), vector(args.by_var, o, dtype)
    into = np.empty((size, o), dtype)
    zero, one = dtype(0), dtype(1)
    num_chunks = (n + size - 1) // size
    part = next_chunk(block)
    while part < parts:
        at_w, beta = args.grad_w + part * o * d * z.itemsize, zero
        for chunk in range(part * num_chunks // parts, (part + 1) * num_chunks // parts):
            begin, end = chunk * size, min(n, (chunk + 1) * size)
            for i in range(begin, end):
                w = multiplicity[i] if args.multiplicity else one
                row, back, to = z[i], g[i], into[i - begin]
                for j in range(o):
                    to[j] = back[j] * scale[j] + w * (by_mean[j] + by_var[j] * (row[j] - mean[j]))
            rows = end - begin
            at_a, at_out = args.a + begin * d * z.itemsize, args.grad_a + begin * d * z.itemsize
            add_product_of_rows(args.blas, rows, o, d, into.ctypes.data, at_a, at_w, beta)
            rows_times(args.blas, rows, o, d, into.ctypes.data, args.w, at_out, zero)
            beta = one
        part = next_chunk(block)


@CompiledLoop
def _first_single(data):
    _first(carray(data, (1,), _FIRST), np.float32)


@CompiledLoop
def _first_double(data):
    _first(carray(data, (1,), _FIRST), np.float64)


@CompiledLoop
def _second_single(data):
    _second(carray(data, (1,), _SECOND), np.float32)


@CompiledLoop
def _second_double(data):
    _second(carray(data, (1,), _SECOND), np.float64)


@CompiledLoop
def _back_second_single(data):
    _back_second(carray(data, (1,), _BACK_SECOND), np.float32)


@CompiledLoop
def _back_second_double(data):
    _back_second(carray(data, (1,), _BACK_SECOND), np.float64)


@CompiledLoop
def _back_first_single(data):
    _back_first(carray(data, (1,), _BACK_FIRST), np.float32)


@CompiledLoop
def _back_first_double(data):
    _back_first(carray(data, (1,), _BACK_FIRST), np.float64)


first = Loop(_first_single, _first_double, _FIRST)
second = Loop(_second_single, _second_double, _SECOND)
back_second = Loop(_back_second_single, _back_second_double, _BACK_SECOND)
back_first = Loop(_back_first_single, _back_first_double, _BACK_FIRST)
