"""Numba: index tensors in linear time: ego-networks, the rows and edges of a compact bag, segments, sorts by group."""

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from esan.ops.edges import PickedEdges
from esan.ops.numba.loops import indices as indices_loops
from esan.ops.numba.loops import segments as segments_loops
from esan.ops.numba.workspace import empty_ints


def ego_counts(graphs: Any, roots: Tensor, hops: int) -> Tensor:
    """The number of undirected edges with both ends within `hops` of each root."""
    most = int(graphs.num_nodes.max())
    arrays = (graphs.first_in_edge, graphs.degree, graphs.edge_index[0])
    return torch.from_numpy(indices_loops.ego_counts(_array(roots), hops, most, *map(_array, arrays)))


def ego_edges(graphs: Any, roots: Tensor, hops: int, count: int) -> tuple[Tensor, Tensor]:
    """Every pair (number of a root, undirected edge with both ends within `hops` of it), sorted.

    Args:
        graphs: the graphs.
        roots: the centres.
        hops: how far they reach.
        count: how many pairs there are: the sum of `ego_counts`.
    """
    most = int(graphs.num_nodes.max())
    arrays = (graphs.first_in_edge, graphs.degree, graphs.edge_index[0], graphs.undirected_edge)
    root, edges = torch.empty(count, dtype=torch.int64), torch.empty(count, dtype=torch.int64)
    indices_loops.ego_edges(_array(roots), hops, most, *map(_array, arrays), root.numpy(), edges.numpy())
    return root, edges


@dataclass(frozen=True, eq=False)
class PairCounts:
    """How many pairs differ from the background, and how many edges end at them, `[levels, G]`."""

    num_rows: Tensor
    num_edges: Tensor


@dataclass(frozen=True, eq=False)
class CompactPairs:
    """The pairs that differ from the background, and all edges of a compact bag: the fields of `Rows`.

    Rows are numbered after the background rows. Those edges that end at background rows come first.
    """

    node: Tensor
    subgraph: Tensor
    source: Tensor
    target: Tensor
    edge_id: Tensor


def count_pairs(graphs: Any, selection: Any, num_layers: int, some: Tensor | None = None) -> PairCounts:
    """The number of pairs of level 0, ..., `num_layers`, and of edges into them, by graph.

    Args:
        graphs: the graphs.
        selection: what each subgraph changes.
        num_layers: the largest level.
        some: count those of these subgraphs only, one by one, `[levels, S]`; None for all, by graph.
    """
    column, columns = selection.subgraph_graph, len(graphs)
    if some is not None:
        column, columns = torch.zeros_like(column), some.numel()
        column[some] = torch.arange(columns)
    counts = PairCounts(*torch.zeros(2, num_layers + 1, columns, dtype=torch.int64).unbind())
    _compact(graphs, selection, counts, None, column, some)
    return counts


def stored_pairs(graphs: Any, selection: Any, counts: PairCounts) -> CompactPairs:
    """The pairs that `count_pairs` counted, sorted by level, graph, subgraph and node, and the edges."""
    rows, edges = int(counts.num_rows.sum()), int(counts.num_edges.sum())
    # The background's edges are written into the same tensors: to join them later would take twice the memory.
    before = graphs.edge_index.size(1) if selection.keeps_edges else 0
    pairs = (torch.empty(rows, dtype=torch.int64) for _ in range(2))
    ends = [torch.empty(before + edges, dtype=torch.int64) for _ in range(3)]
    found = CompactPairs(*pairs, *(end[before:] for end in ends))
    _compact(graphs, selection, counts, found, selection.subgraph_graph, None)
    if before:
        for end, values in zip(ends, (*graphs.edge_index, torch.arange(before)), strict=True):
            end[:before] = values
    return CompactPairs(found.node, found.subgraph, *ends)


def _compact(
    graphs: Any, selection: Any, counts: PairCounts, found: CompactPairs | None, column: Tensor, some: Tensor | None
) -> None:
    """Counts the pairs, or writes them into `found`."""
    marks, entries = (
        torch.searchsorted(subgraph, torch.arange(selection.total + 1))
        for subgraph in (selection.mark_subgraph, selection.entry_subgraph)
    )
    fill, layers = found is not None, counts.num_rows.size(0) - 1
    found = found or CompactPairs(*torch.empty(5, 0, dtype=torch.int64))
    arrays = (
        torch.arange(selection.total) if some is None else some, column, marks, selection.mark_node, entries,
        selection.entry_edge, graphs.edges, graphs.first_in_edge, graphs.degree, graphs.edge_index[0],
        graphs.undirected_edge, counts.num_rows, counts.num_edges, found.node, found.subgraph, found.source,
        found.target, found.edge_id,
    )  # fmt: skip
    subgraphs, column, *others = map(_array, arrays)
    most = int(graphs.num_nodes.max())
    indices_loops.compact(fill, layers, selection.keeps_edges, subgraphs, column, most, *others)


