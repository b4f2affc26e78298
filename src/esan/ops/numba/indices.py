"""Index tensors built on a CPU in linear time: ego-networks, the rows of a compact bag, parts of them, orders."""

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from esan.ops.edges import PickedEdges
from esan.ops.numba.loops import indices as indices_loops
from esan.ops.numba.loops import segments as segments_loops
from esan.ops.numba.workspace import empty_numbers


def ego_edges(graphs: Any, roots: Tensor, hops: int) -> tuple[Tensor, Tensor]:
    """Every (number of a root, edge with both ends within `hops` of it), sorted."""
    most = int(graphs.num_nodes.max())
    tables = (graphs.first_arc, graphs.degree, graphs.edge_index[0].contiguous(), graphs.arc_edge)
    owners, edges = indices_loops.ego_edges(roots.numpy(), hops, most, *(t.numpy() for t in tables))
    return torch.from_numpy(owners), torch.from_numpy(edges)


@dataclass(frozen=True, eq=False)
class StoredPairs:
    """The pairs that differ from the background, level by level, and the arcs into them: the fields of `Rows`.

    Rows are numbered behind the background's; `num_rows` and `num_arcs` have a line a level.
    """

    num_rows: Tensor
    num_arcs: Tensor
    node: Tensor
    subgraph: Tensor
    source: Tensor
    target: Tensor
    arc: Tensor


def stored_pairs(graphs: Any, selection: Any, num_layers: int) -> StoredPairs:
    """The pairs of level 0, ..., `num_layers`, sorted by level, graph, subgraph and node."""
    marks, entries = (
        torch.searchsorted(owner, torch.arange(selection.total + 1))
        for owner in (selection.mark_subgraph, selection.entry_subgraph)
    )
    found = indices_loops.compact(
        num_layers, selection.keeps_edges, selection.subgraph_graph.numpy(), len(graphs), int(graphs.num_nodes.max()),
        marks.numpy(), selection.mark_node.numpy(), entries.numpy(), selection.entry_edge.numpy(),
        graphs.edges.contiguous().numpy(), graphs.first_arc.numpy(), graphs.degree.numpy(),
        graphs.edge_index[0].contiguous().numpy(), graphs.arc_edge.numpy(),
    )  # fmt: skip
    return StoredPairs(*map(torch.from_numpy, found))


def pick(values: Tensor, segments: Any, shift: Tensor) -> Tensor:
    """`ragged.Segments.pick`."""
    out = values.new_empty(*values.shape[:-1], segments.total)
    _pick(values, segments, shift, out)
    return out


def pick_lines(values: Tensor, segments: Any) -> Tensor:
    """`ragged.Segments.pick_lines`: what the numbers are does not matter, so they are picked byte by byte."""
    out = values.new_empty(segments.total, *values.shape[1:])
    width = prod(values.shape[1:]) * values.element_size()
    old, new = (_array(t.contiguous().reshape(1, -1).view(torch.uint8)) for t in (values, out))
    first, counts = (t * width for t in segments.arrays)
    indices_loops.pick(old, first, counts, np.zeros_like(first), new)
    return out


def pick_arcs(rows: Any, segments: Any, by_row: Tensor, by_arc: Tensor) -> PickedEdges:
    """The arcs of these segments, one a slot and graph, moved as `Rows.take` says.

    Args:
        rows: what the arcs are of.
        segments: the arcs, slot by slot.
        by_row: how far the rows of each slot and graph move, `[slots, G]`.
        by_arc: how far the arcs of each graph move, `[G]`.
    """
    # One piece of memory: the system takes back several large ones when they are freed, and gives them anew page by
    # page. Lines begin where those of a cache do.
    lines = torch.empty(3, -(-segments.total // 8) * 8, dtype=torch.int64)[:, : segments.total]
    picked = PickedEdges(*lines.unbind())
    ends = np.array(rows.row_ends)
    indices_loops.pick_sources(_array(rows.source), *segments.arrays, ends, _array(by_row), picked.source.numpy())
    _pick(rows.target, segments, by_row.reshape(-1), picked.target)
    _pick(rows.arc, segments, by_arc.repeat(by_row.size(0)), picked.arc)
    return picked


def _pick(values: Tensor, segments: Any, shift: Tensor, out: Tensor) -> None:
    old, new = (t if t.dim() == 2 else t[None] for t in (values, out))
    indices_loops.pick(_array(old), *segments.arrays, _array(shift), new.numpy())


def _array(tensor: Tensor) -> Any:
    return tensor.contiguous().numpy()


def in_order(owner: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The lines group by group, and where each group begins: a stable sort in linear time."""
    order, first = empty_numbers(owner.numel()), empty_numbers(size)
    segments_loops.in_order(owner.numpy(), order.numpy(), first.numpy())
    return order, first


def multiplicities(subgraphs: Tensor, node: Tensor) -> Tensor:
    """How many pairs each row stands for, in single precision; `subgraphs` are a node's, `node` a stored row's."""
    return torch.from_numpy(segments_loops.weights(subgraphs.numpy(), node.numpy()))


@dataclass(frozen=True, eq=False)
class Routes:
    """Arcs between rows: their ends, where those into each row begin, and their order by source."""

    ends: Tensor
    into: Tensor
    order: Tensor
    first: Tensor


def routes(source: Tensor, target: Tensor, node: Tensor, background: int, known: int, rows: int) -> Routes:
    """Arcs, sorted by target, of which the sources behind the first `known` rows are the rows of their nodes.

    Args:
        source: the row that each comes from.
        target: the row that each ends at.
        node: of the rows behind the background.
        background: how many rows are nodes.
        known: how many rows there are to read from.
        rows: how many there are to send to.
    """
    arcs = source.numel()
    found = Routes(
        empty_numbers(2 * arcs).view(2, arcs), empty_numbers(rows), empty_numbers(arcs), empty_numbers(known)
    )
    into = found.ends.numpy(), found.into.numpy(), found.order.numpy(), found.first.numpy()
    segments_loops.routes(source.numpy(), target.numpy(), node.numpy(), background, *into)
    return found
