"""Compiled loops of `numba.messages`: gather, add edge features, ReLU and sum in one pass; the gradients in another."""

import numpy as np
from numba import carray, njit

from esan.ops.numba.loops.entry import MATHS, CompiledLoop, Loop, arguments, before_relu, matrix, next_chunk, vector


@njit(fastmath=MATHS)
def sum_messages(
    begin, end, x, e, y, source, edge_id, edge_type, ptr, weight, unchanged, origin, own, has_e, has_types, has_weight
):
    """The sums of the rows from `begin` to `end`; the flags say which of the arrays are given.

    The first `unchanged` rows are those of x; any other row v begins as row `origin[v]` of x.
    """
    n, d, num_edges = y.shape[0], x.shape[1], source.shape[0]
    zero, one = x.dtype.type(0), x.dtype.type(1)
    for v in range(begin, end):
        out, own_row = y[v], x[v if v < unchanged else origin[v]]
        for j in range(d):
            out[j] = own * own_row[j]
        for k in range(ptr[v], ptr[v + 1] if v + 1 < n else num_edges):
            there = x[source[k]]
            w = weight[k] if has_weight else one
            if has_e:
                e_row = e[edge_type[edge_id[k]] if has_types else edge_id[k]]
                for j in range(d):
                    message = there[j] + e_row[j]
                    out[j] += w * (zero if message <= zero else message)
            else:
                for j in range(d):
                    out[j] += w * there[j]


_FORWARD = arguments("rows width e_rows num_edges chunk_rows x e y source edge_id ptr weight own edge_type graph_edges")


@njit(fastmath=MATHS)
def _forward(block, dtype):
    args = block[0]
    n, d, e_rows, num_edges, size = args.rows, args.width, args.e_rows, args.num_edges, args.chunk_rows
    x, e, y = matrix(args.x, n, d, dtype), matrix(args.e, e_rows, d, dtype), matrix(args.y, n, d, dtype)
    source, edge_id = vector(args.source, num_edges, np.int64), vector(args.edge_id, num_edges, np.int64)
    ptr, weight = vector(args.ptr, n, np.int64), vector(args.weight, num_edges, dtype)
    own = vector(args.own, 1, dtype)[0] if args.own else dtype(0)
    edge_type = vector(args.edge_type, args.graph_edges, np.int64)
    has_e, has_types, has_weight = args.e != 0, args.edge_type != 0, args.weight != 0
    chunk = next_chunk(block)
    while chunk < args.chunks:
        begin, end = chunk * size, min(n, (chunk + 1) * size)
        # All rows are rows of x: `ptr` only stands in for `origin`, which is not read.
        sum_messages(
            begin, end, x, e, y, source, edge_id, edge_type, ptr, weight, n, ptr, own, has_e, has_types, has_weight
        )
        chunk = next_chunk(block)


_TO_ROWS = arguments(
    "x_rows width e_rows num_edges chunk_rows x e grad target edge_id perm ptr weight own grad_x grad_e "
    "grad_own edge_type graph_edges rows origins expanded_perm expanded_ptr expanded_total unchanged"
)


