"""Colour refinement on the pairs of a bag as it is defined, in dicts of tuples; esan only tells the literal bag."""

from collections.abc import Hashable, Mapping

from torch import Tensor

import esan

Pair = tuple[int, int]


def numbers(keys: Mapping[Pair, Hashable]) -> dict[Pair, int]:
    """A number for each key, in the order in which they are met as pairs go up."""
    met: dict[Hashable, int] = {}
    return {pair: met.setdefault(keys[pair], len(met)) for pair in sorted(keys)}


class Reference:
    """Colour refinement on the pairs of the literal bag, as it is defined: a key a pair, and a number a key.

    Attributes:
        read: the pairs that each pair reads, and along which edges of the graphs.
        rounds: the colour of each pair, of the input and after each layer.
    """

    def __init__(self, bag: esan.Bag, num_layers: int, nodes: Tensor, edges: Tensor) -> None:
        rows = bag.to_literal().rows
        pairs = list(zip(rows.node.tolist(), rows.subgraph.tolist(), strict=True))
        self.read: dict[Pair, list[tuple[Pair, int]]] = {pair: [] for pair in pairs}
        for source, target, edge in zip(rows.source.tolist(), rows.target.tolist(), rows.edge_id.tolist(), strict=True):
            self.read[pairs[target]].append((pairs[source], edge))
        kinds, self._kinds = nodes.tolist(), edges.tolist()
        marked = dict(zip(pairs, rows.marked.tolist(), strict=True))
        self.rounds = [numbers({pair: (kinds[pair[0]], marked[pair]) for pair in pairs})]
        for _ in range(num_layers):
            before = self.rounds[-1]
            self.rounds.append(numbers({pair: (before[pair], self.reads(pair, before)) for pair in pairs}))

    def reads(self, pair: Pair, before: Mapping[Pair, int]) -> tuple[tuple[int, int], ...]:
        """The colours that a pair reads, and the kind of the edge of each."""
        return tuple(sorted((before[source], self._kinds[edge]) for source, edge in self.read[pair]))
