"""The fields of a stage of padded batches, gathered from the dataset."""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from esan.bags.lines import Filler, Lines, Order
from esan.bags.pieces import Filled, Gathered, Piece, bits
from esan.bags.sources import Makers, Sources, arc_types
from esan.bags.stage_lines import StageLines

if TYPE_CHECKING:
    from esan.bags.shapes import Shape


class StageSources:
    """What the stage of the rows up to a slot is gathered from.

    Args:
        sources: of the bag.
        shape: of a batch of one network.
        slot: the last slot.
    """

    def __init__(self, sources: Sources, shape: "Shape", slot: int) -> None:
        self._of, self._stage, self._shape = sources, StageLines(sources, slot), shape
        self._rows, self._arcs = sum(shape.rows[: slot + 1]), sum(shape.row_arcs[: slot + 1])
        self._background = shape.rows[0]
        self._stored = self._rows - self._background
        self._slots = range(slot + 1)
        # Each slot's filler arcs are loops at the last row of that slot.
        self._loops = [Filled(end - 1) for end in accumulate(shape.rows[: slot + 1])]

    def fields(self) -> Makers:
        """By their names, without that of the stage."""
        of, stage, shape = self._of, self._stage, self._shape
        rows, arcs, nodes = self._rows, self._arcs, shape.nodes
        found: Makers = {
            "node": lambda: Gathered([*self._nodes(), self._pairs(of.nodes, of.pair_node)], nodes),
            "stored_subgraph": lambda: Gathered([self._pairs(of.subgraphs, of.pair_subgraph).at(0)], shape.subgraphs),
            "marked": self._marked,
            "weight": lambda: self._fractions(lambda: stage.weight, of.one),
            "mean": lambda: self._fractions(lambda: stage.mean, of.pair_mean),
            "source": lambda: self._between(of.rows, of.refer(of.rows, stage.source), self._loops, rows),
            "target": lambda: self._between(of.rows, of.target, self._loops, rows),
            "arc": lambda: self._between(of.arcs, of.arc, self._last_arc, shape.arcs),
            "into.first": lambda: self._of_rows(of.into_rows[0], of.row_arcs),
            "into.count": lambda: self._of_rows(of.into_rows[1]),
            "real": self._real,
        }
        # What takes the same order goes together: orders are large, and only one is kept.
        one = nodes, of.nodes
        # A filler node has a background row, which is a line of it.
        alone = 1 if self._background else 0
        found |= self._grouped(
            "by_node", lambda: stage.by_node, lambda: stage.rows_by_graph, of.rows, rows, *one, alone
        )
        found |= self._grouped(
            "copies", lambda: stage.copies, lambda: stage.arcs_by_graph, of.row_arcs, arcs, shape.arcs, of.arcs
        )
        found["copies.source"] = lambda: self._by_copy(of.rows, of.refer(of.rows, stage.source), self._loops, rows)
        found["copies.target"] = lambda: self._by_copy(of.rows, of.target, self._loops, rows)
        row = rows, of.rows
        found |= self._grouped("out", lambda: stage.out, lambda: stage.arcs_by_source, of.row_arcs, arcs, *row)
        found["out.target"] = lambda: self._by_source(of.rows, of.target, self._loops, rows)
        found["out.arc"] = lambda: self._by_source(of.arcs, of.arc, self._last_arc, shape.arcs)
        if arc_types(of.bag.graphs) is not None:
            found["type"] = lambda: self._typed(of.row_arcs, of.row_types)
            found["out.type"] = lambda: self._typed(stage.arcs_by_source, of.row_types.index_select(0, stage.out.order))
        by_subgraph = self._grouped(
            "by_subgraph", lambda: stage.by_subgraph, lambda: stage.pairs_by_graph, of.pairs, self._stored,
            shape.subgraphs, of.subgraphs,
        )  # fmt: skip
        found |= by_subgraph
        if self._background:
            found |= self._backgrounds(by_subgraph["by_subgraph.first"], by_subgraph["by_subgraph.count"])
            found |= self._grouped(
                "stored_by_node", lambda: stage.stored_by_node, lambda: stage.pairs_by_graph, of.pairs, self._stored,
                *one,
            )  # fmt: skip
            found["subgraph_of_stored"] = self._subgraph_of_stored
        return found

    @property
    def _last_arc(self) -> list[Filled]:
        return [Filled(self._shape.arcs - 1) for _ in self._slots]

    @property
    def _nothing(self) -> list[Filled]:
        return [Filled() for _ in self._slots]

    def _real(self) -> Gathered:
        """Where the rows of each slot that has room begin, and where its filler does."""
        of, room = self._of, self._shape.rows
        slots = [slot for slot in self._slots if room[slot]]
        # Lines that no graph has: a filler line a slot.
        lines = Lines(of.rows.counts.new_zeros(len(slots), of.rows.counts.size(1)), 0, lambda _: (1,) * len(slots))
        begin = [Filled(sum(room[:slot])) for slot in slots]
        end = [Filled(begin=Filler(of.rows, slot)) for slot in slots]
        pieces = [Piece(lines, len(slots), of.zero, fill).at(at, 2) for at, fill in enumerate((begin, end))]
        return Gathered(pieces)

    def _nodes(self) -> list[Piece]:
        """Every node itself; nothing in a literal bag."""
        nodes, own = self._of.nodes, [Filled(begin=Filler(self._of.nodes, 0), apart=1)]
        return [Piece(nodes, self._background, self._of.refer(nodes), own, nodes)] if self._background else []

    def _pairs(self, to: Lines, code: Tensor) -> Piece:
        """What each stored pair refers to, behind the background; fillers refer to the last."""
        last = {self._of.nodes: self._shape.nodes, self._of.subgraphs: self._shape.subgraphs}[to] - 1
        fill = [Filled(last) for _ in self._slots]
        return Piece(self._of.pairs, self._stored, code, fill, to, offset=self._background)

    def _marked(self) -> Gathered:
        stored = Piece(self._of.pairs, self._stored, self._of.pair_marked, self._nothing, offset=self._background)
        background = Piece(self._of.nodes, self._background, self._of.zero, self._nothing)
        return Gathered([background, stored])

    def _fractions(self, background: Callable[[], Tensor], stored: Tensor) -> Gathered:
        """Fractions of background rows, if there are any, and those of stored ones, as their bits."""
        behind = Piece(self._of.pairs, self._stored, stored, self._nothing, offset=self._background)
        if not self._background:
            return Gathered([behind], fraction=True)
        first = Piece(self._of.nodes, self._background, bits(background()), self._nothing)
        return Gathered([first, behind], fraction=True)

    def _of_rows(self, values: Tensor, to: Lines | None = None) -> Gathered:
        """Where the arcs into each row begin, or how many they are; arcs are in this order as they are."""
        begin = [Filled() if to is None else Filled(begin=Filler(to, slot)) for slot in self._slots]
        piece = Piece(self._of.rows, self._rows, values, begin, to)
        return Gathered([piece], 0 if to is None else self._arcs)

    def _between(
        self, to: Lines, code: Tensor, fill: Sequence[Filled], step: int, lines: Lines | None = None
    ) -> Gathered:
        return Gathered([Piece(lines or self._of.row_arcs, self._arcs, code, fill, to)], step)

    def _typed(self, lines: Lines, types: Tensor) -> Gathered:
        return Gathered([Piece(lines, self._arcs, types, self._nothing)])

    def _by_source(self, to: Lines, code: Tensor, fill: Sequence[Filled], step: int) -> Gathered:
        stage = self._stage
        return self._between(to, code.index_select(0, stage.out.order), fill, step, stage.arcs_by_source)

    def _by_copy(self, to: Lines, code: Tensor, fill: Sequence[Filled], step: int) -> Gathered:
        stage = self._stage
        return self._between(to, code.index_select(0, stage.copies.order), fill, step, stage.arcs_by_graph)

    def _grouped(
        self, name: str, order: Callable[[], Order], ordered: Callable[[], Lines], lines: Lines, count: int,
        owners: int, owner: Lines, alone: int = 0,
    ) -> Makers:  # fmt: skip
        """The order of lines by their owner, and where those of each owner begin.

        Args:
            name: of the order.
            order: that of the dataset.
            ordered: the lines in that order.
            lines: the lines as they are.
            count: how many lines a batch has.
            owners: how many owners a batch has.
            owner: the owners.
            alone: how many lines, none of which is counted, each owner of the filler has; what is left is the last
                one's.
        """

        def lines_in_order() -> Gathered:
            own = [Filled(begin=filler, apart=1) for block in ordered().fillers for filler in block]
            return Gathered([Piece(ordered(), count, self._of.refer(lines, order().order), own, lines)], count)

        def first() -> Gathered:
            into = ordered()
            fill = [Filled(begin=Filler(into, block), apart=alone) for block in range(into.blocks)]
            return Gathered([Piece(owner, owners, into.begins(order().first, owner), fill, into)], count)

        def number() -> Gathered:
            fill = [Filled() for _ in range(owner.blocks)]
            return Gathered([Piece(owner, owners, ordered().shortened(order().count), fill)])

        return {f"{name}.order": lines_in_order, f"{name}.first": first, f"{name}.count": number}

    def _backgrounds(self, first: Callable[[], Gathered], count: Callable[[], Gathered]) -> Makers:
        """How stored rows and background rows make the pool over nodes.

        Args:
            first: where the pairs of each subgraph begin.
            count: how many they are.
        """
        of, stage, shape = self._of, self._stage, self._shape
        background, rows = self._background, self._rows

        def differences() -> Gathered:
            ordered, order = stage.pairs_by_graph, stage.by_subgraph.order
            pairs = range(1, len(self._slots))
            own = [Filled(begin=Filler(of.rows, slot), apart=1) for slot in pairs]
            last = [Filled(shape.nodes - 1) for _ in pairs]
            # A background row is its node.
            stored = Piece(ordered, self._stored, of.refer(of.rows, order + of.bag.rows.background), own, of.rows)
            base = Piece(
                ordered, self._stored, of.refer(of.rows, stage.pair_node.index_select(0, order)), last, of.rows
            )
            return Gathered([stored.at(0, 2), base.at(1, 2)], rows)

        def sign() -> Gathered:
            one = [float_bits(value) for value in (1.0, -1.0)]
            values = torch.tensor(one, dtype=torch.int32).to(of.zero.device)
            pieces = [
                Piece(of.pairs, self._stored, values[at], [Filled(one[at])] * len(self._slots)).at(at, 2)
                for at in range(2)
            ]
            return Gathered(pieces, fraction=True)

        def pooled_into() -> Gathered:
            alike = [Filled(shape.subgraphs + shape.graphs)]
            base = Piece(of.nodes, background, of.zero, alike, of.graphs, plus=shape.subgraphs)
            return Gathered([base, self._pairs(of.subgraphs, of.pair_subgraph)], shape.subgraphs + shape.graphs + 1)

        def doubled(make: Callable[[], Gathered], step: int) -> Gathered:
            return Gathered([piece.doubled() for piece in make().pieces], step)

        return {
            "differences": differences,
            "differences.first": lambda: doubled(first, 2 * self._stored),
            "differences.count": lambda: doubled(count, 0),
            "differences.sign": sign,
            "pooled_into": pooled_into,
            "background": lambda: Gathered(self._nodes(), rows),
        }

    def _subgraph_of_stored(self) -> Gathered:
        of, stage, room = self._of, self._stage, self._shape.subgraphs
        last = [Filled(room - 1) for _ in self._slots]
        code = of.pair_subgraph.index_select(0, stage.stored_by_node.order)
        return Gathered([Piece(stage.pairs_by_graph, self._stored, code, last, of.subgraphs)], room)


def float_bits(value: float) -> int:
    return int(torch.tensor(value).view(torch.int32))
