"""`Rows`: the (node, subgraph) pairs that a bag stores, and the arcs between them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from esan.graphs import Graphs
from esan.ops import ragged
from esan.ops.caching import cached
from esan.ops.dispatch import implementation
from esan.ops.edges import PickedEdges
from esan.policies import Selection
from esan.record import TensorRecord


@dataclass(frozen=True, eq=False, repr=False)
class Rows(TensorRecord):
    r"""What a network computes on: a row stands for one or many pairs (node, subgraph) with equal features.

    Rows come in *slots*: slot 0 holds the background rows, one a node (row v is node v) or none at all; slot
    :math:`\ell + 1` holds the pairs of level :math:`\ell`, those which first differ from the background at layer
    :math:`\ell`. Within a slot rows go graph by graph, so layer t works on the rows of the slots 0 to t + 1: a
    prefix. Arcs are sorted by the row they end at, so theirs is a prefix too.

    Attributes:
        num_rows: rows of each slot and graph, `[slots, G]`.
        num_arcs: arcs that end in each slot and graph, `[slots, G]`.
        node: the node of each stored pair (the rows behind the background), `[P]`.
        subgraph: its subgraph, `[P]`.
        marked: whether the node is marked in that subgraph, `[P]`.
        source: the row that each arc comes from; where the pair is not stored, the node's background row, `[B]`.
        target: the row that it ends at, sorted, `[B]`.
        arc: the arc of the graph that it is a copy of, `[B]`.
    """

    num_rows: Tensor
    num_arcs: Tensor
    node: Tensor
    subgraph: Tensor
    marked: Tensor
    source: Tensor
    target: Tensor
    arc: Tensor

    @cached
    def row_ends(self) -> list[int]:
        """How many rows there are up to and with each slot."""
        return self.num_rows.sum(1).cumsum(0).tolist()

    @cached
    def arc_ends(self) -> list[int]:
        """How many arcs end in the rows up to and with each slot."""
        return self.num_arcs.sum(1).cumsum(0).tolist()

    @cached
    def _row_start(self) -> Tensor:
        return ragged.starts(self.num_rows)

    @cached
    def _arc_start(self) -> Tensor:
        return ragged.starts(self.num_arcs)

    def slot_of_layer(self, t: int) -> int:
        """The last slot that layer t needs; slots that add no rows are passed over, so equal stages are one."""
        return slot_of_layer(self.row_ends, t)

    @property
    def last_slot(self) -> int:
        """The last slot that adds rows."""
        return self.row_ends.index(self.row_ends[-1])

    @property
    def background(self) -> int:
        """How many background rows there are: one a node in a compact bag, none in a literal one."""
        return self.row_ends[0]

    def take(self, ids: Tensor, graphs: Graphs, selection: Selection) -> "Rows":
        """The rows of the graphs `ids`, in that order, renumbered."""
        slots = self.num_rows.size(0)
        num_rows, num_arcs = self.num_rows[:, ids], self.num_arcs[:, ids]
        by_node = ragged.starts(graphs.num_nodes[ids]) - graphs.node_start[ids]
        by_subgraph = ragged.starts(selection.num_subgraphs[ids]) - selection.subgraph_start[ids]
        by_arc = ragged.starts(graphs.num_arcs[ids]) - graphs.arc_start[ids]
        old_start = self._row_start[:, ids]
        by_row = ragged.starts(num_rows) - old_start
        pairs = ragged.Segments((old_start[1:] - self.background).reshape(-1), num_rows[1:].reshape(-1))
        arcs = ragged.Segments(self._arc_start[:, ids].reshape(-1), num_arcs.reshape(-1))
        fast = implementation("indices", self.source)
        picked = (_pick_arcs if fast is None else fast.pick_arcs)(self, arcs, by_row, by_arc)
        return Rows(
            num_rows=num_rows,
            num_arcs=num_arcs,
            node=pairs.pick(self.node, by_node.repeat(slots - 1)),
            subgraph=pairs.pick(self.subgraph, by_subgraph.repeat(slots - 1)),
            marked=pairs.pick_lines(self.marked),
            source=picked.source,
            target=picked.target,
            arc=picked.arc,
        )

    def only(self, kept: Tensor, graphs: Graphs) -> "Rows":
        """The rows of the subgraphs where `kept` is true, renumbered; background rows all stay."""
        number = kept.cumsum(0) - 1
        pair = kept[self.subgraph]
        row = torch.cat([pair.new_ones(self.background), pair])
        new_row = row.cumsum(0) - 1
        # A stored source is a pair of the same subgraph as its target, so it stays whenever the target does.
        arc = row[self.target]
        slots, total = self.num_rows.shape
        slot = ragged.owner(self.num_rows.sum(1))
        graph = graphs.node_graph[torch.cat([torch.arange(self.background, device=kept.device), self.node])]
        segment = slot * total + graph
        return Rows(
            num_rows=torch.bincount(segment[row], minlength=slots * total).reshape(slots, total),
            num_arcs=torch.bincount(segment[self.target[arc]], minlength=slots * total).reshape(slots, total),
            node=self.node[pair],
            subgraph=number[self.subgraph[pair]],
            marked=self.marked[pair],
            source=new_row[self.source[arc]],
            target=new_row[self.target[arc]],
            arc=self.arc[arc],
        )


def _pick_arcs(rows: Rows, segments: ragged.Segments, by_row: Tensor, by_arc: Tensor) -> PickedEdges:
    """The arcs of these segments, one a slot and graph, moved as their rows and arcs are."""
    slots, graphs = by_row.shape
    flat = by_row.reshape(-1)
    source = rows.source.index_select(0, segments.places)
    ends = torch.tensor(rows.row_ends, device=source.device)
    # A source is of the same graph as its target, in a slot of its own.
    of_source = torch.bucketize(source, ends, right=True).mul_(graphs).add_(segments.owner % graphs)
    source += flat.index_select(0, of_source)
    return PickedEdges(source, segments.pick(rows.target, flat), segments.pick(rows.arc, by_arc.repeat(slots)))


def slot_of_layer(row_ends: list[int], t: int) -> int:
    """`Rows.slot_of_layer`, of rows that end there."""
    return row_ends.index(row_ends[min(t + 1, len(row_ends) - 1)])
