"""The table of all fields of a padded batch: the axis of each, its values, and the values of padding."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import Any

import torch
from torch import Tensor

from esan.bags.bag import Bag
from esan.bags.padded.axes import (
    BLOCKS,
    EDGES,
    GRAPHS,
    NODES,
    PAIRS,
    ROW_EDGES,
    ROWS,
    SUBGRAPHS,
    TARGETS,
    AnyAxis,
    Axis,
    Order,
)  # fmt: skip
from esan.bags.padded.compute_columns import (
    Column,
    ColumnSource,
    ExtraValues,
    GroupSize,
    GroupStart,
    OwnIndex,
    PerLayerView,
)
from esan.graphs import Graphs
from esan.graphs.extra_fields import Field, ListField


class PaddingIndex(Enum):
    """The index that items of padding get: into the axis that values point to, and there into their own block."""

    FIRST = "the first item, padding or not"
    LAST = "the last item, which is padding"
    PADDING = "where padding begins"
    OWN = "item k of padding for item k of padding"


@dataclass(frozen=True)
class PaddingCount:
    """Padding gets the number of padding items of an axis."""

    axis: Axis


@dataclass(frozen=True)
class FieldColumn:
    """A column of the dataset inside a field; see `Column`.

    Attributes:
        padding: the value of padding items: a number, or an index into `to`.
        after: an axis whose size, padding included, is added to the values.
    """

    along: Axis | Order
    values: Callable[[ColumnSource], Tensor] | GroupStart | OwnIndex | float
    to: AnyAxis | None = None
    padding: PaddingIndex | PaddingCount | float = 0
    after: Axis | None = None
    absent: int = 0

    @property
    def column(self) -> Column:
        return Column(self.along, self.values, self.to, self.absent)


@dataclass(frozen=True)
class BatchField:
    """A tensor of a batch.

    Attributes:
        name: of the field.
        columns: its columns, concatenated or interleaved: the first item of each, then the second of each, ...
        last: the last block of the layer view that it belongs to; None for a field that belongs to none.
        of: the axes that its values are indices into, network by network; None for that of the first column.
        times: a factor of all values.
        interleaved: whether the columns are interleaved.
        is_float: whether the values are floats in single precision.
        is_double: whether they are floats in double precision.
        shape: of an item.
    """

    name: str
    columns: tuple[FieldColumn, ...]
    last: int | None = None
    of: tuple[AnyAxis, ...] | None = None
    times: int = 1
    interleaved: bool = False
    is_float: bool = False
    is_double: bool = False
    shape: tuple[int, ...] = ()

    @property
    def indexed(self) -> tuple[AnyAxis, ...]:
        """The axes that values are indices into; the indices of each next network are larger by their sizes."""
        first = self.columns[0].to
        return self.of if self.of is not None else () if first is None else (first,)


def fields_of(bag: Bag, blocks: list[int]) -> Iterator[BatchField]:
    """All fields of batches of a bag, with a layer view for each of these blocks.

    Args:
        bag: says which fields there are; a bag of any of its graphs would do.
        blocks: the last block of rows of each layer view.
    """
    types = bag.graphs.edge_attr
    typed = types is not None and not types.is_floating_point() and prod(types.shape[1:]) == 1
    yield from _of_graphs(bag, typed)
    for last in blocks:
        yield from _of_layer_view(last, typed, compact=not bag.literal)


def _field(name: str, *columns: FieldColumn, **options: Any) -> BatchField:
    return BatchField(name, columns, **options)


def _of_graphs(bag: Bag, typed: bool) -> Iterator[BatchField]:
    yield _field("num_nodes", FieldColumn(GRAPHS, ColumnSource.num_nodes, padding=PaddingCount(NODES)))
    yield _field(
        "num_subgraphs",
        FieldColumn(GRAPHS, ColumnSource.num_subgraphs_or_one, padding=PaddingCount(SUBGRAPHS), absent=1),
    )
    yield _field("graph_multiplicity", FieldColumn(GRAPHS, ColumnSource.ones), is_float=True)
    yield _field("node_multiplicity", FieldColumn(NODES, 1.0), is_float=True)
    yield _field("node_graph", FieldColumn(NODES, 0, GRAPHS, PaddingIndex.LAST))
    yield _field("nodes.first", FieldColumn(GRAPHS, 0, NODES, PaddingIndex.PADDING))
    yield _field("nodes.count", FieldColumn(GRAPHS, ColumnSource.num_nodes))
    yield _field("subgraph_graph", FieldColumn(SUBGRAPHS, 0, GRAPHS, PaddingIndex.LAST))
    yield _field("subgraphs.first", FieldColumn(GRAPHS, 0, SUBGRAPHS, PaddingIndex.PADDING))
    yield _field("subgraphs.count", FieldColumn(GRAPHS, ColumnSource.num_subgraphs))
    yield _field("edge_source", FieldColumn(EDGES, ColumnSource.edge_source, NODES, PaddingIndex.LAST))
    yield _field("edge_target", FieldColumn(EDGES, ColumnSource.edge_target, NODES, PaddingIndex.LAST))
    yield _field("subgraphs_per_edge", FieldColumn(EDGES, ColumnSource.subgraphs_per_edge), is_float=True)
    yield from _csr("graph.into", Order(EDGES, NODES, ColumnSource.edge_target, is_sorted=True))
    out = Order(EDGES, NODES, ColumnSource.edge_source)
    yield from _csr("graph.out", out)
    yield _field("graph.out.target", FieldColumn(out, ColumnSource.edge_target, NODES, PaddingIndex.LAST))
    if typed:
        yield _field("graph.out.type", FieldColumn(out, ColumnSource.edge_type))
    for name, axis, make, values in (
        ("x", NODES, ColumnSource.x, bag.graphs.x),
        ("edge_attr", EDGES, ColumnSource.edge_attr, bag.graphs.edge_attr),
        ("y", TARGETS, ColumnSource.y, bag.graphs.y),
    ):
        if values is not None:
            yield _of_data(name, FieldColumn(axis, make), values)
    for name, field in bag.graphs.extra.fields.items():
        along = extra_axis(bag.graphs, field)
        if not isinstance(field, ListField) and along is not None:
            yield _of_data(extra_name(name), FieldColumn(along, ExtraValues(name)), field.local)


def _of_data(name: str, column: FieldColumn, values: Tensor) -> BatchField:
    """A field of the user's data."""
    is_double = values.dtype == torch.float64
    is_float = values.is_floating_point() and not is_double
    return _field(name, column, is_float=is_float, is_double=is_double, shape=tuple(values.shape[1:]))


