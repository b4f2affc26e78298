"""Compiled loops of `numba.segments` and `numba.rows`: sort rows by group, sum groups, expand and pool rows.

`perm` may be that of more rows than there are (of which the given ones are a prefix): the others come last in a group,
so a group ends at the first of them.
"""

import numpy as np
from numba import carray, njit

from esan.ops.numba.loops.entry import MATHS, CompiledLoop, Loop, arguments, matrix, next_chunk, vector


@njit(cache=True, nogil=True)
def counting_sort(index, perm, ptr):
    """`sort`, where `ptr` holds the number of rows of each group, and is overwritten by where it begins."""
    begin = 0
    for i in range(ptr.shape[0]):
        begin, ptr[i] = begin + ptr[i], begin
    for k in range(index.shape[0]):
        i = index[k]
        perm[ptr[i]] = k
        ptr[i] += 1
    # `ptr` of each group has moved to where the next one begins.
    before = 0
    for i in range(ptr.shape[0]):
        before, ptr[i] = ptr[i], before


@njit(cache=True, nogil=True)
def sort(index, perm, ptr):
    """The rows group by group, in a stable order, and where each group begins: a counting sort."""
    ptr[:] = 0
    for k in range(index.shape[0]):
        ptr[index[k]] += 1
    counting_sort(index, perm, ptr)


@njit(cache=True, nogil=True)
def multiplicities(subgraphs, node):
    """How many pairs each row stands for: a stored row for one, a background row for those that are not stored."""
    nodes, stored = subgraphs.shape[0], node.shape[0]
    weight = np.ones(nodes + stored, np.float32)
    for v in range(nodes):  # element by element: a slice assignment takes seconds to compile
        weight[v] = subgraphs[v]
    for r in range(stored):
        weight[node[r]] -= np.float32(1)
    return weight


@njit(cache=True, nogil=True)
def sort_edges(source, target, node, background, ends, target_ptr, perm, ptr):
    """Both ends of each edge, the `ptr` of the edges by target, and `perm` and `ptr` of the edges by source.

    A source row that is not among the first `len(ptr)` rows is replaced by the background row of its node.
    """
    x_rows = ptr.shape[0]
    target_ptr[:] = 0
    ptr[:] = 0
    for k in range(source.shape[0]):
        u, v = source[k], target[k]
        u = u if u < x_rows else node[u - background]
        ends[0, k], ends[1, k] = u, v
        ptr[u] += 1
        target_ptr[v] += 1
    begin = 0
    for v in range(target_ptr.shape[0]):
        begin, target_ptr[v] = begin + target_ptr[v], begin
    counting_sort(ends[0], perm, ptr)


_SUMS = arguments("rows width groups terms chunk_groups x y perm ptr weight")


@njit(fastmath=MATHS)
def _sums(block, dtype):
    """The sum of the rows of each group, each times its weight."""
    args = block[0]
    n, d, groups, terms, size = args.rows, args.width, args.groups, args.terms, args.chunk_groups
    x, y = matrix(args.x, n, d, dtype), matrix(args.y, groups, d, dtype)
    perm, ptr = vector(args.perm, terms, np.int64), vector(args.ptr, groups, np.int64)
    weight = vector(args.weight, terms, dtype)
    zero, one = dtype(0), dtype(1)
    chunk = next_chunk(block)
    while chunk < args.chunks:
        for v in range(chunk * size, min(groups, (chunk + 1) * size)):
            out = y[v]
            for j in range(d):
                out[j] = zero
            for q in range(ptr[v], ptr[v + 1] if v + 1 < groups else terms):
                row, w = x[perm[q]], weight[q] if args.weight else one
                for j in range(d):
                    out[j] += w * row[j]
        chunk = next_chunk(block)


_EXPAND = arguments("x_rows rows width nodes chunk_nodes x y pool perm ptr multiplicity factor total_rows")


