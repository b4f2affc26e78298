"""Compact rows: pairs as in the background (graph, or nodes alone) share a row per node; others have their own."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from esan.bags.build.chunks import Chunk, chunks, concatenate_rows, graph_numbers
from esan.bags.rows import Rows
from esan.graphs import Graphs
from esan.memory_limits import refuse_beyond_memory
from esan.ops import ragged
from esan.ops.dispatch import fills_at_once, implementation
from esan.plural import counted
from esan.policies import Selection

#: Bytes of a stored pair, and of an edge between rows.
ROW_BYTES, EDGE_BYTES = 17, 24
#: The largest chunk of graphs whose rows are built at a time, in pairs plus directed edges.
CHUNK_PAIRS = 2**18


def compact_rows(graphs: Graphs, selection: Selection, num_layers: int, device: torch.device | None = None) -> Rows:
    r"""The background rows, and the pairs whose level is at most `num_layers`.

    The level :math:`\ell(v, s)` is 0 if v is marked in s; else 1 if the edges at v in s are not those of the
    background; else one more than the least level among v's neighbours in the background. For every stack of
    message-passing layers, :math:`h^t_{v,s} = h^t_v` of the background for all :math:`t < \ell(v, s)`, by induction
    on t: so layer t needs the pairs of level at most t and no others.

    Args:
        graphs: the graphs.
        selection: what each subgraph changes.
        num_layers: the number of layers.
        device: where rows are computed, one chunk of graphs at a time; they are stored where the graphs are. None for
            that device.
    """
    fast = implementation("indices", graphs.edge_index) if device is None else None
    if fast is not None:
        return _from_loops(fast, graphs, selection, num_layers)
    most = max(CHUNK_PAIRS, fills_at_once(graphs.device)) if device is None else CHUNK_PAIRS
    some = chunks(graphs.num_nodes * selection.num_subgraphs + graphs.num_directed_edges, most)
    if device is None and len(some) == 1:
        return _at_once(graphs, selection, num_layers)
    return _in_chunks(graphs, selection, num_layers, some, device or graphs.device)


def _in_chunks(graphs: Graphs, selection: Selection, num_layers: int, some: list[Chunk], device: torch.device) -> Rows:
    """The same rows, one chunk of graphs at a time: building them takes three times the memory of the result."""
    rows = []
    for chunk in some:
        ids = graph_numbers(graphs, chunk)
        taken = graphs.take(ids).to(device), selection.take(ids, graphs).to(device)
        rows.append(_at_once(*taken, num_layers).to(graphs.device))
    return concatenate_rows(rows, graphs, selection, some)


def _at_once(graphs: Graphs, selection: Selection, num_layers: int) -> Rows:
    pairs = _PairNumbers(graphs, selection)
    levels = _levels(graphs, selection, pairs, num_layers)
    pair = torch.cat([level.pair for level in levels])
    node = torch.cat([level.node for level in levels])
    subgraph = torch.cat([level.subgraph for level in levels])
    marked = torch.zeros_like(pair, dtype=torch.bool)
    marked[: len(levels[0])] = True

    n = graphs.node_graph.numel()
    row_of = _Lookup(pair, first_row=n)
    target, edge = _edges_into(graphs, selection, node, subgraph, row_of, pairs, changed=sum(map(len, levels[:2])))
    source_node = graphs.edge_index[0, edge]
    source = row_of.rows(pairs.number(source_node, subgraph[target - n]), default=source_node)

    num_rows = [graphs.num_nodes, *(_per_graph(graphs, level.node) for level in levels)]
    row_ends = torch.stack(num_rows).sum(1).cumsum(0)
    block = torch.bucketize(target, row_ends, right=True)
    segment = block * len(graphs) + graphs.node_graph[node[target - n]]
    num_edges = torch.bincount(segment, minlength=len(num_rows) * len(graphs)).reshape(len(num_rows), -1)
    if selection.keeps_edges:
        every_edge = torch.arange(graphs.edge_index.size(1), device=edge.device)
        num_edges[0] = graphs.num_directed_edges
        source = torch.cat([graphs.edge_index[0], source])
        target = torch.cat([graphs.edge_index[1], target])
        edge = torch.cat([every_edge, edge])
    return Rows(torch.stack(num_rows), num_edges, node, subgraph, marked, source, target, edge)


def _from_loops(loops: Any, graphs: Graphs, selection: Selection, num_layers: int) -> Rows:
    """The same rows from compiled loops, which count them before any is stored, subgraph by subgraph."""
    counts = loops.count_pairs(graphs, selection, num_layers)
    of_nodes = graphs.num_directed_edges if selection.keeps_edges else torch.zeros_like(graphs.num_directed_edges)
    num_rows = torch.cat([graphs.num_nodes[None], counts.num_rows])
    num_edges = torch.cat([of_nodes[None], counts.num_edges])
    rows, edges = int(num_rows.sum()), int(num_edges.sum())
    refuse_compact(ROW_BYTES * rows + EDGE_BYTES * edges, f"{rows:,} rows and {edges:,} edges", selection)
    built = loops.stored_pairs(graphs, selection, counts)
    marked = torch.zeros_like(built.node, dtype=torch.bool)
    marked[: selection.mark_node.numel()] = True
    return Rows(num_rows, num_edges, built.node, built.subgraph, marked, built.source, built.target, built.edge_id)


def refuse_compact(needed: int, size: str, selection: Selection) -> None:
    """An error if a compact bag would not fit into memory.

    Args:
        needed: its bytes while it is built.
        size: what needs them, as in "5 rows and 4 edges".
        selection: what each subgraph changes.
    """
    fewer = "fewer layers" if selection.keeps_edges else "fewer hops"
    refuse_beyond_memory(
        needed,
        f"the compact bag of {counted(selection.total, 'subgraph')}, {size},",
        f"Take {fewer}, a sample of them, as in esan.Sampled(policy, 0.1), smaller graphs or fewer at a time.",
        selection.num_subgraphs.device,
    )


class _PairNumbers:
    """A number for each of the n·m pairs of each graph: graph by graph, in a graph subgraph by subgraph.

    Args:
        graphs: the graphs.
        selection: their subgraphs.
    """

    def __init__(self, graphs: Graphs, selection: Selection) -> None:
        per_graph = graphs.num_nodes * selection.num_subgraphs
        graph = selection.subgraph_graph
        local = torch.arange(graph.numel(), device=graph.device) - selection.subgraph_start[graph]
        #: The number of the pair (first node of the graph, s), minus that node's own number.
        self._shift = ragged.starts(per_graph)[graph] + local * graphs.num_nodes[graph] - graphs.node_start[graph]
        self._first = self._shift + graphs.node_start[graph]

    def number(self, node: Tensor, subgraph: Tensor) -> Tensor:
        return self._shift[subgraph] + node

    def split(self, pair: Tensor) -> tuple[Tensor, Tensor]:
        """The (node, subgraph) of each pair number."""
        subgraph = torch.searchsorted(self._first, pair, right=True) - 1
        return pair - self._shift[subgraph], subgraph


@dataclass(frozen=True, eq=False)
class _Level:
    """The pairs of one level, sorted by their number."""

    pair: Tensor
    node: Tensor
    subgraph: Tensor

    def __len__(self) -> int:
        return self.pair.numel()


class _Lookup:
    """From pair numbers to the rows that store them."""

    def __init__(self, pair: Tensor, first_row: int) -> None:
        self._pair, self._position = torch.sort(pair)
        self._first_row = first_row

    def rows(self, pair: Tensor, default: Tensor) -> Tensor:
        """The row of each pair; `default` where the pair is not stored."""
        is_stored, position = ragged.member(pair, self._pair)
        if not self._pair.numel():
            return default
        return torch.where(is_stored, self._first_row + self._position[position], default)


def _levels(graphs: Graphs, selection: Selection, pairs: _PairNumbers, num_layers: int) -> list[_Level]:
    """The pairs of level 0, 1, ..., `num_layers`: a breadth-first search from the entries of the selection."""
    ends = graphs.edges[:, selection.entry_edge]
    changed = pairs.number(ends, selection.entry_subgraph.expand(2, -1)).reshape(-1)
    marks = pairs.number(selection.mark_node, selection.mark_subgraph)
    levels = [_Level(marks, selection.mark_node, selection.mark_subgraph)]
    for level in range(1, num_layers + 1):
        candidates = changed if level == 1 else changed[:0]
        if selection.keeps_edges:
            candidates = torch.cat([candidates, _neighbours(graphs, pairs, levels[-1])])
        candidates = torch.unique(candidates)
        # A neighbour of a pair of level t has level t - 1 at least, so only the last two levels must be excluded.
        for known in levels[-2:]:
            candidates = candidates[~ragged.member(candidates, known.pair)[0]]
        levels.append(_Level(candidates, *pairs.split(candidates)))
    return levels


def _neighbours(graphs: Graphs, pairs: _PairNumbers, level: _Level) -> Tensor:
    degree = graphs.degree[level.node]
    edge = ragged.ranges(graphs.first_in_edge[level.node], degree)
    return pairs.number(graphs.edge_index[0, edge], level.subgraph.repeat_interleave(degree))


def _edges_into(
    graphs: Graphs,
    selection: Selection,
    node: Tensor,
    subgraph: Tensor,
    row_of: _Lookup,
    pairs: _PairNumbers,
    changed: int,
) -> tuple[Tensor, Tensor]:
    """The edges into stored pairs, as (row, column of edge_index), sorted by row.

    Args:
        graphs: the graphs.
        selection: what each subgraph changes.
        node: the node of each stored pair.
        subgraph: its subgraph.
        row_of: the row of each stored pair.
        pairs: the numbers of pairs.
        changed: how many of the pairs are of level 0 or 1; no other can miss an edge of the background.
    """
    n = graphs.node_graph.numel()
    if not selection.keeps_edges:
        edge = graphs.directed_edges[:, selection.entry_edge]
        both = torch.stack([torch.ones_like(edge[0], dtype=torch.bool), edge[0] != edge[1]])
        edge, of_edge = edge[both], selection.entry_subgraph.expand(2, -1)[both]
        target = graphs.edge_index[1, edge]
        row, order = torch.sort(row_of.rows(pairs.number(target, of_edge), default=target), stable=True)
        return row, edge[order]
    degree = graphs.degree[node]
    edge = ragged.ranges(graphs.first_in_edge[node], degree)
    row = ragged.segment_index(degree)
    near = int(degree[:changed].sum())
    listed = _entry_keys(graphs, selection.entry_subgraph, selection.entry_edge)
    keys = _entry_keys(graphs, subgraph[row[:near]], graphs.undirected_edge[edge[:near]])
    deleted, _ = ragged.member(keys, listed)
    present = torch.ones_like(row, dtype=torch.bool)
    present[:near] = ~deleted
    return row[present] + n, edge[present]


def _entry_keys(graphs: Graphs, subgraph: Tensor, edge: Tensor) -> Tensor:
    """One number per (subgraph, edge) entry; the numbers of a selection's own entries are sorted."""
    return subgraph * max(graphs.edges.size(1), 1) + edge


def _per_graph(graphs: Graphs, node: Tensor) -> Tensor:
    return torch.bincount(graphs.node_graph[node], minlength=len(graphs))
