"""The loop of `cpu_colours`: the gradient of colours, from the pools over nodes that their rows are in."""

import numpy as np
from numba import carray, njit

from esan.ops.numba.entry import MATHS, Entry, next_piece, table, vector


@njit(fastmath=MATHS)
def _pool_back(block, real):
    """The gradient of each colour: of its stored rows their subgraph's, of a node its graph's less that of its rows."""
    n, d, nodes, subgraphs, graphs, size = block[2], block[3], block[4], block[5], block[6], block[7]
    colours, every = block[17], block[16]
    into, of_graph = table(block[8], colours, d, real), table(block[9], graphs, d, real)
    grad, order = table(block[10], subgraphs, d, real), vector(block[11], every, np.int64)
    first, subgraph = vector(block[12], nodes, np.int64), vector(block[13], n - nodes, np.int64)
    graph, share = vector(block[14], nodes, np.int64), vector(block[15], subgraphs, real)
    rows, rows_first = vector(block[18], n, np.int64), vector(block[19], colours, np.int64)
    zero, one = real(0), real(1)
    piece = next_piece(block)
    while piece < block[1]:
        for c in range(piece * size, min(colours, (piece + 1) * size)):
            out = into[c]
            for j in range(d):
                out[j] = zero
            for k in range(rows_first[c], rows_first[c + 1] if c + 1 < colours else n):
                r = rows[k]
                if r >= nodes:
                    s = subgraph[r - nodes]
                    back, f = grad[s], share[s] if block[15] else one
                    for j in range(d):
                        out[j] += f * back[j]
                    continue
                whole = of_graph[graph[r]]
                for j in range(d):
                    out[j] += whole[j]
                # A node's own row is the first of its rows.
                for q in range(first[r] + 1, first[r + 1] if r + 1 < nodes else every):
                    if order[q] >= n:
                        break
                    s = subgraph[order[q] - nodes]
                    back, f = grad[s], share[s] if block[15] else one
                    for j in range(d):
                        out[j] -= f * back[j]
        piece = next_piece(block)


@Entry
def _pool_back_single(data):
    _pool_back(carray(data, (20,), np.int64), np.float32)


@Entry
def _pool_back_double(data):
    _pool_back(carray(data, (20,), np.int64), np.float64)


pool_back = (_pool_back_single, _pool_back_double)
