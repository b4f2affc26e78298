"""`DedupLayerView`: a layer of a DS-GNN with equal rows merged, so that each is computed once."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from esan.bags.bag import Bag
from esan.bags.layer_view import LayerView
from esan.ops.caching import cached
from esan.ops.edges import Edges
from esan.ops.segments import CSR


@dataclass(frozen=True)
class DedupLimits:
    """Deduplication pays if at most this fraction of the rows is left.

    Attributes:
        first: in the first layer.
        overall: in all layers so far.
    """

    first: float = 0.5
    overall: float = 0.85


_DEFAULT = DedupLimits()
_LIMITS: ContextVar[DedupLimits] = ContextVar("dedup limits", default=_DEFAULT)


@contextmanager
def dedup_limits(first: float, overall: float) -> Iterator[None]:
    """Deduplicate under other limits in this block; 1 for both deduplicates always, 0 never."""
    before = _LIMITS.set(DedupLimits(first, overall))
    try:
        yield
    finally:
        _LIMITS.reset(before)


@dataclass(frozen=True, eq=False)
class DedupLayerView:
    r"""The rows of a layer view grouped by colour refinement, with one representative per group.

    Two pairs, of any subgraphs or graphs, that continue from equal rows and receive equal messages have the same
    features, whatever the parameters of the network are. A representative stands for all pairs of its group.

    Attributes:
        view: the layer view.
        rows: its rows by their representative.
        first: the first row of each representative.
        multiplicity: how many pairs each representative stands for, in double precision.
        edges: the edges into each representative, from those of the layer before; None for the input.
        previous: the representatives by that of the layer before which they continue from; None for the input.
        fast: the implementation that computes on them.
    """

    view: LayerView
    rows: CSR
    first: Tensor
    multiplicity: Tensor
    edges: Edges | None
    previous: CSR | None
    fast: Any

    @property
    def num_rows(self) -> int:
        return self.rows.size

    @cached
    def marked(self) -> Tensor:
        """Whether the rows of each representative are marked nodes: in the input either all are or none is."""
        return self.view.marked.index_select(0, self.first)

    @cached
    def by_node(self) -> CSR:
        """The representatives by the node of their first row."""
        return CSR(self.view.node.index_select(0, self.first), self.view.by_node.size)

    def zero_empty_rows(self, h: Tensor) -> Tensor:
        return h.index_fill(0, self._empty_rows, 0.0) if self._empty_rows.numel() else h

    @cached
    def _empty_rows(self) -> Tensor:
        return (self.multiplicity == 0).nonzero().squeeze(1)

    def pool_bag(self, h: Tensor, reduce: str) -> Tensor:
        return self.view.pool_bag(self.rows.broadcast(h), reduce)

    def pool_nodes(self, h: Tensor, reduce: str) -> Tensor:
        return self.fast.pool_nodes(h, self.view, self.rows, reduce)

    def pool_edges(self, h: Tensor) -> Tensor:
        return self.view.pool_edges(self.rows.broadcast(h))


def dedup_layer_views(
    fast: Any, bag: Bag, num_layers: int, nodes: Tensor, edges: Tensor
) -> list[DedupLayerView] | None:
    """The representatives of the input and of each layer; None if most rows differ.

    Args:
        fast: the implementation that finds them.
        bag: a compact bag.
        num_layers: the number of layers, none of which shares anything between subgraphs.
        nodes: one number per node, equal only where the input features are equal.
        edges: one number per edge of the graphs, equal only where the features of messages are equal.
    """
    # Where a list of keys begins is stored in 32 bits.
    if 4 * bag.num_rows + bag.rows.source.numel() >= 2**32:
        return None
    refinement = fast.Refinement(bag.rows, edges)
    view = bag.layer_view(0)
    colour, first = fast.distinct_ids(torch.stack([nodes[view.node], view.marked.long()], 1))
    assert view.multiplicity is not None
    multiplicity = torch.zeros(first.numel(), dtype=torch.double).index_add_(0, colour, view.multiplicity.double())
    views = [DedupLayerView(view, CSR(colour, first.numel()), first, multiplicity, None, None, fast)]
    representatives, rows, limits = 0, 0, _LIMITS.get()
    for t in range(1, num_layers + 1):
        view = bag.layer_view(t)
        assert view.multiplicity is not None
        colour, first, multiplicity, between, previous = refinement.refine(
            colour, first.numel(), view.num_rows, view.num_edges, view.multiplicity
        )
        representatives, rows = representatives + first.numel(), rows + view.num_rows
        if representatives > (limits.first if t == 1 else limits.overall) * rows:
            return None
        grouping = CSR(colour, first.numel())
        views.append(DedupLayerView(view, grouping, first, multiplicity, between, previous, fast))
    return views
