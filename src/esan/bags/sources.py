"""`Sources`: the fields of padded batches as gathers from the dataset, whose orders are found once, not a batch."""

from collections.abc import Callable
from functools import cached_property, partial
from math import prod
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from esan import ragged
from esan.bags.bag import Bag
from esan.bags.lines import Filler, Lines, Order, counted
from esan.bags.pieces import Filled, Gathered, Piece, bits
from esan.graphs import Graphs

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
    def types(self) -> Tensor | None:
        """The types of the arcs of the graphs, if they have such."""
        types = arc_types(self.bag.graphs)
        if types is None:
            return None
        short = types.short()
        return short if torch.equal(short.long(), types.long()) else _whole(types)

    @cached_property
    def row_types(self) -> Tensor | None:
        """Those of the arcs between rows."""
        return None if self.types is None else self.types.index_select(0, self.bag.rows.arc)

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
        if (types := self.types) is not None:
            found["graph.out.type"] = lambda: Gathered(
                [Piece(arcs, shape.arcs, types.index_select(0, self.out.order), zero)]
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


class StageLines:
    """The lines of a stage in other orders, and what its rows and arcs are in the dataset.

    Args:
        sources: of the bag.
        slot: the last slot of its rows.
    """

    def __init__(self, sources: Sources, slot: int) -> None:
        self.sources, self.slot = sources, slot
        rows = sources.bag.rows
        self.rows, self.arcs = rows.row_ends[slot], rows.arc_ends[slot]
        self.pairs = self.rows - rows.background
        self._ordered: tuple[str, Order] | None = None

    def _by_graph(self, lines: Lines, blocks: int, total: int) -> Lines:
        """The lines of the first blocks, those of a graph together; the filler is that of one block after another."""
        fillers = [[Filler(lines, block) for block in range(blocks)]]
        return Lines(lines.counts[:blocks].sum(0)[None], total, fillers=fillers)

    @cached_property
    def rows_by_graph(self) -> Lines:
        return self._by_graph(self.sources.rows, self.slot + 1, self.rows)

    @cached_property
    def pairs_by_graph(self) -> Lines:
        # A stage of the background alone has no pairs; its first block of them is empty.
        return self._by_graph(self.sources.pairs, max(self.slot, 1), self.pairs)

    @cached_property
    def arcs_by_graph(self) -> Lines:
        return self._by_graph(self.sources.row_arcs, self.slot + 1, self.arcs)

    @cached_property
    def arcs_by_source(self) -> Lines:
        """Arcs by the slot of the row that they come from; the filler of each slot has loops."""
        rows, blocks = self.sources.rows, self.slot + 1
        segment = rows.segment[self.source]
        counts = counted(segment, rows.counts[:blocks].numel())
        fillers = [[Filler(self.sources.row_arcs, block)] for block in range(blocks)]
        return Lines(counts.view(blocks, -1), self.arcs, fillers=fillers)

    @property
    def node(self) -> Tensor:
        """The node of each row."""
        rows = self.sources.bag.rows
        every = torch.arange(rows.background, device=rows.node.device)
        return torch.cat([every, self.pair_node])

    @property
    def pair_node(self) -> Tensor:
        return self.sources.bag.rows.node[: self.pairs]

    @property
    def subgraph(self) -> Tensor:
        return self.sources.bag.rows.subgraph[: self.pairs]

    @property
    def target(self) -> Tensor:
        return self.sources.bag.rows.target[: self.arcs]

    @property
    def arc(self) -> Tensor:
        """The arc of the graph that each arc is a copy of."""
        return self.sources.bag.rows.arc[: self.arcs]

    @cached_property
    def source(self) -> Tensor:
        """The source of each arc; a pair that is not of this stage still equals its background."""
        source = self.sources.bag.rows.source[: self.arcs]
        return torch.where(source < self.rows, source, self.sources.bag.graphs.edge_index[0][self.arc])

    @cached_property
    def weight(self) -> Tensor:
        """How many pairs the background row of each node stands for; a stored row stands for one."""
        m = self.sources.subgraphs_of_node
        return (m - counted(self.pair_node, m.numel())).float()

    @property
    def mean(self) -> Tensor:
        return self.weight / self.sources.subgraphs_of_node.clamp(min=1)

    @property
    def by_node(self) -> Order:
        return self._order("node", self.sources.nodes.total)

    @property
    def stored_by_node(self) -> Order:
        return self._order("pair_node", self.sources.nodes.total)

    @property
    def by_subgraph(self) -> Order:
        return self._order("subgraph", self.sources.subgraphs.total)

    @property
    def out(self) -> Order:
        return self._order("source", self.rows)

    @property
    def copies(self) -> Order:
        return self._order("arc", self.sources.arcs.total)

    def _order(self, owner: str, size: int) -> Order:
        """Lines by their owner; only the last one that was asked for is kept."""
        if self._ordered is None or self._ordered[0] != owner:
            self._ordered = None
            self._ordered = owner, Order.of(getattr(self, owner), size)
        return self._ordered[1]
