"""Compiled loops of `numba.dedup`: 1-WL over rows; those with equal features and neighbours have one representative."""

import numpy as np
from numba import carray, njit

from esan.ops.numba.loops.entry import MATHS, CompiledLoop, Loop, arguments, matrix, next_chunk, vector
from esan.ops.numba.loops.indices import sort_range
from esan.ops.numba.loops.segments import counting_sort

#: Factors of a hash: odd, with bits that look random.
_MIX, _STIR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)


@njit(cache=True)
def table_capacity(lists):
    """The capacity of a hash table for so many lists: at least twice as many, and a power of two."""
    size = 16
    while size < 2 * lists:
        size *= 2
    return size


@njit(inline="always")
def _mixed(key):
    hashed = np.uint64(key) * _MIX
    return (hashed ^ (hashed >> np.uint64(29))) * _STIR


@njit(inline="always")
def _number(keys, begin, fixed, end, table, count):
    """The id of the list of keys from `begin + 2` to `end`; a list that was not seen before gets the id `count`.

    Up to `fixed` the order of keys matters, after it does not. A stored list follows its id and its length. The table
    holds, at the slot of its hash, where the list begins and some bits of the hash, so that most other lists are
    rejected unread.
    """
    hashed = np.uint64(end - begin)
    for k in range(begin + 2, fixed):
        hashed = _mixed(hashed ^ np.uint64(keys[k]))
    for k in range(fixed, end):
        hashed += _mixed(keys[k])
    hashed = _mixed(hashed)
    mask, tag = np.uint64(table.shape[0] - 1), np.int64(hashed >> np.uint64(33))
    slot, length, ordered = hashed & mask, end - begin, False
    while True:
        entry = table[slot]
        if entry < 0:
            table[slot], keys[begin], keys[begin + 1] = (tag << 32) | begin, count, length
            return count
        if entry >> 32 == tag:
            there = entry & 0xFFFFFFFF
            same = keys[there + 1] == length
            if same:
                # Only lists whose hashes agree are sorted.
                if not ordered:
                    sort_range(keys, fixed, end)
                    ordered = True
                sort_range(keys, there + fixed - begin, there + length)
            k = 2
            while same and k < length:
                same = keys[there + k] == keys[begin + k]
                k += 1
            if same:
                return keys[there]
        slot = (slot + np.uint64(1)) & mask


@njit(cache=True, nogil=True)
def distinct_ids(rows):
    """An id per row of integers, equal for equal rows, and the first row of each id."""
    (count, width), table = rows.shape, np.full(table_capacity(rows.shape[0]), -1, np.int64)
    number, met, keys = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count * (width + 2), np.int64)
    known, at = 0, 0
    for i in range(count):
        for j in range(width):
            keys[at + 2 + j] = rows[i, j]
        number[i] = _number(keys, at, at + 2 + width, at + 2 + width, table, known)
        if number[i] == known:
            met[known] = i
            known, at = known + 1, at + 2 + width
    return number, met[:known].copy()


@njit(cache=True, nogil=True)
def row_starts(target, rows):
    """Where the edges into each row begin, and where those into the last end; edges are sorted by target."""
    begin, at = np.empty(rows + 1, np.int64), 0
    for r in range(rows):
        begin[r] = at
        while at < target.shape[0] and target[at] == r:
            at += 1
    begin[rows] = at
    return begin


