"""Batches of one fixed shape: filled up with a filler graph that weighs nothing, many laid out at once."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import accumulate

import torch
from torch import Tensor

from esan.bags.bag import Bag
from esan.bags.cuts import cuts
from esan.bags.joined import Joined, aside
from esan.bags.kept import Keeper
from esan.bags.orders import Constants, Orders, RowArcs, StoredPairs
from esan.bags.packing import Batches, Fields
from esan.bags.pieces import Gathered
from esan.bags.plan import Plan
from esan.bags.rows import slot_of_layer
from esan.bags.shapes import Counts, Shape
from esan.bags.sources import Makers, Sources, arc_types, held
from esan.bags.stage_sources import StageSources
from esan.bags.stretches import stretch
from esan.ops import ragged
from esan.ops.dispatch import implementation

#: Most rows, arcs between them and arcs of the graphs that fields are made for at a time.
_MOST_LINES = 2**18


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
    """Lays batches of a bag out in a fixed shape, on a device; only the first of a shape waits for it.

    Args:
        bag: the bag of the dataset; on the host it takes no memory of the device.
        num_layers: the layers of the network, and how far ahead it looks; it says which stages are needed.
        device: where batches are laid out; None for where the bag is.
        at_once: whether what batches are gathered from is made at once and stays on the device, as for a sample, which
            is padded for one pass only.
    """

    def __init__(self, bag: Bag, num_layers: int, device: torch.device | None = None, *, at_once: bool = False) -> None:
        self.bag, self._device, self._at_once = bag, device or bag.device, at_once
        self.counts = Counts(bag)
        self._constants = Constants(self._device)
        self._num_layers = num_layers
        #: What is known for batches of so many graphs.
        self._known: dict[int, _Known] = {}

    def lay_out(self, ids: Tensor, shape: Shape, networks: int = 1, only: Collection[str] | None = None) -> Batches:
        """Batches for one network or several, each network's behind the other's.

        Args:
            ids: the graphs of each batch, `[K, S, B]`, −1 for no graph; they must fit the shape.
            shape: of the batch of one network.
            networks: S; where all networks get the same batches, ids may be `[K, 1, B]`.
            only: the fields that are needed; None for all.
        """
        if implementation("layout", ids) is not None:
            return self._plan(shape, networks, only).lay_out(ids)
        return self._laid_out_plainly(ids, shape, networks, only)

    def blank(self, shape: Shape, networks: int = 1, only: Collection[str] | None = None) -> Batches:
        """One batch that is filler alone, for which one graph of the dataset is enough; arguments as in `lay_out`."""
        ids = torch.full((1, 1, shape.graphs), -1, device=self._device)
        return Padder(self._one, self._num_layers).lay_out(ids, shape, networks, only)

    def _plan(self, shape: Shape, networks: int, only: Collection[str] | None) -> Plan:
        known = self._known.get(shape.graphs)
        if known is None or not known.shape.alike(shape):
            known = self._known[shape.graphs] = _Known(shape, Keeper(self._device, networks))
        # Those of another number of networks were for a team that is no more.
        known.plans = {key: plan for key, plan in known.plans.items() if key[1] == networks}
        key = shape, networks, None if only is None else frozenset(only)
        if key not in known.plans:
            known.made |= self._gathered(known, only)
            # In one order, whichever were made first: a field has the same place in all batches that have the same.
            fields = {name: known.made[name] for name in sorted(known.made) if only is None or name in only}
            if shape != known.shape:
                # What is gathered is the same; where it goes is known from any graph.
                there = self._gathered_from(self._one, _Known(shape, known.keeper), only)
                fields = {name: field.in_room_of(there[name]) for name, field in fields.items()}
            known.plans[key] = Plan(fields, shape, networks)
        return known.plans[key]

    def forget(self, graphs: int) -> None:
        """Let go of the plans of batches of so many graphs; what they gather from stays."""
        if graphs in self._known:
            self._known[graphs].plans.clear()

    @cached_property
    def _one(self) -> Bag:
        """The bag of one graph."""
        return stretch(self.bag, 0, 1, self._device)

    def _gathered(self, known: "_Known", only: Collection[str] | None) -> dict[str, Gathered]:
        """What those of these fields that are not known yet are gathered from."""
        if only is not None and known.made.keys() >= set(only):
            return {}
        if self._at_once:
            return self._gathered_from(self.bag.to(self._device), known, only)
        parts = [aside(self._gathered_from(bag, known, only)) for bag in self._parts()]
        joined = Joined(known.keeper)
        return {name: joined.field([part.pop(name) for part in parts]) for name in [*parts[0]]}

    def _parts(self) -> Iterator[Bag]:
        """The bag on the device, some graphs at a time: making fields takes more memory than they have in the end."""
        rows, arcs = self.bag.rows, self.bag.graphs.num_arcs
        stretches = cuts(rows.num_arcs.sum(0) + rows.num_rows.sum(0) + arcs, _MOST_LINES)
        return (stretch(self.bag, *some, self._device) for some in stretches)

    def _gathered_from(self, bag: Bag, known: "_Known", only: Collection[str] | None) -> dict[str, Gathered]:
        sources, shape = Sources(bag), known.shape
        found = known.lacking(sources.of_graphs(shape), "", only)
        for slot in self._slots(shape):
            # Stage by stage: the orders that its fields are made with are not kept.
            found |= known.lacking(StageSources(sources, shape, slot).fields(), f"stage{slot}.", only)
        return found

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
        for name, lines, room in (("nodes", nodes, shape.nodes), ("subgraphs", subgraphs, shape.subgraphs)):
            fields.add(f"{name}.first", partial(_starts, lines.number[:, 0]), room)
            fields.add(f"{name}.count", partial(_real, lines.number[:, 0]))
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
        real = in_rows.number[:, :, :-1].sum(2)
        orders = Orders(fields, shape, stored, between, real, arc_types(graphs) is not None, constants)
        orders.of_graphs()
        for slot in self._slots(shape):
            orders.of_stage(slot)
        return fields.packed(only)

    def _slots(self, shape: Shape) -> list[int]:
        """The last slots of the stages; by the shape, since another sample of the same bag may have fewer."""
        ends = list(accumulate(shape.rows))
        return sorted({slot_of_layer(ends, t) for t in range(1, self._num_layers + 1)})


def _starts(number: Tensor) -> Tensor:
    """Where those of each graph begin."""
    return number.cumsum(1) - number


def _real(number: Tensor) -> Tensor:
    """The counts, none for the filler."""
    return torch.cat([number[:, :-1], torch.zeros_like(number[:, -1:])], 1)


@dataclass(eq=False)
class _Known:
    """Plans, by shape, networks and fields, and what they gather from, which all of them share.

    Attributes:
        shape: that what they gather from was made for.
        keeper: of the numbers.
        plans: the plans.
        made: what they gather from, field by field.
    """

    shape: Shape
    keeper: Keeper
    plans: dict[tuple[Shape, int, frozenset[str] | None], Plan] = field(default_factory=dict)
    made: dict[str, Gathered] = field(default_factory=dict)

    def lacking(self, makers: Makers, stage: str, only: Collection[str] | None) -> dict[str, Gathered]:
        """Those fields that are wanted and not made yet, made."""
        names = {name: stage + name for name in makers if only is None or stage + name in only}
        return {full: makers[name]() for name, full in names.items() if full not in self.made}
