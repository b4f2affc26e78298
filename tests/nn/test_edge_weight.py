"""`edge_weight` multiplies messages, on both bags and in both branches, or is refused; it never changes nothing."""

from typing import Any

import pytest
import torch
from torch_geometric import nn as pyg
from torch_geometric.data import Data

import esan
import strategies
from esan.testing import assert_invariant, assert_same_execution

CONVS: dict[str, Any] = {
    "graphconv": "graphconv",
    "gcn": "gcn",
    "PyG GraphConv": lambda i, o: pyg.GraphConv(i, o),
    "PyG GCNConv": lambda i, o: pyg.GCNConv(i, o),
}
CHOICES: dict[str, Any] = {
    "ds": (esan.ds_gnn, {}),
    "dss": (esan.dss_gnn, {}),
    "dss, sum": (esan.dss_gnn, {"adjacency": "sum"}),
    "dss, original, others": (esan.dss_gnn, {"adjacency": "original", "bag_pool": "others"}),
}


def weighted(scale: float = 1.0) -> list[Data]:
    """A cycle, a path with a self-loop, and a graph of one node; both directions of an edge weigh differently."""
    graphs = [strategies.from_edges(9, [(i, (i + 1) % 9) for i in range(9)], 3)]
    graphs += [strategies.from_edges(8, [*((i, i + 1) for i in range(7)), (4, 4)], 4), strategies.from_edges(1, [], 5)]
    generator = torch.Generator().manual_seed(0)
    for graph in graphs:
        columns = graph.edge_index.size(1)
        graph.edge_weight = scale * (0.2 + torch.rand(columns, generator=generator, dtype=torch.double))
    return graphs


def network(architecture: Any, conv: Any, policy: esan.Policy, **choices: Any) -> esan.nn.SubgraphGNN:
    torch.manual_seed(0)
    model = architecture(esan.Categories(strategies.ATOMS), 6, 3, 2, conv=conv, marked=policy.marked, **choices)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return model.double()


@pytest.mark.each_value
@pytest.mark.parametrize("policy", [esan.NodeDeletion(), esan.EgoNets(1, marked=True)], ids=repr)
@pytest.mark.parametrize(("architecture", "choices"), CHOICES.values(), ids=CHOICES)
@pytest.mark.parametrize("conv", CONVS.values(), ids=CONVS)
def test_weights_are_used_alike_on_both_bags(conv: Any, architecture: Any, choices: Any, policy: esan.Policy) -> None:
    model = network(architecture, conv, policy, **choices)
    if choices.get("bag_pool") != "others":
        assert_same_execution(model, weighted(), policy, one_by_one=False)
    assert_invariant(model.eval(), weighted(), policy, trials=1, literal=choices.get("bag_pool") == "others")
    bags = [esan.Bag.of(weighted(scale), policy, literal=True) for scale in (1.0, 10.0)]
    once, tenfold = (model(bag) for bag in bags)
    assert (once - tenfold).abs()[:2].max() > 1e-6


@pytest.mark.parametrize(("ours", "theirs"), [("graphconv", pyg.GraphConv), ("gcn", pyg.GCNConv)])
def test_weights_mean_what_they_mean_in_pyg(ours: str, theirs: Any) -> None:
    policy = esan.EdgeDeletion()
    mine = network(esan.dss_gnn, ours, policy, adjacency="sum").eval()
    other = network(esan.dss_gnn, lambda i, o: theirs(i, o), policy, adjacency="sum").eval()
    state = mine.state_dict()
    other.load_state_dict({name: state[name.replace(".conv.", ".")] for name in other.state_dict()})
    for literal in (True, False):
        bag = esan.Bag.of(weighted(), policy, 4, literal=literal)
        torch.testing.assert_close(mine(bag), other(bag))


def test_weights_follow_their_edges() -> None:
    graphs = weighted()
    bag = esan.Bag.of(graphs, esan.EdgeDeletion(), 3)
    assert bag.edge_weight is not None
    for i in range(bag.num_subgraphs):
        data = bag.subgraph(i)
        whole = graphs[data.graph]
        weight = {
            tuple(ends): w for ends, w in zip(whole.edge_index.t().tolist(), whole.edge_weight.tolist(), strict=True)
        }
        assert [weight[tuple(ends)] for ends in data.edge_index.t().tolist()] == data.edge_weight.tolist()
    model = network(esan.dss_gnn, "graphconv", esan.EdgeDeletion()).eval()
    alone = torch.cat([model(bag[i]) for i in (2, 0, 1)])
    torch.testing.assert_close(model(bag[[2, 0, 1]]), alone)


@pytest.mark.parametrize(
    ("conv", "name", "choices"),
    [
        ("gin", "GINConv", {}),
        ("gine", "GINEConv", {"edge_channels": esan.Categories(strategies.BONDS)}),
        ("gcn", "OGBGCNConv", {"edge_channels": esan.Categories(strategies.BONDS)}),
        ("ppgn", "PPGNBlock", {}),
        (lambda i, o: pyg.GATConv(i, o), "GATConv", {}),
    ],
    ids=["gin", "gine", "bonds", "ppgn", "GATConv"],
)
def test_convolutions_that_would_ignore_weights_refuse_them(conv: Any, name: str, choices: Any) -> None:
    policy = esan.NodeDeletion()
    model = network(esan.dss_gnn, conv, policy, **choices)
    with pytest.raises(
        ValueError, match=rf"Expected a convolution that uses edge weights \(got {name}, .*edge_channels=1"
    ):
        model(esan.Bag.of(weighted(), policy, 4))


def test_weights_as_edge_features() -> None:
    """What the refusal advises."""
    graphs = weighted()
    for graph in graphs:
        graph.edge_attr = graph.edge_weight[:, None]
        del graph.edge_weight
    policy = esan.NodeDeletion()
    assert_same_execution(network(esan.dss_gnn, "gine", policy, edge_channels=1), graphs, policy, one_by_one=False)
