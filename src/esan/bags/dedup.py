"""`DedupStage`: rows that a network without shared terms cannot tell apart, computed once per representative."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from esan.bags.bag import Bag
from esan.bags.layer_view import Stage
from esan.ops.caching import cached
from esan.ops.edges import Arcs
from esan.ops.segments import Grouping

#: Representatives are worth their while if no larger part of the rows is left: of the first layer, and of all so far.
_FIRST, _WORTH = 0.5, 0.85


@dataclass(frozen=True, eq=False)
class DedupStage:
    r"""The rows of a stage by their representative: what colour refinement says of them after as many rounds as layers.

    Two pairs, of whichever subgraphs or graphs, that go on from alike rows and receive alike messages have the same
    features, whatever the parameters of the network are. A representative stands for all pairs of its colour.

    Attributes:
        stage: the stage.
        rows: its rows by their representative.
        first: the first row of each.
        multiplicity: how many pairs each stands for, in double precision.
        arcs: the edges into each, from the representatives before; None for the input.
        goes_on: the representatives by the one before that they go on from; None for the input.
        fast: who computes on them.
    """

    stage: Stage
    rows: Grouping
    first: Tensor
    multiplicity: Tensor
    arcs: Arcs | None
    goes_on: Grouping | None
    fast: Any

    @property
    def num_rows(self) -> int:
        return self.rows.size

    @cached
    def marked(self) -> Tensor:
        """Whether the rows of each representative are marked nodes: in the input all are, or none is."""
        return self.stage.marked.index_select(0, self.first)

    @cached
    def by_node(self) -> Grouping:
        """The representatives by the node of their first row."""
        return Grouping(self.stage.node.index_select(0, self.first), self.stage.by_node.size)

    def zero_empty_rows(self, h: Tensor) -> Tensor:
        return h.index_fill(0, self._empty, 0.0) if self._empty.numel() else h

    @cached
    def _empty(self) -> Tensor:
        return (self.multiplicity == 0).nonzero().squeeze(1)

    def pool_bag(self, h: Tensor, reduce: str) -> Tensor:
        return self.stage.pool_bag(self.rows.spread(h), reduce)

    def pool_nodes(self, h: Tensor, reduce: str) -> Tensor:
        return self.fast.pool_nodes(h, self.stage, self.rows, reduce)

    def pool_edges(self, h: Tensor) -> Tensor:
        return self.stage.pool_edges(self.rows.spread(h))


def dedup_stages(fast: Any, bag: Bag, num_layers: int, nodes: Tensor, edges: Tensor) -> list[DedupStage] | None:
    """The representatives of the input and of each layer; None where most rows differ.

    Args:
        fast: who finds them.
        bag: a compact bag.
        num_layers: how many layers, none of which shares anything between subgraphs.
        nodes: a number per node, the same only where the input has the same features.
        edges: a number per edge of the graphs, the same only where messages along them have the same features.
    """
    # Where a list of keys begins is kept in 32 bits.
    if 4 * bag.num_rows + bag.rows.source.numel() >= 2**32:
        return None
    refinement = fast.Refinement(bag.rows, edges)
    stage = bag.stage(0)
    colour, first = fast.numbered(torch.stack([nodes[stage.node], stage.marked.long()], 1))
    assert stage.multiplicity is not None
    weight = torch.zeros(first.numel(), dtype=torch.double).index_add_(0, colour, stage.multiplicity.double())
    found = [DedupStage(stage, Grouping(colour, first.numel()), first, weight, None, None, fast)]
    differing, rows = 0, 0
    for t in range(1, num_layers + 1):
        stage = bag.stage(t)
        assert stage.multiplicity is not None
        colour, first, weight, arcs, goes_on = refinement.refined(
            colour, first.numel(), stage.num_rows, stage.num_arcs, stage.multiplicity
        )
        differing, rows = differing + first.numel(), rows + stage.num_rows
        if differing > (_FIRST if t == 1 else _WORTH) * rows:
            return None
        found.append(DedupStage(stage, Grouping(colour, first.numel()), first, weight, arcs, goes_on, fast))
    return found
