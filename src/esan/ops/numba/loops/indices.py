"""The loops that build bags and take from them: ego-networks, the rows of a compact bag, segments of numbers."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def sort_some(numbers, begin, end):
    """Sort a stretch of numbers: by insertion, since most are short and nearly in order."""
    if end - begin > 32:
        numbers[begin:end].sort()
        return
    for place in range(begin + 1, end):
        value, at = numbers[place], place
        while at > begin and numbers[at - 1] > value:
            numbers[at] = numbers[at - 1]
            at -= 1
        numbers[at] = value


@njit(cache=True, nogil=True)
def _ball(root, stamp, hops, first, degree, source, seen, queue):
    """The nodes within `hops` of the root, in `queue` and stamped in `seen`; how many they are."""
    queue[0], seen[root], begin, end = root, stamp, 0, 1
    for _ in range(hops):
        last = end
        for place in range(begin, last):
            v = queue[place]
            for arc in range(first[v], first[v] + degree[v]):
                u = source[arc]
                if seen[u] != stamp:
                    seen[u] = stamp
                    queue[end] = u
                    end += 1
        begin = last
        if begin == end:
            break
    return end


@njit(cache=True, nogil=True)
def ego_edges(roots, hops, most, first, degree, source, arc_edge):
    """Every (number of a root, edge with both ends within `hops` of it), sorted; `most`: nodes of the largest graph."""
    seen, queue = np.full(degree.shape[0], -1, np.int64), np.empty(most, np.int64)
    balls = roots.shape[0]
    count = np.zeros(balls + 1, np.int64)
    for ball in range(balls):
        total = 0
        for place in range(_ball(roots[ball], ball, hops, first, degree, source, seen, queue)):
            v = queue[place]
            for arc in range(first[v], first[v] + degree[v]):
                # Each edge is met from both of its ends; the arc towards the smaller one stands for it.
                if source[arc] >= v and seen[source[arc]] == ball:
                    total += 1
        count[ball + 1] = count[ball] + total
    owners, edges = np.empty(count[balls], np.int64), np.empty(count[balls], np.int64)
    seen[:] = -1
    for ball in range(balls):
        at, size = count[ball], _ball(roots[ball], ball, hops, first, degree, source, seen, queue)
        sort_some(queue, 0, size)
        for place in range(size):
            v = queue[place]
            for arc in range(first[v], first[v] + degree[v]):
                if source[arc] >= v and seen[source[arc]] == ball:
                    owners[at], edges[at] = ball, arc_edge[arc]
                    at += 1
    return owners, edges


@njit(cache=True, nogil=True)
def _level_pairs(
    s, layers, keeps, marks, mark, entries, entry, edges, first, degree, source, level, stamp, queue, ends
):
    """The nodes of subgraph s that have a level, in `queue` by level and then by number; each level's end in `ends`."""
    end = 0
    for k in range(marks[s], marks[s + 1]):
        v = mark[k]
        stamp[v], level[v], queue[end] = s, 0, v
        end += 1
    sort_some(queue, 0, end)
    ends[0] = end
    begin = 0
    for t in range(1, layers + 1):
        last = end
        if t == 1:
            for k in range(entries[s], entries[s + 1]):
                for side in range(2):
                    v = edges[side, entry[k]]
                    if stamp[v] != s:
                        stamp[v], level[v], queue[end] = s, 1, v
                        end += 1
        if keeps:
            for place in range(begin, last):
                v = queue[place]
                for arc in range(first[v], first[v] + degree[v]):
                    u = source[arc]
                    if stamp[u] != s:
                        stamp[u], level[u], queue[end] = s, t, u
                        end += 1
        sort_some(queue, last, end)
        ends[t], begin = end, last


