"""Checks of the arrays of a bag, its graphs and its selection: compiled loops do not check bounds."""

import math

import torch
from torch import Tensor

from esan.bags.rows import Rows
from esan.graphs import Graphs
from esan.graphs.extra_fields import TensorField, check_edge_label_index, check_pair_range
from esan.graphs.readers.graph_arrays import MOST_NODES
from esan.ops import ragged
from esan.policies.selection import Selection, entry_chunks, rises

#: Products of counts stay below this, so that no key of a pair overflows.
_MOST = 2**62
#: The number of edges that are checked at a time.
_CHUNK = 2**16


def check_bag(graphs: Graphs, selection: Selection, rows: Rows, num_layers: int | None) -> None:
    """ValueError unless all indices of a bag are in range and its arrays agree with one another.

    Linear in the size of the arrays. Checked are dtypes and shapes, counts and their totals, ranges and sort orders;
    that nodes, edges, subgraphs and rows that belong together are of one graph; and that every edge between rows is a
    copy of an edge of the graph between the nodes of these rows.

    Args:
        graphs: the graphs.
        selection: what each subgraph changes.
        rows: the rows.
        num_layers: of a compact bag; None for a literal one.
    """
    # Nodes and subgraphs may exist as counts only: the size of the file bounds how many are plausible.
    most = max(MOST_NODES, sum(t.numel() for record in (graphs, selection, rows) for t in record.tensors().values()))
    check_graphs(graphs, most)
    check_selection(graphs, selection, most)
    _check_rows(graphs, selection, rows, num_layers)


def check_graphs(graphs: Graphs, most: int = MOST_NODES) -> None:
    """`check_bag` of the graphs alone; at most `most` nodes."""
    count = graphs.num_nodes.numel()
    _need(count > 0, "at least one graph")
    for name, dims in (
        ("num_nodes", 1), ("num_edges", 1), ("num_directed_edges", 1), ("undirected_edge", 1), ("column", 1),
    ):  # fmt: skip
        _whole(getattr(graphs, name), name, dims)
    for name in ("edges", "edge_index"):
        _whole(getattr(graphs, name), name, 2)
        _need(getattr(graphs, name).size(0) == 2, f"{name} of shape [2, ...]")
    e, a = graphs.edges.size(1), graphs.edge_index.size(1)
    _need(_least(graphs.num_nodes) >= 1, "graphs with at least one node")
    _need(float(graphs.num_nodes.double().sum()) <= most, f"at most {most:,} nodes in num_nodes")
    n = int(graphs.num_nodes.sum())
    for name, total in (("num_edges", e), ("num_directed_edges", a)):
        _need(getattr(graphs, name).numel() == count, f"{name} with one number per graph")
        _adds_up(getattr(graphs, name), total, name)
    for name in ("undirected_edge", "column"):
        _need(getattr(graphs, name).numel() == a, f"{name} with one number per column of edge_index")
    _within(graphs.edges, n, "edges")
    _within(graphs.edge_index, n, "edge_index")
    _within(graphs.undirected_edge, e, "undirected_edge")
    _within(graphs.column, a, "column")
    small, large = graphs.edges
    source, target = graphs.edge_index
    _need(bool((small <= large).all()), "edges with the smaller end first")
    _rises(small * n + large, "edges")
    _rises(target * n + source, "edge_index")
    of_column = ragged.segment_index(graphs.num_directed_edges)
    of_ends = (("edges", graphs.edges, graphs.edge_graph), ("edge_index", graphs.edge_index, of_column))
    for name, ends, owner in of_ends:
        _need(bool((graphs.node_graph[ends] == owner).all()), f"{name} inside graphs, as their counts say")
    both = torch.minimum(source, target), torch.maximum(source, target)
    same = torch.equal(graphs.edges[:, graphs.undirected_edge], torch.stack(both))
    _need(same, "undirected_edge to be the undirected edge of each column")
    times = torch.bincount(graphs.undirected_edge, minlength=e)
    _need(torch.equal(times, 2 - (small == large).long()), "both directions of every edge")
    _need(bool((torch.bincount(graphs.column, minlength=a) == 1).all()), "column to be an order of the columns")
    of_y = {"graph": count, "node": n, "edge": a}
    _need(graphs.y_level in of_y, f"y_level to be one of {', '.join(of_y)}")
    for name, rows in (("x", n), ("edge_attr", a), ("edge_weight", a), ("y", of_y[graphs.y_level])):
        value = getattr(graphs, name)
        if value is not None:
            _need(value.dim() > 0 and value.size(0) == rows, f"{rows} rows of {name}")
            _need(name == "y" or bool(torch.isfinite(value).all()), f"finite numbers in {name}")
    weight = graphs.edge_weight
    _need(weight is None or (weight.dim() == 1 and weight.is_floating_point()), "edge_weight of one fraction per edge")
    _check_extra(graphs)


