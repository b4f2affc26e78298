"""`ColumnSource`: computes the arrays of `Columns`: values, sort orders, packed indices."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from esan.bags.bag import Bag
from esan.bags.padded.axes import AnyAxis, Axis, Order
from esan.ops import ragged


@dataclass(frozen=True)
class PerLayerView:
    """Values that depend on the layer view: the rows up to a block."""

    make: "Callable[[ColumnSource, int], Tensor]"
    last: int

    def __call__(self, source: "ColumnSource") -> Tensor:
        return self.make(source, self.last)


@dataclass(frozen=True)
class ExtraValues:
    """An extra field of the graphs."""

    name: str

    def __call__(self, source: "ColumnSource") -> Tensor:
        return _bits(source.graphs.extra[self.name])


@dataclass(frozen=True)
class OwnIndex:
    """The index of each item itself."""


@dataclass(frozen=True)
class GroupStart:
    """Where the group of each owner begins in an order."""

    order: Order


@dataclass(frozen=True)
class GroupSize:
    """The number of items in the group of each owner."""

    order: Order

    def __call__(self, source: "ColumnSource") -> Tensor:
        return source.csr(self.order).count


@dataclass(frozen=True)
class Column:
    """Values along an axis.

    Attributes:
        along: the axis, or an order of its items.
        values: one per item, in the order of the axis itself; a number for all items.
        to: the axis that values are indices into; None if they are plain numbers.
        absent: the value of "no graph", on an axis of graphs.
    """

    along: Axis | Order
    values: "Callable[[ColumnSource], Tensor] | GroupStart | OwnIndex | float"
    to: AnyAxis | None = None
    absent: int = 0

    @property
    def axis(self) -> AnyAxis:
        return self.along.axis if isinstance(self.along, Order) else self.along


@dataclass(frozen=True, eq=False)
class GroupedItems:
    """The items of an order: the permutation (None if they are sorted already), where groups begin, their sizes."""

    perm: Tensor | None
    first: Tensor
    count: Tensor


class ColumnSource:
    """Computes the columns of some graphs, each when it is first needed.

    Args:
        bag: the bag of these graphs.
    """

    def __init__(self, bag: Bag) -> None:
        self.bag, self.graphs, self.rows = bag, bag.graphs, bag.rows
        self._counts: dict[AnyAxis, Tensor] = {}
        self._index: dict[Axis, Tensor] = {}
        self._known: dict[Column, Tensor] = {}
        self._csr: tuple[Order, GroupedItems] | None = None

    # -- values of items, as the table of fields names them ------------------------------------------------------

    def num_nodes(self) -> Tensor:
        return self.graphs.num_nodes

    def num_subgraphs(self) -> Tensor:
        return self.bag.selection.num_subgraphs

    def num_subgraphs_or_one(self) -> Tensor:
        return self.num_subgraphs().clamp(min=1)

    def ones(self) -> Tensor:
        return torch.ones(len(self.graphs), device=self.bag.device)

    def x(self) -> Tensor:
        return _bits(self.graphs.x)

    def edge_attr(self) -> Tensor:
        return _bits(self.graphs.edge_attr)

    def y(self) -> Tensor:
        return _bits(self.graphs.y)

    def edge_type(self) -> Tensor:
        return self.edge_attr().reshape(-1)

    def edge_source(self) -> Tensor:
        return self.graphs.edge_index[0]

    def edge_target(self) -> Tensor:
        return self.graphs.edge_index[1]

    def subgraphs_per_edge(self) -> Tensor:
        """The number of subgraphs that have each edge."""
        return self.bag.selection.subgraphs_per_edge(self.graphs)[self.graphs.undirected_edge].float()

    def pair_row(self) -> Tensor:
        """The row of each stored pair."""
        return torch.arange(self.rows.node.numel(), device=self.bag.device) + self.rows.background

    def pair_node(self, last: int | None = None) -> Tensor:
        return self.rows.node[: self._num_pairs(last)]

    def pair_subgraph(self, last: int | None = None) -> Tensor:
        return self.rows.subgraph[: self._num_pairs(last)]

    def pair_marked(self) -> Tensor:
        return self.rows.marked

    def pair_mean_factor(self) -> Tensor:
        """The factor of a stored pair in the mean over the subgraphs of its node."""
        node = self.rows.node
        return torch.ones(node.numel(), device=node.device) / self._subgraphs_of_node.clamp(min=1)[node]

    def row_node(self, last: int) -> Tensor:
        background = torch.arange(self.rows.background, device=self.bag.device)
        return torch.cat([background, self.pair_node(last)])

    def background_multiplicity(self, last: int) -> Tensor:
        """The multiplicity of the background row of each node."""
        multiplicity = self.rows.multiplicity(last, self._subgraphs_of_node)
        assert multiplicity is not None
        return multiplicity[: self.rows.background]

    def background_mean_factor(self, last: int) -> Tensor:
        """The factor of the background row of each node in the mean over its subgraphs."""
        return self.background_multiplicity(last) / self._subgraphs_of_node.clamp(min=1)

    def row_edge(self, last: int | None = None) -> Tensor:
        """The edge of the graph that each edge between rows is a copy of."""
        return self.rows.edge_id[: self._num_edges(last)]

    def row_edge_type(self) -> Tensor:
        return self.edge_type().index_select(0, self.rows.edge_id)

    def row_target(self) -> Tensor:
        return self.rows.target

    def row_source(self, last: int) -> Tensor:
        """The source of each edge between rows; the background row for pairs after the layer view."""
        source, background = self.rows.source[: self._num_edges(last)], self.edge_source()[self.row_edge(last)]
        return torch.where(source < self.rows.row_ends[last], source, background)

    @cached_property
    def _subgraphs_of_node(self) -> Tensor:
        return self.num_subgraphs()[self.graphs.node_graph]

    def _num_pairs(self, last: int | None) -> int | None:
        return None if last is None else self.rows.row_ends[last] - self.rows.background

    def _num_edges(self, last: int | None) -> int | None:
        return None if last is None else self.rows.edge_ends[last]

    # -- axes and orders --------------------------------------------------------------------------------------------

    def counts(self, axis: AnyAxis) -> Tensor:
        """Items of each block and graph, `[blocks, G]`."""
        if axis not in self._counts:
            self._counts[axis] = self._count(axis)
        return self._counts[axis]

    def _count(self, axis: AnyAxis) -> Tensor:
        if isinstance(axis, Axis):
            return axis.counts(self.bag)
        if axis.by is None:
            return self.counts(axis.base)[: axis.base.num_blocks(axis.last)].sum(0)[None]
        owner, count = axis.by.owner, self.csr(axis.by).count
        blocks = self.counts(owner)[: owner.num_blocks(axis.last)]
        segment = self._segment(owner)[: count.numel()]
        return torch.zeros_like(blocks).view(-1).scatter_add_(0, segment, count).view_as(blocks)

    def ends(self, axis: AnyAxis) -> list[int]:
        """The number of items up to the end of each block."""
        return axis.ends(self.bag) if isinstance(axis, Axis) else self.counts(axis).sum(1).cumsum(0).tolist()

    def _segment(self, axis: Axis) -> Tensor:
        """The (block, graph) of each item, as one number."""
        return torch.repeat_interleave(self.counts(axis).reshape(-1), output_size=axis.ends(self.bag)[-1])

    def csr(self, order: Order) -> GroupedItems:
        """The items in an order; orders are large, so only the last one is cached."""
        if self._csr is None or self._csr[0] != order:
            self._csr = None
            owner, ends = order.owner_of(self), order.owner.ends(self.bag)
            size = ends[-1 if order.last is None else order.owner.block_index(order.last)]
            count, perm = ragged.segment_counts(owner, size), None
            if not order.is_sorted:
                # int32 sorts faster and in less memory.
                perm = torch.argsort(owner.int() if size < 2**31 else owner, stable=True)
                perm = perm.int() if perm.numel() < 2**31 else perm
            self._csr = order, GroupedItems(perm, ragged.starts(count), count)
        return self._csr[1]

    # -- columns ----------------------------------------------------------------------------------------------------

    def column(self, column: Column) -> Tensor:
        """The values that batches are gathered from: indices count within block and graph, in a short dtype."""
        if isinstance(column.values, GroupStart):
            return self._starts(column.values.order)
        if isinstance(column.along, Order):
            perm = self.csr(column.along).perm
            base = self._along_base(replace(column, along=column.along.base))
            return base if perm is None else base.index_select(0, perm)
        return self._along_base(column)

    def _along_base(self, column: Column) -> Tensor:
        if column not in self._known:
            self._known[column] = self._compute(column)
        return self._known[column]

    def _compute(self, column: Column) -> Tensor:
        values = column.values(self) if callable(column.values) else None
        if column.to is not None:
            index = self._indices(column.to.base)
            return index if values is None else index.index_select(0, values)
        assert values is not None
        return values.float().contiguous().view(torch.int32) if values.is_floating_point() else _narrow(values)

    def _indices(self, axis: Axis) -> Tensor:
        """The index of each item of an axis."""
        if axis not in self._index:
            segment, counts = self._segment(axis), self.counts(axis)
            position = torch.arange(segment.numel(), device=segment.device)
            position -= ragged.starts(counts).view(-1)[segment]
            self._index[axis] = _packed(position, segment // counts.size(1), counts.size(0))
        return self._index[axis]

    def _starts(self, order: Order) -> Tensor:
        """The index where the group of each owner begins; it may be the end of a graph."""
        first, counts = self.csr(order).first, self.counts(order.axis)
        segment = self._segment(order.owner)[: first.numel()]
        block, graph = segment // counts.size(1), segment % counts.size(1)
        return _packed(first - ragged.starts(counts)[block, graph], block, counts.size(0))


def _bits(values: Tensor | None) -> Tensor:
    """Values of the user's data; floats in double precision as the integers of the same bits."""
    assert values is not None
    return values.detach().contiguous().view(torch.int64) if values.dtype == torch.float64 else values


def _packed(position: Tensor, block: Tensor, blocks: int) -> Tensor:
    """Position and block in one integer."""
    return _narrow((position << index_bits(blocks)) + block)


def index_bits(blocks: int) -> int:
    """The number of low bits of a packed index that hold the block."""
    return (blocks - 1).bit_length()


def _narrow(values: Tensor) -> Tensor:
    """Integers as int16, int32 or int64, the shortest that holds all of them."""
    for kind in (torch.int16, torch.int32):
        short = values.to(kind)
        if values.dtype in (torch.bool, torch.uint8, torch.int8, kind) or torch.equal(short.long(), values.long()):
            return short.contiguous()
    return values.long().contiguous()
