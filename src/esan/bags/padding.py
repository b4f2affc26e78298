"""Batches of one fixed shape: filled up with a filler graph that weighs nothing, many laid out at once."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from esan import ragged
from esan.bags.bag import Bag

#: Starts of fields are multiples of this many numbers, so that vector loads are aligned.
_ALIGNED = 16


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
        used = self._table.any(1)
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
    """

    def __init__(self, counts: Tensor, room: tuple[int, ...], ids: Tensor, there: Tensor) -> None:
        batches, graphs = ids.shape
        self.size, self.room = sum(room), room
        number = (counts[:, ids] * there).transpose(0, 1)  # [K, slots, B]
        capacity = torch.tensor(room, device=ids.device)
        rest = capacity - number.sum(2)
        full = torch.cat([number, rest[:, :, None]], 2)
        flat = full.reshape(-1)
        segment = torch.repeat_interleave(flat, output_size=batches * self.size)
        begin = ragged.starts(flat)
        old = ragged.starts(counts)[:, ids].transpose(0, 1)
        old = torch.cat([old, torch.zeros_like(rest)[:, :, None]], 2)
        place = torch.arange(batches * self.size, device=ids.device)
        in_batch = graphs + 1
        self.filler = (segment % in_batch == graphs).reshape(batches, self.size)
        self.graph = (segment % in_batch).reshape(batches, self.size)
        self.line = (old.reshape(-1)[segment] + place - begin[segment]).reshape(batches, self.size)
        self.line = self.line.masked_fill(self.filler, 0)
        #: Lines of each slot and graph, the filler last, `[K, slots, B + 1]`.
        self.number = full
        first = torch.arange(batches, device=ids.device)[:, None, None] * self.size
        #: A number of the dataset becomes the number in the batch when this is added, `[K, slots, B + 1]`.
        self.shift = begin.reshape(full.shape) - first - old

    def take(self, values: Tensor, filler: float | int | Tensor = 0) -> Tensor:
        """Values of the dataset, a line each, as lines of the batches."""
        got = values.index_select(0, self.line.reshape(-1)).reshape(*self.line.shape, *values.shape[1:])
        mask = self.filler.reshape(*self.filler.shape, *[1] * (values.dim() - 1))
        return torch.where(mask, filler, got) if isinstance(filler, Tensor) else got.masked_fill(mask, filler)

    def refer(self, values: Tensor, to: "_Layout", filler: int | Tensor, slot: Tensor | None = None) -> Tensor:
        """Values that are numbers of lines of another layout, renumbered; `slot` says which of its slots each is in."""
        place = self.graph if slot is None else self.take(slot) * to.number.size(2) + self.graph
        shift = to.shift.reshape(to.shift.size(0), -1).gather(1, place)
        got = values.index_select(0, self.line.reshape(-1)).reshape(self.line.shape) + shift
        return torch.where(self.filler, filler, got)


