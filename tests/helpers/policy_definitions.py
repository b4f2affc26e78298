"""The bags of the paper from their definitions, in networkx and Python loops; esan only names the policies."""

from itertools import combinations

import networkx as nx
from torch_geometric.data import Data

import esan
from strategies import plain_edges

#: The edges that a subgraph has, and its marked nodes.
Subgraph = tuple[frozenset[tuple[int, int]], frozenset[int]]


def networkx_graph(data: Data) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(range(data.num_nodes))
    graph.add_edges_from(plain_edges(data))
    return graph


def _edges(graph: nx.Graph) -> frozenset[tuple[int, int]]:
    return frozenset((min(u, v), max(u, v)) for u, v in graph.edges)


def _without_nodes(graph: nx.Graph, nodes: tuple[int, ...]) -> Subgraph:
    return frozenset((u, v) for u, v in _edges(graph) if u not in nodes and v not in nodes), frozenset()


def _ego(graph: nx.Graph, root: int, hops: int, marked: bool) -> Subgraph:
    ball = nx.single_source_shortest_path_length(graph, root, cutoff=hops)
    return _edges(graph.subgraph(ball)), frozenset([root] if marked else [])


def definition(policy: esan.Policy, graph: nx.Graph) -> list[Subgraph]:
    """The bag as the paper defines it, in the order of nodes or edges."""
    everything = _edges(graph)
    match policy:
        case esan.NodeDeletion(k=k):
            sets = sorted(combinations(graph.nodes, k), key=lambda nodes: nodes[::-1])
            return [_without_nodes(graph, nodes) for nodes in sets] or [(everything, frozenset())]
        case esan.EdgeDeletion():
            return [(everything - {e}, frozenset()) for e in sorted(everything)] or [(everything, frozenset())]
        case esan.EgoNets(hops=hops, marked=marked):
            return [_ego(graph, root, hops, marked) for root in graph.nodes]
        case esan.SingleEdges():
            return [(frozenset([e]), frozenset()) for e in sorted(everything)] or [(everything, frozenset())]
        case esan.NodeMarking():
            return [(everything, frozenset([root])) for root in graph.nodes]
        case esan.Whole():
            return [(everything, frozenset())]
        case esan.Augmented(policy=inner):
            return [*definition(inner, graph), (everything, frozenset())]
    raise NotImplementedError(policy)
