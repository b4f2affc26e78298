"""When `ds_gnn` and `dss_gnn` fall back to the literal bag or extend the compact one, and that they say so."""

import warnings
from typing import Any

import pytest
from torch import nn
from torch_geometric import nn as pyg

import esan
import strategies
from esan.testing.compare import check_close

GRAPHS = strategies.odd_graphs()
ND = esan.NodeDeletion()


def _drops(i: int, o: int) -> nn.Module:
    return pyg.GATConv(i, o, dropout=0.5)


def _norms(i: int, o: int) -> nn.Module:
    return pyg.GINConv(nn.Sequential(nn.Linear(i, o), nn.BatchNorm1d(o)))


def _mlp_drops(i: int, o: int) -> nn.Module:
    return pyg.GINConv(pyg.MLP([i, o, o], norm=None, dropout=0.5))


FALLBACKS: dict[str, tuple[dict[str, Any], str]] = {
    "ppgn": ({"conv": "ppgn"}, "conv='ppgn'"),
    "max over nodes": ({"readout": "max"}, "readout='max' needs every pair"),
    "max over the bag": ({"bag_pool": "max"}, "bag_pool='max' needs every pair"),
    "others": ({"bag_pool": "others"}, "bag_pool='others' needs every pair"),
    "plain norm": ({"conv": _norms}, "GINConv holds a BatchNorm1d"),
    "foreign dropout": ({"conv": _drops}, "GATConv holds dropout"),
    "dropout in a PyG MLP": ({"conv": _mlp_drops}, "GINConv holds dropout"),
    "unknown conv": ({"conv": lambda i, o: pyg.LEConv(i, o)}, "LEConv is not known to read only"),
    "order of messages": (
        {"conv": lambda i, o: pyg.SAGEConv(i, o, aggr="lstm")},
        "SAGEConv holds a LSTMAggregation, which reads messages in an order",
    ),
    "flow": (
        {"conv": lambda i, o: pyg.SAGEConv(i, o, flow="target_to_source")},
        "SAGEConv reads the rows that its edges go",
    ),
}


@pytest.mark.parametrize("name", FALLBACKS)
def test_fallback_to_the_literal_bag_is_said_once_and_exact(name: str) -> None:
    choices, why = FALLBACKS[name]
    network = strategies.model("dss", "gin", ND, num_layers=2, **choices).eval()
    compact = esan.Bag.of(GRAPHS, ND, 2)
    with pytest.warns(UserWarning, match="The literal bag is used in place of the compact one: ") as said:
        got = network(compact)
    assert len(said) == 1
    assert why in str(said[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        network(compact)
    check_close(got, network(esan.Bag.of(GRAPHS, ND, literal=True)), "predictions on the literal bag")


@pytest.mark.parametrize("name", FALLBACKS)
def test_a_compact_bag_asked_for_by_name_is_not_replaced(name: str) -> None:
    choices, _ = FALLBACKS[name]
    network = strategies.model("dss", "gin", ND, num_layers=2, **choices).eval()
    with pytest.raises(
        ValueError, match=r"Expected a network that is exact on a compact bag .*Build the bag with literal=True"
    ):
        network(esan.Bag.of(GRAPHS, ND, 2, literal=False))


def test_dropout_needs_the_literal_bag_while_training_only() -> None:
    network = strategies.model("dss", "gin", ND, dropout=0.5)
    with pytest.raises(ValueError, match="dropout is drawn for every pair while training"):
        network(esan.Bag.of(GRAPHS, ND, 3, literal=False))
    network.eval()(esan.Bag.of(GRAPHS, ND, 3, literal=False))


def test_a_bag_too_shallow_for_the_lookahead_is_extended_with_one_warning() -> None:
    network = strategies.model("dss", "gcn", ND).eval()
    with pytest.warns(UserWarning, match=r"The bag is extended to 4 layers .*Build it with num_layers=4"):
        got = network(esan.Bag.of(GRAPHS, ND, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        network(esan.Bag.of(GRAPHS, ND, 3))
    check_close(got, network(esan.Bag.of(GRAPHS, ND, literal=True)), "predictions on the literal bag")
