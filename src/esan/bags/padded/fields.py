"""The table of all fields of a padded batch: what axis each runs over, its values, and what padding gets."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import Any

from torch import Tensor

from esan.bags.bag import Bag
from esan.bags.padded.axes import (
    EDGES,
    GRAPHS,
    NODES,
    PAIRS,
    ROW_EDGES,
    ROWS,
    SLOTS,
    SUBGRAPHS,
    TARGETS,
    AnyAxis,
    Axis,
    Order,
)  # fmt: skip
from esan.bags.padded.source import Column, GroupSize, GroupStart, Itself, OfStage, Source


class At(Enum):
    """The index that items of padding get, in the axis that values are indices into, and in their own slot there."""

    FIRST = "the first item, padding or not"
    LAST = "the last item, which is padding"
    PADDING = "where padding begins"
    OWN = "item k of padding for item k of padding"


@dataclass(frozen=True)
class Remaining:
    """Padding gets how many items of an axis are padding."""

    axis: Axis


@dataclass(frozen=True)
class Part:
    """A column of the dataset, as a part of a field: see `Column`.

    Attributes:
        padding: what items of padding get; a number, or an index in `to`.
        behind: an axis whose items, padding included, are counted before these values.
    """

    along: Axis | Order
    values: Callable[[Source], Tensor] | GroupStart | Itself | float
    to: AnyAxis | None = None
    padding: At | Remaining | float = 0
    behind: Axis | None = None
    absent: int = 0

    @property
    def column(self) -> Column:
        return Column(self.along, self.values, self.to, self.absent)


@dataclass(frozen=True)
class Field:
    """A tensor of a batch.

    Attributes:
        name: of the field.
        parts: one after another, or interleaved: the first item of each, then the second of each, ...
        slot: the last slot of the stage whose items it has; None for a field that belongs to no stage.
        of: the axes that its values are indices into, network by network; None for that of the first part.
        times: multiplies all values.
        is_float: whether they are floats.
        shape: of an item.
    """

    name: str
    parts: tuple[Part, ...]
    slot: int | None = None
    of: tuple[AnyAxis, ...] | None = None
    times: int = 1
    interleaved: bool = False
    is_float: bool = False
    shape: tuple[int, ...] = ()

    @property
    def indexed(self) -> tuple[AnyAxis, ...]:
        """The axes that values are indices into: those of the next network are further by as many items."""
        first = self.parts[0].to
        return self.of if self.of is not None else () if first is None else (first,)


def fields_of(bag: Bag, slots: list[int]) -> Iterator[Field]:
    """All fields of batches of a bag, with a stage for each of these slots.

    Args:
        bag: it says which fields there are; any of its graphs would do.
        slots: the last slot of the rows of each stage.
    """
    types = bag.graphs.edge_attr
    typed = types is not None and not types.is_floating_point() and prod(types.shape[1:]) == 1
    yield from _of_graphs(bag, typed)
    for slot in slots:
        yield from _of_stage(slot, typed, compact=not bag.literal)


def _field(name: str, *parts: Part, **choices: Any) -> Field:
    return Field(name, parts, **choices)


def _of_graphs(bag: Bag, typed: bool) -> Iterator[Field]:
    yield _field("num_nodes", Part(GRAPHS, Source.num_nodes, padding=Remaining(NODES)))
    yield _field("num_subgraphs", Part(GRAPHS, Source.some_subgraphs, padding=Remaining(SUBGRAPHS), absent=1))
    yield _field("graph_weight", Part(GRAPHS, Source.ones), is_float=True)
    yield _field("node_weight", Part(NODES, 1.0), is_float=True)
    yield _field("node_graph", Part(NODES, 0, GRAPHS, At.LAST))
    yield _field("nodes.first", Part(GRAPHS, 0, NODES, At.PADDING))
    yield _field("nodes.count", Part(GRAPHS, Source.num_nodes))
    yield _field("subgraph_graph", Part(SUBGRAPHS, 0, GRAPHS, At.LAST))
    yield _field("subgraphs.first", Part(GRAPHS, 0, SUBGRAPHS, At.PADDING))
    yield _field("subgraphs.count", Part(GRAPHS, Source.num_subgraphs))
    yield _field("edge_source", Part(EDGES, Source.edge_source, NODES, At.LAST))
    yield _field("edge_target", Part(EDGES, Source.edge_target, NODES, At.LAST))
    yield _field("held", Part(EDGES, Source.held), is_float=True)
    yield from _csr("graph.into", Order(EDGES, NODES, Source.edge_target, is_sorted=True))
    out = Order(EDGES, NODES, Source.edge_source)
    yield from _csr("graph.out", out)
    yield _field("graph.out.target", Part(out, Source.edge_target, NODES, At.LAST))
    if typed:
        yield _field("graph.out.type", Part(out, Source.edge_type))
    for name, axis, make, values in (
        ("x", NODES, Source.x, bag.graphs.x),
        ("edge_attr", EDGES, Source.edge_attr, bag.graphs.edge_attr),
        ("y", TARGETS, Source.y, bag.graphs.y),
    ):
        if values is not None:
            shape = tuple(values.shape[1:])
            yield _field(name, Part(axis, make), is_float=values.is_floating_point(), shape=shape)


def _of_stage(slot: int, typed: bool, compact: bool) -> Iterator[Field]:
    """The stage of the rows up to a slot; in a compact bag the background rows, one per node, come first."""

    def field(name: str, *parts: Part, **choices: Any) -> Field:
        return _field(f"stage{slot}.{name}", *parts, slot=slot, **choices)

    def background(part: Part) -> tuple[Part, ...]:
        return (part,) if compact else ()

    def staged(make: Callable[[Source, int], Tensor]) -> OfStage:
        return OfStage(make, slot)

    subgraph = Part(PAIRS, Source.pair_subgraph, SUBGRAPHS, At.LAST)
    each_node = Part(NODES, Itself(), NODES, At.OWN)
    yield field("node", *background(each_node), Part(PAIRS, Source.pair_node, NODES, At.LAST))
    yield field("stored_subgraph", subgraph)
    yield field("marked", *background(Part(NODES, 0)), Part(PAIRS, Source.pair_marked))
    of_background = Part(NODES, staged(Source.background_multiplicity))
    yield field("weight", *background(of_background), Part(PAIRS, 1.0), is_float=True)
    of_background = Part(NODES, staged(Source.background_mean))
    yield field("mean", *background(of_background), Part(PAIRS, Source.pair_mean), is_float=True)
    # The rows of each slot that are no padding, as ranges.
    yield field("real", Part(SLOTS, 0, ROWS, At.FIRST), Part(SLOTS, 0, ROWS, At.PADDING), of=(), interleaved=True)
    # Each padding node of a compact bag has its background row; the last one has all other padding rows too.
    by_node = Order(ROWS, NODES, staged(Source.row_node), slot)
    yield from _csr(f"stage{slot}.by_node", by_node, At.OWN if compact else At.PADDING)
    by_subgraph = Order(PAIRS, SUBGRAPHS, staged(Source.pair_subgraph), slot)
    yield from _csr(f"stage{slot}.by_subgraph", by_subgraph)
    if compact:
        # The pool over nodes: each stored row less the background row of its node (which has the node's index).
        row = Part(by_subgraph, Source.pair_row, ROWS, At.OWN)
        base = Part(by_subgraph, Source.pair_node, NODES, At.LAST)
        yield field("differences", row, base, interleaved=True)
        starts = Part(SUBGRAPHS, GroupStart(by_subgraph), by_subgraph.axis, At.PADDING)
        yield field("differences.first", starts, times=2)
        yield field("differences.count", Part(SUBGRAPHS, GroupSize(by_subgraph)), times=2)
        sign = Part(PAIRS, 1.0, padding=1.0), Part(PAIRS, -1.0, padding=-1.0)
        yield field("differences.sign", *sign, is_float=True, interleaved=True)
        graph = Part(NODES, 0, GRAPHS, At.LAST, behind=SUBGRAPHS)
        yield field("pooled_into", graph, subgraph, of=(SUBGRAPHS, GRAPHS))
        yield field("background", each_node, of=(ROWS,))
        stored_by_node = Order(PAIRS, NODES, staged(Source.pair_node), slot)
        yield from _csr(f"stage{slot}.stored_by_node", stored_by_node)
        yield field("subgraph_of_stored", Part(stored_by_node, Source.pair_subgraph, SUBGRAPHS, At.LAST))

    # Edges of padding are loops at the last row of their slot, copies of the last edge.
    source, target = (staged(Source.row_source), ROWS, At.LAST), (Source.row_target, ROWS, At.LAST)
    edge = Source.row_edge, EDGES, At.LAST
    yield field("source", Part(ROW_EDGES, *source))
    yield field("target", Part(ROW_EDGES, *target))
    yield field("arc", Part(ROW_EDGES, *edge))
    yield from _csr(f"stage{slot}.into", Order(ROW_EDGES, ROWS, Source.row_target, is_sorted=True), stage=slot)
    out = Order(ROW_EDGES, ROWS, staged(Source.row_source), slot)
    yield from _csr(f"stage{slot}.out", out)
    yield field("out.target", Part(out, *target))
    yield field("out.arc", Part(out, *edge))
    if typed:
        yield field("type", Part(ROW_EDGES, Source.row_edge_type))
        yield field("out.type", Part(out, Source.row_edge_type))
    copies = Order(ROW_EDGES, EDGES, staged(Source.row_edge), slot)
    yield from _csr(f"stage{slot}.copies", copies)
    yield field("copies.source", Part(copies, *source))
    yield field("copies.target", Part(copies, *target))


def _csr(name: str, order: Order, first: At = At.PADDING, stage: int | None = None) -> Iterator[Field]:
    """The items in an order, where the group of each owner begins and its size; groups of padding count as empty."""
    slot = order.slot if stage is None else stage
    if not order.is_sorted:
        yield _field(f"{name}.order", Part(order, Itself(), order.base, At.OWN), slot=slot)
    yield _field(f"{name}.first", Part(order.owner, GroupStart(order), order.axis, first), slot=slot)
    yield _field(f"{name}.count", Part(order.owner, GroupSize(order)), slot=slot)
