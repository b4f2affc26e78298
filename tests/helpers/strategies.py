"""Graphs for tests: drawn by hypothesis, and one of each odd kind; the policies and encoders that laws are tried on."""

from collections.abc import Callable
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import GATConv

import esan

#: Categories of nodes and of edges in all test graphs.
ATOMS, BONDS = 4, 3

POLICIES: dict[str, esan.Policy] = {
    "ND": esan.NodeDeletion(),
    "2-ND": esan.NodeDeletion(k=2),
    "ED": esan.EdgeDeletion(),
    "EGO(1)": esan.EgoNets(hops=1),
    "EGO+(2)": esan.EgoNets(hops=2, marked=True),
    "SE": esan.SingleEdges(),
    "NM": esan.NodeMarking(),
    "identity": esan.Whole(),
    "ND^": esan.Augmented(esan.NodeDeletion()),
    "EGO+(1)^": esan.Augmented(esan.EgoNets(hops=1, marked=True)),
}

#: Encoders by name: what `conv` and `edge_channels` are.
ENCODERS: dict[str, dict[str, Any]] = {
    "gin": {"conv": "gin"},
    "gine": {"conv": "gine", "edge_channels": esan.Categories(BONDS)},
    "gine-ogb": {"conv": "gine-ogb", "edge_channels": esan.Categories(BONDS)},
    "graphconv": {"conv": "graphconv"},
    "gcn": {"conv": "gcn"},
    "gcn-bonds": {"conv": "gcn", "edge_channels": esan.Categories(BONDS)},
    "ppgn": {"conv": "ppgn"},
    "gat": {"conv": lambda i, o: GATConv(i, o)},
}
#: Those that are exact on compact bags.
LOCAL_ENCODERS = [name for name in ENCODERS if name != "ppgn"]
ARCHITECTURES: dict[str, Callable[..., esan.nn.SubgraphGNN]] = {"ds": esan.ds_gnn, "dss": esan.dss_gnn}


def model(
    architecture: str, encoder: str, policy: esan.Policy, *, width: int = 5, num_layers: int = 3, **choices: Any
) -> esan.nn.SubgraphGNN:
    """A small network for the test graphs, in double precision, its norms no longer at their first values."""
    build = ARCHITECTURES[architecture]
    options = ENCODERS[encoder] | choices
    network = build(esan.Categories(ATOMS), width, num_layers, 2, marked=policy.marked, **options).double()
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, torch.nn.BatchNorm1d):
                module.weight.uniform_(0.5, 1.5)
                module.bias.uniform_(-0.5, 0.5)
    return network


def from_edges(num_nodes: int, edges: list[tuple[int, int]], seed: int = 0) -> Data:
    """The graph with those undirected edges; `seed` draws categories of nodes and edges, and the order of columns."""
    generator = torch.Generator().manual_seed(seed)
    both = edges + [(v, u) for u, v in edges if u != v]
    edge_index = torch.tensor(both, dtype=torch.long).reshape(-1, 2).t()
    edge_index = edge_index[:, torch.randperm(len(both), generator=generator)]
    return Data(
        edge_index=edge_index.contiguous(),
        num_nodes=num_nodes,
        x=torch.randint(ATOMS, (num_nodes,), generator=generator),
        # Both directions of an edge may differ: nothing in a bag may confuse them.
        edge_attr=torch.randint(BONDS, (len(both),), generator=generator),
        y=torch.randn(1, generator=generator, dtype=torch.float64),
    )


def odd_graphs() -> list[Data]:
    """One of each: a single node, no edges, an isolated node, disconnected, self-loops, a regular one and a tree."""
    return [
        from_edges(1, [], 1),
        from_edges(1, [(0, 0)], 2),
        from_edges(3, [], 3),
        from_edges(4, [(0, 1), (1, 2)], 4),
        from_edges(5, [(0, 1), (2, 3), (3, 4), (4, 4)], 5),
        from_edges(5, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)], 6),
        from_edges(6, [(0, 1), (1, 2), (1, 3), (3, 4), (3, 5)], 7),
    ]


@st.composite
def graphs(draw: st.DrawFn, max_nodes: int = 6) -> Data:
    """Any undirected graph, self-loops and isolated nodes included."""
    n = draw(st.integers(1, max_nodes))
    node = st.integers(0, n - 1)
    edge = st.tuples(node, node).map(lambda ends: (min(ends), max(ends)))
    edges = draw(st.lists(edge, unique=True, max_size=2 * n))
    return from_edges(n, edges, draw(st.integers(0, 99)))


@st.composite
def batches(draw: st.DrawFn, max_drawn: int = 2, max_nodes: int = 6) -> list[Data]:
    """Drawn graphs among some of the odd ones, in any order."""
    drawn = draw(st.lists(graphs(max_nodes), min_size=1, max_size=max_drawn))
    odd = odd_graphs()
    kept = draw(st.sets(st.integers(0, len(odd) - 1), min_size=2, max_size=4))
    return list(draw(st.permutations(drawn + [odd[i] for i in sorted(kept)])))


def policies() -> st.SearchStrategy[esan.Policy]:
    """One of the policies that the laws are tried on."""
    return st.sampled_from(list(POLICIES.values()))


def plain_edges(data: Data) -> set[tuple[int, int]]:
    """The undirected edges of a graph, as Python sees them."""
    columns: Tensor = data.edge_index
    return {(min(u, v), max(u, v)) for u, v in columns.t().tolist()}
