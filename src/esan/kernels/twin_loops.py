"""The loops of `esan.bags.twins`: rows that are computed from the same rows, along the same arcs."""

import numpy as np
from numba import njit

from esan.kernels.groups_loops import place_in_order

#: Factors of a hash: odd, with bits that look random.
_MIX, _STIR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)


@njit(inline="always")
def _mixed(hashed, value):
    hashed = (hashed ^ np.uint64(value)) * _MIX
    return (hashed ^ (hashed >> np.uint64(29))) * _STIR


@njit(cache=True, nogil=True)
def twins(source, arc, first, node, background, known):
    """The class of each row, by the number in which classes are first met, and the first row of each.

    Rows are alike if they go on from the same row and read the same rows along the same arcs, in one order. A row
    behind the first `known` goes on from that of its node; of the known ones, two are alike only if one is a node's.
    """
    rows, arcs = first.shape[0], source.shape[0]
    size = 1
    while size < 2 * rows:
        size *= 2
    table, mask = np.full(size, -1, np.int64), np.uint64(size - 1)
    like, reps, hashes = np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows, np.uint64)
    count = 0
    for r in range(rows):
        begin, end = first[r], first[r + 1] if r + 1 < rows else arcs
        if background <= r < known:
            like[r], reps[count] = count, r
            count += 1
            continue
        own = r if r < known else node[r]
        hashed = _mixed(np.uint64(end - begin), own)
        for k in range(begin, end):
            hashed = _mixed(_mixed(hashed, source[k]), arc[k])
        slot = hashed & mask
        while True:
            c = table[slot]
            if c < 0:
                table[slot], like[r], reps[count], hashes[count] = count, count, r, hashed
                count += 1
                break
            other = reps[c]
            there = first[other]
            same = hashes[c] == hashed and (other if other < known else node[other]) == own
            same = same and (first[other + 1] if other + 1 < rows else arcs) - there == end - begin
            if same:
                for k in range(end - begin):
                    same = same and source[begin + k] == source[there + k] and arc[begin + k] == arc[there + k]
            if same:
                like[r] = c
                break
            slot = (slot + np.uint64(1)) & mask
    return like, reps[:count].copy()


@njit(cache=True, nogil=True)
def arcs_into(reps, source, arc, first, known):
    """The arcs into these rows, numbered as they are listed: both ends, the arc of the graph, and where those into each
    row begin; and the arcs by their source, with where each of these begins."""
    rows, arcs = first.shape[0], source.shape[0]
    into, total = np.empty(reps.shape[0], np.int64), 0
    for i in range(reps.shape[0]):
        r = reps[i]
        into[i] = total
        total += (first[r + 1] if r + 1 < rows else arcs) - first[r]
    ends, copied, out_first = np.empty((2, total), np.int64), np.empty(total, np.int64), np.zeros(known, np.int64)
    at = 0
    for i in range(reps.shape[0]):
        r = reps[i]
        for k in range(first[r], first[r + 1] if r + 1 < rows else arcs):
            ends[0, at], ends[1, at], copied[at] = source[k], i, arc[k]
            out_first[source[k]] += 1
            at += 1
    order = np.empty(total, np.int64)
    place_in_order(ends[0], order, out_first)
    return ends, copied, into, order, out_first
