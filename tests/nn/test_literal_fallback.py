"""When `ds_gnn` and `dss_gnn` fall back to the literal bag or extend the compact one, and that they say so."""

import copy
import warnings
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric import nn as pyg

import esan
import strategies
from esan.testing.compare import check_close

GRAPHS = strategies.odd_graphs()
ND = esan.NodeDeletion()
WIDTH = 5


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


@pytest.mark.parametrize(("conv", "name"), [(_drops, "GATConv"), (_mlp_drops, "GINConv")])
def test_dropout_in_a_pyg_convolution_does_too(conv: Any, name: str) -> None:
    network = strategies.model("dss", "gin", ND, num_layers=2, conv=conv)
    assert network.why_literal == f"{name} holds dropout, which is drawn for every pair"
    compact, literal = esan.Bag.of(GRAPHS, ND, 2, literal=False), esan.Bag.of(GRAPHS, ND, literal=True)
    check_close(network.eval()(compact), network(literal), "predictions on the literal bag")


def _layer(network: Any) -> Any:
    return network.encoder.layers[1]


def _norm_in_act(network: Any) -> None:
    _layer(network).act = nn.Sequential(nn.ReLU(), nn.BatchNorm1d(WIDTH))


def _norm_in_mlp(network: Any) -> None:
    mlp = _layer(network).inside.mlp
    mlp.first = nn.Sequential(mlp.first, nn.BatchNorm1d(WIDTH))


def _dropout_in_mlp(network: Any) -> None:
    mlp = _layer(network).inside.mlp
    mlp.second = nn.Sequential(mlp.second, nn.Dropout(0.5))


def _norm_in_graph_conv(network: Any) -> None:
    conv = _layer(network).inside
    conv.lin_rel = nn.Sequential(conv.lin_rel, esan.nn.BatchNorm(WIDTH))


def _other_flow(network: Any) -> None:
    _layer(network).inside.conv.flow = "target_to_source"


def _pygs_mlp(network: Any) -> None:
    network.encoder.layers[1].inside.mlp = pyg.MLP([WIDTH, WIDTH, WIDTH])


def _softmax_over_rows(network: Any) -> None:
    network.encoder.layers[0].act = nn.Softmax(0)


def _random_slopes(network: Any) -> None:
    network.encoder.layers[0].act = nn.RReLU()


def _function(act: Any) -> Any:
    """A change to a function of one's own as activation."""

    def change(network: Any) -> None:
        layer = network.encoder.layers[0]
        layer._modules.pop("act", None)
        layer.act = act

    return change


class Centred:
    def __call__(self, x: Any) -> Any:
        return x - x.mean(0)

    __slots__ = ()  # and so not to be referred to weakly


_OTHER_ROWS = "gives a row other values where there are other rows"


@pytest.mark.parametrize(
    ("conv", "change", "why"),
    [
        ("gin", _norm_in_act, "Sequential holds a BatchNorm1d, which does not know"),
        ("gin", _norm_in_mlp, "Sequential holds a BatchNorm1d, which does not know"),
        ("gin", _dropout_in_mlp, "Sequential holds dropout, which is drawn for every pair"),
        ("graphconv", _norm_in_graph_conv, "Sequential holds a BatchNorm, which does not know"),
        ("gin", _pygs_mlp, "MLP does not know how many pairs a row stands for"),
        ("gin", _softmax_over_rows, "Softmax does not know how many pairs a row stands for"),
        ("gin", _random_slopes, "RReLU draws slopes for every pair"),
        ("gin", _function(lambda x: x - x.mean(0)), f"the activation <lambda> {_OTHER_ROWS}"),
        ("gin", _function(partial(torch.softmax, dim=0)), _OTHER_ROWS),
        ("gin", _function(Centred()), f"the activation Centred {_OTHER_ROWS}"),
        ("gin", _function(partial(F.dropout, p=0.5)), _OTHER_ROWS),
        (lambda i, o: pyg.SAGEConv(i, o), _other_flow, "SAGEConv reads the rows that its edges go to"),
    ],
)
def test_changes_after_a_network_was_built_count(conv: Any, change: Any, why: str) -> None:
    network = strategies.model("ds", "gin", ND, num_layers=2, conv=conv)
    assert network.why_literal is None
    change(network.double())
    assert why in str(network.why_literal)


