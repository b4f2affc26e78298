"""Whether two graphs are the same, or isomorphic, as far as a bounded search can tell."""

from typing import Literal

import numpy as np

from esan.graphs import Graphs
from esan.policies import Whole
from esan.wl.palette import Colours, Palette
from esan.wl.refinement import ColourRefinement, Labels, numpy
from esan.wl.registry import TESTS

Relation = Literal["identical", "isomorphic", "not isomorphic", "unknown"]

#: Larger graphs are not searched: the colours that guide the search would be a test of their own.
_MOST_NODES = 256
#: Steps of the search; strongly regular graphs could take years.
_MOST_STEPS = 20_000


def relation(graphs: Graphs, labels: Labels) -> Relation:
    """What the two graphs of a collection are to each other.

    Every answer but "unknown" is proved: by comparison, by a bijection that is checked, or by a search that
    came to its end.

    Args:
        graphs: two graphs.
        labels: their initial colours.
    """
    n = graphs.num_nodes.tolist()
    if n[0] != n[1] or int(graphs.num_edges[0]) != int(graphs.num_edges[1]):
        return "not isomorphic"
    one, other = (_Labelled(graphs, labels, graph) for graph in (0, 1))
    if one.same_as(other):
        return "identical"
    if n[0] > _MOST_NODES:
        return "unknown"
    selection = Whole().select(graphs)
    stable = _stable(TESTS["1"].refinement(graphs, selection, labels)).values
    return _search(one, other, stable[: n[0]], stable[n[0] :])


def _stable(refinement: ColourRefinement) -> Colours:
    palette = Palette()
    colours = refinement.initial(palette)
    while (refined := refinement.refine(palette, colours)).count > colours.count:
        colours = refined
    return colours


class _Labelled:
    """One graph as a matrix of edge labels, 0 where there is no edge, with the labels of its nodes."""

    def __init__(self, graphs: Graphs, labels: Labels, graph: int) -> None:
        start, n = int(graphs.node_start[graph]), int(graphs.num_nodes[graph])
        mine = numpy(graphs.node_graph[graphs.edge_index[1]] == graph)
        self.source, self.target = numpy(graphs.edge_index)[:, mine] - start
        self.label = labels.edge.values[mine] + 1
        self.node = labels.node.values[start : start + n]
        self.n = n

    def same_as(self, other: "_Labelled") -> bool:
        pairs = ((self.node, other.node), (self.source, other.source), (self.target, other.target))
        return all(np.array_equal(a, b) for a, b in (*pairs, (self.label, other.label)))

    def matrix(self) -> np.ndarray:
        joined = np.zeros((self.n, self.n), dtype=np.int64)
        joined[self.source, self.target] = self.label
        return joined


def _search(one: _Labelled, other: _Labelled, colour: np.ndarray, colour_of_other: np.ndarray) -> Relation:
    """Map the nodes one after another, neighbours of mapped ones first, and go back where edges do not fit."""
    if not np.array_equal(np.sort(colour), np.sort(colour_of_other)):
        return "not isomorphic"
    a, b = one.matrix(), other.matrix()
    order = _order(a, colour)
    image = np.full(one.n, -1)
    steps = 0
    untried = [_candidates(a, b, colour, colour_of_other, order, image, 0)]
    while untried:
        depth = len(untried) - 1
        image[order[depth]] = -1
        if not untried[-1]:
            untried.pop()
            continue
        steps += 1
        if steps > _MOST_STEPS:
            return "unknown"
        image[order[depth]] = untried[-1].pop()
        if depth + 1 == one.n:
            return "isomorphic"
        untried.append(_candidates(a, b, colour, colour_of_other, order, image, depth + 1))
    return "not isomorphic"


def _candidates(
    a: np.ndarray,
    b: np.ndarray,
    colour: np.ndarray,
    others: np.ndarray,
    order: list[int],
    image: np.ndarray,
    depth: int,
) -> list[int]:
    """The nodes that the next one may be mapped to: of its colour, free, and joined as it is to all that are mapped."""
    v, mapped = order[depth], order[:depth]
    free = others == colour[v]
    free[image[mapped]] = False
    free &= np.diagonal(b) == a[v, v]
    fits = (b[:, image[mapped]] == a[v, mapped]).all(1) & (a[mapped, v] == b[image[mapped], :].T).all(1)
    return np.flatnonzero(free & fits).tolist()[::-1]


def _order(a: np.ndarray, colour: np.ndarray) -> list[int]:
    """The node with most mapped neighbours next, of the rarest colour first."""
    rare = np.bincount(colour)[colour]
    left = np.ones(len(a), dtype=bool)
    near = np.zeros(len(a))
    order = []
    for _ in range(len(a)):
        v = int(np.lexsort((rare, -near, ~left))[0])
        order.append(v)
        left[v] = False
        near += a[v] > 0
    return order
