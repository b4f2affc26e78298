"""Edges between rows, and the sums of messages along them that all base encoders are made of."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from esan.ops.caching import cached
from esan.ops.dispatch import implementation
from esan.ops.features import lookup
from esan.ops.real import Real
from esan.ops.segments import Grouping


@dataclass(frozen=True, eq=False)
class Coded:
    """Features of edges where few vectors differ (a bond has a handful of kinds): each vector once, a number per edge.

    Attributes:
        table: the vectors, `[K, d]`; for several networks one table each, `[S, K, d]`.
        code: the row of the table of each edge of the graph, `[E]`.
    """

    table: Tensor
    code: Tensor

    def expanded(self) -> Tensor:
        """A vector per edge of the graph, `[E, d]`."""
        return lookup(self.table, self.code)


@dataclass(frozen=True, eq=False)
class Arcs:
    """Edges between rows, sorted by target.

    Attributes:
        edge_index: source and target row of each edge, as PyG has it, `[2, B]`.
        copies: which edges here are copies of one edge of the graph; their owner is the row of their edge features.
        num_rows: how many rows they end at; they come from `out_of.size` rows, which may be others.
        weight: a factor per message, or None for 1: of the user's `edge_weight`, and of `adjacency="sum"`.
        real: which rows are not padding; None if all are, or padding is read too.
    """

    edge_index: Tensor
    copies: Grouping
    num_rows: int
    weight: Tensor | None = None
    real: Real | None = None
    #: The codes that were asked for, of each edge as they are, and in the order of `out_of`.
    _types: tuple[Tensor, Tensor, Tensor] | None = None

    @property
    def arc(self) -> Tensor:
        """The edge of the graph that each is a copy of, `[B]`."""
        return self.copies.owner

    @property
    def source(self) -> Tensor:
        """The row that each comes from, `[B]`."""
        return self.edge_index[0]

    @cached
    def ends(self) -> tuple[Tensor, Tensor]:
        """The row that each comes from, and the row that it ends at, each contiguous."""
        source, target = self.edge_index
        return source.contiguous(), target.contiguous()

    @cached
    def degree(self) -> Tensor:
        """How many edges end at each row, `[num_rows]`."""
        return torch.bincount(self.edge_index[1], minlength=self.num_rows)

    def types_of(self, code: Tensor) -> tuple[Tensor, Tensor]:
        """The codes of these edges as they are and in the order of `out_of`, from those of the graph's edges."""
        if self._types is None or self._types[0] is not code:
            object.__setattr__(self, "_types", (code, *self._types_of(code)))
        assert self._types is not None
        return self._types[1:]

    def _types_of(self, code: Tensor) -> tuple[Tensor, Tensor]:
        flat = code.reshape(-1).long()  # categories may come as fractions
        return flat.index_select(0, self.arc), flat.index_select(0, self.out_arc)

    def factor(self, x: Tensor, weight: Tensor | None = None) -> Tensor | None:
        """The factor of each message, in the precision of x; `weight` in place of the edges' own."""
        weight = self.weight if weight is None else weight
        return None if weight is None else weight.detach().to(x.dtype)

    @cached
    def into(self) -> Grouping:
        """The edges by the row that they end at."""
        return Grouping(self.edge_index[1], self.num_rows, ordered=True)

    @cached
    def out_of(self) -> Grouping:
        """The edges by the row that they come from."""
        return Grouping(self.edge_index[0], self.num_rows)

    @cached
    def out_target(self) -> Tensor:
        """The row that each edge of `out_of.order` ends at."""
        return self.edge_index[1].index_select(0, self.out_of.order)

    @cached
    def out_arc(self) -> Tensor:
        """The edge of the graph that each edge of `out_of.order` is a copy of."""
        return self.arc.index_select(0, self.out_of.order)

    @cached
    def copy_ends(self) -> tuple[Tensor, Tensor]:
        """The rows that each edge of `copies.order` comes from and ends at."""
        source, target = self.edge_index
        return source.index_select(0, self.copies.order), target.index_select(0, self.copies.order)


@dataclass(frozen=True, eq=False)
class PickedEdges:
    """Edges between rows picked out of those of a bag, renumbered: `source`, `target`, and the graph's edge."""

    source: Tensor
    target: Tensor
    arc: Tensor


def message_sum(
    x: Tensor,
    edges: Arcs,
    e: Tensor | Coded | None = None,
    own: Tensor | None = None,
    weight: Tensor | None = None,
) -> Tensor:
    r""":math:`y_v = o\, x_v + \sum_{u \to v} w_{uv}\, \mathrm{ReLU}(x_u + e_{uv})`; without e, of :math:`w_{uv} x_u`.

    Args:
        x: `[num_rows, d]`.
        edges: along which messages are sent.
        e: a vector per edge of the graph, `[E, d]`, or coded; None for no edge features.
        own: o, a tensor of one number; None leaves the term out.
        weight: a constant factor per edge (no gradient flows to it), in place of the edges' own.
    """
    factor = edges.factor(x, weight)
    table = e.table if isinstance(e, Coded) else e
    fast = implementation("messages", x, table, own, factor) if x.dim() == 2 else None
    if fast is not None:
        return fast.message_sum(x, edges, e, own, factor)
    messages = x.index_select(0, edges.edge_index[0])
    if e is not None:
        features = e.expanded() if isinstance(e, Coded) else e
        messages = F.relu(messages + features.index_select(0, edges.arc))
    if factor is not None:
        messages = messages * factor[:, None]
    total = x.new_zeros(edges.num_rows, x.size(1)).index_add(0, edges.edge_index[1], messages)
    return total if own is None else total + own * x
