"""`Edges`: directed edges between rows, and the sum of messages along them that all convolutions are made of."""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from esan.ops.caching import cached
from esan.ops.dispatch import implementation
from esan.ops.features import lookup
from esan.ops.segments import CSR, RowRanges
from esan.ops.shape_errors import misfit


@dataclass(frozen=True, eq=False)
class EdgeTypeFeatures:
    """Edge features with few distinct vectors (a bond has a handful of types): each vector once, and a type per edge.

    Attributes:
        table: the vectors, `[K, d]`; for several networks one table each, `[S, K, d]`.
        edge_type: the row of the table of each edge of the graph, `[E]`.
    """

    table: Tensor
    edge_type: Tensor

    def expand(self) -> Tensor:
        """One vector per edge of the graph, `[E, d]`."""
        return lookup(self.table, self.edge_type)


@dataclass(frozen=True, eq=False)
class Edges:
    """Directed edges between rows, sorted by target.

    Attributes:
        edge_index: source and target row of each edge, as in PyG, `[2, B]`.
        by_edge_id: the edges by the edge of the graph that they are copies of; its `index` is `edge_id`.
        num_rows: the number of rows that they end at; they come from `by_source.size` rows, which may differ.
        weight: one factor per message, or None for 1: the user's `edge_weight`, and that of `adjacency="sum"`.
        row_ranges: which rows are not padding; None if there is no padding, or padding is read too.
    """

    edge_index: Tensor
    by_edge_id: CSR
    num_rows: int
    weight: Tensor | None = None
    row_ranges: RowRanges | None = None
    #: Whether the tensors are there; those of a padded batch are made only if they are read, so they are not looked at.
    plain: ClassVar[bool] = True
    #: The last `edge_type` of the graph's edges, with those of these edges as they are and in the order of `by_source`.
    _types: tuple[Tensor, Tensor, Tensor] | None = None

    @property
    def edge_id(self) -> Tensor:
        """The edge of the graph that each is a copy of, `[B]`: a column of its `edge_index`, a row of `edge_attr`."""
        return self.by_edge_id.index

    @property
    def source(self) -> Tensor:
        """The row that each comes from, `[B]`."""
        return self.edge_index[0]

    @cached
    def ends(self) -> tuple[Tensor, Tensor]:
        """Source and target row of each, each contiguous."""
        source, target = self.edge_index
        return source.contiguous(), target.contiguous()

    @cached
    def degree(self) -> Tensor:
        """How many edges end at each row, `[num_rows]`."""
        return torch.bincount(self.edge_index[1], minlength=self.num_rows)

    def types_of(self, edge_type: Tensor) -> tuple[Tensor, Tensor]:
        """The types of these edges as they are and in the order of `by_source`, from those of the graph's edges."""
        if self._types is None or self._types[0] is not edge_type:
            object.__setattr__(self, "_types", (edge_type, *self._types_of(edge_type)))
        assert self._types is not None
        return self._types[1:]

    def _types_of(self, edge_type: Tensor) -> tuple[Tensor, Tensor]:
        flat = edge_type.reshape(-1).long()  # categories may come as floats
        return flat.index_select(0, self.edge_id), flat.index_select(0, self.edge_id_by_source)

    def weight_like(self, x: Tensor, weight: Tensor | None = None) -> Tensor | None:
        """The factor of each message, in the precision of x; `weight` in place of the edges' own."""
        weight = self.weight if weight is None else weight
        return None if weight is None else weight.detach().to(x.dtype)

    @cached
    def by_target(self) -> CSR:
        """The edges by the row that they end at."""
        return CSR(self.edge_index[1], self.num_rows, is_sorted=True)

    @cached
    def by_source(self) -> CSR:
        """The edges by the row that they come from."""
        return CSR(self.edge_index[0], self.num_rows)

    @cached
    def target_by_source(self) -> Tensor:
        """The target row of each edge, in the order of `by_source`."""
        return self.edge_index[1].index_select(0, self.by_source.perm)

    @cached
    def edge_id_by_source(self) -> Tensor:
        """The `edge_id` of each edge, in the order of `by_source`."""
        return self.edge_id.index_select(0, self.by_source.perm)

    @cached
    def ends_by_edge_id(self) -> tuple[Tensor, Tensor]:
        """Source and target row of each edge, in the order of `by_edge_id`."""
        source, target = self.edge_index
        return source.index_select(0, self.by_edge_id.perm), target.index_select(0, self.by_edge_id.perm)


@dataclass(frozen=True, eq=False)
class PickedEdges:
    """Edges between rows picked out of those of a bag, renumbered: `source`, `target`, and the graph's edge."""

    source: Tensor
    target: Tensor
    edge_id: Tensor


def check_edge_features(width: int, edges: Edges, e: Tensor | EdgeTypeFeatures | None) -> None:
    """Raise unless e has that width, and an entry for each edge: kernels compute addresses from these numbers."""
    if e is None:
        return
    vectors, of_edges = (e.table, e.edge_type.numel()) if isinstance(e, EdgeTypeFeatures) else (e, e.size(0))
    if vectors.size(-1) != width:
        raise misfit(f"edge features of {width} columns, as the rows have", f"{vectors.size(-1)}")
    if edges.plain and of_edges != edges.by_edge_id.size:
        raise misfit(f"features of {edges.by_edge_id.size:,} edges", f"{of_edges:,}")


def message_sum(
    x: Tensor,
    edges: Edges,
    e: Tensor | EdgeTypeFeatures | None = None,
    own: Tensor | None = None,
    weight: Tensor | None = None,
) -> Tensor:
    r""":math:`y_v = o\, x_v + \sum_{u \to v} w_{uv}\, \mathrm{ReLU}(x_u + e_{uv})`; without e, of :math:`w_{uv} x_u`.

    Args:
        x: `[num_rows, d]`.
        edges: along which messages are sent.
        e: one vector per edge of the graph, `[E, d]`, or by edge type; None for no edge features.
        own: o, a tensor of one number; None leaves the term out.
        weight: one constant factor per edge (no gradient flows to it), in place of the edges' own.
    """
    if x.size(0) != edges.num_rows:
        raise misfit(f"{edges.num_rows:,} rows, as the edges are between", f"{x.size(0):,}")
    check_edge_features(x.size(-1), edges, e)
    weight = edges.weight_like(x, weight)
    if weight is not None and weight.numel() != edges.source.numel():
        raise misfit(f"one weight for each of {edges.source.numel():,} edges", f"{weight.numel():,}")
    table = e.table if isinstance(e, EdgeTypeFeatures) else e
    fast = implementation("messages", x, table, own, weight) if x.dim() == 2 else None
    if fast is not None:
        return fast.message_sum(x, edges, e, own, weight)
    messages = x.index_select(0, edges.edge_index[0])
    if e is not None:
        features = e.expand() if isinstance(e, EdgeTypeFeatures) else e
        messages = F.relu(messages + features.index_select(0, edges.edge_id))
    if weight is not None:
        messages = messages * weight[:, None]
    total = x.new_zeros(edges.num_rows, x.size(1)).index_add(0, edges.edge_index[1], messages)
    return total if own is None else total + own * x
