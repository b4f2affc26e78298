"""`ds_gnn` and `dss_gnn`: how large they are, the features they take, and the shapes they give."""

from typing import Any

import pytest
import torch
from torch_geometric import nn as pyg
from torch_geometric.data import Data

import esan
import strategies
from esan.testing.compare import check_close

GRAPHS = strategies.odd_graphs()
ND = esan.NodeDeletion()


@pytest.mark.parametrize("marked", [False, True])
def test_models_of_the_zinc_table_stay_under_100k_parameters(marked: bool) -> None:
    zinc: dict[str, Any] = {"conv": "gine", "edge_channels": esan.Categories(4), "marked": marked}
    dss = esan.dss_gnn(esan.Categories(28), 64, 4, 1, jk="last", **zinc)
    ds = esan.ds_gnn(
        esan.Categories(28),
        64,
        4,
        1,
        readout="mean",
        set_encoder="invariant-deepsets",
        set_channels=96,
        set_layers=1,
        **zinc,
    )
    for network in (dss, ds):
        assert 50_000 < sum(p.numel() for p in network.parameters()) < 100_000


@pytest.mark.parametrize("conv", ["gin", "graphconv", "gcn", "ppgn", lambda i, o: pyg.SAGEConv(i, o)])
def test_no_numbers_an_edge_are_no_edge_features(conv: Any) -> None:
    none, zero = (esan.ds_gnn(4, 8, 2, 1, conv=conv, edge_channels=channels) for channels in (None, 0))
    assert repr(none) == repr(zero)
    assert [p.shape for p in none.parameters()] == [p.shape for p in zero.parameters()]


@pytest.mark.parametrize("channels", [3, esan.OneHot(3), esan.Categories(3)], ids=repr)
def test_ppgn_takes_every_kind_of_edge_features(channels: Any) -> None:
    graph = GRAPHS[5].clone()
    graph.edge_attr = torch.ones(10, 3) if channels == 3 else graph.edge_attr
    network = esan.dss_gnn(esan.Categories(strategies.ATOMS), 4, 2, 5, conv="ppgn", edge_channels=channels)
    assert network(esan.Bag.of(graph, ND, literal=True)).shape == (1, 5)


@pytest.mark.parametrize(
    ("in_channels", "x"),
    [
        (None, None),
        (2, torch.randn(3, 2)),
        (1, torch.randn(3)),
        (esan.OneHot(4), torch.tensor([0, 3, 1])),
        (esan.Categories(4, 2), torch.tensor([[0, 1], [3, 0], [1, 1]])),
    ],
)
def test_every_kind_of_features(in_channels: Any, x: torch.Tensor | None) -> None:
    data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=3, **({} if x is None else {"x": x}))
    assert esan.ds_gnn(in_channels, 4, 2, 5)(esan.Bag.of(data, ND, 2)).shape == (1, 5)


def test_pyg_convolutions_with_edge_features_and_weights() -> None:
    for conv, choices in (
        (lambda i, o: pyg.GATConv(i, o, edge_dim=5), {"edge_channels": esan.Categories(3)}),
        (lambda i, o: pyg.GraphConv(i, o), {"adjacency": "sum"}),
        (lambda i, o: pyg.GCNConv(i, o), {"adjacency": "sum"}),
    ):
        network = strategies.model("dss", "gin", ND, conv=conv, **choices)
        one, other = (network.eval()(esan.Bag.of(GRAPHS, ND, 4, literal=literal)) for literal in (True, False))
        check_close(one, other, "predictions of both bags")
    with pytest.raises(
        ValueError, match=r"Expected a convolution with edge weights for adjacency='sum' \(got SAGEConv"
    ):
        strategies.model("dss", "gin", ND, conv=lambda i, o: pyg.SAGEConv(i, o), adjacency="sum")(
            esan.Bag.of(GRAPHS, ND, 3)
        )
    with pytest.raises(ValueError, match=r"Expected a convolution with edge features \(got SAGEConv"):
        esan.ds_gnn(2, 4, 1, 1, conv=lambda i, o: pyg.SAGEConv(i, o), edge_channels=3)


@pytest.mark.parametrize("output", ["graph", "node", "edge"])
def test_shapes(output: str) -> None:
    lines = {"graph": 7, "node": 25, "edge": sum(g.edge_index.size(1) for g in GRAPHS)}[output]
    for encoder in strategies.ENCODERS:
        network = strategies.model("dss", encoder, ND, num_layers=2, output=output)
        assert network(esan.Bag.of(GRAPHS, ND, literal=True)).shape == (lines, 2)
