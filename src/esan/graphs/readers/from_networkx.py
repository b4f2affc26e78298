"""networkx graphs → PyG data."""

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import networkx as nx
import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from esan.checks import shown
from esan.graphs.readers import pyg_fields

#: The attribute of each kind that is read.
_READ = {"node": "x", "edge": "edge_attr", "graph": "y"}
#: The attributes of graphs that networkx sets itself, for its own use.
_OF_NETWORKX = ("name", "node_default", "edge_default")


def warn_unread(graphs: Sequence[Any], stacklevel: int) -> None:
    """Warn once for all networkx graphs among these, if they have attributes that nothing reads.

    Args:
        graphs: networkx graphs; all others are passed over.
        stacklevel: the caller that the warning is about, as of `warnings.warn`.
    """
    found: dict[str, dict[str, None]] = {kind: {} for kind in _READ}
    for graph in graphs:
        if isinstance(graph, nx.Graph):
            _add_names(found["node"], (attributes for _, attributes in graph.nodes(data=True)))
            _add_names(found["edge"], (attributes for _, _, attributes in graph.edges(data=True)))
            _add_names(found["graph"], [{name: 1 for name in graph.graph if name not in _OF_NETWORKX}])
    unread = {kind: [str(name) for name in names if name != _READ[kind]] for kind, names in found.items()}
    if not any(unread.values()):
        return
    listed = [f"{', '.join(names[:10])} of {kind}s" for kind, names in unread.items() if names]
    grouped = {"group_node_attrs": unread["node"], "group_edge_attrs": unread["edge"]}
    asked = "".join(f", {argument}={names[:10]!r}" for argument, names in grouped.items() if names)
    remedy = "Delete them"
    if asked:
        remedy = (
            "Numbers become features with torch_geometric.utils.from_networkx(graph"
            f"{asked}), or as x of nodes and edge_attr of edges; delete what is not needed"
        )
    warnings.warn(
        f"Attributes of networkx graphs are not used: {' and '.join(listed)}. Read are x of nodes, edge_attr of edges "
        f"and y of graphs. {remedy}.",
        stacklevel=stacklevel + 1,
    )


def _add_names(names: dict[str, None], attributes: Iterable[dict[str, Any]]) -> None:
    for one in attributes:
        if one:
            names.update(dict.fromkeys(one))


def from_networkx(graph: nx.Graph, place: int) -> Data:
    """Nodes in networkx's order; node attribute `x`, edge attribute `edge_attr` and graph attribute `y` are read."""
    if graph.is_directed():
        raise ValueError(
            f"Expected an undirected networkx graph (got a directed one at {place}). Call .to_undirected()."
        )
    if graph.is_multigraph():
        _check_simple(graph, place)
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
        data.x = _numbers(x, "x", "node", place)
    attr = [(u != v, value) for u, v, value in graph.edges(data="edge_attr") if value is not None]
    if attr:
        if len(attr) < len(ends):
            raise ValueError(
                f"Expected edge_attr on every edge (got {len(attr)} of {len(ends)} in graph {place}). Add the rest."
            )
        both = [value for _, value in attr] + [value for twice, value in attr if twice]
        data.edge_attr = _numbers(both, "edge_attr", "edge", place)
    if "y" in graph.graph:
        data.y = pyg_fields.target(graph.graph["y"], f"graph {place}")
    return data


def _numbers(values: list[Any], name: str, what: str, place: int) -> Tensor:
    """The values of all nodes or edges as one tensor."""
    try:
        if all(isinstance(value, Tensor) for value in values):
            return torch.stack(values)
        return torch.tensor([value.tolist() if isinstance(value, np.ndarray | Tensor) else value for value in values])
    except (TypeError, ValueError, RuntimeError, OverflowError, LookupError):
        odd = next((value for value in values if not _is_number(value)), None)
        got = f"several shapes on the {what}s of graph {place}" if odd is None else f"{shown(odd)} in graph {place}"
        raise TypeError(
            f"Expected {name} of each {what} to be numbers, as many on every {what} (got {got}). Number categories "
            "0, 1, 2, ..."
        ) from None


def _is_number(value: Any) -> bool:
    values = value if isinstance(value, list | tuple) else [value]
    return all(isinstance(one, int | float | np.number | np.ndarray | Tensor) for one in values)


def _check_simple(graph: nx.MultiGraph, place: int) -> None:
    twice = next(((u, v) for u, v in graph.edges() if graph.number_of_edges(u, v) > 1), None)
    if twice is not None:
        raise ValueError(
            f"Expected a simple networkx graph (got the edge {twice} more than once in graph {place}). "
            "Call networkx.Graph(graph), which keeps each edge once."
        )
