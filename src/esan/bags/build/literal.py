"""Literal rows: one per (node, subgraph) pair, as the paper writes it; the reference for every other storage."""

import torch
from torch import Tensor

from esan.bags.rows import Rows
from esan.graphs import Graphs
from esan.memory_limits import refuse_beyond_memory
from esan.ops import ragged
from esan.ops.edges import Edges
from esan.ops.segments import CSR
from esan.policies import Selection

#: Bytes of a row (node, subgraph, mark) and of an edge (source, target, edge of the graph) as they are stored.
_PER_ROW, _PER_EDGE = 17, 24


def literal_rows(graphs: Graphs, selection: Selection) -> Rows:
    """All pairs, no background: n·m rows per graph, sorted by subgraph, then node."""
    refuse_beyond_memory(
        literal_bytes(graphs, selection),
        f"the literal bag of {selection.num_pairs(graphs):,} pairs",
        "Use the compact bag (leave literal=True out), a Sampled policy, smaller graphs, or fewer at a time.",
        graphs.device,
    )
    nodes_of = graphs.num_nodes[selection.subgraph_graph]
    subgraph = ragged.segment_index(nodes_of)
    node = ragged.ranges(graphs.node_start[selection.subgraph_graph], nodes_of)
    first_row = ragged.starts(nodes_of) - graphs.node_start[selection.subgraph_graph]

    marked = torch.zeros_like(node, dtype=torch.bool)
    marked[first_row[selection.mark_subgraph] + selection.mark_node] = True

    of_edge, edge = _subgraph_edges(graphs, selection)
    source = first_row[of_edge] + graphs.edge_index[0, edge]
    target = first_row[of_edge] + graphs.edge_index[1, edge]
    num_edges = torch.bincount(selection.subgraph_graph[of_edge], minlength=len(graphs))
    pairs_of = graphs.num_nodes * selection.num_subgraphs
    none = torch.zeros_like(pairs_of)
    return Rows(
        num_rows=torch.stack([none, pairs_of]),
        num_edges=torch.stack([none, num_edges]),
        node=node,
        subgraph=subgraph,
        marked=marked,
        source=source,
        target=target,
        edge_id=edge,
    )


def literal_edges(graphs: Graphs, selection: Selection) -> int:
    """The number of edges between the rows of the literal bag, without building it."""
    ends = graphs.edges[:, selection.entry_edge]
    listed = 2 * selection.entry_edge.numel() - int((ends[0] == ends[1]).sum())
    every = int((graphs.num_directed_edges * selection.num_subgraphs).sum())
    return every - listed if selection.keeps_edges else listed


def literal_bytes(graphs: Graphs, selection: Selection) -> int:
    """A lower bound of the bytes needed to build the literal bag: its rows, and every edge of every subgraph."""
    rows, edges = selection.num_pairs(graphs), literal_edges(graphs, selection)
    every = int((graphs.num_directed_edges * selection.num_subgraphs).sum())
    return _PER_ROW * rows + max(18 * every + 16 * edges, _PER_EDGE * edges)


def _subgraph_edges(graphs: Graphs, selection: Selection) -> tuple[Tensor, Tensor]:
    """Every (subgraph, column of edge_index in it), sorted by subgraph, then target."""
    num_edges = graphs.num_directed_edges[selection.subgraph_graph]
    subgraph = ragged.segment_index(num_edges)
    edge = ragged.ranges(graphs.directed_edge_start[selection.subgraph_graph], num_edges)
    first = ragged.starts(num_edges) - graphs.directed_edge_start[selection.subgraph_graph]
    listed = torch.zeros_like(edge, dtype=torch.bool)
    for direction in graphs.directed_edges:
        listed[first[selection.entry_subgraph] + direction[selection.entry_edge]] = True
    present = ~listed if selection.keeps_edges else listed
    return subgraph[present], edge[present]


def literal_copies(graphs: Graphs, selection: Selection, edges: Edges) -> Edges:
    """Edges between nodes, copied to every subgraph: edges between the rows of a literal bag."""
    graph = graphs.node_graph[edges.edge_index[1]]
    num_edges = torch.bincount(graph, minlength=len(graphs))
    num_copies = num_edges[selection.subgraph_graph]
    copy = ragged.ranges(ragged.starts(num_edges)[selection.subgraph_graph], num_copies)
    nodes_of = graphs.num_nodes[selection.subgraph_graph]
    first_row = ragged.starts(nodes_of) - graphs.node_start[selection.subgraph_graph]
    edge_index = edges.edge_index[:, copy] + torch.repeat_interleave(first_row, num_copies)
    weight = None if edges.weight is None else edges.weight[copy]
    return Edges(edge_index, CSR(edges.edge_id[copy], edges.by_edge_id.size), int(nodes_of.sum()), weight)
