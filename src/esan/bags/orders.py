"""The orders in which layers sum over padded batches: rows by node and subgraph, arcs by source and by copy."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from esan.bags.packing import Fields

if TYPE_CHECKING:
    from esan.bags.shapes import Shape


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
        shape: of a batch of one network, an `esan.bags.shapes.Shape`.
        pairs: the stored pairs.
        arcs: the arcs between rows.
        real_counts: how many rows of each slot are not filler, `[batches, slots]`.
        typed: whether all that arcs have is a type.
        constants: of the device.
    """

    def __init__(
        self, fields: Fields, shape: "Shape", pairs: StoredPairs, arcs: RowArcs, real_counts: Tensor, typed: bool,
        constants: Constants,
    ) -> None:  # fmt: skip
        self._fields, self._shape, self._pairs, self._arcs, self._constants = fields, shape, pairs, arcs, constants
        self._real_counts, self._typed, self._batches = real_counts, typed, pairs.filler.size(0)

    @cached_property
    def _m(self) -> Tensor:
        """How many subgraphs the graph of each node has; none, for the filler."""
        return self._fields["subgraphs.count"].gather(1, self._fields["node_graph"])

    def of_graphs(self) -> None:
        """The arcs of the graphs by their target (as they are) and by their source."""
        f, shape = self._fields, self._shape
        self._counted("graph.into", lambda: f["edge_target"], shape.nodes, None, shape.arcs)
        self._sorted("graph.out", lambda: f["edge_source"], shape.nodes, shape.arcs)
        f.add("graph.out.target", lambda: f["edge_target"].gather(1, f["graph.out.order"]), shape.nodes)
        if self._typed:
            f.add("graph.out.type", lambda: self._types("graph.out.order"))

    def of_stage(self, slot: int) -> None:
        """What the stage of the rows up to that slot needs."""
        shape, f = self._shape, self._fields
        rows, arcs = sum(shape.rows[: slot + 1]), sum(shape.row_arcs[: slot + 1])
        stored = rows - shape.rows[0]
        name = f"stage{slot}"
        last = self._constants.of(*shape.rows[: slot + 1]).cumsum(0) - 1
        pairs, between = self._pairs, self._arcs

        f.add(f"{name}.node", lambda: self._with_background(pairs.node[:, :stored]), shape.nodes)
        f.add(f"{name}.stored_subgraph", lambda: pairs.subgraph[:, :stored], shape.subgraphs)
        f.add(f"{name}.marked", lambda: self._unmarked_background(pairs.marked[:, :stored]).long())
        f.add(f"{name}.weight", lambda: self._weight(stored))
        f.add(f"{name}.mean", lambda: f[f"{name}.weight"] / self._m.clamp(min=1).gather(1, f[f"{name}.node"]))
        # The background row of a filler node is filler too.
        self._sorted(
            f"{name}.by_node", lambda: f[f"{name}.node"], shape.nodes, rows, there=lambda: f["node_weight"].long()
        )
        self._sorted(f"{name}.by_subgraph", lambda: f[f"{name}.stored_subgraph"], shape.subgraphs, stored)
        if shape.rows[0]:
            self._backgrounds(name, stored)

        f.add(f"{name}.real", lambda: self._ranges(slot))
        f.add(f"{name}.source", lambda: self._source(rows, arcs), rows)
        f.add(f"{name}.target", lambda: between.target[:, :arcs], rows)
        f.add(f"{name}.arc", lambda: between.arc[:, :arcs], shape.arcs)
        self._counted(f"{name}.into", lambda: f[f"{name}.target"], rows, last, arcs)
        self._sorted(f"{name}.out", lambda: f[f"{name}.source"], rows, arcs, last)
        self._sorted(f"{name}.copies", lambda: f[f"{name}.arc"], shape.arcs, arcs)
        for order, what, size in (("out", "target", rows), ("out", "arc", shape.arcs)):
            self._reordered(name, order, what, size)
        for what in ("source", "target"):
            self._reordered(name, "copies", what, rows)
        if self._typed:
            f.add(f"{name}.type", lambda: self._types(f"{name}.arc"))
            f.add(f"{name}.out.type", lambda: self._types(f"{name}.out.arc"))

    def _types(self, arc: str) -> Tensor:
        """The types of these arcs of the graphs."""
        return self._fields["edge_attr"].reshape(self._batches, -1).gather(1, self._fields[arc])

    def _ranges(self, slot: int) -> Tensor:
        """Where the rows of each slot that has room begin, and where its filler does."""
        room = self._shape.rows[: slot + 1]
        used = [i for i, n in enumerate(room) if n]
        begin = self._constants.of(*(sum(room[:i]) for i in used)).expand(self._batches, -1)
        return torch.stack([begin, begin + self._real_counts[:, used]], 2).reshape(self._batches, -1)

    def _source(self, rows: int, arcs: int) -> Tensor:
        """The source of each arc; a pair that is not of this stage still equals its background."""
        source, arc = self._arcs.source[:, :arcs], self._arcs.arc[:, :arcs]
        return torch.where(source < rows, source, self._fields["edge_source"].gather(1, arc))

    def _reordered(self, name: str, order: str, what: str, size: int) -> None:
        f = self._fields
        f.add(f"{name}.{order}.{what}", lambda: f[f"{name}.{what}"].gather(1, f[f"{name}.{order}.order"]), size)

    def _with_background(self, node: Tensor) -> Tensor:
        background = self._shape.rows[0]
        every = torch.arange(background, device=node.device).expand(self._batches, -1)
        return torch.cat([every, node], 1) if background else node

    def _unmarked_background(self, marked: Tensor) -> Tensor:
        unmarked = marked.new_zeros(()).expand(self._batches, self._shape.rows[0])
        return torch.cat([unmarked, marked], 1)

    def _weight(self, stored: int) -> Tensor:
        """How many pairs each row stands for."""
        node, own = self._pairs.node[:, :stored], ~self._pairs.filler[:, :stored]
        if not self._shape.rows[0]:
            return own.float()
        mine = torch.zeros_like(self._m).scatter_add_(1, node, own.long())
        alike = (self._m - mine).float() * self._fields["node_weight"]
        return torch.cat([alike, own.float()], 1)

    def _backgrounds(self, name: str, stored: int) -> None:
        """How stored rows and background rows make the pool over nodes."""
        shape, f, pairs = self._shape, self._fields, self._pairs
        background = shape.rows[0]
        at, by = f"{name}.differences", f"{name}.by_subgraph"

        def node() -> Tensor:
            return pairs.node[:, :stored]

        def differences() -> Tensor:
            order = f[f"{by}.order"]
            return torch.stack([order + background, node().gather(1, order)], 2).reshape(self._batches, -1)

        def sign() -> Tensor:
            one = 1.0 - 2.0 * (torch.arange(2 * stored, device=pairs.node.device) % 2)
            return one.expand(self._batches, -1)

        def every() -> Tensor:
            return torch.arange(background, device=pairs.node.device).expand(self._batches, -1)

        def into() -> Tensor:
            return torch.cat([f["node_graph"] + shape.subgraphs, f[f"{name}.stored_subgraph"]], 1)

        self._sorted(f"{name}.stored_by_node", node, background, stored)
        self._reordered_subgraphs(name)
        f.add(at, differences, background + stored)
        f.add(f"{at}.first", lambda: 2 * f[f"{by}.first"], 2 * stored)
        f.add(f"{at}.count", lambda: 2 * f[f"{by}.count"])
        f.add(f"{at}.sign", sign)
        f.add(f"{name}.pooled_into", into, shape.subgraphs + shape.graphs + 1)
        f.add(f"{name}.background", every, background + stored)

    def _reordered_subgraphs(self, name: str) -> None:
        f, order = self._fields, f"{name}.stored_by_node.order"
        subgraph = f"{name}.stored_subgraph"
        f.add(f"{name}.subgraph_of_stored", lambda: f[subgraph].gather(1, f[order]), self._shape.subgraphs)

    def _sorted(
        self, name: str, owner: Callable[[], Tensor], size: int, lines: int, last: Tensor | None = None,
        there: Callable[[], Tensor] | None = None,
    ) -> None:  # fmt: skip
        """Lines group by group; the groups `last` (the last one if None) are the filler's, or where `there` is 0."""

        def order() -> Tensor:
            offset = torch.arange(self._batches, device=owner().device)[:, None]
            # All batches in one sort, of short numbers: each of their digits is a pass.
            short = self._batches * size < 2**31
            key = (owner() + offset * size).reshape(-1).to(torch.int32 if short else torch.int64)
            return torch.sort(key, stable=True).indices.reshape(self._batches, lines) - offset * lines

        self._fields.add(f"{name}.order", order, lines)
        self._counted(name, owner, size, last, lines, there)

    def _counted(
        self, name: str, owner: Callable[[], Tensor], size: int, last: Tensor | None, lines: int,
        there: Callable[[], Tensor] | None = None,
    ) -> None:  # fmt: skip
        """Where the lines of each group begin, and how many they are."""
        f = self._fields
        filler = self._constants.of(size - 1) if last is None else last

        @cache
        def count() -> Tensor:
            return owner().new_zeros(self._batches, size).scatter_add_(1, owner(), torch.ones_like(owner()))

        f.add(f"{name}.first", lambda: count().cumsum(1) - count(), lines)
        f.add(f"{name}.count", lambda: count() * there() if there else count().index_fill(1, filler, 0))