class Padder:
    """Lays batches of a bag out in a fixed shape, on the bag's device, and never waits for it.

    Args:
        bag: the bag of the dataset.
        num_layers: the layers of the network, and how far ahead it looks; it says which stages are needed.
    """

    def __init__(self, bag: Bag, num_layers: int) -> None:
        self.bag = bag
        self.counts = Counts(bag)
        rows = bag.rows
        ends = torch.tensor(rows.row_ends, device=bag.device)
        self._source_slot = torch.bucketize(rows.source, ends, right=True)
        arc_ends = torch.tensor(rows.arc_ends, device=bag.device)
        every = torch.arange(rows.source.numel(), device=bag.device)
        self._arc_slot = torch.bucketize(every, arc_ends, right=True)
        self._held = bag.selection.holders(bag.graphs)[bag.graphs.arc_edge].float()
        self.slots = sorted({rows.slot_of_layer(t) for t in range(1, num_layers + 1)})

    def lay_out(self, ids: Tensor, shape: Shape) -> "Batches":
        """The batches `ids`, `[K, B]`, −1 for no graph; they must fit the shape."""
        there = ids >= 0
        ids = ids.clamp(min=0)
        graphs, selection, rows = self.bag.graphs, self.bag.selection, self.bag.rows
        nodes = _Layout(graphs.num_nodes[None], (shape.nodes,), ids, there)
        arcs = _Layout(graphs.num_arcs[None], (shape.arcs,), ids, there)
        subgraphs = _Layout(selection.num_subgraphs[None], (shape.subgraphs,), ids, there)
        in_rows = _Layout(rows.num_rows, shape.rows, ids, there)
        pairs = _Layout(rows.num_rows[1:], shape.rows[1:], ids, there)
        row_arcs = _Layout(rows.num_arcs, shape.row_arcs, ids, there)
        # Each slot's filler arcs are loops at the last row of that slot.
        last_row = torch.tensor(shape.rows, device=ids.device).cumsum(0) - 1
        loop = last_row.repeat_interleave(torch.tensor(shape.row_arcs, device=ids.device), output_size=row_arcs.size)
        fields = {
            "num_nodes": nodes.number[:, 0],
            "num_subgraphs": subgraphs.number[:, 0].clamp(min=1),
            "node_graph": nodes.graph,
            "subgraph_graph": subgraphs.graph,
            "edge_source": arcs.refer(graphs.edge_index[0], nodes, shape.nodes - 1),
            "edge_target": arcs.refer(graphs.edge_index[1], nodes, shape.nodes - 1),
            "held": arcs.take(self._held),
            "node": pairs.refer(rows.node, nodes, shape.nodes - 1),
            "subgraph": pairs.refer(rows.subgraph, subgraphs, shape.subgraphs - 1),
            "marked": pairs.take(rows.marked).long(),
            "source": row_arcs.refer(rows.source, in_rows, loop, self._source_slot),
            "target": row_arcs.refer(rows.target, in_rows, loop, self._arc_slot),
            "arc": row_arcs.refer(rows.arc, arcs, shape.arcs - 1),
            "real_nodes": _real(nodes.number[:, 0]),
            "real_subgraphs": _real(subgraphs.number[:, 0]),
            "graph_weight": torch.cat([there, torch.zeros_like(there[:, :1])], 1).float(),
            "node_weight": (~nodes.filler).float(),
        }
        if graphs.x is not None:
            fields["x"] = nodes.take(graphs.x)
        if graphs.edge_attr is not None:
            fields["edge_attr"] = arcs.take(graphs.edge_attr)
        if graphs.y is not None:
            absent = ~there.reshape(*there.shape, *[1] * (graphs.y.dim() - 1))
            fields["y"] = graphs.y[ids].masked_fill(absent, 0)
        grouped = _Groupings(fields, shape, pairs.filler, nodes.number, subgraphs.number)
        fields |= grouped.of_graphs()
        for slot in self.slots:
            fields |= grouped.of_stage(slot)
        return Batches.packed(fields)


def _real(number: Tensor) -> Tensor:
    """The counts, none for the filler."""
    return torch.cat([number[:, :-1], torch.zeros_like(number[:, -1:])], 1)


