"""Families of graphs: the atlas of small graphs, random regular graphs, strongly regular graphs."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import networkx as nx
import torch
from torch_geometric.data import Data

from esan.checks import seed_number, shown, whole_number
from esan.graphs.generators import check_size, undirected
from esan.graphs.readers.graph6 import read_graph6
from esan.memory_limits import refuse_beyond_memory


@cache
def _atlas() -> tuple[nx.Graph, ...]:
    return tuple(nx.graph_atlas_g())


def atlas(most_nodes: int = 7) -> list[Data]:
    """Every graph of 1 to `most_nodes` nodes once, up to isomorphism: 1,252 of them up to 7 nodes.

    The atlas of networkx, which also lists the graph without nodes; a graph here has at least one.
    """
    if not 1 <= whole_number("most_nodes", most_nodes, -(2**63), "Leave it out for 7.") <= 7:
        raise ValueError(
            f"Expected 1 to 7 nodes, which is how far the atlas goes (got {shown(most_nodes)}). Leave it out for 7."
        )
    return [
        undirected(len(graph), torch.tensor(list(graph.edges), dtype=torch.long).reshape(-1, 2))
        for graph in _atlas()
        if 1 <= len(graph) <= most_nodes
    ]


def random_regular(degree: int, n: int, seed: int) -> Data:
    """A random graph in which each of n nodes has the same degree; 1-WL tells no two of them apart.

    Args:
        degree: neighbours of each node.
        n: how many nodes; n · degree is even.
        seed: which graph.
    """
    remedy = "Pass e.g. random_regular(3, 10, seed=0)."
    degree, n = whole_number("degree", degree, 0, remedy), whole_number("n", n, 1, remedy)
    seed = seed_number(seed)
    if degree >= n or n * degree % 2:
        raise ValueError(
            f"Expected 0 <= degree < n with n · degree even (got degree={shown(degree)}, n={shown(n)}). "
            "No regular graph has other numbers."
        )
    check_size(f"random_regular({shown(degree)}, {shown(n)}, {seed})", n, n * degree // 2)
    edges = list(nx.random_regular_graph(degree, n, seed=seed).edges)
    return undirected(n, torch.tensor(edges, dtype=torch.long).reshape(-1, 2))


class StrongRegularity(NamedTuple):
    """The parameters of a strongly regular graph.

    Attributes:
        n: nodes.
        k: neighbours of each.
        lam: common neighbours of two nodes that are joined.
        mu: common neighbours of two that are not.
    """

    n: int
    k: int
    lam: int
    mu: int


def strong_regularity(data: Data) -> StrongRegularity | None:
    """The parameters of `data` if it is strongly regular (neither complete nor without edges), else None."""
    if not isinstance(data, Data) or data.edge_index is None:
        got = "data without edge_index" if isinstance(data, Data) else shown(data)
        raise TypeError(f"Expected PyG data with edge_index (got {got}). Pass e.g. esan.graphs.rook().")
    n = int(data.num_nodes or 0)
    refuse_beyond_memory(25 * n * n, f"the adjacency matrix of a graph of {n:,} nodes", "Take a smaller graph.")
    adjacency = torch.zeros(n, n, dtype=torch.long)
    adjacency[data.edge_index[0], data.edge_index[1]] = 1
    common = adjacency @ adjacency
    joined = adjacency.bool()
    apart = ~joined & ~torch.eye(n, dtype=torch.bool)
    counts = [set(values.tolist()) for values in (common.diagonal(), common[joined], common[apart])]
    if bool(adjacency.diagonal().any()) or any(len(values) != 1 for values in counts):
        return None
    k, lam, mu = (next(iter(values)) for values in counts)
    return StrongRegularity(n, k, lam, mu)


def strongly_regular(path: str | Path) -> list[Data]:
    """The strongly regular graphs of a graph6 file, all of one family; a graph that is not of it is an error."""
    graphs = read_graph6(path)
    parameters = [strong_regularity(graph) for graph in graphs]
    for place, found in enumerate(parameters):
        if found is None or found != parameters[0]:
            what = "is not strongly regular" if found is None else f"has {tuple(found)}"
            raise ValueError(
                f"Expected strongly regular graphs with one set of parameters (got graph {place} of {path}, which "
                f"{what}, after {tuple(parameters[0] or ())}). Read other graphs with read_graph6."
            )
    return graphs