def _check_extra(graphs: Graphs) -> None:
    """The extra fields: entries of every graph, and pairs to be scored between nodes of one graph."""
    count = len(graphs)
    for name, field in graphs.extra.fields.items():
        if not isinstance(field, TensorField):
            _need(isinstance(field.value, list) and len(field.value) == count, f"{name} with one entry per graph")
            continue
        _need(0 <= field.dim < field.local.dim(), f"{name} with a dimension that graphs follow one another in")
        _whole(field.counts, f"the counts of {name}", 1)
        _need(field.counts.numel() == count, f"{name} with one count per graph")
        _adds_up(field.counts, field.local.size(field.dim), f"the counts of {name}")
        if field.step is not None:
            _need(field.step.dim() > 0 and field.step.size(0) == count, f"{name} with one increment per graph")
            try:
                _ = field.value
            except (RuntimeError, IndexError):
                _need(False, f"{name} with increments that can be added to it")
    if "edge_label_index" in graphs.extra:
        pairs = graphs.extra.fields["edge_label_index"]
        check_edge_label_index(pairs.value, "the bag")
        assert isinstance(pairs, TensorField)
        # Numbers of nodes, counted through all graphs.
        is_local = pairs.dim == 1 and pairs.step is not None and torch.equal(pairs.step, graphs.num_nodes)
        _need(is_local, "edge_label_index to number the nodes of each graph from 0")
        check_pair_range(graphs.extra, graphs.num_nodes)


def check_selection(graphs: Graphs, selection: Selection, most: float = math.inf) -> None:
    """`check_bag` of the selection alone; at most `most` subgraphs."""
    count = len(graphs)
    for name in ("num_subgraphs", "entry_subgraph", "entry_edge", "mark_subgraph", "mark_node"):
        _whole(getattr(selection, name), name, 1)
    for name in ("keeps_edges", "marked"):
        _need(isinstance(getattr(selection, name), bool), f"{name} to be true or false")
    subgraphs = selection.num_subgraphs
    _need(subgraphs.numel() == count and _least(subgraphs) >= 1, "at least one subgraph of each graph")
    _need(float(subgraphs.double().sum()) <= most, f"at most {most:,} subgraphs in num_subgraphs")
    pairs = graphs.num_nodes.double() * subgraphs.double()
    _need(float(pairs.sum()) < _MOST, "num_nodes and num_subgraphs whose products fit 64 bits")
    _need(selection.marked or not selection.mark_node.numel(), "no marks where nodes are not marked")
    n, e, total = graphs.node_graph.numel(), graphs.edges.size(1), selection.total
    _need(total * max(n, e, 1) < _MOST, "numbers of subgraphs and of nodes or edges whose products fit 64 bits")
    for item, owner, of_item in (("edge", "entry", graphs.edge_graph), ("node", "mark", graphs.node_graph)):
        mine, its = getattr(selection, f"{owner}_subgraph"), getattr(selection, f"{owner}_{item}")
        _need(mine.numel() == its.numel(), f"{owner}_subgraph and {owner}_{item} of one length")
        _within(mine, total, f"{owner}_subgraph")
        _within(its, of_item.numel(), f"{owner}_{item}")
        in_order = rises(mine, its, max(of_item.numel(), 1))
        _need(in_order, f"{owner}_subgraph and {owner}_{item} sorted, each entry once")
        graph_of = selection.subgraph_graph
        same = all(torch.equal(graph_of[mine[part]], of_item[its[part]]) for part in entry_chunks(mine.numel()))
        _need(same, f"each subgraph to list {item}s of its own graph")


