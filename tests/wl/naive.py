"""The tests as the paper writes them, with Python tuples and one dictionary: slow, plain, and nobody's hash."""

from collections import Counter
from typing import Any

from torch_geometric.data import Data

import esan

Subgraph = dict[str, Any]


class Interned:
    """Tuples → integers, the same tuple always the same integer."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}

    def __call__(self, *parts: Any) -> int:
        return self._numbers.setdefault(parts, len(self._numbers))


def multiset(items: Any) -> tuple[Any, ...]:
    return tuple(sorted(items))


def _adjacency(data: Data) -> list[list[tuple[int, Any]]]:
    """The (neighbour, edge label) of each node."""
    labels = [0] * data.edge_index.size(1) if data.edge_attr is None else data.edge_attr.tolist()
    near: list[list[tuple[int, Any]]] = [[] for _ in range(int(data.num_nodes or 0))]
    for u, v, label in zip(*data.edge_index.tolist(), labels, strict=True):
        near[v].append((u, str(label)))
    return near


def _bag(data: Data, policy: esan.Policy) -> list[Subgraph]:
    bag = esan.Bag.of([data], policy, literal=True)
    n = int(data.num_nodes or 0)
    x = [0] * n if data.x is None else data.x.tolist()
    subgraphs = []
    for one in bag.subgraphs():
        mark = one.mark.tolist() if bag.marked else [False] * n
        subgraphs.append({"near": _adjacency(one), "first": [(str(x[v]), mark[v]) for v in range(n)]})
    return subgraphs


def histories(graphs: list[Data], test: str, policy: esan.Policy | None) -> list[list[list[Any]]]:
    """For each round and graph, the colours of its cells; stops when no colour is divided any more."""
    intern = Interned()
    bags = [_bag(graph, policy or esan.Whole()) for graph in graphs]
    step = _fwl if "fwl" in test else _nodes
    colours = [[_first(s, intern, "fwl" in test) for s in bag] for bag in bags]
    rounds = [colours]
    while True:
        originals = [_adjacency(graph) for graph in graphs]
        new = [step(bag, was, near, test, intern) for bag, was, near in zip(bags, rounds[-1], originals, strict=True)]
        if _count(new) == _count(rounds[-1]):
            return rounds
        rounds.append(new)


def classes(graphs: list[Data], test: str, policy: esan.Policy | None) -> list[int]:
    """One integer a graph, by the histograms of all rounds."""
    rounds = histories(graphs, test, policy)
    intern = Interned()
    return [
        intern(*(multiset(multiset(Counter(cells).items()) for cells in colours[graph]) for colours in rounds))
        for graph in range(len(graphs))
    ]


def _count(colours: list[Any]) -> int:
    return len({colour for bag in colours for cells in bag for colour in cells})


def _first(subgraph: Subgraph, intern: Interned, couples: bool) -> list[int]:
    first, near = subgraph["first"], subgraph["near"]
    if not couples:
        return [intern("first", colour) for colour in first]
    n = len(first)
    joined = [dict(near[v]) for v in range(n)]
    return [intern("couple", first[u], first[v], u == v, joined[v].get(u)) for u in range(n) for v in range(n)]


def _nodes(bag: list[Subgraph], was: list[list[int]], near: Any, test: str, intern: Interned) -> list[list[int]]:
    n = len(near)

    def over(v: int, without: int | None) -> int:
        return intern("C", multiset(was[r][v] for r in range(len(bag)) if r != without))

    new = []
    for s, subgraph in enumerate(bag):
        cells = []
        for v in range(n):
            parts: list[Any] = [was[s][v], multiset((label, was[s][u]) for u, label in subgraph["near"][v])]
            if test.startswith("dss"):
                without = s if test == "dss-excluding" else None
                parts += [over(v, without), multiset((label, over(u, without)) for u, label in near[v])]
            cells.append(intern("node", *parts))
        new.append(cells)
    return new


def _fwl(bag: list[Subgraph], was: list[list[int]], near: Any, test: str, intern: Interned) -> list[list[int]]:
    n = len(near)
    return [
        [
            intern("fwl", c[u * n + v], multiset((c[u * n + w], c[w * n + v]) for w in range(n)))
            for u in range(n)
            for v in range(n)
        ]
        for c in was
    ]