@njit(cache=True, nogil=True)
def compact(layers, keeps, graph, graphs, most, marks, mark, entries, entry, edges, first, degree, source, arc_edge):
    """The stored pairs by level, graph, subgraph and node, and the arcs into them; see `esan.bags.compact`.

    `marks` and `entries` say where those of each subgraph begin, `graph` is the graph of each subgraph and `most` the
    size of the largest graph.
    """
    n = degree.shape[0]
    stamp, level, listed = np.full(n, -1, np.int64), np.zeros(n, np.int64), np.full(edges.shape[1], -1, np.int64)
    queue, row, ends = np.empty(max(most, 1), np.int64), np.zeros(n, np.int64), np.zeros(layers + 1, np.int64)
    num_rows, num_arcs = np.zeros((layers + 1, graphs), np.int64), np.zeros((layers + 1, graphs), np.int64)
    for fill in range(2):
        if fill:
            row_at, arc_at = np.zeros(layers + 1, np.int64), np.zeros(layers + 1, np.int64)
            for t in range(layers):
                row_at[t + 1] = row_at[t] + num_rows[t].sum()
                arc_at[t + 1] = arc_at[t] + num_arcs[t].sum()
            rows, arcs = num_rows.sum(), num_arcs.sum()
            stamp[:], listed[:] = -1, -1
        else:
            rows, arcs = 0, 0
            row_at, arc_at = np.zeros(layers + 1, np.int64), np.zeros(layers + 1, np.int64)
        # Made anew in the second pass, when their sizes are known.
        node, subgraph = np.empty(rows, np.int64), np.empty(rows, np.int64)
        out_source, out_target, out_arc = np.empty(arcs, np.int64), np.empty(arcs, np.int64), np.empty(arcs, np.int64)
        for s in range(graph.shape[0]):
            _level_pairs(
                s, layers, keeps, marks, mark, entries, entry, edges, first, degree, source, level, stamp, queue, ends
            )
            for k in range(entries[s], entries[s + 1]):
                listed[entry[k]] = s
            if fill:
                for place in range(ends[layers]):
                    v = queue[place]
                    t = level[v]
                    node[row_at[t]], subgraph[row_at[t]], row[v] = v, s, row_at[t]
                    row_at[t] += 1
            else:
                for t in range(layers + 1):
                    num_rows[t, graph[s]] += ends[t] - (ends[t - 1] if t else 0)
            for place in range(ends[layers]):
                v = queue[place]
                t = level[v]
                for half in range(1 if keeps else 2):
                    for arc in range(first[v], first[v] + degree[v]):
                        u = source[arc]
                        # Of a subgraph that is listed edge by edge, arcs go as edges do: by their smaller end.
                        if (listed[arc_edge[arc]] == s) == keeps or (not keeps and (u < v) != (half == 1)):
                            continue
                        if fill:
                            at = arc_at[t]
                            out_source[at] = n + row[u] if stamp[u] == s else u
                            out_target[at], out_arc[at] = n + row[v], arc
                            arc_at[t] = at + 1
                        else:
                            num_arcs[t, graph[s]] += 1
    return num_rows, num_arcs, node, subgraph, out_source, out_target, out_arc


@njit(cache=True, nogil=True)
def pick(table, first, counts, shift, out):
    """Segments of each line of numbers one after another, each with its own shift added."""
    for line in range(table.shape[0]):
        at = 0
        for k in range(first.shape[0]):
            n, by = counts[k], shift[k]
            # Places that count from 0 are known not to count from the end: several numbers are added at a time.
            old, new = table[line, first[k] : first[k] + n], out[line, at : at + n]
            for place in range(n):
                new[place] = old[place] + by
            at += n


@njit(cache=True, nogil=True)
def pick_sources(source, first, counts, ends, by_row, out):
    """Segments of sources, one a slot and graph, each source moved as far as its own slot and the graph say."""
    at, graphs = 0, by_row.shape[1]
    for k in range(first.shape[0]):
        n, graph = counts[k], k % graphs
        old, new = source[first[k] : first[k] + n], out[at : at + n]
        by = by_row[0, graph]
        for place in range(n):
            new[place] = old[place] + by
        # Nothing is looked up: what a slot moves further than the one before is added to all that are there or behind.
        for slot in range(1, ends.shape[0]):
            begin, by = ends[slot - 1], by_row[slot, graph] - by_row[slot - 1, graph]
            for place in range(n):
                new[place] += by if old[place] >= begin else 0
        at += n
