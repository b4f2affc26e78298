"""`StageLines`: the lines of a stage of the dataset in the orders that batches are summed in."""

from functools import cached_property

import torch
from torch import Tensor

from esan.bags.lines import Filler, Lines, Order, counted
from esan.bags.sources import Sources


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
