"""Batches of one fixed shape: filled up with a filler graph that weighs nothing, many laid out at once."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from esan import kernels, ragged
from esan.bags.bag import Bag
from esan.bags.joined import Joined
from esan.bags.orders import Constants, Orders, RowArcs, StoredPairs
from esan.bags.packing import Batches, Fields
from esan.bags.pieces import Gathered
from esan.bags.plan import Plan
from esan.bags.rows import slot_of_layer
from esan.bags.sources import Makers, Sources, held
from esan.bags.stage_sources import StageSources

#: Most arcs between rows of the graphs that fields are made for at a time, about.
_MOST_ARCS = 2**19


@dataclass(frozen=True)
class Shape:
    """How much room a batch has; at least one node, subgraph, row and arc of each kind is the filler's.

    Attributes:
        graphs: graphs, without the filler.
        nodes: nodes.
        arcs: arcs of the graphs.
        subgraphs: subgraphs.
        rows: rows of each slot.
        row_arcs: arcs between rows, of each slot that they end in.
    """

    graphs: int
    nodes: int
    arcs: int
    subgraphs: int
    rows: tuple[int, ...]
    row_arcs: tuple[int, ...]

    def holds(self, other: "Shape") -> bool:
        """Whether batches of the other shape fit in."""
        pairs = zip(self._numbers, other._numbers, strict=True)
        return all(mine >= theirs for mine, theirs in pairs)

    def joined(self, other: "Shape") -> "Shape":
        """Room for both."""
        rows, row_arcs = (
            tuple(map(max, mine, theirs)) for mine, theirs in ((self.rows, other.rows), (self.row_arcs, other.row_arcs))
        )
        return Shape(
            self.graphs,
            max(self.nodes, other.nodes),
            max(self.arcs, other.arcs),
            max(self.subgraphs, other.subgraphs),
            rows,
            row_arcs,
        )

    def grown(self, factor: float) -> "Shape":
        """The same with more room."""

        def more(n: int) -> int:
            return n if n == 0 else 8 * (int(n * factor) // 8 + 1)

        rows, row_arcs = [more(n) for n in self.rows], tuple(more(n) for n in self.row_arcs)
        nodes = more(self.nodes)
        if rows[0]:
            rows[0] = nodes  # background rows are the nodes
        return Shape(self.graphs, nodes, more(self.arcs), more(self.subgraphs), tuple(rows), row_arcs)

    @property
    def _numbers(self) -> tuple[int, ...]:
        return (self.graphs, self.nodes, self.arcs, self.subgraphs, *self.rows, *self.row_arcs)


class Counts:
    """The counts of every graph of a bag, on the host: what a batch needs is known without asking the device."""

    def __init__(self, bag: Bag) -> None:
        graphs, selection, rows = bag.graphs, bag.selection, bag.rows
        parts = [graphs.num_nodes[None], graphs.num_arcs[None], selection.num_subgraphs[None]]
        self._table = torch.cat([*parts, rows.num_rows, rows.num_arcs]).cpu().numpy()
        self._slots = rows.num_rows.size(0)

    def shape(self, ids: np.ndarray) -> Shape:
        """The room that the largest of these batches needs, the filler included; ids `[K, B]`, −1 for no graph."""
        table = np.concatenate([self._table, np.zeros((len(self._table), 1), self._table.dtype)], 1)
        most = table[:, ids].sum(2).max(1)
        used: np.ndarray = np.any(self._table, axis=1)
        nodes, arcs, subgraphs, *rest = (int(n) + 1 for n in most)
        rest = [n if there else 0 for n, there in zip(rest, used[3:], strict=True)]
        rows, row_arcs = rest[: self._slots], rest[self._slots :]
        if rows[0]:
            rows[0] = nodes
        # A slot with rows has room for an arc, even if none ends there.
        row_arcs = [max(n, 1) if r else 0 for n, r in zip(row_arcs, rows, strict=True)]
        return Shape(ids.shape[1], nodes, arcs, subgraphs, tuple(rows), tuple(row_arcs))


class _Layout:
    """Where each line of K padded batches comes from: [batch, slot, graph or filler, line].

    Args:
        counts: lines of each slot and graph of the dataset, `[slots, G]`.
        room: lines of each slot of a batch.
        ids: the graphs of each batch, `[K, B]`.
        there: whether there is a graph at all, `[K, B]`.
        constants: of the device.
    """

    def __init__(self, counts: Tensor, room: tuple[int, ...], ids: Tensor, there: Tensor, constants: Constants) -> None:
        batches, graphs = ids.shape
        self.size, self.room = sum(room), room
        number = (counts[:, ids] * there).transpose(0, 1)  # [K, slots, B]
        rest = constants.of(*room) - number.sum(2)
        full = torch.cat([number, rest[:, :, None]], 2)
        flat = full.reshape(-1)
        segment = torch.repeat_interleave(flat, output_size=batches * self.size)
        begin = ragged.starts(flat)
        old = ragged.starts(counts)[:, ids].transpose(0, 1)
        old = torch.cat([old, torch.zeros_like(rest)[:, :, None]], 2)
        graph, line = _located(segment, old.reshape(-1), begin, graphs + 1)
        self.graph, self.line = graph.reshape(batches, self.size), line.reshape(batches, self.size)
        self._filler_graph = graphs
        #: Lines of each slot and graph, the filler last, `[K, slots, B + 1]`.
        self.number = full
        first = torch.arange(batches, device=ids.device)[:, None, None] * self.size
        #: A number of the dataset becomes the number in the batch when this is added, `[K, slots, B + 1]`.
        self.shift = begin.reshape(full.shape) - first - old

    @cached_property
    def filler(self) -> Tensor:
        """Whether each line is the filler's."""
        return self.graph == self._filler_graph

    def take(self, values: Tensor, filler: float | int | Tensor = 0) -> Tensor:
        """Values of the dataset, a line each, as lines of the batches."""
        values = _readable(values)
        got = values.index_select(0, self.line.reshape(-1)).reshape(*self.line.shape, *values.shape[1:])
        mask = self.filler.reshape(*self.filler.shape, *[1] * (values.dim() - 1))
        return torch.where(mask, filler, got) if isinstance(filler, Tensor) else got.masked_fill(mask, filler)

    def refer(self, values: Tensor, to: "_Layout", filler: int | Tensor, slot: Tensor | None = None) -> Tensor:
        """Values that are numbers of lines of another layout, renumbered; `slot` says which of its slots each is in."""
        values, slot = _readable(values), None if slot is None else _readable(slot)
        place = self.graph if slot is None else self.take(slot) * to.number.size(2) + self.graph
        shift = to.shift.reshape(to.shift.size(0), -1).gather(1, place)
        got = values.index_select(0, self.line.reshape(-1)).reshape(self.line.shape) + shift
        return torch.where(self.filler, filler, got)


