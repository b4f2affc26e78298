"""The loops of `cpu_groups`: lines in the order of their groups, sums of groups, and rows that begin to differ.

Where an order is that of more lines than there are, a group ends at the first of these: they come last in it.
"""

import numpy as np
from numba import carray, njit

from esan.ops.numba.loops.entry import MATHS, Entry, next_piece, table, vector


@njit(cache=True, nogil=True)
def place_in_order(owner, order, first):
    """`in_order`, where `first` has how many lines each group has, and gets where it begins."""
    begin = 0
    for i in range(first.shape[0]):
        begin, first[i] = begin + first[i], begin
    for k in range(owner.shape[0]):
        i = owner[k]
        order[first[i]] = k
        first[i] += 1
    # Each group has come to where the next one begins.
    before = 0
    for i in range(first.shape[0]):
        before, first[i] = first[i], before


@njit(cache=True, nogil=True)
def in_order(owner, order, first):
    """The lines group by group, each group's in their own order, and where each group begins; by counting."""
    first[:] = 0
    for k in range(owner.shape[0]):
        first[owner[k]] += 1
    place_in_order(owner, order, first)


@njit(cache=True, nogil=True)
def weights(subgraphs, node):
    """How many pairs each row stands for: a stored one for itself, and a node's for those that are not stored."""
    nodes, stored = subgraphs.shape[0], node.shape[0]
    weight = np.ones(nodes + stored, np.float32)
    for v in range(nodes):  # not as a whole: shapes that may not fit would take seconds to compile
        weight[v] = subgraphs[v]
    for r in range(stored):
        weight[node[r]] -= np.float32(1)
    return weight


@njit(cache=True, nogil=True)
def routes(source, target, node, background, ends, into, order, first):
    """Both ends of each arc, where the arcs into each row begin, and the arcs by their source with its beginnings.

    A source that is not among as many rows as `first` has is the row of its node.
    """
    known = first.shape[0]
    into[:] = 0
    first[:] = 0
    for k in range(source.shape[0]):
        u, v = source[k], target[k]
        u = u if u < known else node[u - background]
        ends[0, k], ends[1, k] = u, v
        first[u] += 1
        into[v] += 1
    begin = 0
    for v in range(into.shape[0]):
        begin, into[v] = begin + into[v], begin
    place_in_order(ends[0], order, first)


@njit(fastmath=MATHS)
def _sums(block, real):
    """The sum of the lines of each group, each times its weight, onto what is there to begin with."""
    n, d, groups, terms, size = block[2], block[3], block[4], block[5], block[6]
    x, y = table(block[7], n, d, real), table(block[8], groups, d, real)
    which, first = vector(block[9], terms, np.int64), vector(block[10], groups, np.int64)
    weight, start = vector(block[11], terms, real), table(block[12], groups, d, real)
    zero, one = real(0), real(1)
    piece = next_piece(block)
    while piece < block[1]:
        for v in range(piece * size, min(groups, (piece + 1) * size)):
            out = y[v]
            if block[12]:
                line = start[v]
                for j in range(d):
                    out[j] = line[j]
            else:
                for j in range(d):
                    out[j] = zero
            for q in range(first[v], first[v + 1] if v + 1 < groups else terms):
                line, w = x[which[q]], weight[q] if block[11] else one
                for j in range(d):
                    out[j] += w * line[j]
        piece = next_piece(block)


@njit(fastmath=MATHS)
def _lift(block, real):
    """Rows of an earlier stage → rows of this one, and the weighted sum of those of each node, times its factor."""
    known, n, d, nodes, size, every = block[2], block[3], block[4], block[5], block[6], block[14]
    x, y, pool = table(block[7], known, d, real), table(block[8], n, d, real), table(block[9], nodes, d, real)
    order, first = vector(block[10], every, np.int64), vector(block[11], nodes, np.int64)
    weight, factor = vector(block[12], n, real), vector(block[13], nodes, real)
    zero, one = real(0), real(1)
    piece = next_piece(block)
    while piece < block[1]:
        for v in range(piece * size, min(nodes, (piece + 1) * size)):
            if block[9]:
                for j in range(d):
                    pool[v, j] = zero
            for q in range(first[v], first[v + 1] if v + 1 < nodes else every):
                r = order[q]
                if r >= n:
                    break
                line, w = x[r] if r < known else x[v], weight[r] if block[12] else one
                if block[8]:
                    out = y[r]
                    for j in range(d):
                        out[j] = line[j]
                if block[9]:
                    out = pool[v]
                    for j in range(d):
                        out[j] += w * line[j]
            if block[9] and block[13]:
                f = factor[v]
                for j in range(d):
                    pool[v, j] *= f
        piece = next_piece(block)


