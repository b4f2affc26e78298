"""The loops of `cpu_messages`: gather, add the edge's line, ReLU and sum in one pass, and back in another."""

import numpy as np
from numba import carray, njit

from esan.ops.numba.loops.entry import MATHS, Entry, before_relu, next_piece, table, vector


@njit(fastmath=MATHS)
def sum_some(begin, end, x, e, y, source, line, code, first, weight, kept, goes_on, own, bonds, coded, weighted):
    """The sums of the rows from `begin` to `end`; the flags say which of the tables are there.

    The first `kept` rows are those of x; of another, x has the row that it `goes_on` from.
    """
    n, d, arcs = y.shape[0], x.shape[1], source.shape[0]
    zero, one = x.dtype.type(0), x.dtype.type(1)
    for v in range(begin, end):
        out, mine = y[v], x[v if v < kept else goes_on[v]]
        for j in range(d):
            out[j] = own * mine[j]
        for k in range(first[v], first[v + 1] if v + 1 < n else arcs):
            there = x[source[k]]
            w = weight[k] if weighted else one
            if bonds:
                bond = e[code[line[k]] if coded else line[k]]
                for j in range(d):
                    message = there[j] + bond[j]
                    out[j] += w * (zero if message <= zero else message)
            else:
                for j in range(d):
                    out[j] += w * there[j]


@njit(fastmath=MATHS)
def _forward(block, real):
    n, d, lines, arcs, size = block[2], block[3], block[4], block[5], block[6]
    x, e, y = table(block[7], n, d, real), table(block[8], lines, d, real), table(block[9], n, d, real)
    source, line = vector(block[10], arcs, np.int64), vector(block[11], arcs, np.int64)
    first, weight = vector(block[12], n, np.int64), vector(block[13], arcs, real)
    own = vector(block[14], 1, real)[0] if block[14] else real(0)
    code = vector(block[15], block[16], np.int64)
    bonds, coded, weighted = block[8] != 0, block[15] != 0, block[13] != 0
    piece = next_piece(block)
    while piece < block[1]:
        begin, end = piece * size, min(n, (piece + 1) * size)
        # Every row is there: `first` only stands in for what nobody reads.
        sum_some(begin, end, x, e, y, source, line, code, first, weight, n, first, own, bonds, coded, weighted)
        piece = next_piece(block)


@njit(fastmath=MATHS)
def _to_rows(block, real):
    """The gradient of each row, from the arcs that leave it; and of the edge lines, a sum a piece, if they are few.

    Behind the first `kept` rows, which are those of x, others go on from some of them: `later` has all rows by the one
    that they go on from, in their order.
    """
    n, d, lines, arcs, size, count = block[2], block[3], block[4], block[5], block[6], block[1]
    rows, sources, kept = block[21], block[22], block[26]
    x, e, grad = table(block[7], n, d, real), table(block[8], lines, d, real), table(block[9], rows, d, real)
    target, line = vector(block[10], arcs, np.int64), vector(block[11], arcs, np.int64)
    order, first = vector(block[12], arcs, np.int64), vector(block[13], n, np.int64)
    weight = vector(block[14], arcs, real)
    later, later_first, every = vector(block[23], block[25], np.int64), vector(block[24], sources, np.int64), block[25]
    own = vector(block[15], 1, real)[0] if block[15] else real(0)
    grad_x, grad_e = table(block[16], n, d, real), table(block[17], count * lines, d, real)
    grad_own, code = vector(block[18], count, np.float64), vector(block[19], block[20], np.int64)
    zero, one = real(0), real(1)
    piece = next_piece(block)
    while piece < count:
        shift = piece * lines
        if block[17]:
            for c in range(shift, shift + lines):
                for j in range(d):
                    grad_e[c, j] = zero
        of_own = 0.0
        for u in range(piece * size, min(n, (piece + 1) * size)):
            out = grad_x[u]
            for j in range(d):
                out[j] = zero
            if u < kept:
                at_end = grad[u]
                for j in range(d):
                    out[j] = own * at_end[j]
                if block[18]:
                    mine, product = x[u], zero
                    for j in range(d):
                        product += at_end[j] * mine[j]
                    of_own += product
            if u < sources:
                for q in range(later_first[u], later_first[u + 1] if u + 1 < sources else every):
                    if later[q] < kept:
                        continue
                    if later[q] >= rows:
                        break
                    at_end = grad[later[q]]
                    for j in range(d):
                        out[j] += own * at_end[j]
                    if block[18]:
                        mine, product = x[u], zero
                        for j in range(d):
                            product += at_end[j] * mine[j]
                        of_own += product
            for q in range(first[u], first[u + 1] if u + 1 < n else arcs):
                k = order[q]
                there = grad[target[k]]
                w = weight[k] if block[14] else one
                if block[17]:
                    c = code[line[k]] if block[19] else line[k]
                    mine, bond, into = x[u], e[c], grad_e[shift + c]
                    for j in range(d):
                        g = before_relu(w * there[j], mine[j] + bond[j], True)
                        out[j] += g
                        into[j] += g
                elif block[8]:
                    mine, bond = x[u], e[code[line[k]] if block[19] else line[k]]
                    for j in range(d):
                        out[j] += before_relu(w * there[j], mine[j] + bond[j], True)
                else:
                    for j in range(d):
                        out[j] += w * there[j]
        if block[18]:
            grad_own[piece] = of_own
        piece = next_piece(block)


@njit(fastmath=MATHS)
def _to_edges(block, real):
    """The gradient of each edge line, from the arcs that read it."""
    n, d, lines, arcs, size = block[2], block[3], block[4], block[5], block[6]
    x, e, grad = table(block[7], n, d, real), table(block[8], lines, d, real), table(block[9], n, d, real)
    source, target = vector(block[10], arcs, np.int64), vector(block[11], arcs, np.int64)
    order, first = vector(block[12], arcs, np.int64), vector(block[13], lines, np.int64)
    weight, grad_e = vector(block[14], arcs, real), table(block[15], lines, d, real)
    zero, one = real(0), real(1)
    piece = next_piece(block)
    while piece < block[1]:
        for a in range(piece * size, min(lines, (piece + 1) * size)):
            out, bond = grad_e[a], e[a]
            for j in range(d):
                out[j] = zero
            for q in range(first[a], first[a + 1] if a + 1 < lines else arcs):
                k = order[q]
                there, sent = grad[target[k]], x[source[k]]
                w = weight[k] if block[14] else one
                for j in range(d):
                    out[j] += before_relu(w * there[j], sent[j] + bond[j], True)
        piece = next_piece(block)


@Entry
def _forward_single(data):
    _forward(carray(data, (17,), np.int64), np.float32)


@Entry
def _forward_double(data):
    _forward(carray(data, (17,), np.int64), np.float64)


@Entry
def _to_rows_single(data):
    _to_rows(carray(data, (27,), np.int64), np.float32)


@Entry
def _to_rows_double(data):
    _to_rows(carray(data, (27,), np.int64), np.float64)


@Entry
def _to_edges_single(data):
    _to_edges(carray(data, (16,), np.int64), np.float32)


@Entry
def _to_edges_double(data):
    _to_edges(carray(data, (16,), np.int64), np.float64)


forward = (_forward_single, _forward_double)
to_rows = (_to_rows_single, _to_rows_double)
to_edges = (_to_edges_single, _to_edges_double)