def _readable(values: Tensor) -> Tensor:
    """The values; where there are none, one that stands at line 0, which the filler reads and forgets."""
    return values if values.size(0) else values.new_zeros(1, *values.shape[1:])


def _located(segment: Tensor, old: Tensor, begin: Tensor, in_batch: int) -> tuple[Tensor, Tensor]:
    """The graph of each line, and its line in the dataset; the filler's is 0."""
    graph = segment % in_batch
    line = old[segment] + torch.arange(segment.numel(), device=segment.device) - begin[segment]
    return graph, line.masked_fill(graph == in_batch - 1, 0)


class Padder:
    """Lays batches of a bag out in a fixed shape, on the bag's device, and never waits for it.

    Args:
        bag: the bag of the dataset.
        num_layers: the layers of the network, and how far ahead it looks; it says which stages are needed.
    """

    def __init__(self, bag: Bag, num_layers: int) -> None:
        self.bag = bag
        self.counts = Counts(bag)
        self._constants = Constants(bag.device)
        self._num_layers = num_layers
        #: Plans for the last shape, and what they gather from, which those of more networks or fewer fields share.
        self._shape: Shape | None = None
        self._plans: dict[tuple[int, frozenset[str] | None], Plan] = {}
        self._made: dict[str, Gathered] = {}

    def lay_out(self, ids: Tensor, shape: Shape, networks: int = 1, only: Collection[str] | None = None) -> Batches:
        """Batches for one network or several, each network's behind the other's.

        Args:
            ids: the graphs of each batch, `[K, S, B]`, −1 for no graph; they must fit the shape.
            shape: of the batch of one network.
            networks: S; where all networks get the same batches, ids may be `[K, 1, B]`.
            only: the fields that are needed; None for all.
        """
        if kernels.indices_on_gpu(ids):
            return self._plan(shape, networks, only).lay_out(ids)
        return self._laid_out_plainly(ids, shape, networks, only)

    def blank(self, shape: Shape, networks: int = 1, only: Collection[str] | None = None) -> Batches:
        """One batch that is filler alone, for which one graph of the dataset is enough; arguments as in `lay_out`."""
        ids = torch.full((1, 1, shape.graphs), -1, device=self.bag.device)
        return Padder(self.bag[:1], self._num_layers).lay_out(ids, shape, networks, only)

    def _plan(self, shape: Shape, networks: int, only: Collection[str] | None) -> Plan:
        if self._shape != shape:
            self._shape, self._plans, self._made = shape, {}, {}
        key = networks, None if only is None else frozenset(only)
        if key not in self._plans:
            self._made |= self._gathered(shape, only)
            fields = {name: made for name, made in self._made.items() if only is None or name in only}
            self._plans[key] = Plan(fields, shape, networks)
        return self._plans[key]

    def _gathered(self, shape: Shape, only: Collection[str] | None) -> dict[str, Gathered]:
        """What those of these fields that are not known yet are gathered from."""
        parts = [self._gathered_from(bag, shape, only) for bag in self._parts()]
        joined = Joined()
        return {name: joined.field([part.pop(name) for part in parts]) for name in [*parts[0]]}

    def _parts(self) -> Iterator[Bag]:
        """The bag, some graphs at a time: making fields takes more memory than they have in the end."""
        bag = self.bag
        # A sample is small, and is padded for one epoch only.
        count = 1 if bag.whole is not None else bag.rows.arc.numel() // _MOST_ARCS + 1
        ids = torch.arange(len(bag), device=bag.device)
        return (bag[some] for some in ids.chunk(count)) if count > 1 else iter([bag])

    def _gathered_from(self, bag: Bag, shape: Shape, only: Collection[str] | None) -> dict[str, Gathered]:
        sources = Sources(bag)
        found = self._wanted(sources.of_graphs(shape), "", only)
        for slot in self._slots(shape):
            # Stage by stage: the orders that its fields are made with are not kept.
            found |= self._wanted(StageSources(sources, shape, slot).fields(), f"stage{slot}.", only)
        return found

    def _wanted(self, makers: Makers, stage: str, only: Collection[str] | None) -> dict[str, Gathered]:
        names = {name: stage + name for name in makers if only is None or stage + name in only}
        return {full: makers[name]() for name, full in names.items() if full not in self._made}

    def _laid_out_plainly(self, ids: Tensor, shape: Shape, networks: int, only: Collection[str] | None) -> Batches:
        """The meaning of the plan, which its fields are compared with: lines are renumbered, then sorted."""
        constants = self._constants
        steps, given, size = ids.shape
        ids = ids.reshape(steps * given, size)
        there = ids >= 0
        ids = ids.clamp(min=0)
        graphs, selection, rows = self.bag.graphs, self.bag.selection, self.bag.rows
        nodes = _Layout(graphs.num_nodes[None], (shape.nodes,), ids, there, constants)
        arcs = _Layout(graphs.num_arcs[None], (shape.arcs,), ids, there, constants)
        subgraphs = _Layout(selection.num_subgraphs[None], (shape.subgraphs,), ids, there, constants)
        in_rows = _Layout(rows.num_rows, shape.rows, ids, there, constants)
        pairs = _Layout(rows.num_rows[1:], shape.rows[1:], ids, there, constants)
        row_arcs = _Layout(rows.num_arcs, shape.row_arcs, ids, there, constants)
        # Each slot's filler arcs are loops at the last row of that slot.
        last_row = constants.of(*shape.rows).cumsum(0) - 1
        loop = last_row.repeat_interleave(constants.of(*shape.row_arcs), output_size=row_arcs.size)
        fields = Fields(given, networks)
        fields.add("num_nodes", lambda: nodes.number[:, 0])
        fields.add("num_subgraphs", lambda: subgraphs.number[:, 0].clamp(min=1))
        fields.add("node_graph", lambda: nodes.graph, size + 1)
        fields.add("subgraph_graph", lambda: subgraphs.graph, size + 1)
        for name, ends in (("edge_source", graphs.edge_index[0]), ("edge_target", graphs.edge_index[1])):
            fields.add(name, partial(arcs.refer, ends, nodes, shape.nodes - 1), shape.nodes)
        fields.add("held", lambda: arcs.take(held(self.bag)))
        fields.add("real_nodes", lambda: _real(nodes.number[:, 0]))
        fields.add("real_subgraphs", lambda: _real(subgraphs.number[:, 0]))
        fields.add("graph_weight", lambda: torch.cat([there, torch.zeros_like(there[:, :1])], 1).float())
        fields.add("node_weight", lambda: (~nodes.filler).float())
        if graphs.x is not None:
            fields.add("x", partial(nodes.take, graphs.x))
        if graphs.edge_attr is not None:
            fields.add("edge_attr", partial(arcs.take, graphs.edge_attr))
        if graphs.y is not None:
            absent = ~there.reshape(*there.shape, *[1] * (graphs.y.dim() - 1))
            fields.add("y", partial(graphs.y[ids].masked_fill, absent, 0))
        row_ends, arc_ends = constants.of(*rows.row_ends), constants.of(*rows.arc_ends)
        source_slot = torch.bucketize(rows.source, row_ends, right=True)
        arc_slot = torch.bucketize(torch.arange(rows.source.numel(), device=ids.device), arc_ends, right=True)
        between = RowArcs(
            row_arcs.refer(rows.source, in_rows, loop, source_slot),
            row_arcs.refer(rows.target, in_rows, loop, arc_slot),
            row_arcs.refer(rows.arc, arcs, shape.arcs - 1),
        )
        stored = StoredPairs(
            pairs.refer(rows.node, nodes, shape.nodes - 1),
            pairs.refer(rows.subgraph, subgraphs, shape.subgraphs - 1),
            pairs.take(rows.marked),
            pairs.filler,
        )
        orders = Orders(fields, shape, stored, between, constants)
        orders.of_graphs()
        for slot in self._slots(shape):
            orders.of_stage(slot)
        return fields.packed(only)

    def _slots(self, shape: Shape) -> list[int]:
        """The last slots of the stages; by the shape, since another sample of the same bag may have fewer."""
        ends = list(accumulate(shape.rows))
        return sorted({slot_of_layer(ends, t) for t in range(1, self._num_layers + 1)})


def _real(number: Tensor) -> Tensor:
    """The counts, none for the filler."""
    return torch.cat([number[:, :-1], torch.zeros_like(number[:, -1:])], 1)
