"""Literal rows: one per (node, subgraph) pair, as the paper writes it; the reference for every other storage."""

from dataclasses import dataclass

import torch
from torch import Tensor

from esan.bags.build.chunks import Chunk, chunks
from esan.bags.rows import Rows
from esan.graphs import Graphs
from esan.memory_limits import refuse_beyond_memory
from esan.ops import ragged
from esan.ops.edges import Edges
from esan.ops.segments import CSR
from esan.policies import Selection

#: Bytes of a row (node, subgraph, mark) and of an edge (source, target, edge of the graph) as they are stored.
PER_ROW, PER_EDGE = 17, 24


#: Pairs and directed edges of the subgraphs whose rows are built at a time.
CHUNK_PAIRS = 2**18


def literal_rows(graphs: Graphs, selection: Selection) -> Rows:
    """All pairs, no background: n·m rows per graph, sorted by subgraph, then node."""
    rows, edges = selection.num_pairs(graphs), literal_edges(graphs, selection)
    refuse_literal_rows(literal_bytes(graphs, selection), rows, graphs.device)
    some = chunks((graphs.num_nodes + graphs.num_directed_edges)[selection.subgraph_graph], CHUNK_PAIRS)
    if len(some) == 1:
        found = _rows_of_chunk(graphs, selection, some[0])
    else:
        # Into tensors of their final size: to make all at once, or to join parts, would take twice the memory.
        found = _empty(rows, edges, graphs.device, len(graphs))
        row = edge = 0
        for chunk in some:
            part = _rows_of_chunk(graphs, selection, chunk)
            part.source.add_(row)
            part.target.add_(row)
            for name in ("node", "subgraph", "marked"):
                getattr(found, name)[row : row + part.node.numel()] = getattr(part, name)
            for name in ("source", "target", "edge_id"):
                getattr(found, name)[edge : edge + part.source.numel()] = getattr(part, name)
            found.num_edges.add_(part.num_edges)
            row, edge = row + part.node.numel(), edge + part.source.numel()
    pairs_of = graphs.num_nodes * selection.num_subgraphs
    none = torch.zeros_like(pairs_of)
    return Rows(
        num_rows=torch.stack([none, pairs_of]),
        num_edges=torch.stack([none, found.num_edges]),
        node=found.node,
        subgraph=found.subgraph,
        marked=found.marked,
        source=found.source,
        target=found.target,
        edge_id=found.edge_id,
    )


def refuse_literal_rows(needed: int, pairs: int, device: torch.device) -> None:
    """An error if a literal bag of so many pairs would not fit into memory.

    Args:
        needed: its bytes while it is built.
        pairs: its pairs.
        device: where it is built.
    """
    refuse_beyond_memory(
        needed,
        f"the literal bag of {pairs:,} pairs",
        "Use the compact bag (leave literal=True out), a Sampled policy, smaller graphs, or fewer at a time.",
        device,
    )


def literal_edges(graphs: Graphs, selection: Selection) -> int:
    """The number of edges between the rows of the literal bag, without building it."""
    is_loop = graphs.edges[0] == graphs.edges[1]
    loops = int(is_loop[selection.entry_edge].sum()) if bool(is_loop.any()) else 0
    listed = 2 * selection.entry_edge.numel() - loops
    every = int((graphs.num_directed_edges * selection.num_subgraphs).sum())
    return every - listed if selection.keeps_edges else listed


def literal_bytes(graphs: Graphs, selection: Selection) -> int:
    """The bytes of the rows of the literal bag; building it takes hardly more."""
    return PER_ROW * selection.num_pairs(graphs) + PER_EDGE * literal_edges(graphs, selection)


@dataclass(frozen=True, eq=False)
class _LiteralRows:
    """The rows and edges of some subgraphs, numbered from 0, as in `Rows`; `num_edges` is of each graph."""

    num_edges: Tensor
    node: Tensor
    subgraph: Tensor
    marked: Tensor
    source: Tensor
    target: Tensor
    edge_id: Tensor


def _empty(rows: int, edges: int, device: torch.device, graphs: int) -> _LiteralRows:
    node, subgraph = (torch.empty(rows, dtype=torch.int64, device=device) for _ in range(2))
    source, target, edge_id = (torch.empty(edges, dtype=torch.int64, device=device) for _ in range(3))
    num_edges = torch.zeros(graphs, dtype=torch.int64, device=device)
    return _LiteralRows(num_edges, node, subgraph, torch.empty_like(node, dtype=torch.bool), source, target, edge_id)


def _rows_of_chunk(graphs: Graphs, selection: Selection, chunk: Chunk) -> _LiteralRows:
    """The rows of consecutive subgraphs."""
    graph = selection.subgraph_graph[slice(*chunk)]
    nodes_of = graphs.num_nodes[graph]
    subgraph = ragged.segment_index(nodes_of)
    node = ragged.ranges(graphs.node_start[graph], nodes_of)
    first_row = ragged.starts(nodes_of) - graphs.node_start[graph]

    marks = _entries_of(selection.mark_subgraph, chunk)
    marked = torch.zeros_like(node, dtype=torch.bool)
    marked[first_row[selection.mark_subgraph[marks] - chunk[0]] + selection.mark_node[marks]] = True

    of_edge, edge = _edges_of_chunk(graphs, selection, chunk)
    shift = first_row[of_edge]
    return _LiteralRows(
        num_edges=torch.bincount(graph[of_edge], minlength=len(graphs)),
        node=node,
        subgraph=subgraph.add_(chunk[0]),
        marked=marked,
        source=shift + graphs.edge_index[0, edge],
        target=shift + graphs.edge_index[1, edge],
        edge_id=edge,
    )


def _edges_of_chunk(graphs: Graphs, selection: Selection, chunk: Chunk) -> tuple[Tensor, Tensor]:
    """Every (number in the chunk of a subgraph, column of edge_index in it), sorted by subgraph, then target."""
    graph = selection.subgraph_graph[slice(*chunk)]
    num_edges = graphs.num_directed_edges[graph]
    subgraph = ragged.segment_index(num_edges)
    edge = ragged.ranges(graphs.directed_edge_start[graph], num_edges)
    first = ragged.starts(num_edges) - graphs.directed_edge_start[graph]
    entries = _entries_of(selection.entry_subgraph, chunk)
    of_entry, entry = selection.entry_subgraph[entries] - chunk[0], selection.entry_edge[entries]
    listed = torch.zeros_like(edge, dtype=torch.bool)
    for direction in graphs.directed_edges:
        listed[first[of_entry] + direction[entry]] = True
    present = ~listed if selection.keeps_edges else listed
    return subgraph[present], edge[present]


def _entries_of(subgraph: Tensor, chunk: Chunk) -> slice:
    """Which entries, sorted by subgraph, those of a chunk are."""
    return slice(*torch.searchsorted(subgraph, torch.tensor(chunk, device=subgraph.device)).tolist())


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