@njit(cache=True, nogil=True)
def refine(
    representative, node, background, source, edge_id, begin, kind, weight, of_rows, of_edges, by_source, scratch
):
    """One round of colour refinement: rows stay together if they start from rows with one representative and read rows
    with equal representatives along edges of equal kinds.

    `representative` is given for the first rows only: any other row starts from its node's background row, and is read
    as that. Returns the number of new representatives, the number of edges into them, and their multiplicities.

    Written: to `of_rows` the representative of each row, and of each representative its first row, the representative
    that it starts from, and where the edges into it begin. To `of_edges` the ends of these edges (the source is a
    representative of the round before), their edge of the graph, and their order by source; to `by_source` where the
    edges of each source begin. `scratch` is workspace.
    """
    known, rows, representatives = representative.shape[0], of_rows.shape[1], by_source.shape[0]
    number, met, own, into = of_rows[0], of_rows[1], of_rows[2], of_rows[3]
    from_rep, to_rep, edge_ids = of_edges[0], of_edges[1], of_edges[2]
    kinds, weights = 1 + (kind.max() if kind.shape[0] else 0), np.zeros(rows, np.float64)
    # A row that alone starts from its representative differs from every other row.
    successors, alone = scratch[:representatives], 0
    successors[:] = 0
    for r in range(rows):
        successors[representative[r if r < known else node[r - background]]] += 1
    for c in range(representatives):
        alone += successors[c] == 1
    behind = representatives + table_capacity(rows - alone)
    table, keys = scratch[representatives:behind], scratch[behind:]
    table[:] = -1
    by_source[:] = 0
    count, total, at = 0, 0, 0
    for r in range(rows):
        v = r if r < background else node[r - background]
        own_rep = representative[r if r < known else v]
        for k in range(begin[r], begin[r + 1]):
            u = source[k]
            from_rep[total + k - begin[r]] = representative[u if u < known else node[u - background]]
        c = count
        if successors[own_rep] > 1:
            keys[at + 2], end = own_rep, at + 3
            for k in range(begin[r], begin[r + 1]):
                keys[end] = from_rep[total + k - begin[r]] * kinds + kind[edge_id[k]]
                end += 1
            c = _number(keys, at, at + 3, end, table, count)
            at = end if c == count else at
        if c == count:
            met[c], own[c], into[c] = r, own_rep, total
            for k in range(begin[r], begin[r + 1]):
                to_rep[total], edge_ids[total] = c, edge_id[k]
                by_source[from_rep[total]] += 1
                total += 1
            count += 1
        number[r] = c
        weights[c] += weight[r]
    counting_sort(from_rep[:total], of_edges[3], by_source)
    return count, total, weights[:count]


_POOL_BACK = arguments(
    "rows width nodes subgraphs graphs chunk_size grad_x graph_grad grad perm ptr subgraph graph factor "
    "total_rows representatives row_perm row_ptr"
)


@njit(fastmath=MATHS)
def _pool_back(block, dtype):
    """The gradient of each representative: the sum of those of its rows, as `segments.pool_back` has them."""
    args = block[0]
    n, d, nodes, size = args.rows, args.width, args.nodes, args.chunk_size
    subgraphs, graphs = args.subgraphs, args.graphs
    representatives, total = args.representatives, args.total_rows
    grad_x, graph_grad = matrix(args.grad_x, representatives, d, dtype), matrix(args.graph_grad, graphs, d, dtype)
    grad, perm = matrix(args.grad, subgraphs, d, dtype), vector(args.perm, total, np.int64)
    ptr, subgraph = vector(args.ptr, nodes, np.int64), vector(args.subgraph, n - nodes, np.int64)
    graph, factor = vector(args.graph, nodes, np.int64), vector(args.factor, subgraphs, dtype)
    rows, row_ptr = vector(args.row_perm, n, np.int64), vector(args.row_ptr, representatives, np.int64)
    zero, one = dtype(0), dtype(1)
    chunk = next_chunk(block)
    while chunk < args.chunks:
        for c in range(chunk * size, min(representatives, (chunk + 1) * size)):
            out = grad_x[c]
            for j in range(d):
                out[j] = zero
            for k in range(row_ptr[c], row_ptr[c + 1] if c + 1 < representatives else n):
                r = rows[k]
                if r >= nodes:
                    s = subgraph[r - nodes]
                    back, f = grad[s], factor[s] if args.factor else one
                    for j in range(d):
                        out[j] += f * back[j]
                    continue
                back = graph_grad[graph[r]]
                for j in range(d):
                    out[j] += back[j]
                # A node's own row is the first of its rows.
                for q in range(ptr[r] + 1, ptr[r + 1] if r + 1 < nodes else total):
                    if perm[q] >= n:
                        break
                    s = subgraph[perm[q] - nodes]
                    back, f = grad[s], factor[s] if args.factor else one
                    for j in range(d):
                        out[j] -= f * back[j]
        chunk = next_chunk(block)


@CompiledLoop
def _pool_back_single(data):
    _pool_back(carray(data, (1,), _POOL_BACK), np.float32)


@CompiledLoop
def _pool_back_double(data):
    _pool_back(carray(data, (1,), _POOL_BACK), np.float64)


pool_back = Loop(_pool_back_single, _pool_back_double, _POOL_BACK)