@njit(fastmath=MATHS)
def _lift_back(block, real):
    """The gradient of the earlier rows; a row that began to differ here gives its own to its background's."""
    known, n, d, nodes, size, every = block[2], block[3], block[4], block[5], block[6], block[14]
    into, grad, pool = table(block[7], known, d, real), table(block[8], n, d, real), table(block[9], nodes, d, real)
    order, first = vector(block[10], every, np.int64), vector(block[11], nodes, np.int64)
    weight, factor = vector(block[12], n, real), vector(block[13], nodes, real)
    one = real(1)
    piece = next_piece(block)
    while piece < block[1]:
        for v in range(piece * size, min(nodes, (piece + 1) * size)):
            for q in range(first[v], first[v + 1] if v + 1 < nodes else every):
                r = order[q]
                if r >= n:
                    break
                back = grad[r]
                if r < known:
                    out = into[r]
                    for j in range(d):
                        out[j] = back[j]
                else:
                    out = into[v]
                    for j in range(d):
                        out[j] += back[j]
                if block[9]:
                    w, share = weight[r] if block[12] else one, pool[v]
                    w *= factor[v] if block[13] else one
                    for j in range(d):
                        out[j] += w * share[j]
        piece = next_piece(block)


@njit(fastmath=MATHS)
def _pool(block, real):
    """The sum of each subgraph: that of its graph's background, and what its stored rows differ from theirs.

    Where rows have colours, there is a line a colour.
    """
    n, d, nodes, subgraphs, graphs, size = block[2], block[3], block[4], block[5], block[6], block[7]
    x, alike = table(block[8], block[17], d, real), table(block[9], graphs, d, real)
    y, every, colour = table(block[10], subgraphs, d, real), block[16], vector(block[18], n, np.int64)
    order, first = vector(block[11], every, np.int64), vector(block[12], subgraphs, np.int64)
    node, graph = vector(block[13], n, np.int64), vector(block[14], subgraphs, np.int64)
    share = vector(block[15], subgraphs, real)
    piece = next_piece(block)
    while piece < block[1]:
        for s in range(piece * size, min(subgraphs, (piece + 1) * size)):
            out, start = y[s], alike[graph[s]]
            for j in range(d):
                out[j] = start[j]
            for q in range(first[s], first[s + 1] if s + 1 < subgraphs else every):
                r = nodes + order[q]
                if r >= n:
                    break
                own, behind = (colour[r], colour[node[r]]) if block[18] else (r, node[r])
                mine, base = x[own], x[behind]
                for j in range(d):
                    out[j] += mine[j] - base[j]
            if block[15]:
                f = share[s]
                for j in range(d):
                    out[j] *= f
        piece = next_piece(block)


@njit(fastmath=MATHS)
def _pool_back(block, real):
    """The gradient of each row: its subgraph's, and for a node its graph's less those of its stored rows."""
    n, d, nodes, subgraphs, graphs, size = block[2], block[3], block[4], block[5], block[6], block[7]
    into, of_graph = table(block[8], n, d, real), table(block[9], graphs, d, real)
    every = block[16]
    grad, order = table(block[10], subgraphs, d, real), vector(block[11], every, np.int64)
    first, subgraph = vector(block[12], nodes, np.int64), vector(block[13], n - nodes, np.int64)
    graph, share = vector(block[14], nodes, np.int64), vector(block[15], subgraphs, real)
    one = real(1)
    piece = next_piece(block)
    while piece < block[1]:
        for v in range(piece * size, min(nodes, (piece + 1) * size)):
            rest, whole = into[v], of_graph[graph[v]]
            for j in range(d):
                rest[j] = whole[j]
            # A node's own row is the first of its rows.
            for q in range(first[v] + 1, first[v + 1] if v + 1 < nodes else every):
                r = order[q]
                if r >= n:
                    break
                s = subgraph[r - nodes]
                out, back, f = into[r], grad[s], share[s] if block[15] else one
                for j in range(d):
                    g = f * back[j]
                    out[j] = g
                    rest[j] -= g
        piece = next_piece(block)


@Entry
def _pool_single(data):
    _pool(carray(data, (19,), np.int64), np.float32)


@Entry
def _pool_double(data):
    _pool(carray(data, (19,), np.int64), np.float64)


@Entry
def _pool_back_single(data):
    _pool_back(carray(data, (17,), np.int64), np.float32)


@Entry
def _pool_back_double(data):
    _pool_back(carray(data, (17,), np.int64), np.float64)


@Entry
def _sums_single(data):
    _sums(carray(data, (13,), np.int64), np.float32)


@Entry
def _sums_double(data):
    _sums(carray(data, (13,), np.int64), np.float64)


@Entry
def _lift_single(data):
    _lift(carray(data, (15,), np.int64), np.float32)


@Entry
def _lift_double(data):
    _lift(carray(data, (15,), np.int64), np.float64)


@Entry
def _lift_back_single(data):
    _lift_back(carray(data, (15,), np.int64), np.float32)


@Entry
def _lift_back_double(data):
    _lift_back(carray(data, (15,), np.int64), np.float64)


sums = (_sums_single, _sums_double)
lift = (_lift_single, _lift_double)
lift_back = (_lift_back_single, _lift_back_double)
pool = (_pool_single, _pool_double)
pool_back = (_pool_back_single, _pool_back_double)
