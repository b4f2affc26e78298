"""`Source`: what the columns of a dataset are made from: values of its items, their orders, indices as stored."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from esan.bags.bag import Bag
from esan.bags.padded.axes import AnyAxis, Axis, Order
from esan.ops import ragged


@dataclass(frozen=True)
class OfStage:
    """Values that depend on the stage of a layer, the rows up to a slot."""

    make: "Callable[[Source, int], Tensor]"
    slot: int

    def __call__(self, source: "Source") -> Tensor:
        return self.make(source, self.slot)


@dataclass(frozen=True)
class Itself:
    """Of each item its own index."""


@dataclass(frozen=True)
class GroupStart:
    """Where the group of each owner begins in an order."""

    order: Order


@dataclass(frozen=True)
class GroupSize:
    """How many items the group of each owner has."""

    order: Order

    def __call__(self, source: "Source") -> Tensor:
        return source.csr(self.order).count


@dataclass(frozen=True)
class Column:
    """Values along an axis.

    Attributes:
        along: the axis, or an order of its items.
        values: one per item, as the axis has them, whatever the order; a number for all items.
        to: the axis that values are indices into; None if they are plain numbers.
        absent: what "no graph" has, on an axis of graphs.
    """

    along: Axis | Order
    values: "Callable[[Source], Tensor] | GroupStart | Itself | float"
    to: AnyAxis | None = None
    absent: int = 0

    @property
    def axis(self) -> AnyAxis:
        return self.along.axis if isinstance(self.along, Order) else self.along


@dataclass(frozen=True, eq=False)
class CSR:
    """The items of an order: which they are (None if they are sorted as they are), where groups begin, their sizes."""

    perm: Tensor | None
    first: Tensor
    count: Tensor


class Source:
    """What the columns of some graphs are made from; nothing is computed before it is needed.

    Args:
        bag: the bag of these graphs.
    """

    def __init__(self, bag: Bag) -> None:
        self.bag, self.graphs, self.rows = bag, bag.graphs, bag.rows
        self._counts: dict[AnyAxis, Tensor] = {}
        self._index: dict[Axis, Tensor] = {}
        self._known: dict[Column, Tensor] = {}
        self._csr: tuple[Order, CSR] | None = None

    # -- values of items, as the table of fields names them -------------------------------------------------------

    def num_nodes(self) -> Tensor:
        return self.graphs.num_nodes

    def num_subgraphs(self) -> Tensor:
        return self.bag.selection.num_subgraphs

    def some_subgraphs(self) -> Tensor:
        return self.num_subgraphs().clamp(min=1)

    def ones(self) -> Tensor:
        return torch.ones(len(self.graphs), device=self.bag.device)

    def x(self) -> Tensor:
        return _there(self.graphs.x)

    def edge_attr(self) -> Tensor:
        return _there(self.graphs.edge_attr)

    def y(self) -> Tensor:
        return _there(self.graphs.y)

    def edge_type(self) -> Tensor:
        return self.edge_attr().reshape(-1)

    def edge_source(self) -> Tensor:
        return self.graphs.edge_index[0]

    def edge_target(self) -> Tensor:
        return self.graphs.edge_index[1]

    def held(self) -> Tensor:
        """In how many subgraphs each edge is."""
        return self.bag.selection.holders(self.graphs)[self.graphs.arc_edge].float()

    def pair_row(self) -> Tensor:
        """The row of each stored pair."""
        return torch.arange(self.rows.node.numel(), device=self.bag.device) + self.rows.background

    def pair_node(self, slot: int | None = None) -> Tensor:
        return self.rows.node[: self._pairs(slot)]

    def pair_subgraph(self, slot: int | None = None) -> Tensor:
        return self.rows.subgraph[: self._pairs(slot)]

    def pair_marked(self) -> Tensor:
        return self.rows.marked

    def pair_mean(self) -> Tensor:
        """The share of a stored pair in the mean over the subgraphs of its node."""
        node = self.rows.node
        return torch.ones(node.numel(), device=node.device) / self._subgraphs_of_node.clamp(min=1)[node]

    def row_node(self, slot: int) -> Tensor:
        background = torch.arange(self.rows.background, device=self.bag.device)
        return torch.cat([background, self.pair_node(slot)])

    def background_multiplicity(self, slot: int) -> Tensor:
        """How many pairs the background row of each node stands for: all that are not stored."""
        m = self._subgraphs_of_node
        return (m - _counted(self.pair_node(slot), m.numel())).float()

    def background_mean(self, slot: int) -> Tensor:
        return self.background_multiplicity(slot) / self._subgraphs_of_node.clamp(min=1)

    def row_edge(self, slot: int | None = None) -> Tensor:
        """The edge of the graph that each edge between rows is a copy of."""
        return self.rows.arc[: self._edges(slot)]

    def row_edge_type(self) -> Tensor:
        return self.edge_type().index_select(0, self.rows.arc)

    def row_target(self) -> Tensor:
        return self.rows.target

    def row_source(self, slot: int) -> Tensor:
        """The source of each edge between rows; a pair that is not of the stage still equals its background."""
        source, background = self.rows.source[: self._edges(slot)], self.edge_source()[self.row_edge(slot)]
        return torch.where(source < self.rows.row_ends[slot], source, background)

    @cached_property
    def _subgraphs_of_node(self) -> Tensor:
        return self.num_subgraphs()[self.graphs.node_graph]

    def _pairs(self, slot: int | None) -> int | None:
        return None if slot is None else self.rows.row_ends[slot] - self.rows.background

    def _edges(self, slot: int | None) -> int | None:
        return None if slot is None else self.rows.arc_ends[slot]

    # -- axes and orders --------------------------------------------------------------------------------------------

    def counts(self, axis: AnyAxis) -> Tensor:
        """Items of each block and graph, `[blocks, G]`."""
        if axis not in self._counts:
            self._counts[axis] = self._counted(axis)
        return self._counts[axis]

    def _counted(self, axis: AnyAxis) -> Tensor:
        if isinstance(axis, Axis):
            return axis.counts(self.bag)
        if axis.by is None:
            return self.counts(axis.base)[: axis.base.blocks(axis.slot)].sum(0)[None]
        owner, count = axis.by.owner, self.csr(axis.by).count
        blocks = self.counts(owner)[: owner.blocks(axis.slot)]
        segment = self._segment(owner)[: count.numel()]
        return torch.zeros_like(blocks).view(-1).scatter_add_(0, segment, count).view_as(blocks)

    def ends(self, axis: AnyAxis) -> list[int]:
        """How many items there are up to the end of each block."""
        return axis.ends(self.bag) if isinstance(axis, Axis) else self.counts(axis).sum(1).cumsum(0).tolist()

    def _segment(self, axis: Axis) -> Tensor:
        """The (block, graph) of each item, as one number."""
        return torch.repeat_interleave(self.counts(axis).reshape(-1), output_size=axis.ends(self.bag)[-1])

    def csr(self, order: Order) -> CSR:
        """The items in an order; orders are large, and only the last one is kept."""
        if self._csr is None or self._csr[0] != order:
            self._csr = None
            owner, ends = order.owner_of(self), order.owner.ends(self.bag)
            size = ends[-1 if order.slot is None else order.owner.block_of(order.slot)]
            count, perm = _counted(owner, size), None
            if not order.is_sorted:
                # Short numbers are sorted in less memory, and sooner.
                perm = torch.argsort(owner.int() if size < 2**31 else owner, stable=True)
                perm = perm.int() if perm.numel() < 2**31 else perm
            self._csr = order, CSR(perm, ragged.starts(count), count)
        return self._csr[1]

    # -- columns ----------------------------------------------------------------------------------------------------

    def column(self, column: Column) -> Tensor:
        """The values as batches are gathered from them: indices count within block and graph, numbers are short."""
        if isinstance(column.values, GroupStart):
            return self._starts(column.values.order)
        if isinstance(column.along, Order):
            perm = self.csr(column.along).perm
            base = self._along_base(replace(column, along=column.along.base))
            return base if perm is None else base.index_select(0, perm)
        return self._along_base(column)

    def _along_base(self, column: Column) -> Tensor:
        if column not in self._known:
            self._known[column] = self._made(column)
        return self._known[column]

    def _made(self, column: Column) -> Tensor:
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
            self._index[axis] = _coded(position, segment // counts.size(1), counts.size(0))
        return self._index[axis]

    def _starts(self, order: Order) -> Tensor:
        """The index of where the group of each owner begins, which may be the end of a graph."""
        first, counts = self.csr(order).first, self.counts(order.axis)
        segment = self._segment(order.owner)[: first.numel()]
        block, graph = segment // counts.size(1), segment % counts.size(1)
        return _coded(first - ragged.starts(counts)[block, graph], block, counts.size(0))


def _there(values: Tensor | None) -> Tensor:
    assert values is not None
    return values


def _coded(position: Tensor, block: Tensor, blocks: int) -> Tensor:
    return _narrow((position << index_bits(blocks)) + block)


def index_bits(blocks: int) -> int:
    """How many bits of an index tell the blocks of its axis apart."""
    return (blocks - 1).bit_length()


def _narrow(values: Tensor) -> Tensor:
    """Whole numbers in as few bits as hold all of them: 16, 32 or 64."""
    for kind in (torch.int16, torch.int32):
        short = values.to(kind)
        if values.dtype in (torch.bool, torch.uint8, torch.int8, kind) or torch.equal(short.long(), values.long()):
            return short.contiguous()
    return values.long().contiguous()


def _counted(owner: Tensor, size: int) -> Tensor:
    """How many items each owner has."""
    # `bincount` would wait for the device to tell the largest owner.
    return owner.new_zeros(size).scatter_add_(0, owner, owner.new_ones(1).expand_as(owner))
