"""The compact bag: the background once, and the pairs that differ from it; exact, and linear for bounded degrees."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from esan.bags.build.chunks import Chunk, chunks, graph_numbers, joined_rows
from esan.bags.build.pairs import Pairs, entry_keys
from esan.bags.rows import Rows
from esan.graphs import Graphs
from esan.ops import ragged
from esan.ops.dispatch import fills_at_once, implementation
from esan.policies import Selection

#: Most pairs of the graphs whose rows are found at a time; the arcs of the graphs count too.
MOST_PAIRS = 2**18


def compact_rows(graphs: Graphs, selection: Selection, num_layers: int, device: torch.device | None = None) -> Rows:
    r"""The background rows, and the pairs whose level is at most `num_layers`.

    The level :math:`\ell(v, s)` is 0 if v is marked in s; else 1 if the edges at v in s are not those of the
    background; else one more than the least level among v's neighbours in the background. For every stack of
    message-passing layers, :math:`h^t_{v,s} = h^t_v` of the background for all :math:`t < \ell(v, s)`, by induction
    on t: so layer t needs the pairs of level at most t and no others.

    Args:
        graphs: what is selected from.
        selection: what each subgraph changes.
        num_layers: the layers.
        device: where rows are found, some graphs at a time; they go to where the graphs are. None for there.
    """
    fast = implementation("indices", graphs.edge_index) if device is None else None
    if fast is not None:
        return _by_loops(fast.stored_pairs(graphs, selection, num_layers), graphs, selection)
    most = max(MOST_PAIRS, fills_at_once(graphs.device)) if device is None else MOST_PAIRS
    some = chunks(graphs.num_nodes * selection.num_subgraphs + graphs.num_arcs, most)
    if device is None and len(some) == 1:
        return _at_once(graphs, selection, num_layers)
    return _in_chunks(graphs, selection, num_layers, some, device or graphs.device)


def _in_chunks(graphs: Graphs, selection: Selection, num_layers: int, some: list[Chunk], device: torch.device) -> Rows:
    """The same rows, found for some graphs at a time: finding them takes thrice the memory that they have."""
    parts = []
    for chunk in some:
        ids = graph_numbers(graphs, chunk)
        taken = graphs.take(ids).to(device), selection.take(ids, graphs).to(device)
        parts.append(_at_once(*taken, num_layers).to(graphs.device))
    return joined_rows(parts, graphs, selection, some)


def _at_once(graphs: Graphs, selection: Selection, num_layers: int) -> Rows:
    pairs = Pairs(graphs, selection)
    levels = _levels(graphs, selection, pairs, num_layers)
    pair = torch.cat([level.pair for level in levels])
    node = torch.cat([level.node for level in levels])
    subgraph = torch.cat([level.subgraph for level in levels])
    marked = torch.zeros_like(pair, dtype=torch.bool)
    marked[: len(levels[0])] = True

    n = graphs.node_graph.numel()
    row_of = _Lookup(pair, first_row=n)
    ends_at, arc = _arcs(graphs, selection, node, subgraph, row_of, pairs, changed=sum(map(len, levels[:2])))
    source_node = graphs.edge_index[0, arc]
    source = row_of.rows(pairs.number(source_node, subgraph[ends_at - n]), otherwise=source_node)

    num_rows = [graphs.num_nodes, *(_per_graph(graphs, level.node) for level in levels)]
    row_ends = torch.stack(num_rows).sum(1).cumsum(0)
    slot = torch.bucketize(ends_at, row_ends, right=True)
    segment = slot * len(graphs) + graphs.node_graph[node[ends_at - n]]
    num_arcs = torch.bincount(segment, minlength=len(num_rows) * len(graphs)).reshape(len(num_rows), -1)
    if selection.keeps_edges:
        every_arc = torch.arange(graphs.edge_index.size(1), device=arc.device)
        num_arcs[0] = graphs.num_arcs
        source = torch.cat([graphs.edge_index[0], source])
        ends_at = torch.cat([graphs.edge_index[1], ends_at])
        arc = torch.cat([every_arc, arc])
    return Rows(torch.stack(num_rows), num_arcs, node, subgraph, marked, source, ends_at, arc)


def _by_loops(found: Any, graphs: Graphs, selection: Selection) -> Rows:
    """The same rows from the stored pairs and their edges, as compiled loops find them subgraph by subgraph."""
    marked = torch.zeros_like(found.node, dtype=torch.bool)
    marked[: selection.mark_node.numel()] = True
    of_nodes, source, target, arc = torch.zeros_like(graphs.num_arcs), found.source, found.target, found.arc
    if selection.keeps_edges:
        of_nodes = graphs.num_arcs
        source = torch.cat([graphs.edge_index[0], source])
        target = torch.cat([graphs.edge_index[1], target])
        arc = torch.cat([torch.arange(graphs.edge_index.size(1)), arc])
    num_rows = torch.cat([graphs.num_nodes[None], found.num_rows])
    num_arcs = torch.cat([of_nodes[None], found.num_arcs])
    return Rows(num_rows, num_arcs, found.node, found.subgraph, marked, source, target, arc)


@dataclass(frozen=True, eq=False)
class _Level:
    """The pairs of one level, by their number."""

    pair: Tensor
    node: Tensor
    subgraph: Tensor

    def __len__(self) -> int:
        return self.pair.numel()


class _Lookup:
    """From pair numbers to the rows that store them."""

    def __init__(self, pair: Tensor, first_row: int) -> None:
        self._pair, self._place = torch.sort(pair)
        self._first_row = first_row

    def rows(self, pair: Tensor, otherwise: Tensor) -> Tensor:
        stored, place = ragged.member(pair, self._pair)
        if not self._pair.numel():
            return otherwise
        return torch.where(stored, self._first_row + self._place[place], otherwise)


def _levels(graphs: Graphs, selection: Selection, pairs: Pairs, num_layers: int) -> list[_Level]:
    """The pairs of level 0, 1, ..., `num_layers`, sorted: a breadth-first search from what the selection lists."""
    ends = graphs.edges[:, selection.entry_edge]
    changed = pairs.number(ends, selection.entry_subgraph.expand(2, -1)).reshape(-1)
    marks = pairs.number(selection.mark_node, selection.mark_subgraph)
    levels = [_Level(marks, selection.mark_node, selection.mark_subgraph)]
    for level in range(1, num_layers + 1):
        candidates = changed if level == 1 else changed[:0]
        if selection.keeps_edges:
            candidates = torch.cat([candidates, _neighbours(graphs, pairs, levels[-1])])
        candidates = torch.unique(candidates)
        # A neighbour of a pair of level t has level t - 1 at least, so the last two levels are all there is to exclude.
        for known in levels[-2:]:
            candidates = candidates[~ragged.member(candidates, known.pair)[0]]
        levels.append(_Level(candidates, *pairs.split(candidates)))
    return levels


def _neighbours(graphs: Graphs, pairs: Pairs, level: _Level) -> Tensor:
    degree = graphs.degree[level.node]
    arc = ragged.ranges(graphs.first_arc[level.node], degree)
    return pairs.number(graphs.edge_index[0, arc], level.subgraph.repeat_interleave(degree))


def _arcs(
    graphs: Graphs,
    selection: Selection,
    node: Tensor,
    subgraph: Tensor,
    row_of: _Lookup,
    pairs: Pairs,
    changed: int,
) -> tuple[Tensor, Tensor]:
    """The arcs into stored pairs, as (row, arc of the graph), sorted by row.

    Args:
        changed: how many of the pairs are of level 0 or 1; no other can miss an edge of the background.
    """
    n = graphs.node_graph.numel()
    if not selection.keeps_edges:
        arc = graphs.edge_arcs[:, selection.entry_edge]
        both = torch.stack([torch.ones_like(arc[0], dtype=torch.bool), arc[0] != arc[1]])
        arc, of_arc = arc[both], selection.entry_subgraph.expand(2, -1)[both]
        target = graphs.edge_index[1, arc]
        row, order = torch.sort(row_of.rows(pairs.number(target, of_arc), otherwise=target), stable=True)
        return row, arc[order]
    degree = graphs.degree[node]
    arc = ragged.ranges(graphs.first_arc[node], degree)
    row = ragged.owner(degree)
    near = int(degree[:changed].sum())
    listed = entry_keys(graphs, selection.entry_subgraph, selection.entry_edge)
    deleted, _ = ragged.member(entry_keys(graphs, subgraph[row[:near]], graphs.arc_edge[arc[:near]]), listed)
    there = torch.ones_like(row, dtype=torch.bool)
    there[:near] = ~deleted
    return row[there] + n, arc[there]


def _per_graph(graphs: Graphs, node: Tensor) -> Tensor:
    return torch.bincount(graphs.node_graph[node], minlength=len(graphs))
