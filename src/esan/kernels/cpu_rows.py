"""Bags built on a CPU in linear time: ego-networks, and the rows of a compact bag."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from esan.kernels import cpu


def fits(graphs: Any) -> bool:
    """Whether the compiled loops take these `Graphs`: they are on a CPU."""
    return graphs.device.type == "cpu" and cpu.available()


def ego_edges(graphs: Any, hops: int) -> tuple[Tensor, Tensor]:
    """Every (root, edge with both ends within `hops` of it), sorted."""
    from esan.kernels import rows_loops

    most = int(graphs.num_nodes.max())
    tables = (graphs.first_arc, graphs.degree, graphs.edge_index[0].contiguous(), graphs.arc_edge)
    roots, edges = rows_loops.ego_edges(hops, most, *(t.numpy() for t in tables))
    return torch.from_numpy(roots), torch.from_numpy(edges)


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
    from esan.kernels import rows_loops

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