@njit(fastmath=MATHS)
def _to_rows(block, dtype):
    """The gradient of each row of x, from the edges that leave it; and that of e, one sum per chunk, if it is small.

    The first `unchanged` rows are those of x, and the others copies of some of them: `expanded` has all rows by the row
    of x that they are a copy of, in order.
    """
    args = block[0]
    n, d, e_rows, num_edges = args.x_rows, args.width, args.e_rows, args.num_edges
    size, count, rows = args.chunk_rows, args.chunks, args.rows
    origins, unchanged, total = args.origins, args.unchanged, args.expanded_total
    x, e, grad = matrix(args.x, n, d, dtype), matrix(args.e, e_rows, d, dtype), matrix(args.grad, rows, d, dtype)
    target, edge_id = vector(args.target, num_edges, np.int64), vector(args.edge_id, num_edges, np.int64)
    perm, ptr = vector(args.perm, num_edges, np.int64), vector(args.ptr, n, np.int64)
    weight = vector(args.weight, num_edges, dtype)
    expanded, expanded_ptr = vector(args.expanded_perm, total, np.int64), vector(args.expanded_ptr, origins, np.int64)
    own = vector(args.own, 1, dtype)[0] if args.own else dtype(0)
    grad_x, grad_e = matrix(args.grad_x, n, d, dtype), matrix(args.grad_e, count * e_rows, d, dtype)
    grad_own, edge_type = vector(args.grad_own, count, np.float64), vector(args.edge_type, args.graph_edges, np.int64)
    zero, one = dtype(0), dtype(1)
    chunk = next_chunk(block)
    while chunk < count:
        shift = chunk * e_rows
        if args.grad_e:
            for c in range(shift, shift + e_rows):
                for j in range(d):
                    grad_e[c, j] = zero
        own_sum = 0.0
        for u in range(chunk * size, min(n, (chunk + 1) * size)):
            out = grad_x[u]
            for j in range(d):
                out[j] = zero
            if u < unchanged:
                there_grad = grad[u]
                for j in range(d):
                    out[j] = own * there_grad[j]
                if args.grad_own:
                    own_row, product = x[u], zero
                    for j in range(d):
                        product += there_grad[j] * own_row[j]
                    own_sum += product
            if u < origins:
                for q in range(expanded_ptr[u], expanded_ptr[u + 1] if u + 1 < origins else total):
                    if expanded[q] < unchanged:
                        continue
                    if expanded[q] >= rows:
                        break
                    there_grad = grad[expanded[q]]
                    for j in range(d):
                        out[j] += own * there_grad[j]
                    if args.grad_own:
                        own_row, product = x[u], zero
                        for j in range(d):
                            product += there_grad[j] * own_row[j]
                        own_sum += product
            for q in range(ptr[u], ptr[u + 1] if u + 1 < n else num_edges):
                k = perm[q]
                there = grad[target[k]]
                w = weight[k] if args.weight else one
                if args.grad_e:
                    c = edge_type[edge_id[k]] if args.edge_type else edge_id[k]
                    own_row, e_row, into = x[u], e[c], grad_e[shift + c]
                    for j in range(d):
                        g = before_relu(w * there[j], own_row[j] + e_row[j], True)
                        out[j] += g
                        into[j] += g
                elif args.e:
                    own_row, e_row = x[u], e[edge_type[edge_id[k]] if args.edge_type else edge_id[k]]
                    for j in range(d):
                        out[j] += before_relu(w * there[j], own_row[j] + e_row[j], True)
                else:
                    for j in range(d):
                        out[j] += w * there[j]
        if args.grad_own:
            grad_own[chunk] = own_sum
        chunk = next_chunk(block)


_TO_EDGES = arguments("x_rows width e_rows num_edges chunk_rows x e grad source target perm ptr weight grad_e")


@njit(fastmath=MATHS)
def _to_edges(block, dtype):
    """The gradient of each row of e, from the edges that read it."""
    args = block[0]
    n, d, e_rows, num_edges, size = args.x_rows, args.width, args.e_rows, args.num_edges, args.chunk_rows
    x, e, grad = matrix(args.x, n, d, dtype), matrix(args.e, e_rows, d, dtype), matrix(args.grad, n, d, dtype)
    source, target = vector(args.source, num_edges, np.int64), vector(args.target, num_edges, np.int64)
    perm, ptr = vector(args.perm, num_edges, np.int64), vector(args.ptr, e_rows, np.int64)
    weight, grad_e = vector(args.weight, num_edges, dtype), matrix(args.grad_e, e_rows, d, dtype)
    zero, one = dtype(0), dtype(1)
    chunk = next_chunk(block)
    while chunk < args.chunks:
        for a in range(chunk * size, min(e_rows, (chunk + 1) * size)):
            out, e_row = grad_e[a], e[a]
            for j in range(d):
                out[j] = zero
            for q in range(ptr[a], ptr[a + 1] if a + 1 < e_rows else num_edges):
                k = perm[q]
                there, sent = grad[target[k]], x[source[k]]
                w = weight[k] if args.weight else one
                for j in range(d):
                    out[j] += before_relu(w * there[j], sent[j] + e_row[j], True)
        chunk = next_chunk(block)


@CompiledLoop
def _forward_single(data):
    _forward(carray(data, (1,), _FORWARD), np.float32)


@CompiledLoop
def _forward_double(data):
    _forward(carray(data, (1,), _FORWARD), np.float64)


@CompiledLoop
def _to_rows_single(data):
    _to_rows(carray(data, (1,), _TO_ROWS), np.float32)


@CompiledLoop
def _to_rows_double(data):
    _to_rows(carray(data, (1,), _TO_ROWS), np.float64)


@CompiledLoop
def _to_edges_single(data):
    _to_edges(carray(data, (1,), _TO_EDGES), np.float32)


@CompiledLoop
def _to_edges_double(data):
    _to_edges(carray(data, (1,), _TO_EDGES), np.float64)


forward = Loop(_forward_single, _forward_double, _FORWARD)
to_rows = Loop(_to_rows_single, _to_rows_double, _TO_ROWS)
to_edges = Loop(_to_edges_single, _to_edges_double, _TO_EDGES)