def _check_rows(graphs: Graphs, selection: Selection, rows: Rows, num_layers: int | None) -> None:
    count, n = len(graphs), graphs.node_graph.numel()
    blocks = 2 if num_layers is None else num_layers + 2
    for name, dims in (("num_rows", 2), ("num_edges", 2), ("node", 1), ("subgraph", 1)):
        _whole(getattr(rows, name), name, dims)
    for name in ("source", "target", "edge_id"):
        _whole(getattr(rows, name), name, 1)
    _need(rows.marked.dtype == torch.bool and rows.marked.dim() == 1, "marked with one truth value per pair")
    for name in ("num_rows", "num_edges"):
        _need(getattr(rows, name).shape == (blocks, count), f"{name} of shape [{blocks}, {count}]")
    pairs, edges = rows.node.numel(), rows.source.numel()
    _need(rows.subgraph.numel() == pairs == rows.marked.numel(), "node, subgraph and marked of one length")
    _need(rows.target.numel() == edges == rows.edge_id.numel(), "source, target and edge_id of one length")
    background = torch.zeros_like(graphs.num_nodes) if num_layers is None else graphs.num_nodes
    _need(torch.equal(rows.num_rows[0], background), "one background row per node in num_rows of a compact bag")
    first = 0 if num_layers is None else n
    _adds_up(rows.num_rows[1:], pairs, "num_rows")
    _adds_up(rows.num_edges, edges, "num_edges")
    _within(rows.node, n, "node")
    _within(rows.subgraph, selection.total, "subgraph")
    _within(rows.source, first + pairs, "source")
    _need(_in_order(rows.target), "target in order")
    _within(rows.target[[0, -1]] if edges else rows.target, first + pairs, "target")
    _within(rows.edge_id, graphs.edge_index.size(1), "edge_id")
    segment = ragged.segment_index(rows.num_rows.reshape(-1))
    graph = segment[first:] % count
    _need(torch.equal(graphs.node_graph[rows.node], graph), "nodes of the graphs that num_rows says")
    _need(torch.equal(selection.subgraph_graph[rows.subgraph], graph), "subgraphs of the graphs that num_rows says")
    key, block = rows.subgraph * n + rows.node, segment[first:] // count
    _need(bool(((key[1:] > key[:-1]) | (block[1:] > block[:-1])).all()), "pairs of each block in order, each once")
    _check_pairs(graphs, selection, rows, num_layers)
    # `target` is sorted, so the edges into the rows of each block and graph end where these rows end.
    ends = torch.searchsorted(rows.target, rows.num_rows.reshape(-1).cumsum(0))
    _need(
        torch.equal(ends, rows.num_edges.reshape(-1).cumsum(0)), "target in the blocks and graphs that num_edges says"
    )
    _check_copies(graphs, selection, rows, first, key)


