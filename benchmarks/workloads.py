"""Graphs to measure on: random 3-regular graphs, grids, and molecule-like trees with rings, of any size."""

import networkx as nx
import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from esan.data import load

#: ZINC's numbers of atom and bond types.
ATOM_TYPES, BOND_TYPES = 28, 4


def regular(n: int, seed: int = 0) -> Data:
    """A random 3-regular graph."""
    graph = nx.random_regular_graph(3, n + n % 2, seed=seed)
    return _labelled(torch.tensor(list(graph.edges)).t(), n + n % 2, seed)


def grid(n: int, seed: int = 0) -> Data:
    """A square grid of about n nodes."""
    side = round(n**0.5)
    number = torch.arange(side * side).reshape(side, side)
    across = torch.stack([number[:, :-1].reshape(-1), number[:, 1:].reshape(-1)])
    down = torch.stack([number[:-1].reshape(-1), number[1:].reshape(-1)])
    return _labelled(torch.cat([across, down], 1), side * side, seed)


def molecule(n: int, seed: int = 0) -> Data:
    """A connected graph of chains, branches and rings of 5 or 6, degree 4 at most; ZINC's mix of them."""
    draw = np.random.default_rng(seed)
    edges: list[tuple[int, int]] = []
    degree = [0]

    def join(u: int, v: int) -> None:
        edges.append((u, v))
        degree[u] += 1
        degree[v] += 1

    def anchor() -> int:
        while True:
            # Near the end of what is built, so that the graph grows long as molecules do.
            u = max(0, len(degree) - 1 - int(draw.integers(0, 6)))
            if degree[u] < 3:
                return u

    while len(degree) < n:
        size = int(draw.integers(5, 7)) if draw.random() < 0.3 else 1
        size = min(size, n - len(degree))
        first, at = len(degree), anchor()
        degree.extend([0] * size)
        join(at, first)
        for u in range(first, first + size - 1):
            join(u, u + 1)
        if size >= 5:
            join(first, first + size - 1)
    return _labelled(torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t(), n, seed)


def zinc_like(count: int, seed: int = 0) -> list[Data]:
    """Molecule-like graphs with ZINC's sizes (23.2 ± 4.5 nodes) and one target each."""
    draw = np.random.default_rng(seed)
    sizes = draw.normal(23.155, 4.481, count).round().clip(9, 37).astype(int)
    graphs = [molecule(int(n), seed + i) for i, n in enumerate(sizes)]
    for graph, y in zip(graphs, draw.normal(size=count), strict=True):
        graph.y = torch.tensor([y], dtype=torch.float)
    return graphs


def zinc(count: int, seed: int = 0) -> list[Data]:
    """Molecules of ZINC12k, drawn at random; the data are read from $ESAN_DATA, or downloaded."""
    every = load("zinc").graphs
    ids = np.random.default_rng(seed).permutation(len(every))[:count]
    made = []
    for i in ids:
        one = every.take(torch.tensor([i]))
        assert one.x is not None
        assert one.edge_attr is not None
        assert one.y is not None
        made.append(
            Data(
                x=one.x.reshape(-1),
                edge_index=one.edge_index,
                edge_attr=one.edge_attr.reshape(-1),
                y=one.y.reshape(-1).float(),
                num_nodes=int(one.num_nodes.sum()),
            )
        )
    return made


def _labelled(edges: torch.Tensor, n: int, seed: int) -> Data:
    draw = torch.Generator().manual_seed(seed)
    bonds = torch.randint(1, BOND_TYPES, (edges.size(1),), generator=draw)
    edge_index, edge_attr = to_undirected(edges, bonds, num_nodes=n)
    x = torch.randint(0, ATOM_TYPES, (n,), generator=draw)
    return Data(x=x, edge_index=edge_index, edge_attr=edge_attr, num_nodes=n)
