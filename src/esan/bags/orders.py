"""The orders in which layers sum over padded batches: rows by node and subgraph, arcs by source and by copy."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from esan.bags.packing import Fields

if TYPE_CHECKING:
    from esan.bags.padding import Shape


class Constants:
    """Short lists of numbers on the device, sent there once: sending waits for all that the device has to do."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._known: dict[tuple[int, ...], Tensor] = {}

    def of(self, *numbers: int) -> Tensor:
        if numbers not in self._known:
            self._known[numbers] = torch.tensor(numbers, device=self._device)
        return self._known[numbers]


@dataclass(frozen=True, eq=False)
class RowArcs:
    """The arcs between rows of each batch, `[batches, arcs]`: source row, target row, arc of the graph."""

    source: Tensor
    target: Tensor
    arc: Tensor


@dataclass(frozen=True, eq=False)
class StoredPairs:
    """The stored pairs of each batch, `[batches, pairs]`, and which of them are filler."""

    node: Tensor
    subgraph: Tensor
    marked: Tensor
    filler: Tensor


class Orders:
    """Adds to the fields of batches what the layers' sums need; the filler counts as nothing in them.

    Args:
        fields: what is known of the batches, and what is added to.
        shape: of a batch of one network, an `esan.bags.padding.Shape`.
        pairs: the stored pairs.
        arcs: the arcs between rows.
        constants: of the device.
    """

    def __init__(self, fields: Fields, shape: "Shape", pairs: StoredPairs, arcs: RowArcs, constants: Constants) -> None:
        self._fields, self._shape, self._pairs, self._arcs, self._constants = fields, shape, pairs, arcs, constants
        known = fields.tensors
        self._m = known["real_subgraphs"].gather(1, known["node_graph"])
        self._batches = pairs.node.size(0)

    def of_graphs(self) -> None:
        """The arcs of the graphs by their target (as they are) and by their source."""
        known, shape = self._fields.tensors, self._shape
        self._into("graph.into", known["edge_target"], shape.nodes, None, shape.arcs)
        order = self._sorted("graph.out", known["edge_source"], shape.nodes, shape.arcs)
        self._fields.add("graph.out.target", known["edge_target"].gather(1, order), shape.nodes)

    def of_stage(self, slot: int) -> None:
        """What the stage of the rows up to that slot needs."""
        shape, add = self._shape, self._fields.add
        rows, arcs = sum(shape.rows[: slot + 1]), sum(shape.row_arcs[: slot + 1])
        background = shape.rows[0]
        stored = rows - background
        name = f"stage{slot}"
        last = self._constants.of(*shape.rows[: slot + 1]).cumsum(0) - 1

        node, subgraph = self._pairs.node[:, :stored], self._pairs.subgraph[:, :stored]
        row_node, weight, marked = self._rows(stored)
        add(f"{name}.node", row_node, shape.nodes)
        add(f"{name}.stored_subgraph", subgraph, shape.subgraphs)
        add(f"{name}.marked", marked.long())
        add(f"{name}.weight", weight)
        add(f"{name}.mean", weight / self._m.clamp(min=1).gather(1, row_node))
        self._sorted(f"{name}.by_node", row_node, shape.nodes, rows)
        by_subgraph = self._sorted(f"{name}.by_subgraph", subgraph, shape.subgraphs, stored)
        if background:
            self._backgrounds(name, node, subgraph, by_subgraph)

        source, target, arc = (t[:, :arcs] for t in (self._arcs.source, self._arcs.target, self._arcs.arc))
        # A pair that is not of this stage still equals its background.
        source = torch.where(source < rows, source, self._fields.tensors["edge_source"].gather(1, arc))
        add(f"{name}.source", source, rows)
        add(f"{name}.target", target, rows)
        add(f"{name}.arc", arc, shape.arcs)
        self._into(f"{name}.into", target, rows, last, arcs)
        out = self._sorted(f"{name}.out", source, rows, arcs, last)
        add(f"{name}.out.target", target.gather(1, out), rows)
        add(f"{name}.out.arc", arc.gather(1, out), shape.arcs)
        copies = self._sorted(f"{name}.copies", arc, shape.arcs, arcs)
        add(f"{name}.copies.source", source.gather(1, copies), rows)
        add(f"{name}.copies.target", target.gather(1, copies), rows)

    def _rows(self, stored: int) -> tuple[Tensor, Tensor, Tensor]:
        """The node and the weight of each row, and whether it is marked."""
        pairs, background = self._pairs, self._shape.rows[0]
        node, filler, marked = pairs.node[:, :stored], pairs.filler[:, :stored], pairs.marked[:, :stored]
        weight = (~filler).float()
        if not background:
            return node, weight, marked
        every = torch.arange(background, device=node.device).expand(self._batches, -1)
        mine = torch.zeros_like(self._m).scatter_add_(1, node, (~filler).long())
        alike = (self._m - mine).float() * self._fields.tensors["node_weight"]
        unmarked = marked.new_zeros(()).expand(self._batches, background)
        return torch.cat([every, node], 1), torch.cat([alike, weight], 1), torch.cat([unmarked, marked], 1)

    def _backgrounds(self, name: str, node: Tensor, subgraph: Tensor, by_subgraph: Tensor) -> None:
        """How stored rows and background rows make the pool over nodes."""
        shape, add = self._shape, self._fields.add
        background, stored = shape.rows[0], node.size(1)
        known = self._fields.tensors
        order = self._sorted(f"{name}.stored_by_node", node, background, stored)
        add(f"{name}.subgraph_of_stored", subgraph.gather(1, order), shape.subgraphs)
        row = torch.stack([by_subgraph + background, node.gather(1, by_subgraph)], 2)
        add(f"{name}.differences", row.reshape(self._batches, -1), background + stored)
        add(f"{name}.differences.first", 2 * known[f"{name}.by_subgraph.first"], 2 * stored)
        add(f"{name}.differences.count", 2 * known[f"{name}.by_subgraph.count"])
        sign = 1.0 - 2.0 * (torch.arange(2 * stored, device=node.device) % 2)
        add(f"{name}.differences.sign", sign.expand(self._batches, -1))
        into = torch.cat([known["node_graph"] + shape.subgraphs, subgraph], 1)
        add(f"{name}.pooled_into", into, shape.subgraphs + shape.graphs + 1)
        every = torch.arange(background, device=node.device).expand(self._batches, -1)
        add(f"{name}.background", every, background + stored)

    def _sorted(self, name: str, owner: Tensor, size: int, lines: int, last: Tensor | None = None) -> Tensor:
        """Lines group by group; the groups `last` (the last one if None) are the filler's."""
        offset = torch.arange(self._batches, device=owner.device)[:, None]
        # All batches in one sort, of short numbers: each of their digits is a pass.
        key = (owner + offset * size).reshape(-1).to(torch.int32 if self._batches * size < 2**31 else torch.int64)
        order = torch.sort(key, stable=True).indices.reshape(owner.shape) - offset * lines
        self._fields.add(f"{name}.order", order, lines)
        self._into(name, owner, size, last, lines)
        return order

    def _into(self, name: str, owner: Tensor, size: int, last: Tensor | None, lines: int) -> None:
        """Where the lines of each group begin, and how many they are."""
        count = owner.new_zeros(self._batches, size).scatter_add_(1, owner, torch.ones_like(owner))
        self._fields.add(f"{name}.first", count.cumsum(1) - count, lines)
        filler = self._constants.of(size - 1) if last is None else last
        self._fields.add(f"{name}.count", count.index_fill(1, filler, 0))