def pick(values: Tensor, segments: Any, shift: Tensor) -> Tensor:
    """`ragged.Segments.pick`."""
    out = values.new_empty(*values.shape[:-1], segments.total)
    _pick(values, segments, shift, out)
    return out


def pick_rows(values: Tensor, segments: Any) -> Tensor:
    """`ragged.Segments.pick_rows`, byte by byte: the type of the values does not matter."""
    out = values.new_empty(segments.total, *values.shape[1:])
    width = prod(values.shape[1:]) * values.element_size()
    old, new = (_array(t.contiguous().reshape(1, -1).view(torch.uint8)) for t in (values, out))
    start, counts = (t * width for t in segments.arrays)
    indices_loops.pick(old, start, counts, np.zeros_like(start), new)
    return out


def pick_edges(rows: Any, segments: Any, by_row: Tensor, by_edge: Tensor) -> PickedEdges:
    """The edges of these segments, one per block and graph, renumbered as `Rows.take` says.

    Args:
        rows: the rows that the edges belong to.
        segments: the edges, block by block.
        by_row: the shift of the rows of each block and graph, `[blocks, G]`.
        by_edge: the shift of the edges of each graph, `[G]`.
    """
    # One allocation: the system takes back several large ones when they are freed, and maps new pages for the next.
    # Each row begins at a cache line.
    buffer = torch.empty(3, -(-segments.total // 8) * 8, dtype=torch.int64)[:, : segments.total]
    picked = PickedEdges(*buffer.unbind())
    ends = np.array(rows.row_ends)
    indices_loops.pick_sources(_array(rows.source), *segments.arrays, ends, _array(by_row), picked.source.numpy())
    _pick(rows.target, segments, by_row.reshape(-1), picked.target)
    _pick(rows.edge_id, segments, by_edge.repeat(by_row.size(0)), picked.edge_id)
    return picked


def _pick(values: Tensor, segments: Any, shift: Tensor, out: Tensor) -> None:
    old, new = (t if t.dim() == 2 else t[None] for t in (values, out))
    indices_loops.pick(_array(old), *segments.arrays, _array(shift), new.numpy())


def _array(tensor: Tensor) -> Any:
    return tensor.contiguous().numpy()


def sort(index: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """`perm` and `ptr` of a CSR: a stable sort in linear time."""
    perm, ptr = empty_ints(index.numel()), empty_ints(size)
    segments_loops.sort(index.numpy(), perm.numpy(), ptr.numpy())
    return perm, ptr


def multiplicities(subgraphs: Tensor, node: Tensor) -> Tensor:
    """How many pairs each row stands for, in single precision.

    Args:
        subgraphs: how many subgraphs each node has.
        node: the node of each stored row.
    """
    return torch.from_numpy(segments_loops.multiplicities(subgraphs.numpy(), node.numpy()))


@dataclass(frozen=True, eq=False)
class SortedEdges:
    """Edges between rows, sorted by target.

    Attributes:
        ends: source and target of each, `[2, B]`.
        target_ptr: where those into each row begin.
        source_perm: their order by source.
        source_ptr: where those of each source begin in that order.
    """

    ends: Tensor
    target_ptr: Tensor
    source_perm: Tensor
    source_ptr: Tensor


def sort_edges(source: Tensor, target: Tensor, node: Tensor, background: int, x_rows: int, rows: int) -> SortedEdges:
    """Edges by target and by source; a source behind the first `x_rows` rows becomes the background row of its node.

    Args:
        source: the row that each comes from.
        target: the row that each ends at, sorted.
        node: that of each row behind the background.
        background: the number of background rows.
        x_rows: the number of rows that are read.
        rows: the number of rows that are computed.
    """
    count = source.numel()
    found = SortedEdges(empty_ints(2 * count).view(2, count), empty_ints(rows), empty_ints(count), empty_ints(x_rows))
    out = (found.ends, found.target_ptr, found.source_perm, found.source_ptr)
    segments_loops.sort_edges(source.numpy(), target.numpy(), node.numpy(), background, *(t.numpy() for t in out))
    return found