def extra_name(name: str) -> str:
    """The name of the field that holds an extra field of the graphs."""
    return f"extra.{name}"


def extra_axis(graphs: Graphs, field: Field) -> Axis | None:
    """The axis of an extra field of numbers: one entry per graph, or per node; None if it is neither."""
    if isinstance(field, ListField) or field.dim != 0 or field.step is not None or field.local.is_complex():
        return None
    if bool((field.counts == 1).all()):
        return TARGETS
    return NODES if torch.equal(field.counts, graphs.num_nodes) else None


def _of_layer_view(last: int, typed: bool, compact: bool) -> Iterator[BatchField]:
    """The layer view of the rows up to a block; in a compact bag the background rows, one per node, come first."""
    view = f"view{last}"

    def field(name: str, *columns: FieldColumn, **options: Any) -> BatchField:
        return _field(f"{view}.{name}", *columns, last=last, **options)

    def background(column: FieldColumn) -> tuple[FieldColumn, ...]:
        return (column,) if compact else ()

    def of_view(make: Callable[[ColumnSource, int], Tensor]) -> PerLayerView:
        return PerLayerView(make, last)

    subgraph = FieldColumn(PAIRS, ColumnSource.pair_subgraph, SUBGRAPHS, PaddingIndex.LAST)
    each_node = FieldColumn(NODES, OwnIndex(), NODES, PaddingIndex.OWN)
    yield field("node", *background(each_node), FieldColumn(PAIRS, ColumnSource.pair_node, NODES, PaddingIndex.LAST))
    yield field("stored_subgraph", subgraph)
    yield field("marked", *background(FieldColumn(NODES, 0)), FieldColumn(PAIRS, ColumnSource.pair_marked))
    of_background = FieldColumn(NODES, of_view(ColumnSource.background_multiplicity))
    yield field("multiplicity", *background(of_background), FieldColumn(PAIRS, 1.0), is_float=True)
    of_background = FieldColumn(NODES, of_view(ColumnSource.background_mean_factor))
    yield field(
        "mean_factor", *background(of_background), FieldColumn(PAIRS, ColumnSource.pair_mean_factor), is_float=True
    )
    # The rows of each block that are no padding, as ranges.
    yield field(
        "real",
        FieldColumn(BLOCKS, 0, ROWS, PaddingIndex.FIRST),
        FieldColumn(BLOCKS, 0, ROWS, PaddingIndex.PADDING),
        of=(),
        interleaved=True,
    )
    # Each padding node of a compact bag has its background row; the last padding node has all other padding rows too.
    by_node = Order(ROWS, NODES, of_view(ColumnSource.row_node), last)
    yield from _csr(f"{view}.by_node", by_node, PaddingIndex.OWN if compact else PaddingIndex.PADDING)
    by_subgraph = Order(PAIRS, SUBGRAPHS, of_view(ColumnSource.pair_subgraph), last)
    yield from _csr(f"{view}.by_subgraph", by_subgraph)
    if compact:
        # The pool over nodes: each stored row minus the background row of its node (which has the index of the node).
        row = FieldColumn(by_subgraph, ColumnSource.pair_row, ROWS, PaddingIndex.OWN)
        base = FieldColumn(by_subgraph, ColumnSource.pair_node, NODES, PaddingIndex.LAST)
        yield field("differences", row, base, interleaved=True)
        starts = FieldColumn(SUBGRAPHS, GroupStart(by_subgraph), by_subgraph.axis, PaddingIndex.PADDING)
        yield field("differences.first", starts, times=2)
        yield field("differences.count", FieldColumn(SUBGRAPHS, GroupSize(by_subgraph)), times=2)
        sign = FieldColumn(PAIRS, 1.0, padding=1.0), FieldColumn(PAIRS, -1.0, padding=-1.0)
        yield field("differences.sign", *sign, is_float=True, interleaved=True)
        graph = FieldColumn(NODES, 0, GRAPHS, PaddingIndex.LAST, after=SUBGRAPHS)
        yield field("pool_target", graph, subgraph, of=(SUBGRAPHS, GRAPHS))
        yield field("background", each_node, of=(ROWS,))
        stored_by_node = Order(PAIRS, NODES, of_view(ColumnSource.pair_node), last)
        yield from _csr(f"{view}.stored_by_node", stored_by_node)
        yield field(
            "subgraph_of_stored", FieldColumn(stored_by_node, ColumnSource.pair_subgraph, SUBGRAPHS, PaddingIndex.LAST)
        )

    # Padding edges are loops at the last row of their block, copies of the last edge.
    source, target = (
        (of_view(ColumnSource.row_source), ROWS, PaddingIndex.LAST),
        (ColumnSource.row_target, ROWS, PaddingIndex.LAST),
    )
    edge = ColumnSource.row_edge, EDGES, PaddingIndex.LAST
    yield field("source", FieldColumn(ROW_EDGES, *source))
    yield field("target", FieldColumn(ROW_EDGES, *target))
    yield field("edge_id", FieldColumn(ROW_EDGES, *edge))
    yield from _csr(f"{view}.into", Order(ROW_EDGES, ROWS, ColumnSource.row_target, is_sorted=True), view_last=last)
    out = Order(ROW_EDGES, ROWS, of_view(ColumnSource.row_source), last)
    yield from _csr(f"{view}.out", out)
    yield field("out.target", FieldColumn(out, *target))
    yield field("out.edge_id", FieldColumn(out, *edge))
    if typed:
        yield field("type", FieldColumn(ROW_EDGES, ColumnSource.row_edge_type))
        yield field("out.type", FieldColumn(out, ColumnSource.row_edge_type))
    copies = Order(ROW_EDGES, EDGES, of_view(ColumnSource.row_edge), last)
    yield from _csr(f"{view}.copies", copies)
    yield field("copies.source", FieldColumn(copies, *source))
    yield field("copies.target", FieldColumn(copies, *target))


def _csr(
    name: str, order: Order, first: PaddingIndex = PaddingIndex.PADDING, view_last: int | None = None
) -> Iterator[BatchField]:
    """The items in an order, where the group of each owner begins and its size; groups of padding have size 0."""
    last = order.last if view_last is None else view_last
    if not order.is_sorted:
        yield _field(f"{name}.order", FieldColumn(order, OwnIndex(), order.base, PaddingIndex.OWN), last=last)
    yield _field(f"{name}.first", FieldColumn(order.owner, GroupStart(order), order.axis, first), last=last)
    yield _field(f"{name}.count", FieldColumn(order.owner, GroupSize(order)), last=last)
