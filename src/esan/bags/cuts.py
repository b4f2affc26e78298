"""Cuts: where a collection of graphs is cut into stretches, and the graphs and selections of one of them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from esan.graphs import Graphs
from esan.policies import Selection


def cuts(sizes: Tensor, most: int) -> list[tuple[int, int]]:
    """Stretches of graphs, as (first, end), whose sizes come to `most` at most; a larger graph is one of its own.

    Args:
        sizes: what each graph counts, `[G]`.
        most: of a stretch.
    """
    ends = sizes.cumsum(0).cpu()
    found, first, before = [], 0, 0
    while first < ends.numel():
        end = max(first + 1, int(torch.searchsorted(ends, before + most, right=True)))
        found.append((first, end))
        first, before = end, int(ends[end - 1])
    return found or [(0, 0)]


@dataclass(frozen=True)
class Before:
    """What there is in a collection before one of its graphs, or before its end."""

    nodes: int
    edges: int
    arcs: int

    @staticmethod
    def of(graphs: Graphs, graph: int) -> "Before":
        if graph < len(graphs):
            starts = graphs.node_start, graphs.edge_start, graphs.arc_start
            return Before(*(int(start[graph]) for start in starts))
        return Before(graphs.node_graph.numel(), graphs.edges.size(1), graphs.edge_index.size(1))


def subgraphs_before(selection: Selection, graph: int) -> int:
    start = selection.subgraph_start
    return int(start[graph]) if graph < start.numel() else selection.total


def graphs_between(graphs: Graphs, first: int, end: int, device: torch.device) -> Graphs:
    """The graphs from `first` to before `end`, numbered anew, on a device."""
    a, z = Before.of(graphs, first), Before.of(graphs, end)
    nodes, edges, arcs = slice(a.nodes, z.nodes), slice(a.edges, z.edges), slice(a.arcs, z.arcs)
    lines = {"graph": slice(first, end), "node": nodes}
    y = graphs.y
    if y is not None:
        # Targets of arcs are in the user's order.
        y = y[lines[graphs.y_level] if graphs.y_level in lines else graphs.columns[arcs]].to(device)
    return Graphs(
        num_nodes=graphs.num_nodes[first:end].to(device),
        num_edges=graphs.num_edges[first:end].to(device),
        num_arcs=graphs.num_arcs[first:end].to(device),
        edges=graphs.edges[:, edges].to(device) - a.nodes,
        edge_index=graphs.edge_index[:, arcs].to(device) - a.nodes,
        arc_edge=graphs.arc_edge[arcs].to(device) - a.edges,
        column=graphs.column_place[arcs].to(device) - a.arcs,
        x=None if graphs.x is None else graphs.x[nodes].to(device),
        edge_attr=None if graphs.edge_attr is None else graphs.edge_attr[arcs].to(device),
        y=y,
        y_level=graphs.y_level,
        edge_weight=None if graphs.edge_weight is None else graphs.edge_weight[arcs].to(device),
        extra=graphs.extra.take(torch.arange(first, end, device=graphs.device)).to(device),
    )


def selection_between(selection: Selection, graphs: Graphs, first: int, end: int, device: torch.device) -> Selection:
    """What is selected of these graphs, numbered anew, on a device."""
    a, subgraphs = Before.of(graphs, first), subgraphs_before(selection, first)
    bounds = torch.tensor([subgraphs, subgraphs_before(selection, end)], device=selection.num_subgraphs.device)
    entries, marks = (
        slice(*torch.searchsorted(owner, bounds).tolist())
        for owner in (selection.entry_subgraph, selection.mark_subgraph)
    )
    return Selection(
        num_subgraphs=selection.num_subgraphs[first:end].to(device),
        keeps_edges=selection.keeps_edges,
        entry_subgraph=selection.entry_subgraph[entries].to(device) - subgraphs,
        entry_edge=selection.entry_edge[entries].to(device) - a.edges,
        marked=selection.marked,
        mark_subgraph=selection.mark_subgraph[marks].to(device) - subgraphs,
        mark_node=selection.mark_node[marks].to(device) - a.nodes,
    )


def joined_selections(parts: list[Selection], graphs: Graphs, stretches: list[tuple[int, int]]) -> Selection:
    """The selection of all graphs, from those of one stretch after another."""
    kinds = {(part.keeps_edges, part.marked) for part in parts}
    if len(kinds) > 1:
        raise ValueError(
            "Expected a policy that treats each graph by itself (got selections that keep edges, or mark nodes, for "
            "some graphs and not for others). Let `select` not depend on the other graphs."
        )
    before = [Before.of(graphs, first) for first, _ in stretches]
    subgraphs = torch.tensor([0, *(int(part.num_subgraphs.sum()) for part in parts)]).cumsum(0).tolist()

    def joined(name: str, shifts: list[int]) -> Tensor:
        return torch.cat([getattr(part, name) + shift for part, shift in zip(parts, shifts, strict=True)])

    return Selection(
        num_subgraphs=torch.cat([part.num_subgraphs for part in parts]),
        keeps_edges=parts[0].keeps_edges,
        entry_subgraph=joined("entry_subgraph", subgraphs[:-1]),
        entry_edge=joined("entry_edge", [b.edges for b in before]),
        marked=parts[0].marked,
        mark_subgraph=joined("mark_subgraph", subgraphs[:-1]),
        mark_node=joined("mark_node", [b.nodes for b in before]),
    )
