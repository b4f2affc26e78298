"""What people hold (PyG data, datasets, batches, networkx graphs) → `Graphs`, checked once for all."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import networkx as nx
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data, Dataset

from esan import ragged
from esan.graphs.collection import Graphs, Level

Source: TypeAlias = Graphs | Data | nx.Graph | Dataset | Sequence[Data | nx.Graph]


def read(source: Source) -> Graphs:
    """The graphs of `source` as one checked collection.

    Graphs are undirected: `edge_index` holds both directions of every edge, each once. Self-loops, isolated
    nodes, disconnected graphs, single nodes and graphs without edges are fine; a directed edge, a repeated edge, a
    number out of range, a feature that is not finite or a graph without nodes is an error.

    Args:
        source: a PyG `Data`, `Batch` or dataset, a networkx graph, a list of `Data` or networkx graphs, or `Graphs`.
    """
    if isinstance(source, Graphs):
        return source
    if isinstance(source, Batch):
        return _assemble(_parts_of_batch(source))
    graphs = [source] if isinstance(source, Data | nx.Graph) else _listed(source)
    if not graphs:
        raise ValueError("Expected at least one graph (got an empty list). Pass the graphs that the bag is made of.")
    parts = _Parts()
    for place, graph in enumerate(graphs):
        parts.add(place, _from_networkx(graph, place) if isinstance(graph, nx.Graph) else graph)
    return _assemble(parts)


def _listed(source: Any) -> list[Data | nx.Graph]:
    if not isinstance(source, Iterable) or isinstance(source, str | bytes | dict | Tensor):
        raise TypeError(
            f"Expected PyG data, a dataset, networkx graphs or a list of them (got {type(source).__name__}). "
            "Wrap an edge index as torch_geometric.data.Data(edge_index=..., num_nodes=...)."
        )
    # Not list(source): a PyG dataset indexes by its own split, and len is the honest bound.
    graphs = [source[i] for i in range(len(source))] if isinstance(source, Dataset) else list(source)
    for place, graph in enumerate(graphs):
        if not isinstance(graph, Data | nx.Graph):
            raise TypeError(
                f"Expected PyG Data or networkx graphs (got {type(graph).__name__} at place {place} of the list). "
                "Convert it first."
            )
    return graphs


@dataclass
class _Parts:
    """The pieces of each graph before they are laid end to end."""

    num_nodes: list[int] = field(default_factory=list)
    num_arcs: list[int] = field(default_factory=list)
    edge_index: list[Tensor] = field(default_factory=list)
    x: list[Tensor | None] = field(default_factory=list)
    edge_attr: list[Tensor | None] = field(default_factory=list)
    y: list[Tensor | None] = field(default_factory=list)

    def add(self, place: int, data: Data) -> None:
        edge_index = data.edge_index
        if edge_index is None:
            edge_index = torch.empty(2, 0, dtype=torch.long)
        _check_edge_index(edge_index, f"graph {place}")
        n = _count_nodes(data, edge_index, place)
        self.num_nodes.append(n)
        self.num_arcs.append(edge_index.size(1))
        self.edge_index.append(edge_index.long())
        self.x.append(_lines(data.x, n, "x", "node", place))
        self.edge_attr.append(_lines(data.edge_attr, edge_index.size(1), "edge_attr", "column of edge_index", place))
        self.y.append(None if data.y is None else torch.as_tensor(data.y))


def _count_nodes(data: Data, edge_index: Tensor, place: int) -> int:
    if data.x is not None:
        n = data.x.size(0)
        if "num_nodes" in data and data.num_nodes != n:
            raise ValueError(
                f"Expected a line of x a node (got {n} lines and num_nodes={data.num_nodes} in graph {place}). "
                "Make them agree."
            )
    elif "num_nodes" in data:
        n = int(data.num_nodes or 0)
    else:
        n = int(edge_index.max()) + 1 if edge_index.numel() else 0
    if n == 0:
        raise ValueError(
            f"Expected graphs with at least one node (got none in graph {place}). Leave it out, or set x or num_nodes."
        )
    return n


def _check_edge_index(edge_index: Any, where: str) -> None:
    if not isinstance(edge_index, Tensor) or edge_index.dim() != 2 or edge_index.size(0) != 2:
        got = tuple(edge_index.shape) if isinstance(edge_index, Tensor) else type(edge_index).__name__
        raise ValueError(f"Expected edge_index of shape [2, arcs] (got {got} in {where}). Transpose or convert it.")
    if edge_index.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"Expected edge_index of integers (got {edge_index.dtype} in {where}). Call .long() on it.")


def _lines(value: Any, lines: int, name: str, what: str, place: int) -> Tensor | None:
    if value is None:
        return None
    if not isinstance(value, Tensor):
        raise TypeError(f"Expected {name} to be a tensor (got {type(value).__name__} in graph {place}). Convert it.")
    if value.dim() == 0 or value.size(0) != lines:
        raise ValueError(
            f"Expected a line of {name} a {what}, {lines} in all (got shape {tuple(value.shape)} in graph {place}). "
            f"Give every {what} its line."
        )
    return value


def _parts_of_batch(batch: Batch) -> _Parts:
    """A PyG batch is laid end to end already: one part, its counts filled in by `_assemble`."""
    _check_edge_index(batch.edge_index, "the batch")
    n = torch.diff(batch.ptr)
    graph_of_arc = torch.bucketize(batch.edge_index[0].clamp(min=0), batch.ptr[1:], right=True)
    arcs = torch.bincount(graph_of_arc.clamp(max=n.numel() - 1), minlength=n.numel())
    parts = _Parts(n.tolist(), arcs.tolist())
    shift = torch.repeat_interleave(batch.ptr[:-1], arcs)
    parts.edge_index = [batch.edge_index.long() - shift]
    parts.x, parts.edge_attr, parts.y = [batch.x], [batch.edge_attr], [batch.y]
    return parts


def _assemble(parts: _Parts) -> Graphs:
    local = torch.cat(parts.edge_index, 1)
    device = local.device
    num_nodes = torch.tensor(parts.num_nodes, device=device)
    num_arcs = torch.tensor(parts.num_arcs, device=device)
    if bool((num_nodes == 0).any()):
        raise ValueError(
            f"Expected graphs with at least one node (got none in graph {int((num_nodes == 0).nonzero()[0])}). "
            "Leave it out."
        )
    of_arc = ragged.owner(num_arcs)
    _check_range(local, num_nodes, of_arc)
    edge_index = local + ragged.starts(num_nodes)[of_arc]
    arcs = _arrange(edge_index, num_nodes)
    x = _joined(parts.x, "x")
    edge_attr = _joined(parts.edge_attr, "edge_attr")
    y, level = _targets(parts.y, num_nodes, num_arcs)
    edge_graph = ragged.owner(num_nodes)[arcs.edges[0]]
    return Graphs(
        num_nodes=num_nodes,
        num_edges=torch.bincount(edge_graph, minlength=num_nodes.numel()),
        num_arcs=num_arcs,
        edges=arcs.edges,
        edge_index=edge_index[:, arcs.column],
        arc_edge=arcs.arc_edge,
        column=arcs.column,
        x=x,
        edge_attr=None if edge_attr is None else edge_attr[arcs.column],
        y=y,
        y_level=level,
    )


def _check_range(local: Tensor, num_nodes: Tensor, of_arc: Tensor) -> None:
    outside = ((local < 0) | (local >= num_nodes[of_arc])).any(0)
    if bool(outside.any()):
        bad = int(outside.nonzero()[0])
        graph = int(of_arc[bad])
        raise ValueError(
            f"Expected node numbers from 0 to {int(num_nodes[graph]) - 1} in edge_index of graph {graph} "
            f"(got the edge {tuple(local[:, bad].tolist())}). Number the nodes of each graph from 0."
        )


@dataclass
class _Arranged:
    edges: Tensor
    arc_edge: Tensor
    column: Tensor


def _arrange(edge_index: Tensor, num_nodes: Tensor) -> _Arranged:
    """Sort the arcs by target, pair each with its reverse, and number the undirected edges."""
    n = int(num_nodes.sum())
    source, target = edge_index
    key, column = torch.sort(target * n + source)
    if bool((key[1:] == key[:-1]).any()):
        twice = int(key[1:][key[1:] == key[:-1]][0])
        raise ValueError(
            f"Expected simple graphs (got the edge {_named(twice % n, twice // n, num_nodes)} more than once). "
            "Merge repeated edges with torch_geometric.utils.coalesce."
        )
    source, target = source[column], target[column]
    known, _ = ragged.member(source * n + target, key)
    if not bool(known.all()):
        alone = int((~known).nonzero()[0])
        raise ValueError(
            f"Expected both directions of every edge (got {_named(int(source[alone]), int(target[alone]), num_nodes)} "
            "in one direction only). Make the graph undirected with torch_geometric.utils.to_undirected."
        )
    small, large = torch.minimum(source, target), torch.maximum(source, target)
    edge_key, arc_edge = torch.unique(small * n + large, return_inverse=True)
    return _Arranged(torch.stack([edge_key // n, edge_key % n]), arc_edge, column)


def _named(source: int, target: int, num_nodes: Tensor) -> str:
    ends = ragged.boundaries(num_nodes)
    graph = int(torch.bucketize(torch.tensor(source, device=ends.device), ends, right=True)) - 1
    return f"{source - int(ends[graph])}→{target - int(ends[graph])} of graph {graph}"


def _joined(values: list[Tensor | None], name: str) -> Tensor | None:
    given = [value for value in values if value is not None]
    if not given:
        return None
    if len(given) < len(values):
        missing = next(place for place, value in enumerate(values) if value is None)
        raise ValueError(f"Expected {name} on every graph or on none (got none on graph {missing}). Add it there.")
    for place, value in enumerate(given):
        if value.shape[1:] != given[0].shape[1:]:
            raise ValueError(
                f"Expected {name} of one width (got {tuple(given[0].shape[1:])} on graph 0 and "
                f"{tuple(value.shape[1:])} on graph {place}). Give all graphs the same features."
            )
    joined = torch.cat(given)
    _check_finite(joined, name)
    return joined


def _check_finite(value: Tensor, name: str) -> None:
    if value.is_floating_point() and not bool(torch.isfinite(value).all()):
        where = int((~torch.isfinite(value)).reshape(value.size(0), -1).any(1).nonzero()[0])
        raise ValueError(
            f"Expected finite numbers in {name} (got {value[where].tolist()} at line {where} of all graphs together). "
            "Fill or drop missing values first."
        )


def _targets(values: list[Tensor | None], num_nodes: Tensor, num_arcs: Tensor) -> tuple[Tensor | None, Level]:
    given = [value.reshape(1) if value.dim() == 0 else value for value in values if value is not None]
    if not given:
        return None, "graph"
    if len(given) < len(values):
        missing = next(place for place, value in enumerate(values) if value is None)
        raise ValueError(f"Expected y on every graph or on none (got none on graph {missing}). Label it.")
    if len(given) == num_nodes.numel():
        lengths = torch.tensor([value.size(0) for value in given], device=num_nodes.device)
        candidates: list[tuple[Level, Tensor]] = [
            ("graph", torch.ones_like(num_nodes)),
            ("node", num_nodes),
            ("edge", num_arcs),
        ]
    else:
        lengths = torch.tensor([given[0].size(0)], device=num_nodes.device)
        graphs = torch.tensor([num_nodes.numel()], device=num_nodes.device)
        candidates = [("graph", graphs), ("node", num_nodes.sum(0, True)), ("edge", num_arcs.sum(0, True))]
    for level, expected in candidates:
        if torch.equal(lengths, expected):
            # NaN is allowed in y: multi-task sets mark a missing label so.
            return torch.cat(given), level
    bad = int((lengths != candidates[0][1]).nonzero()[0])
    raise ValueError(
        f"Expected y with one line a graph, a node or a column of edge_index (got {int(lengths[bad])} lines on graph "
        f"{bad}). Give each graph one line: y of shape [1] or [1, tasks]."
    )


def _from_networkx(graph: nx.Graph, place: int) -> Data:
    """Nodes in networkx's order; node attribute `x`, edge attribute `edge_attr` and graph attribute `y` are kept."""
    if graph.is_directed():
        raise ValueError(
            f"Expected an undirected networkx graph (got a directed one at {place}). Call .to_undirected()."
        )
    number = {node: i for i, node in enumerate(graph.nodes)}
    ends = [(number[u], number[v]) for u, v in graph.edges()]
    both = ends + [(v, u) for u, v in ends if u != v]
    edge_index = torch.tensor(both, dtype=torch.long).reshape(-1, 2).t()
    data = Data(edge_index=edge_index, num_nodes=len(number))
    x = [value for _, value in graph.nodes(data="x") if value is not None]
    if x:
        if len(x) < len(number):
            raise ValueError(
                f"Expected x on every node (got {len(x)} of {len(number)} in graph {place}). Add the rest."
            )
        data.x = torch.tensor(x)
    attr = [(u != v, value) for u, v, value in graph.edges(data="edge_attr") if value is not None]
    if attr:
        if len(attr) < len(ends):
            raise ValueError(
                f"Expected edge_attr on every edge (got {len(attr)} of {len(ends)} in graph {place}). Add the rest."
            )
        data.edge_attr = torch.tensor([value for _, value in attr] + [value for twice, value in attr if twice])
    if "y" in graph.graph:
        data.y = torch.as_tensor(graph.graph["y"])
    return data