def _check_pairs(graphs: Graphs, selection: Selection, rows: Rows, num_layers: int | None) -> None:
    """The stored pairs, as far as they are known in advance: all of a literal bag, and the marked ones."""
    marks = selection.mark_node.numel()
    if num_layers is None:
        expected = graphs.num_nodes * selection.num_subgraphs
        _need(torch.equal(rows.num_rows[1], expected), "a row for every pair in num_rows of a literal bag")
        # All pairs, each once and sorted: the row of each follows from its node and subgraph.
        start = ragged.starts(graphs.num_nodes[selection.subgraph_graph])
        at = start - graphs.node_start[selection.subgraph_graph]
        expected_marks = torch.zeros_like(rows.marked)
        expected_marks[at[selection.mark_subgraph] + selection.mark_node] = True
        _need(torch.equal(rows.marked, expected_marks), "marked where the selection has its marks")
        return
    _need(int(rows.num_rows[1].sum()) == marks, "the marks of the selection in the first block of pairs")
    same = torch.equal(rows.node[:marks], selection.mark_node)
    _need(same and torch.equal(rows.subgraph[:marks], selection.mark_subgraph), "the marks of the selection in order")
    expected_marks = torch.arange(rows.marked.numel(), device=rows.marked.device) < marks
    _need(torch.equal(rows.marked, expected_marks), "marked in the first block of pairs, and nowhere else")


def _check_copies(graphs: Graphs, selection: Selection, rows: Rows, first: int, key: Tensor) -> None:
    """Every edge between rows joins the rows of the two ends of its edge of the graph, in one subgraph.

    Args:
        graphs: the graphs.
        selection: what each subgraph changes.
        rows: the rows.
        first: the number of background rows.
        key: one number per stored pair, n · subgraph + node.
    """
    own = int(rows.num_edges[0].sum())
    if first:
        expected = graphs.edge_index.size(1) if selection.keeps_edges else 0
        _need(own == expected, "the edges of the graphs among background rows, or none if the background has none")
        every = torch.arange(own, device=rows.edge_id.device)
        same = torch.equal(rows.edge_id[:own], every) and torch.equal(rows.source[:own], graphs.edge_index[0, :own])
        _need(same and torch.equal(rows.target[:own], graphs.edge_index[1, :own]), "background rows joined as nodes")
    else:
        _need(own == 0, "no background rows in a literal bag")
    begins, ends = graphs.edge_index
    # In chunks that stay in the cache.
    chunked = [tensor[own:].split(_CHUNK) for tensor in (rows.source, rows.target, rows.edge_id)]
    for source, target, edge in zip(*chunked, strict=True):
        at, from_node, to_node = target - first, begins[edge], ends[edge]
        _need(torch.equal(rows.node[at], to_node), "target to be a row of the node where its edge ends")
        wanted = key[at].add_(from_node).sub_(to_node)
        if first:
            # A source that is not stored is the background row of its node, whose number is the node's.
            pair = source - first
            right = (key[pair.clamp(min=0)] == wanted).logical_and_(pair >= 0).logical_or_(source == from_node)
        else:
            right = key[source] == wanted
        _need(bool(right.all()), "source to be a row of the node where its edge begins, in the subgraph of target")


def _need(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(f"Expected {what} (got others).")


def _whole(value: Tensor, name: str, dims: int) -> None:
    got = value.dtype == torch.int64 and value.dim() == dims
    _need(got, f"{name} of 64-bit integers with {dims} dimension{'s' * (dims > 1)}")


def _least(value: Tensor) -> int:
    return int(value.min()) if value.numel() else 0


def _within(value: Tensor, count: int, name: str) -> None:
    if value.numel():
        low, high = map(int, torch.aminmax(value))
        if low < 0 or high >= count:
            raise ValueError(f"Expected {name} from 0 to below {count} (got {low if low < 0 else high}).")


def _adds_up(value: Tensor, total: int, name: str) -> None:
    """Non-negative counts whose sum is `total`, checked without integer overflow."""
    _need(_least(value) >= 0 and (not value.numel() or int(value.max()) <= total), f"{name} from 0 to {total}")
    # In floating point first: the integer sum of many large counts could overflow to `total`.
    near = abs(float(value.double().sum()) - total) < 0.5 + 1e-9 * total
    _need(near and int(value.sum()) == total, f"{name} that add up to {total}")


def _in_order(value: Tensor) -> bool:
    return bool((value[1:] >= value[:-1]).all())


def _rises(key: Tensor, name: str) -> None:
    _need(bool((key[1:] > key[:-1]).all()), f"{name} sorted, each entry once")
