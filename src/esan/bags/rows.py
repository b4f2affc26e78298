"""`Rows`: the rows of a bag: each stands for one or more (node, subgraph) pairs; its multiplicity says how many."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from esan.graphs import Graphs
from esan.ops import ragged
from esan.ops.caching import cached
from esan.ops.dispatch import implementation
from esan.ops.edges import PickedEdges
from esan.policies import Selection
from esan.tensor_dataclass import TensorDataclass


@dataclass(frozen=True, eq=False, repr=False)
class Rows(TensorDataclass):
    r"""What a network computes on: a row stands for one or many pairs (node, subgraph) with equal features.

    Rows come in *blocks*. Block 0 holds the background rows: one per node (row v is node v) in a compact bag, none in a
    literal bag. Block :math:`\ell + 1` holds the pairs of level :math:`\ell`, which first differ from the background at
    layer :math:`\ell`. Within a block, rows are sorted by graph. So layer t works on the blocks 0 to t + 1: a prefix of
    the rows. Edges are sorted by target row, so theirs is a prefix too.

    Attributes:
        num_rows: rows per block and graph, `[blocks, G]`.
        num_edges: edges that end in each block and graph, `[blocks, G]`.
        node: the node of each stored pair (the rows after the background), `[P]`.
        subgraph: its subgraph, `[P]`.
        marked: whether the node is marked in that subgraph, `[P]`.
        source: the source row of each edge; the background row of the source node if its pair is not stored, `[B]`.
        target: the target row of each edge, sorted, `[B]`.
        edge_id: the column of `Graphs.edge_index` that each edge is a copy of, `[B]`.
    """

    #: As bag files of all versions have them.
    stored_names: ClassVar[Mapping[str, str]] = {"num_edges": "num_arcs", "edge_id": "arc"}

    num_rows: Tensor
    num_edges: Tensor
    node: Tensor
    subgraph: Tensor
    marked: Tensor
    source: Tensor
    target: Tensor
    edge_id: Tensor

    @cached
    def row_ends(self) -> list[int]:
        """The number of rows up to the end of each block."""
        return self.num_rows.sum(1).cumsum(0).tolist()

    @cached
    def edge_ends(self) -> list[int]:
        """The number of edges that end in the rows up to the end of each block."""
        return self.num_edges.sum(1).cumsum(0).tolist()

    @cached
    def _row_start(self) -> Tensor:
        return ragged.starts(self.num_rows)

    @cached
    def _edge_start(self) -> Tensor:
        return ragged.starts(self.num_edges)

    def block_of_layer(self, t: int) -> int:
        """The last block that layer t needs; blocks without rows are skipped, so that equal views are one."""
        return block_of_layer(self.row_ends, t)

    @property
    def last_block(self) -> int:
        """The last block with rows."""
        return self.row_ends.index(self.row_ends[-1])

    @property
    def background(self) -> int:
        """The number of background rows: one per node in a compact bag, 0 in a literal bag."""
        return self.row_ends[0]

    def multiplicity(self, block: int, num_subgraphs: Tensor) -> Tensor | None:
        """How many pairs each row up to a block stands for, as float32; None in a literal bag, where it is always 1.

        A background row stands for all pairs of its node that are not among the stored ones.

        Args:
            block: the last block.
            num_subgraphs: the number of subgraphs of each node, `[N]`.
        """
        if not self.background:
            return None
        node = self.node[: self.row_ends[block] - self.background]
        fast = implementation("indices", node)
        if fast is not None:
            return fast.multiplicities(num_subgraphs, node)
        background = num_subgraphs - ragged.segment_counts(node, self.background)
        return torch.cat([background, torch.ones_like(node)]).float()

    def take(self, ids: Tensor, graphs: Graphs, selection: Selection) -> "Rows":
        """The rows of the graphs `ids`, in that order, renumbered."""
        blocks = self.num_rows.size(0)
        num_rows, num_edges = self.num_rows[:, ids], self.num_edges[:, ids]
        by_node = ragged.starts(graphs.num_nodes[ids]) - graphs.node_start[ids]
        by_subgraph = ragged.starts(selection.num_subgraphs[ids]) - selection.subgraph_start[ids]
        by_column = ragged.starts(graphs.num_directed_edges[ids]) - graphs.directed_edge_start[ids]
        old_start = self._row_start[:, ids]
        by_row = ragged.starts(num_rows) - old_start
        pairs = ragged.Segments((old_start[1:] - self.background).reshape(-1), num_rows[1:].reshape(-1))
        edges = ragged.Segments(self._edge_start[:, ids].reshape(-1), num_edges.reshape(-1))
        fast = implementation("indices", self.source)
        picked = (_pick_edges if fast is None else fast.pick_edges)(self, edges, by_row, by_column)
        return Rows(
            num_rows=num_rows,
            num_edges=num_edges,
            node=pairs.pick(self.node, by_node.repeat(blocks - 1)),
            subgraph=pairs.pick(self.subgraph, by_subgraph.repeat(blocks - 1)),
            marked=pairs.pick_rows(self.marked),
            source=picked.source,
            target=picked.target,
            edge_id=picked.edge_id,
        )

    def only(self, mask: Tensor, graphs: Graphs) -> "Rows":
        """The rows of the subgraphs where `mask` is true, renumbered; all background rows stay."""
        number = mask.cumsum(0) - 1
        pair = mask[self.subgraph]
        row = torch.cat([pair.new_ones(self.background), pair])
        new_row = row.cumsum(0) - 1
        # A stored source is a pair of the same subgraph as its target, so it stays whenever the target does.
        edge = row[self.target]
        blocks, total = self.num_rows.shape
        block = ragged.segment_index(self.num_rows.sum(1))
        graph = graphs.node_graph[torch.cat([torch.arange(self.background, device=mask.device), self.node])]
        segment = block * total + graph
        return Rows(
            num_rows=torch.bincount(segment[row], minlength=blocks * total).reshape(blocks, total),
            num_edges=torch.bincount(segment[self.target[edge]], minlength=blocks * total).reshape(blocks, total),
            node=self.node[pair],
            subgraph=number[self.subgraph[pair]],
            marked=self.marked[pair],
            source=new_row[self.source[edge]],
            target=new_row[self.target[edge]],
            edge_id=self.edge_id[edge],
        )


def _pick_edges(rows: Rows, segments: ragged.Segments, by_row: Tensor, by_column: Tensor) -> PickedEdges:
    """The edges of these segments, one per block and graph, renumbered as their rows and columns are."""
    blocks, graphs = by_row.shape
    flat = by_row.reshape(-1)
    source = rows.source.index_select(0, segments.positions)
    ends = torch.tensor(rows.row_ends, device=source.device)
    # A source is of the same graph as its target, but may be of another block.
    of_source = torch.bucketize(source, ends, right=True).mul_(graphs).add_(segments.index % graphs)
    source += flat.index_select(0, of_source)
    target, edge_id = segments.pick(rows.target, flat), segments.pick(rows.edge_id, by_column.repeat(blocks))
    return PickedEdges(source, target, edge_id)


def block_of_layer(row_ends: list[int], t: int) -> int:
    """`Rows.block_of_layer`, given the `row_ends`."""
    return row_ends.index(row_ends[min(t + 1, len(row_ends) - 1)])
