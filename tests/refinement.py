"""Colour refinement on the pairs of a bag as it is defined, in dicts of tuples; esan only tells the literal bag."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping

import esan
from esan.bags.colours import Alike

Pair = tuple[int, int]


def numbers(keys: Mapping[Pair, Hashable]) -> dict[Pair, int]:
    """A number for each key, in the order in which they are met as pairs go up."""
    met: dict[Hashable, int] = {}
    return {pair: met.setdefault(keys[pair], len(met)) for pair in sorted(keys)}


class Reference:
    """Colour refinement on the pairs of the literal bag, as it is defined: a key a pair, and a number a key.

    Attributes:
        read: the pairs that each pair reads, and along which arcs of the graphs.
        rounds: the colour of each pair, of the input and after each layer.
    """

    def __init__(self, bag: esan.Bag, alike: Alike) -> None:
        rows = bag.to_literal().rows
        pairs = list(zip(rows.node.tolist(), rows.subgraph.tolist(), strict=True))
        self.read: dict[Pair, list[tuple[Pair, int]]] = {pair: [] for pair in pairs}
        for source, target, arc in zip(rows.source.tolist(), rows.target.tolist(), rows.arc.tolist(), strict=True):
            self.read[pairs[target]].append((pairs[source], arc))
        nodes, self._kinds = alike.nodes.tolist(), alike.arcs.tolist()
        self._ends, self._holders = bag.graphs.edge_index.t().tolist(), Counter(rows.arc.tolist())
        marked = dict(zip(pairs, rows.marked.tolist(), strict=True))
        self.rounds = [numbers({pair: (nodes[pair[0]], marked[pair]) for pair in pairs})]
        for sharing in alike.layers:
            before = self.rounds[-1]
            heard = {} if sharing is None else self._heard(before, sharing.adjacency)
            keys = {pair: (before[pair], self.reads(pair, before), heard.get(pair[0])) for pair in pairs}
            self.rounds.append(numbers(keys))

    def reads(self, pair: Pair, before: Mapping[Pair, int]) -> tuple[tuple[int, int], ...]:
        """The colours that a pair reads, and the kind of the arc of each."""
        return tuple(sorted((before[source], self._kinds[arc]) for source, arc in self.read[pair]))

    def _heard(self, before: Mapping[Pair, int], adjacency: str) -> dict[int, Hashable]:
        """What the layer that is shared tells each node: all its colours, and all those of its neighbours."""
        of_node: dict[int, list[int]] = defaultdict(list)
        for (v, _), colour in before.items():
            of_node[v].append(colour)
        pooled = {v: tuple(sorted(of_node[v])) for v in of_node}
        heard: dict[int, list[Hashable]] = {v: [] for v in pooled}
        for arc, (u, v) in enumerate(self._ends):
            holders = self._holders[arc]
            times = {"max": min(holders, 1), "sum": holders, "original": 1}[adjacency]
            if times:
                heard[v].append((pooled[u], self._kinds[arc], times))
        return {v: (pooled[v], frozenset(Counter(heard[v]).items())) for v in heard}