@njit(fastmath=MATHS)
def _expand(block, dtype):
    """Rows of an earlier layer → rows of this one, and the weighted sum of those of each node, times its factor."""
    args = block[0]
    x_rows, n, d, nodes, size, total = args.x_rows, args.rows, args.width, args.nodes, args.chunk_nodes, args.total_rows
    x, y, pool = matrix(args.x, x_rows, d, dtype), matrix(args.y, n, d, dtype), matrix(args.pool, nodes, d, dtype)
    perm, ptr = vector(args.perm, total, np.int64), vector(args.ptr, nodes, np.int64)
    multiplicity, factor = vector(args.multiplicity, n, dtype), vector(args.factor, nodes, dtype)
    zero, one = dtype(0), dtype(1)
    chunk = next_chunk(block)
    while chunk < args.chunks:
        for v in range(chunk * size, min(nodes, (chunk + 1) * size)):
            if args.pool:
                for j in range(d):
                    pool[v, j] = zero
            for q in range(ptr[v], ptr[v + 1] if v + 1 < nodes else total):
                r = perm[q]
                if r >= n:
                    break
                row, w = x[r] if r < x_rows else x[v], multiplicity[r] if args.multiplicity else one
                if args.y:
                    out = y[r]
                    for j in range(d):
                        out[j] = row[j]
                if args.pool:
                    out = pool[v]
                    for j in range(d):
                        out[j] += w * row[j]
            if args.pool and args.factor:
                f = factor[v]
                for j in range(d):
                    pool[v, j] *= f
        chunk = next_chunk(block)


_EXPAND_BACK = arguments(
    "x_rows rows width nodes chunk_nodes grad_x grad grad_pool perm ptr multiplicity factor total_rows"
)


@njit(fastmath=MATHS)
def _expand_back(block, dtype):
    """The gradient of the earlier rows; that of a row which is new here goes to its background row."""
    args = block[0]
    x_rows, n, d, nodes, size, total = args.x_rows, args.rows, args.width, args.nodes, args.chunk_nodes, args.total_rows
    grad_x, grad = matrix(args.grad_x, x_rows, d, dtype), matrix(args.grad, n, d, dtype)
    grad_pool = matrix(args.grad_pool, nodes, d, dtype)
    perm, ptr = vector(args.perm, total, np.int64), vector(args.ptr, nodes, np.int64)
    multiplicity, factor = vector(args.multiplicity, n, dtype), vector(args.factor, nodes, dtype)
    one = dtype(1)
    chunk = next_chunk(block)
    while chunk < args.chunks:
        for v in range(chunk * size, min(nodes, (chunk + 1) * size)):
            for q in range(ptr[v], ptr[v + 1] if v + 1 < nodes else total):
                r = perm[q]
                if r >= n:
                    break
                back = grad[r]
                if r < x_rows:
                    out = grad_x[r]
                    for j in range(d):
                        out[j] = back[j]
                else:
                    out = grad_x[v]
                    for j in range(d):
                        out[j] += back[j]
                if args.grad_pool:
                    w, back = multiplicity[r] if args.multiplicity else one, grad_pool[v]
                    w *= factor[v] if args.factor else one
                    for j in range(d):
                        out[j] += w * back[j]
        chunk = next_chunk(block)


_POOL = arguments(
    "rows width nodes subgraphs graphs chunk_subgraphs x background_sum y perm ptr node graph factor "
    "total_stored x_rows representative"
)


@njit(fastmath=MATHS)
def _pool(block, dtype):
    """The sum of each subgraph: that of its graph's background rows, plus the differences of its stored rows from them.

    If `representative` is given, x has one row per representative.
    """
    args = block[0]
    n, d, nodes, size = args.rows, args.width, args.nodes, args.chunk_subgraphs
    subgraphs, graphs, total = args.subgraphs, args.graphs, args.total_stored
    x, background_sum = matrix(args.x, args.x_rows, d, dtype), matrix(args.background_sum, graphs, d, dtype)
    y, representative = matrix(args.y, subgraphs, d, dtype), vector(args.representative, n, np.int64)
    perm, ptr = vector(args.perm, total, np.int64), vector(args.ptr, subgraphs, np.int64)
    node, graph = vector(args.node, n, np.int64), vector(args.graph, subgraphs, np.int64)
    factor = vector(args.factor, subgraphs, dtype)
    chunk = next_chunk(block)
    while chunk < args.chunks:
        for s in range(chunk * size, min(subgraphs, (chunk + 1) * size)):
            out, start = y[s], background_sum[graph[s]]
            for j in range(d):
                out[j] = start[j]
            for q in range(ptr[s], ptr[s + 1] if s + 1 < subgraphs else total):
                r = nodes + perm[q]
                if r >= n:
                    break
                own, base_row = (representative[r], representative[node[r]]) if args.representative else (r, node[r])
                mine, base = x[own], x[base_row]
                for j in range(d):
                    out[j] += mine[j] - base[j]
            if args.factor:
                f = factor[s]
                for j in range(d):
                    out[j] *= f
        chunk = next_chunk(block)


