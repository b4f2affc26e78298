"""The loops of `dedup`: rows that go on from and read what is alike have one representative."""

import numpy as np
from numba import carray, njit

from esan.ops.numba.loops.entry import MATHS, Entry, next_piece, table, vector
from esan.ops.numba.loops.indices import sort_some
from esan.ops.numba.loops.segments import place_in_order

#: Factors of a hash: odd, with bits that look random.
_MIX, _STIR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)


@njit(cache=True)
def room(lists):
    """How large a table for the numbers of so many lists is: twice as large or more, and a power of two."""
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
    """The number of the list of keys from `begin + 2` on, of which so many are known; it is kept if it is not.

    Up to `fixed` the order of keys matters, behind it does not. A known list lies behind its number and its length.
    The table has, at a place that its hash tells, where it begins, and bits of the hash, so that most others are passed
    over unread.
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
                # Only lists that are met again are put in order.
                if not ordered:
                    sort_some(keys, fixed, end)
                    ordered = True
                sort_some(keys, there + fixed - begin, there + length)
            k = 2
            while same and k < length:
                same = keys[there + k] == keys[begin + k]
                k += 1
            if same:
                return keys[there]
        slot = (slot + np.uint64(1)) & mask


@njit(cache=True, nogil=True)
def numbered(lines):
    """A number for each line of numbers, the same for the same, and the first line of each number."""
    (count, width), table = lines.shape, np.full(room(lines.shape[0]), -1, np.int64)
    number, met, keys = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count * (width + 2), np.int64)
    known, at = 0, 0
    for i in range(count):
        for j in range(width):
            keys[at + 2 + j] = lines[i, j]
        number[i] = _number(keys, at, at + 2 + width, at + 2 + width, table, known)
        if number[i] == known:
            met[known] = i
            known, at = known + 1, at + 2 + width
    return number, met[:known].copy()


@njit(cache=True, nogil=True)
def begins(target, rows):
    """Where the arcs into each row begin, and where those into the last end; they are sorted by the row."""
    begin, at = np.empty(rows + 1, np.int64), 0
    for r in range(rows):
        begin[r] = at
        while at < target.shape[0] and target[at] == r:
            at += 1
    begin[rows] = at
    return begin


@njit(cache=True, nogil=True)
def refined(colour, node, background, source, arc, begin, kind, weight, of_rows, of_arcs, by_source, scratch):
    """Rows are alike if they go on from alike rows and read alike rows along edges of one kind. There are
    colours for the first rows only: another goes on from its node's row, and is read as that.

    How many colours there are, how many arcs end at them, and their weights. `of_rows` gets the colour of each row,
    and of each colour the first row that has it, the colour that it goes on from and where the arcs into it begin.
    `of_arcs` gets both ends of these, the source being a colour from before, the arc of the graph, and their order by
    source; `by_source` where those of each source begin. `scratch` is room for work.
    """
    known, rows, colours = colour.shape[0], of_rows.shape[1], by_source.shape[0]
    number, met, own, into = of_rows[0], of_rows[1], of_rows[2], of_rows[3]
    from_colour, to_colour, copied = of_arcs[0], of_arcs[1], of_arcs[2]
    kinds, weights = 1 + (kind.max() if kind.shape[0] else 0), np.zeros(rows, np.float64)
    # A row that alone goes on from its colour is like no other.
    heirs, alone = scratch[:colours], 0
    heirs[:] = 0
    for r in range(rows):
        heirs[colour[r if r < known else node[r - background]]] += 1
    for c in range(colours):
        alone += heirs[c] == 1
    behind = colours + room(rows - alone)
    table, keys = scratch[colours:behind], scratch[behind:]
    table[:] = -1
    by_source[:] = 0
    count, total, at = 0, 0, 0
    for r in range(rows):
        v = r if r < background else node[r - background]
        mine = colour[r if r < known else v]
        for k in range(begin[r], begin[r + 1]):
            u = source[k]
            from_colour[total + k - begin[r]] = colour[u if u < known else node[u - background]]
        c = count
        if heirs[mine] > 1:
            keys[at + 2], end = mine, at + 3
            for k in range(begin[r], begin[r + 1]):
                keys[end] = from_colour[total + k - begin[r]] * kinds + kind[arc[k]]
                end += 1
            c = _number(keys, at, at + 3, end, table, count)
            at = end if c == count else at
        if c == count:
            met[c], own[c], into[c] = r, mine, total
            for k in range(begin[r], begin[r + 1]):
                to_colour[total], copied[total] = c, arc[k]
                by_source[from_colour[total]] += 1
                total += 1
            count += 1
        number[r] = c
        weights[c] += weight[r]
    place_in_order(from_colour[:total], of_arcs[3], by_source)
    return count, total, weights[:count]


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
