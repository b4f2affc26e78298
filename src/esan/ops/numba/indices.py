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


def ego_edges(graphs: Any, roots: Tensor, hops: int) -> tuple[Tensor, Tensor]:
    """Every pair (number of a root, undirected edge with both ends within `hops` of it), sorted."""
    most = int(graphs.num_nodes.max())
    arrays = (graphs.first_in_edge, graphs.degree, graphs.edge_index[0].contiguous(), graphs.undirected_edge)
    root, edges = indices_loops.ego_edges(roots.numpy(), hops, most, *(t.numpy() for t in arrays))
    return torch.from_numpy(root), torch.from_numpy(edges)


@dataclass(frozen=True, eq=False)
class CompactPairs:
    """The pairs that differ from the background, level by level, and the edges into them: the fields of `Rows`.

    Rows are numbered after the background rows; `num_rows` and `num_edges` have one row per level.
    """

    num_rows: Tensor
    num_edges: Tensor
    node: Tensor
    subgraph: Tensor
    source: Tensor
    target: Tensor
    edge_id: Tensor


def stored_pairs(graphs: Any, selection: Any, num_layers: int) -> CompactPairs:
    """The pairs of level 0, ..., `num_layers`, sorted by level, graph, subgraph and node."""
    marks, entries = (
        torch.searchsorted(subgraph, torch.arange(selection.total + 1))
        for subgraph in (selection.mark_subgraph, selection.entry_subgraph)
    )
    found = indices_loops.compact(
        num_layers, selection.keeps_edges, selection.subgraph_graph.numpy(), len(graphs), int(graphs.num_nodes.max()),
        marks.numpy(), selection.mark_node.numpy(), entries.numpy(), selection.entry_edge.numpy(),
        graphs.edges.contiguous().numpy(), graphs.first_in_edge.numpy(), graphs.degree.numpy(),
        graphs.edge_index[0].contiguous().numpy(), graphs.undirected_edge.numpy(),
    )  # fmt: skip
    return CompactPairs(*map(torch.from_numpy, found))


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