_POOL_BACK = arguments(
    "rows width nodes subgraphs graphs chunk_nodes grad_x graph_grad grad perm ptr subgraph graph factor total_rows"
)


@njit(fastmath=MATHS)
def _pool_back(block, dtype):
    """The gradient of a stored row is its subgraph's; of a background row its graph's less those of its stored rows."""
    args = block[0]
    n, d, nodes, size = args.rows, args.width, args.nodes, args.chunk_nodes
    subgraphs, graphs, total = args.subgraphs, args.graphs, args.total_rows
    grad_x, graph_grad = matrix(args.grad_x, n, d, dtype), matrix(args.graph_grad, graphs, d, dtype)
    grad, perm = matrix(args.grad, subgraphs, d, dtype), vector(args.perm, total, np.int64)
    ptr, subgraph = vector(args.ptr, nodes, np.int64), vector(args.subgraph, n - nodes, np.int64)
    graph, factor = vector(args.graph, nodes, np.int64), vector(args.factor, subgraphs, dtype)
    one = dtype(1)
    chunk = next_chunk(block)
    while chunk < args.chunks:
        for v in range(chunk * size, min(nodes, (chunk + 1) * size)):
            rest, back = grad_x[v], graph_grad[graph[v]]
            for j in range(d):
                rest[j] = back[j]
            # A node's own row is the first of its rows.
            for q in range(ptr[v] + 1, ptr[v + 1] if v + 1 < nodes else total):
                r = perm[q]
                if r >= n:
                    break
                s = subgraph[r - nodes]
                out, back, f = grad_x[r], grad[s], factor[s] if args.factor else one
                for j in range(d):
                    g = f * back[j]
                    out[j] = g
                    rest[j] -= g
        chunk = next_chunk(block)


@CompiledLoop
def _pool_single(data):
    _pool(carray(data, (1,), _POOL), np.float32)


@CompiledLoop
def _pool_double(data):
    _pool(carray(data, (1,), _POOL), np.float64)


@CompiledLoop
def _pool_back_single(data):
    _pool_back(carray(data, (1,), _POOL_BACK), np.float32)


@CompiledLoop
def _pool_back_double(data):
    _pool_back(carray(data, (1,), _POOL_BACK), np.float64)


@CompiledLoop
def _sums_single(data):
    _sums(carray(data, (1,), _SUMS), np.float32)


@CompiledLoop
def _sums_double(data):
    _sums(carray(data, (1,), _SUMS), np.float64)


@CompiledLoop
def _expand_single(data):
    _expand(carray(data, (1,), _EXPAND), np.float32)


@CompiledLoop
def _expand_double(data):
    _expand(carray(data, (1,), _EXPAND), np.float64)


@CompiledLoop
def _expand_back_single(data):
    _expand_back(carray(data, (1,), _EXPAND_BACK), np.float32)


@CompiledLoop
def _expand_back_double(data):
    _expand_back(carray(data, (1,), _EXPAND_BACK), np.float64)


sums = Loop(_sums_single, _sums_double, _SUMS)
expand = Loop(_expand_single, _expand_double, _EXPAND)
expand_back = Loop(_expand_back_single, _expand_back_double, _EXPAND_BACK)
pool = Loop(_pool_single, _pool_double, _POOL)
pool_back = Loop(_pool_back_single, _pool_back_double, _POOL_BACK)
