"""The literal bag: a row for every (node, subgraph) pair, as the paper writes it. It is the meaning of a bag."""

import torch
from torch import Tensor

from esan.bags.rows import Rows
from esan.graphs import Graphs
from esan.limits import refuse_beyond_memory
from esan.ops import ragged
from esan.ops.edges import Arcs
from esan.ops.segments import Grouping
from esan.policies import Selection

#: Bytes of a row (node, subgraph, mark) and of an edge (source, target, edge of the graph) as they are stored.
_PER_ROW, _PER_EDGE = 17, 24


def literal_rows(graphs: Graphs, selection: Selection) -> Rows:
    """Every pair stored once, no background: n·m rows a graph, in the order subgraph, node."""
    refuse_beyond_memory(
        literal_bytes(graphs, selection),
        f"the literal bag of {selection.num_pairs(graphs):,} pairs",
        "Use the compact bag (leave literal=True out), a Sampled policy, smaller graphs, or fewer at a time.",
        graphs.device,
    )
    nodes_of = graphs.num_nodes[selection.subgraph_graph]
    subgraph = ragged.owner(nodes_of)
    node = ragged.ranges(graphs.node_start[selection.subgraph_graph], nodes_of)
    first_row = ragged.starts(nodes_of) - graphs.node_start[selection.subgraph_graph]

    marked = torch.zeros_like(node, dtype=torch.bool)
    marked[first_row[selection.mark_subgraph] + selection.mark_node] = True

    arc_subgraph, arc = _arcs(graphs, selection)
    source = first_row[arc_subgraph] + graphs.edge_index[0, arc]
    target = first_row[arc_subgraph] + graphs.edge_index[1, arc]
    arcs_of = torch.bincount(selection.subgraph_graph[arc_subgraph], minlength=len(graphs))
    pairs_of = graphs.num_nodes * selection.num_subgraphs
    none = torch.zeros_like(pairs_of)
    return Rows(
        num_rows=torch.stack([none, pairs_of]),
        num_arcs=torch.stack([none, arcs_of]),
        node=node,
        subgraph=subgraph,
        marked=marked,
        source=source,
        target=target,
        arc=arc,
    )


def literal_edges(graphs: Graphs, selection: Selection) -> int:
    """How many edges there are between the rows of the literal bag, which is not built."""
    ends = graphs.edges[:, selection.entry_edge]
    listed = 2 * selection.entry_edge.numel() - int((ends[0] == ends[1]).sum())
    return int((graphs.num_arcs * selection.num_subgraphs).sum()) - listed if selection.keeps_edges else listed


def literal_bytes(graphs: Graphs, selection: Selection) -> int:
    """Bytes that are certainly needed while the literal bag is built: its rows, and every edge of every subgraph."""
    rows, edges = selection.num_pairs(graphs), literal_edges(graphs, selection)
    every = int((graphs.num_arcs * selection.num_subgraphs).sum())
    return _PER_ROW * rows + max(18 * every + 16 * edges, _PER_EDGE * edges)


def _arcs(graphs: Graphs, selection: Selection) -> tuple[Tensor, Tensor]:
    """Every (subgraph, arc in it), by subgraph and then as the graph's arcs are: by target."""
    arcs_of = graphs.num_arcs[selection.subgraph_graph]
    subgraph = ragged.owner(arcs_of)
    arc = ragged.ranges(graphs.arc_start[selection.subgraph_graph], arcs_of)
    first = ragged.starts(arcs_of) - graphs.arc_start[selection.subgraph_graph]
    listed = torch.zeros_like(arc, dtype=torch.bool)
    for side in graphs.edge_arcs:
        listed[first[selection.entry_subgraph] + side[selection.entry_edge]] = True
    there = ~listed if selection.keeps_edges else listed
    return subgraph[there], arc[there]


def literal_copies(graphs: Graphs, selection: Selection, arcs: Arcs) -> Arcs:
    """Arcs between nodes, once more in every subgraph: arcs between the rows of a literal bag."""
    graph = graphs.node_graph[arcs.edge_index[1]]
    arcs_of = torch.bincount(graph, minlength=len(graphs))[selection.subgraph_graph]
    first = ragged.starts(torch.bincount(graph, minlength=len(graphs)))
    copy = ragged.ranges(first[selection.subgraph_graph], arcs_of)
    nodes_of = graphs.num_nodes[selection.subgraph_graph]
    first_row = ragged.starts(nodes_of) - graphs.node_start[selection.subgraph_graph]
    edge_index = arcs.edge_index[:, copy] + torch.repeat_interleave(first_row, arcs_of)
    weight = None if arcs.weight is None else arcs.weight[copy]
    return Arcs(edge_index, Grouping(arcs.arc[copy], arcs.copies.size), int(nodes_of.sum()), weight)
