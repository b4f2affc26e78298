"""`Sources`: the fields of padded batches as gathers from the dataset, whose orders are found once, not a batch."""

from collections.abc import Callable
from functools import cached_property, partial
from math import prod
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from esan.bags.bag import Bag
from esan.bags.lines import Filler, Lines, Order, counted
from esan.bags.pieces import Filled, Gathered, Piece, bits
from esan.graphs import Graphs
from esan.ops import ragged

if TYPE_CHECKING:
    from esan.bags.shapes import Shape

Makers = dict[str, Callable[[], Gathered]]


def held(bag: Bag) -> Tensor:
    """In how many subgraphs each arc of the graphs is."""
    return bag.selection.holders(bag.graphs)[bag.graphs.arc_edge].float()


def arc_types(graphs: Graphs) -> Tensor | None:
    """The type of each arc, where that is all of its features; None elsewhere."""
    types = graphs.edge_attr
    return None if types is None or types.is_floating_point() or prod(types.shape[1:]) != 1 else types.reshape(-1)


class Sources:
    """What batches of a bag are gathered from; what nobody asks for is never computed.

    Args:
        bag: of the dataset, or of some of its graphs.
    """

    def __init__(self, bag: Bag) -> None:
        graphs, selection, rows = bag.graphs, bag.selection, bag.rows
        self.bag = bag
        ones = torch.ones_like(graphs.num_nodes[None])
        self.graphs = Lines(ones, len(graphs), lambda s: (s.graphs + 1,), absent=1)
        self.nodes = Lines(graphs.num_nodes[None], graphs.node_graph.numel(), lambda s: (s.nodes,))
        self.arcs = Lines(graphs.num_arcs[None], graphs.edge_index.size(1), lambda s: (s.arcs,))
        subgraphs = selection.subgraph_graph.numel()
        self.subgraphs = Lines(selection.num_subgraphs[None], subgraphs, lambda s: (s.subgraphs,))
        self.rows = Lines(rows.num_rows, rows.background + rows.node.numel(), lambda s: s.rows)
        self.pairs = Lines(rows.num_rows[1:], rows.node.numel(), lambda s: s.rows[1:])
        self.row_arcs = Lines(rows.num_arcs, rows.arc.numel(), lambda s: s.row_arcs)
        self._codes: dict[Lines, Tensor] = {}

    def refer(self, lines: Lines, numbers: Tensor | None = None) -> Tensor:
        """References to the lines with these numbers, or to all of them in turn."""
        if lines not in self._codes:
            self._codes[lines] = lines.code()
        return self._codes[lines] if numbers is None else self._codes[lines].index_select(0, numbers)

    # What follows is the same in every stage, but for how much of it a stage has.

    @cached_property
    def pair_node(self) -> Tensor:
        return self.refer(self.nodes, self.bag.rows.node)

    @cached_property
    def pair_subgraph(self) -> Tensor:
        return self.refer(self.subgraphs, self.bag.rows.subgraph)

    @cached_property
    def pair_mean(self) -> Tensor:
        """The share of each stored pair among those of its node."""
        node = self.bag.rows.node
        return bits(torch.ones(node.numel(), device=node.device) / self.subgraphs_of_node.clamp(min=1)[node])

    @cached_property
    def pair_marked(self) -> Tensor:
        return self.bag.rows.marked.to(torch.int16)

    @cached_property
    def subgraphs_of_node(self) -> Tensor:
        return self.bag.selection.num_subgraphs[self.bag.graphs.node_graph]

    @cached_property
    def target(self) -> Tensor:
        return self.refer(self.rows, self.bag.rows.target)

    @cached_property
    def arc(self) -> Tensor:
        return self.refer(self.arcs, self.bag.rows.arc)

    @cached_property
    def types(self) -> Tensor:
        """The types of the arcs of the graphs, which must have such."""
        types = arc_types(self.bag.graphs)
        assert types is not None
        short = types.short()
        return short if torch.equal(short.long(), types.long()) else _whole(types)

    @cached_property
    def row_types(self) -> Tensor:
        """Those of the arcs between rows."""
        return self.types.index_select(0, self.bag.rows.arc)

    @cached_property
    def into_rows(self) -> tuple[Tensor, Tensor]:
        """Where the arcs into each row begin, and how many they are."""
        count = counted(self.bag.rows.target, self.rows.total)
        return self.row_arcs.begins(ragged.starts(count), self.rows), self.row_arcs.shortened(count)

    @cached_property
    def out(self) -> Order:
        """The arcs of the graphs by their source."""
        return Order.of(self.bag.graphs.edge_index[0], self.nodes.total)

    @cached_property
    def into(self) -> Order:
        return Order.of(self.bag.graphs.edge_index[1], self.nodes.total)

    @cached_property
    def zero(self) -> Tensor:
        return torch.zeros((), dtype=torch.int32, device=self.bag.device)

    @cached_property
    def one(self) -> Tensor:
        return bits(torch.ones((), device=self.bag.device))

    def of_graphs(self, shape: "Shape") -> Makers:
        """The fields that do not depend on the stage."""
        graphs, selection = self.bag.graphs, self.bag.selection
        nodes, arcs, subgraphs, size = self.nodes, self.arcs, self.subgraphs, shape.graphs
        zero, last_node = [Filled()], [Filled(shape.nodes - 1)]

        def of_graph(values: Tensor, fill: Filled | None = None) -> Piece:
            absent = values.new_zeros(1, *values.shape[1:])
            return Piece(self.graphs, size + 1, torch.cat([values, absent]).int(), [fill or Filled()])

        def number(lines: Lines, room: int, least: int) -> Gathered:
            rest = Filled(room, Filler(lines, 0), -1)
            piece = of_graph(lines.counts[0], rest)
            return Gathered([Piece(piece.lines, piece.count, piece.values.clamp(min=least), piece.fill)])

        def ends(side: int) -> Gathered:
            return Gathered(
                [Piece(arcs, shape.arcs, self.refer(nodes, graphs.edge_index[side]), last_node, nodes)], shape.nodes
            )

        def graph_of(lines: Lines, room: int) -> Gathered:
            return Gathered([Piece(lines, room, self.zero, [Filled(size)], self.graphs)], size + 1)

        def first_of(lines: Lines, room: int) -> Gathered:
            return Gathered([Piece(self.graphs, size + 1, self.zero, [Filled(begin=Filler(lines, 0))], lines)], room)

        def first(order: Order) -> Gathered:
            begin = [Filled(begin=Filler(arcs, 0))]
            return Gathered([Piece(nodes, shape.nodes, arcs.begins(order.first, nodes), begin, arcs)], shape.arcs)

        def count(order: Order) -> Gathered:
            return Gathered([Piece(nodes, shape.nodes, arcs.shortened(order.count), zero)])

        def out_target() -> Gathered:
            code = self.refer(nodes, graphs.edge_index[1].index_select(0, self.out.order))
            return Gathered([Piece(arcs, shape.arcs, code, last_node, nodes)], shape.nodes)

        def out_order() -> Gathered:
            own = [Filled(begin=Filler(arcs, 0), apart=1)]
            return Gathered([Piece(arcs, shape.arcs, self.refer(arcs, self.out.order), own, arcs)], shape.arcs)

        found: Makers = {
            "num_nodes": partial(number, nodes, shape.nodes, 0),
            "num_subgraphs": partial(number, subgraphs, shape.subgraphs, 1),
            "node_graph": partial(graph_of, nodes, shape.nodes),
            "subgraph_graph": partial(graph_of, subgraphs, shape.subgraphs),
            "edge_source": partial(ends, 0),
            "edge_target": partial(ends, 1),
            "held": lambda: Gathered([Piece(arcs, shape.arcs, bits(held(self.bag)), zero)], fraction=True),
            "nodes.first": partial(first_of, nodes, shape.nodes),
            "nodes.count": lambda: Gathered([of_graph(graphs.num_nodes)]),
            "subgraphs.first": partial(first_of, subgraphs, shape.subgraphs),
            "subgraphs.count": lambda: Gathered([of_graph(selection.num_subgraphs)]),
            "graph_weight": lambda: Gathered([of_graph(self.one.expand(len(graphs)))], fraction=True),
            "node_weight": lambda: Gathered([Piece(nodes, shape.nodes, self.one, zero)], fraction=True),
            "graph.into.first": lambda: first(self.into),
            "graph.into.count": lambda: count(self.into),
            "graph.out.order": out_order,
            "graph.out.first": lambda: first(self.out),
            "graph.out.count": lambda: count(self.out),
            "graph.out.target": out_target,
        }
        if arc_types(graphs) is not None:
            found["graph.out.type"] = lambda: Gathered(
                [Piece(arcs, shape.arcs, self.types.index_select(0, self.out.order), zero)]
            )
        for name, values, lines, room in (
            ("x", graphs.x, nodes, shape.nodes),
            ("edge_attr", graphs.edge_attr, arcs, shape.arcs),
            ("y", graphs.y, self.graphs, size),
        ):
            if values is not None:
                found[name] = partial(self._features, values, lines, room)
        return found

    def _features(self, values: Tensor, lines: Lines, room: int) -> Gathered:
        """Values of the dataset as they are; whole ones in 64 bits where 32 do not hold them."""
        fraction, shape = values.is_floating_point(), tuple(values.shape[1:])
        values = values.reshape(values.size(0), prod(shape))
        # The graph that is not there has a line too.
        values = torch.cat([values, values.new_zeros(lines.absent, values.size(1))])
        numbers = bits(values) if fraction else _whole(values)
        return Gathered([Piece(lines, room, numbers, [Filled()])], fraction=fraction, shape=shape)


def _whole(values: Tensor) -> Tensor:
    short = values.int()
    return short.contiguous() if torch.equal(short.long(), values.long()) else values.long().contiguous()