class _Groupings:
    """The orders in which layers sum: rows by node and subgraph, arcs by source and copy; filler counts as nothing."""

    def __init__(
        self, fields: dict[str, Tensor], shape: Shape, filler: Tensor, nodes: Tensor, subgraphs: Tensor
    ) -> None:
        self._fields, self._shape, self._filler = fields, shape, filler
        self._m = _real(subgraphs[:, 0]).gather(1, fields["node_graph"])
        self._batches = nodes.size(0)

    def of_graphs(self) -> dict[str, Tensor]:
        """The arcs of the graphs by their target (as they are) and by their source."""
        f, n = self._fields, self._shape.nodes
        into = self._counts(f["edge_target"], n)
        out = self._sorted("graph.out", f["edge_source"], n)
        order = out["graph.out.order"]
        return {
            "graph.into.first": ragged_starts(into),
            "graph.into.count": self._no_filler(into, n),
            "graph.out.target": f["edge_target"].gather(1, order),
            **out,
        }

    def of_stage(self, slot: int) -> dict[str, Tensor]:
        """What the stage of the rows up to that slot needs."""
        shape, f = self._shape, self._fields
        rows, arcs = sum(shape.rows[: slot + 1]), sum(shape.row_arcs[: slot + 1])
        background, stored = shape.rows[0], rows - shape.rows[0]
        name = f"stage{slot}"
        node, subgraph, filler = f["node"][:, :stored], f["subgraph"][:, :stored], self._filler[:, :stored]
        target, arc, source = f["target"][:, :arcs], f["arc"][:, :arcs], f["source"][:, :arcs]
        source = torch.where(source < rows, source, f["edge_source"].gather(1, arc))
        row_node = node
        pair_weight = (~filler).float()
        if background:
            every = torch.arange(background, device=node.device).expand(self._batches, -1)
            row_node = torch.cat([every, node], 1)
            mine = torch.zeros_like(self._m).scatter_add_(1, node, (~filler).long())
            pair_weight = torch.cat([(self._m - mine).float() * f["node_weight"], pair_weight], 1)
        last = torch.tensor(shape.rows[: slot + 1], device=node.device).cumsum(0) - 1
        into = self._counts(target, rows)
        fields = {
            f"{name}.node": row_node,
            f"{name}.weight": pair_weight,
            f"{name}.mean": pair_weight / self._m.clamp(min=1).gather(1, row_node),
            f"{name}.source": source,
            f"{name}.into.first": ragged_starts(into),
            f"{name}.into.count": into.index_fill(1, last, 0),
            **self._sorted(f"{name}.out", source, rows, last),
            **self._sorted(f"{name}.copies", arc, shape.arcs),
            **self._sorted(f"{name}.by_node", row_node, shape.nodes),
            **self._sorted(f"{name}.by_subgraph", subgraph, shape.subgraphs),
        }
        out, copies = fields[f"{name}.out.order"], fields[f"{name}.copies.order"]
        fields[f"{name}.out.target"], fields[f"{name}.out.arc"] = target.gather(1, out), arc.gather(1, out)
        fields[f"{name}.copies.source"] = source.gather(1, copies)
        fields[f"{name}.copies.target"] = target.gather(1, copies)
        if background:
            fields |= self._sorted(f"{name}.stored_by_node", node, background)
        return fields

    def _sorted(self, name: str, owner: Tensor, size: int, last: Tensor | None = None) -> dict[str, Tensor]:
        """Lines group by group; the groups `last` (the last one if None) are the filler's."""
        batches, lines = owner.shape
        offset = torch.arange(batches, device=owner.device)[:, None]
        # All batches in one sort, of short numbers: each of their digits is a pass.
        key = (owner + offset * size).reshape(-1).to(torch.int32 if batches * size < 2**31 else torch.int64)
        order = torch.sort(key, stable=True).indices.reshape(batches, lines) - offset * lines
        count = self._counts(owner, size)
        kept = self._no_filler(count, size) if last is None else count.index_fill(1, last, 0)
        return {f"{name}.order": order, f"{name}.first": ragged_starts(count), f"{name}.count": kept}

    def _counts(self, owner: Tensor, size: int) -> Tensor:
        return owner.new_zeros(self._batches, size).scatter_add_(1, owner, torch.ones_like(owner))

    def _no_filler(self, count: Tensor, size: int) -> Tensor:
        return count.index_fill(1, torch.tensor([size - 1], device=count.device), 0)


def ragged_starts(count: Tensor) -> Tensor:
    """Where each group begins, batch by batch."""
    return count.cumsum(1) - count


@dataclass(frozen=True, eq=False)
class Field:
    """Where a field lies in a line of numbers."""

    begin: int
    shape: tuple[int, ...]
    dtype: torch.dtype

    @cached_property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class Batches:
    """Padded batches: a line of whole numbers and a line of fractions each, and where the fields lie in them."""

    ints: Tensor
    floats: Tensor
    fields: dict[str, Field]

    @staticmethod
    def packed(tensors: dict[str, Tensor]) -> "Batches":
        fields, parts = {}, {torch.int64: [], torch.float32: []}  # type: ignore[var-annotated]
        ends = {torch.int64: 0, torch.float32: 0}
        for name, tensor in tensors.items():
            kind = torch.float32 if tensor.is_floating_point() else torch.int64
            flat = tensor.reshape(tensor.size(0), -1).to(kind)
            gap = -flat.size(1) % _ALIGNED
            fields[name] = Field(ends[kind], tuple(tensor.shape[1:]), kind)
            parts[kind].append(torch.nn.functional.pad(flat, (0, gap)))
            ends[kind] += flat.size(1) + gap
        return Batches(torch.cat(parts[torch.int64], 1), torch.cat(parts[torch.float32], 1), fields)

    def __len__(self) -> int:
        return self.ints.size(0)

    def views(self, ints: Tensor, floats: Tensor) -> dict[str, Tensor]:
        """The fields of one batch, as views of its two lines."""
        lines = {torch.int64: ints, torch.float32: floats}
        return {
            name: lines[field.dtype].narrow(0, field.begin, field.size).view(field.shape)
            for name, field in self.fields.items()
        }
