"""`read`: PyG data, datasets, batches and networkx graphs → `Graphs`, with all checks of user input."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import networkx as nx
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset
from torch_geometric.data import Batch, Data
from torch_geometric.data.data import BaseData

from esan.checks import shown
from esan.graphs import extra_fields
from esan.graphs.collection import Graphs
from esan.graphs.extra_fields import ExtraFields
from esan.graphs.readers import pyg_fields
from esan.graphs.readers.from_networkx import from_networkx, warn_unread
from esan.memory_limits import refuse_beyond_memory
from esan.ops import ragged

Source: TypeAlias = Graphs | Data | nx.Graph | Dataset | Sequence[Data | nx.Graph]


def read(source: Source) -> Graphs:
    """The graphs of `source` as one checked collection.

    Graphs are undirected: `edge_index` holds both directions of every edge, each once. Self-loops, isolated
    nodes, disconnected graphs, single nodes and graphs without edges are fine; a directed edge, a repeated edge, a
    number out of range, a feature that is not finite or a graph without nodes is an error.

    Fields other than `x`, `edge_index`, `edge_attr`, `edge_weight`, `y` and `num_nodes` are carried along as PyG
    batches them (`Graphs.extra`); one that only some graphs have is an error. Of networkx graphs only the node
    attribute `x`, the edge attribute `edge_attr` and the graph attribute `y` are read; a warning names all others.

    Args:
        source: a PyG `Data`, `Batch` or dataset (or a part of one, as `torch.utils.data.random_split` gives it), a
            networkx graph, a list of `Data` or networkx graphs, or `Graphs`.
    """
    if isinstance(source, Graphs):
        return source
    if isinstance(source, BaseData) and not isinstance(source, Data):
        raise TypeError(
            f"Expected PyG Data, with one kind of nodes and of edges (got {type(source).__name__}). "
            "Convert it first, e.g. with HeteroData.to_homogeneous()."
        )
    if isinstance(source, Batch):
        return _assemble(_fields_of_batch(source))
    graphs = [source] if isinstance(source, Data | nx.Graph) else _listed(source)
    if not graphs:
        raise ValueError("Expected at least one graph (got an empty list). Pass the graphs that the bag is made of.")
    parts = _GraphFields()
    warn_unread(graphs, stacklevel=2)
    graphs = [
        from_networkx(graph, place) if isinstance(graph, nx.Graph) else graph for place, graph in enumerate(graphs)
    ]
    for place, graph in enumerate(graphs):
        parts.add(place, graph)
    parts.extra = extra_fields.of_list(graphs, parts.num_nodes, parts.edge_index[0].device)
    return _assemble(parts)


def several(source: Any) -> list[Any] | None:
    """The graphs in a list, a dataset or another iterable; None if `source` is a single graph."""
    graphs = _items(source)
    for place, graph in enumerate(graphs or ()):
        if isinstance(graph, Batch):
            raise TypeError(
                f"Expected graphs one by one (got a batch of {graph.num_graphs} at place {place}). Pass the dataset "
                "instead of its DataLoader, or [graph for batch in batches for graph in batch.to_data_list()]."
            )
    return graphs


def _items(source: Any) -> list[Any] | None:
    if isinstance(source, Dataset) and hasattr(source, "__len__") and not isinstance(source, IterableDataset):
        # Not list(source): a dataset indexes by its own split, and len is its bound.
        return [source[i] for i in range(len(source))]
    if not isinstance(source, Iterable) or isinstance(source, BaseData | nx.Graph | str | bytes | dict | Tensor):
        return None
    return list(source)


def _listed(source: Any) -> list[Data | nx.Graph]:
    graphs = several(source)
    if graphs is None:
        raise TypeError(
            f"Expected PyG data, a dataset, networkx graphs or a list of them (got {type(source).__name__}). "
            "Wrap an edge index as torch_geometric.data.Data(edge_index=..., num_nodes=...)."
        )
    for place, graph in enumerate(graphs):
        if not isinstance(graph, Data | nx.Graph):
            raise TypeError(
                f"Expected PyG Data or networkx graphs (got {type(graph).__name__} at place {place} of the list). "
                "Convert it first."
            )
    return graphs


@dataclass
class _GraphFields:
    """The fields of each graph, before they are concatenated."""

    num_nodes: list[int] = field(default_factory=list)
    num_directed_edges: list[int] = field(default_factory=list)
    edge_index: list[Tensor] = field(default_factory=list)
    x: list[Tensor | None] = field(default_factory=list)
    edge_attr: list[Tensor | None] = field(default_factory=list)
    y: list[Tensor | None] = field(default_factory=list)
    edge_weight: list[Tensor | None] = field(default_factory=list)
    extra: ExtraFields = field(default_factory=ExtraFields)
    #: The graph of each column of edge_index; None if columns are sorted by graph.
    of_column: Tensor | None = None

    def add(self, place: int, data: Data) -> None:
        where = f"graph {place}"
        edge_index = pyg_fields.edge_index(data, where)
        n = pyg_fields.count_nodes(data, edge_index, where)
        self.num_nodes.append(n)
        self.num_directed_edges.append(edge_index.size(1))
        self.edge_index.append(edge_index)
        self.x.append(pyg_fields.node_features(data, n, where))
        self.edge_attr.append(pyg_fields.edge_features(data, edge_index.size(1), where))
        self.edge_weight.append(pyg_fields.edge_weights(data, edge_index.size(1), where))
        if "edge_label_index" in data:
            extra_fields.check_edge_label_index(data.edge_label_index, where)
        self.y.append(pyg_fields.target(data.y, where))


def _fields_of_batch(batch: Batch) -> _GraphFields:
    """The fields of a PyG batch, which are concatenated already, with the counts of each graph."""
    if not isinstance(batch.get("ptr"), Tensor):
        raise ValueError(
            "Expected a batch with ptr, where the nodes of each graph begin (got none). "
            "Make it with Batch.from_data_list or a PyG DataLoader."
        )
    where = "the batch"
    _check_ptr(batch)
    edge_index, n = pyg_fields.edge_index(batch, where), torch.diff(batch.ptr)
    # A transform of the batch (add_self_loops) may leave columns that are not sorted by graph: each is looked up.
    of_column = torch.bucketize(edge_index[0].clamp(min=0), batch.ptr[1:], right=True).clamp(max=n.numel() - 1)
    columns = torch.bincount(of_column, minlength=n.numel())
    parts = _GraphFields(n.tolist(), columns.tolist(), of_column=of_column)
    parts.edge_index = [edge_index - batch.ptr[of_column]]
    parts.x = [pyg_fields.node_features(batch, int(n.sum()), where)]
    parts.edge_attr = [pyg_fields.edge_features(batch, edge_index.size(1), where)]
    parts.edge_weight = [pyg_fields.edge_weights(batch, edge_index.size(1), where)]
    parts.extra = extra_fields.of_batch(
        batch, extra_fields.BatchCounts(n, columns, torch.argsort(of_column, stable=True))
    )
    # PyG leaves what it cannot stack as a list with one entry per graph.
    is_list = isinstance(batch.y, list) and len(batch.y) == n.numel()
    labels = enumerate(batch.y) if is_list else ()
    parts.y = [pyg_fields.target(y, f"graph {place}") for place, y in labels] or [pyg_fields.target(batch.y, where)]
    return parts


def _check_ptr(batch: Batch) -> None:
    """An error unless ptr says where the nodes of each graph begin, from 0 to where those of the last one end."""
    ptr, remedy = batch.ptr, "Make it with Batch.from_data_list or a PyG DataLoader."
    pyg_fields.check_numbers(ptr, "ptr", "the batch")
    if ptr.dim() != 1 or ptr.numel() < 2 or ptr.dtype not in (torch.int64, torch.int32):
        raise ValueError(
            "Expected ptr to be a list of whole numbers, one more than there are graphs (got "
            f"{shown(ptr)} in the batch). {remedy}"
        )
    nodes = batch.num_nodes if batch.x is None and "num_nodes" in batch else None
    first, last, falls = int(ptr[0]), int(ptr[-1]), bool((ptr[1:] < ptr[:-1]).any())
    if first != 0 or falls or (nodes is not None and last != nodes):
        got = f"it begins with {first}" if first else "it falls" if falls else f"it ends with {last}"
        total = "" if nodes is None else f", {shown(nodes)}"
        raise ValueError(
            f"Expected ptr to rise from 0 to how many nodes there are{total} (got one where {got}). {remedy}"
        )


def _assemble(parts: _GraphFields) -> Graphs:
    devices = {str(part.device) for part in parts.edge_index}
    if len(devices) > 1:
        raise ValueError(
            f"Expected all graphs on one device (got {' and '.join(sorted(devices))}). Move them: data.to('cpu')."
        )
    nodes = sum(parts.num_nodes)
    # `node_graph` has one number per node.
    refuse_beyond_memory(8 * nodes, f"graphs of {shown(nodes)} nodes", "Is num_nodes right? Nodes are numbered from 0.")
    local = torch.cat(parts.edge_index, 1)
    device = local.device
    num_nodes = torch.tensor(parts.num_nodes, device=device)
    num_directed_edges = torch.tensor(parts.num_directed_edges, device=device)
    if bool((num_nodes == 0).any()):
        raise ValueError(
            f"Expected graphs with at least one node (got none in graph {int((num_nodes == 0).nonzero()[0])}). "
            "Leave it out."
        )
    of_column = ragged.segment_index(num_directed_edges) if parts.of_column is None else parts.of_column
    _check_range(local, num_nodes, of_column)
    edge_index = local + ragged.starts(num_nodes)[of_column]
    arranged = _arrange(edge_index, num_nodes)
    x = pyg_fields.concatenate(parts.x, "x")
    edge_attr = pyg_fields.concatenate(parts.edge_attr, "edge_attr")
    edge_weight = pyg_fields.concatenate(parts.edge_weight, "edge_weight")
    extra_fields.check_pair_range(parts.extra, num_nodes)
    y, level = pyg_fields.targets(parts.y, num_nodes, num_directed_edges)
    edge_graph = ragged.segment_index(num_nodes)[arranged.edges[0]]
    return Graphs(
        num_nodes=num_nodes,
        num_edges=torch.bincount(edge_graph, minlength=num_nodes.numel()),
        num_directed_edges=num_directed_edges,
        edges=arranged.edges,
        edge_index=edge_index[:, arranged.column],
        undirected_edge=arranged.undirected_edge,
        column=arranged.column,
        x=x,
        edge_attr=None if edge_attr is None else edge_attr[arranged.column],
        y=y,
        y_level=level,
        edge_weight=None if edge_weight is None else edge_weight[arranged.column],
        extra=parts.extra,
    )


def _check_range(local: Tensor, num_nodes: Tensor, of_column: Tensor) -> None:
    outside = ((local < 0) | (local >= num_nodes[of_column])).any(0)
    if bool(outside.any()):
        bad = int(outside.nonzero()[0])
        graph = int(of_column[bad])
        raise ValueError(
            f"Expected node numbers from 0 to {int(num_nodes[graph]) - 1} in edge_index of graph {graph} "
            f"(got the edge {tuple(local[:, bad].tolist())}). Number the nodes of each graph from 0."
        )


@dataclass
class _ArrangedEdges:
    edges: Tensor
    undirected_edge: Tensor
    column: Tensor


def _arrange(edge_index: Tensor, num_nodes: Tensor) -> _ArrangedEdges:
    """Sort the columns by target, match each with its reverse, and number the undirected edges."""
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
    edge_key, undirected_edge = torch.unique(small * n + large, return_inverse=True)
    return _ArrangedEdges(torch.stack([edge_key // n, edge_key % n]), undirected_edge, column)


def _named(source: int, target: int, num_nodes: Tensor) -> str:
    ends = ragged.boundaries(num_nodes)
    graph = int(torch.bucketize(torch.tensor(source, device=ends.device), ends, right=True)) - 1
    return f"{source - int(ends[graph])}→{target - int(ends[graph])} of graph {graph}"