@pytest.mark.parametrize("act", [torch.sin, F.elu, lambda x: F.leaky_relu(x, 0.3), lambda x: x * x.new_ones(WIDTH)])
def test_functions_that_treat_rows_one_by_one_keep_bags_compact(act: Any) -> None:
    network = strategies.model("dss", "gin", ND, num_layers=2, act=act).eval()
    assert network.why_literal is None
    bag = esan.Bag.of(GRAPHS, ND, 2)
    wanted = network(esan.Bag.of(GRAPHS, ND, literal=True))
    check_close(network(bag), wanted, "predictions on the literal bag")
    check_close(torch.cat([*map(network, esan.Loader(bag, 3, padded=True))]), wanted, "predictions on padded batches")


def test_activations_that_mix_rows_on_padded_batches_are_refused() -> None:
    network = strategies.model("ds", "gin", ND, num_layers=2, act=lambda x: x - x.mean(0))
    with pytest.raises(ValueError, match="Expected an activation that treats rows one by one on padded batches"):
        network(next(iter(esan.Loader(esan.Bag.of(GRAPHS, ND, 2), padded=True))))


def test_another_convolution_in_a_wrapper_has_its_own_lookahead() -> None:
    network = strategies.model("ds", "gin", ND, conv=lambda i, o: pyg.SAGEConv(i, o)).eval()
    wrapper: Any = network.encoder.layers[1].inside
    wrapper.conv = pyg.GCNConv(WIDTH, WIDTH).double()
    assert network.encoder.lookahead == 1
    got = network(esan.Bag.of(GRAPHS, ND, 4))
    check_close(got, network(esan.Bag.of(GRAPHS, ND, literal=True)), "predictions on the literal bag")


def test_a_padded_batch_becomes_literal_too() -> None:
    bag = esan.Bag.of(GRAPHS, ND, 2)
    network = strategies.model("dss", "gin", ND, num_layers=2, readout="max").eval()
    wanted = network(esan.Bag.of(GRAPHS, ND, literal=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = [network(batch) for batch in esan.Loader(bag, batch_size=3, padded=True)]
    check_close(torch.cat(got), wanted, "predictions on the literal bag")


def test_a_bag_too_shallow_for_the_lookahead_is_extended_with_one_warning() -> None:
    network = strategies.model("dss", "gcn", ND).eval()
    with pytest.warns(UserWarning, match=r"The bag is extended to 4 layers .*Build the bag with num_layers=4"):
        got = network(esan.Bag.of(GRAPHS, ND, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        network(esan.Bag.of(GRAPHS, ND, 3))
    check_close(got, network(esan.Bag.of(GRAPHS, ND, literal=True)), "predictions on the literal bag")


def _norm_in_first(network: Any) -> None:
    mlp = network.encoder.layers[0].inside.mlp
    mlp.first = nn.Sequential(mlp.first, nn.BatchNorm1d(WIDTH))


@pytest.mark.parametrize(
    ("conv", "change"),
    [
        (lambda i, o: pyg.GINConv(nn.Sequential(nn.Linear(i, o), nn.BatchNorm1d(o), nn.Linear(o, o))), None),
        ("gin", _norm_in_act),
        ("gin", _norm_in_first),
        ("gin", _norm_in_mlp),
        ("gin", _pygs_mlp),
        ("gin", _softmax_over_rows),
        ("graphconv", _norm_in_graph_conv),
    ],
)
@pytest.mark.parametrize("literal", [True, None])
def test_what_would_count_padding_is_refused_on_padded_batches(conv: Any, change: Any, literal: bool | None) -> None:
    """And gives the same on literal and compact bags."""
    network = strategies.model("ds", "gin", ND, num_layers=2, conv=conv)
    if change is not None:
        change(network)
    network = network.double()
    bag = esan.Bag.of(GRAPHS, ND, 2, literal=literal)
    (batch,) = esan.Loader(bag, batch_size=len(GRAPHS), padded=True)
    with pytest.raises(ValueError, match=r"padded=False|literal bag without padding"):
        network(batch)
    found = [copy.deepcopy(network)(one) for one in (bag, bag.to_literal())]
    check_close(found[0], found[1], "predictions on the literal bag")


@pytest.mark.parametrize("norm", [pyg.GraphNorm, pyg.LayerNorm, pyg.InstanceNorm])
def test_norms_of_whole_graphs_are_refused(norm: Any) -> None:
    """They would take all rows of a batch for one graph."""
    network = strategies.model("ds", "gin", ND, num_layers=2)
    network.encoder.layers[0].norm = norm(WIDTH)
    with pytest.raises(TypeError, match=rf"Expected a norm over rows \(got {norm.__name__} of PyG, which normalises"):
        network.double()(esan.Bag.of(GRAPHS, ND, 2))
    network.encoder.layers[0].norm = pyg.LayerNorm(WIDTH, mode="node")
    bag = esan.Bag.of(GRAPHS, ND, 2)
    check_close(network.double()(bag), network(bag.to_literal()), "predictions with a norm of each row")
