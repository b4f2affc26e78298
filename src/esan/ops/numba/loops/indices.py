"""Compiled loops of `numba.indices`: ego-networks, the rows and edges of a compact bag, segments of index arrays."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def sort_range(numbers, begin, end):
    """Sort the numbers from `begin` to `end`: by insertion, since most ranges are short and nearly sorted."""
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
            for edge in range(first[v], first[v] + degree[v]):
                u = source[edge]
                if seen[u] != stamp:
                    seen[u] = stamp
                    queue[end] = u
                    end += 1
        begin = last
        if begin == end:
            break
    return end


@njit(cache=True, nogil=True)
def ego_counts(roots, hops, most, first, degree, source):
    """The number of edges with both ends within `hops` of each root; `most`: nodes of the largest graph."""
    seen, queue = np.full(degree.shape[0], -1, np.int64), np.empty(most, np.int64)
    balls = roots.shape[0]
    count = np.zeros(balls, np.int64)
    for ball in range(balls):
        total = 0
        for place in range(_ball(roots[ball], ball, hops, first, degree, source, seen, queue)):
            v = queue[place]
            for edge in range(first[v], first[v] + degree[v]):
                # Each undirected edge is met from both ends; its direction towards the smaller one counts.
                if source[edge] >= v and seen[source[edge]] == ball:
                    total += 1
        count[ball] = total
    return count


@njit(cache=True, nogil=True)
def ego_edges(roots, hops, most, first, degree, source, edge_pair, owners, edges):
    """Every (number of a root, edge with both ends within `hops` of it), sorted, into `owners` and `edges`."""
    seen, queue = np.full(degree.shape[0], -1, np.int64), np.empty(most, np.int64)
    at = 0
    for ball in range(roots.shape[0]):
        size = _ball(roots[ball], ball, hops, first, degree, source, seen, queue)
        sort_range(queue, 0, size)
        for place in range(size):
            v = queue[place]
            for edge in range(first[v], first[v] + degree[v]):
                if source[edge] >= v and seen[source[edge]] == ball:
                    owners[at], edges[at] = ball, edge_pair[edge]
                    at += 1


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
    sort_range(queue, 0, end)
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
                for edge in range(first[v], first[v] + degree[v]):
                    u = source[edge]
                    if stamp[u] != s:
                        stamp[u], level[u], queue[end] = s, t, u
                        end += 1
        sort_range(queue, last, end)
        ends[t], begin = end, last


@njit(cache=True, nogil=True)
def compact(
    fill, layers, keeps, subgraphs, column, most, marks, mark, entries, entry, edges, first, degree, source, edge_pair,
    num_rows, num_edges, node, subgraph, out_source, out_target, out_edge,
):  # fmt: skip
    """The stored pairs by level, graph, subgraph and node, and the edges into them; see `esan.bags.build.compact`.

    Without `fill` they are only counted, by level and by the `column` of each subgraph, into `num_rows` and
    `num_edges`; with it these are read. `marks` and `entries` say where those of each subgraph begin, `subgraphs` which
    are visited, and `most` is the size of the largest graph.
    """
    n = degree.shape[0]
    stamp, level, listed = np.full(n, -1, np.int64), np.zeros(n, np.int64), np.full(edges.shape[1], -1, np.int64)
    queue, row, ends = np.empty(max(most, 1), np.int64), np.zeros(n, np.int64), np.zeros(layers + 1, np.int64)
    row_at, edge_at = np.zeros(layers + 1, np.int64), np.zeros(layers + 1, np.int64)
    if fill:
        for t in range(layers):
            row_at[t + 1] = row_at[t] + num_rows[t].sum()
            edge_at[t + 1] = edge_at[t] + num_edges[t].sum()
    for s in subgraphs:
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
                num_rows[t, column[s]] += ends[t] - (ends[t - 1] if t else 0)
        for place in range(ends[layers]):
            v = queue[place]
            t = level[v]
            for half in range(1 if keeps else 2):
                for edge in range(first[v], first[v] + degree[v]):
                    u = source[edge]
                    # If a subgraph lists the edges that it keeps, directed edges come in the order of the
                    # undirected ones: by their smaller end.
                    if (listed[edge_pair[edge]] == s) == keeps or (not keeps and (u < v) != (half == 1)):
                        continue
                    if fill:
                        at = edge_at[t]
                        out_source[at] = n + row[u] if stamp[u] == s else u
                        out_target[at], out_edge[at] = n + row[v], edge
                        edge_at[t] = at + 1
                    else:
                        num_edges[t, column[s]] += 1


@njit(cache=True, nogil=True)
def pick(values, first, counts, shift, out):
    """Segments of each row of integers one after another, each with its own shift added."""
    for row in range(values.shape[0]):
        at = 0
        for k in range(first.shape[0]):
            n, by = counts[k], shift[k]
            # Slices are indexed from 0, so that the compiler knows no index to be negative, and vectorises.
            old, new = values[row, first[k] : first[k] + n], out[row, at : at + n]
            for place in range(n):
                new[place] = old[place] + by
            at += n


@njit(cache=True, nogil=True)
def pick_sources(source, first, counts, ends, by_row, out):
    """Segments of source rows, one per slot and graph; each source is shifted like the rows of its slot and graph."""
    at, graphs = 0, by_row.shape[1]
    for k in range(first.shape[0]):
        n, graph = counts[k], k % graphs
        old, new = source[first[k] : first[k] + n], out[at : at + n]
        by = by_row[0, graph]
        for place in range(n):
            new[place] = old[place] + by
        # Without a lookup: the shift of a slot beyond that of the slot before is added to all rows in it or after it.
        for slot in range(1, ends.shape[0]):
            begin, by = ends[slot - 1], by_row[slot, graph] - by_row[slot - 1, graph]
            for place in range(n):
                new[place] += by if old[place] >= begin else 0
        at += n
