"""Bags built on a CPU in linear time, and taken out of others: ego-networks, the rows of a compact bag, segments."""

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from esan.ops.numba import runtime as cpu


def fits(graphs: Any) -> bool:
    """Whether the compiled loops take these `Graphs`: they are on a CPU."""
    return graphs.device.type == "cpu" and cpu.available()


def ego_edges(graphs: Any, roots: Tensor, hops: int) -> tuple[Tensor, Tensor]:
    """Every (number of a root, edge with both ends within `hops` of it), sorted."""
    from esan.ops.numba import rows_loops

    most = int(graphs.num_nodes.max())
    tables = (graphs.first_arc, graphs.degree, graphs.edge_index[0].contiguous(), graphs.arc_edge)
    owners, edges = rows_loops.ego_edges(roots.numpy(), hops, most, *(t.numpy() for t in tables))
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
    from esan.ops.numba import rows_loops

    marks, entries = (
        torch.searchsorted(owner, torch.arange(selection.total + 1))
        for owner in (selection.mark_subgraph, selection.entry_subgraph)
    )
    found = rows_loops.compact(
        num_layers, selection.keeps_edges, selection.subgraph_graph.numpy(), len(graphs), int(graphs.num_nodes.max()),
        marks.numpy(), selection.mark_node.numpy(), entries.numpy(), selection.entry_edge.numpy(),
        graphs.edges.contiguous().numpy(), graphs.first_arc.numpy(), graphs.degree.numpy(),
        graphs.edge_index[0].contiguous().numpy(), graphs.arc_edge.numpy(),
    )  # fmt: skip
    return StoredPairs(*map(torch.from_numpy, found))


def picks(values: Tensor) -> bool:
    """Whether the compiled loops pick segments out of these numbers: they are on a CPU, and have no gradients."""
    return values.device.type == "cpu" and not values.requires_grad and cpu.available()


def pick(values: Tensor, segments: Any, shift: Tensor) -> Tensor:
    """`ragged.Segments.pick`."""
    out = values.new_empty(*values.shape[:-1], segments.total)
    _pick(values, segments, shift, out)
    return out


def pick_lines(values: Tensor, segments: Any) -> Tensor:
    """`ragged.Segments.pick_lines`: what the numbers are does not matter, so they are picked byte by byte."""
    from esan.ops.numba import rows_loops

    out = values.new_empty(segments.total, *values.shape[1:])
    width = prod(values.shape[1:]) * values.element_size()
    old, new = (_array(t.contiguous().reshape(1, -1).view(torch.uint8)) for t in (values, out))
    first, counts = (t * width for t in segments.arrays)
    rows_loops.pick(old, first, counts, np.zeros_like(first), new)
    return out


@dataclass(frozen=True, eq=False)
class PickedArcs:
    """Arcs picked out of those of `Rows`, renumbered: the fields of that name."""

    source: Tensor
    target: Tensor
    arc: Tensor


def pick_arcs(rows: Any, segments: Any, by_row: Tensor, by_arc: Tensor) -> PickedArcs:
    """The arcs of these segments, one a slot and graph, moved as `Rows.take` says.

    Args:
        rows: what the arcs are of.
        segments: the arcs, slot by slot.
        by_row: how far the rows of each slot and graph move, `[slots, G]`.
        by_arc: how far the arcs of each graph move, `[G]`.
    """
    from esan.ops.numba import rows_loops

    # One piece of memory: the system takes back several large ones when they are freed, and gives them anew page by
    # page. Lines begin where those of a cache do.
    lines = torch.empty(3, -(-segments.total // 8) * 8, dtype=torch.int64)[:, : segments.total]
    picked = PickedArcs(*lines.unbind())
    ends = np.array(rows.row_ends)
    rows_loops.pick_sources(_array(rows.source), *segments.arrays, ends, _array(by_row), picked.source.numpy())
    _pick(rows.target, segments, by_row.reshape(-1), picked.target)
    _pick(rows.arc, segments, by_arc.repeat(by_row.size(0)), picked.arc)
    return picked


def _pick(values: Tensor, segments: Any, shift: Tensor, out: Tensor) -> None:
    from esan.ops.numba import rows_loops

    old, new = (t if t.dim() == 2 else t[None] for t in (values, out))
    rows_loops.pick(_array(old), *segments.arrays, _array(shift), new.numpy())


def _array(tensor: Tensor) -> Any:
    return tensor.contiguous().numpy()
