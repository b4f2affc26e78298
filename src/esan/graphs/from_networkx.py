"""A networkx graph → PyG data."""

import networkx as nx
import torch
from torch_geometric.data import Data


def from_networkx(graph: nx.Graph, place: int) -> Data:
    """Nodes in networkx's order; node attribute `x`, edge attribute `edge_attr` and graph attribute `y` are kept."""
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


def _check_simple(graph: nx.MultiGraph, place: int) -> None:
    twice = next(((u, v) for u, v in graph.edges() if graph.number_of_edges(u, v) > 1), None)
    if twice is not None:
        raise ValueError(
            f"Expected a simple networkx graph (got the edge {twice} more than once in graph {place}). "
            "Call networkx.Graph(graph), which keeps each edge once."
        )
