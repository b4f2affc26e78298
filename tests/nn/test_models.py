"""`ds_gnn` and `dss_gnn`: what they refuse, when they fall back to the literal bag, and how large they are."""

import warnings
from typing import Any

import pytest
import torch
from torch import nn
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


@pytest.mark.parametrize(
    ("choices", "match"),
    [
        (
            {"conv": "gat"},
            r"Expected the name of a convolution \(got 'gat'\)\. Known: gin, gine, gine-ogb, graphconv, gcn, ppgn",
        ),
        ({"bag_pool": "median"}, r"Expected bag_pool to be one of sum, mean, max, others \(got 'median'\)"),
        ({"adjacency": "mean"}, r"Expected adjacency to be one of max, sum, original \(got 'mean'\)"),
        ({"readout": "min"}, r"Expected readout to be one of sum, mean, max \(got 'min'\)"),
        (
            {"set_encoder": "attention"},
            r"Expected set_encoder to be one of deepsets, invariant-deepsets, mean, max \(got",
        ),
        ({"jk": "lstm"}, r"Expected jk to be one of cat, last \(got 'lstm'\)"),
        ({"norm": "group_norm"}, r"Expected norm to be one of batch_norm, layer_norm, None \(got 'group_norm'\)"),
        ({"output": "subgraph"}, r"Expected output to be one of graph, node, edge \(got 'subgraph'\)"),
        ({"dropout": 1.0}, r"Expected a dropout in \[0, 1\) \(got 1.0\)"),
        ({"conv": "gine"}, r"Expected edge_channels for a convolution with edge features \(got None\)\. Pass e\.g\."),
        (
            {"conv": "gin", "edge_channels": 3},
            r"Expected a convolution with edge features .*got 'gin'.*Use conv='gine'",
        ),
    ],
    ids=lambda v: str(v) if isinstance(v, dict) else "",
)
def test_unknown_choices_list_the_known_ones(choices: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        esan.dss_gnn(4, 8, 2, 1, **choices)


SIZES = {
    "hidden_channels": r"Pass e\.g\. 64",
    "num_layers": r"Pass e\.g\. 4",
    "out_channels": "Pass 1 for one target",
    "set_channels": "Leave it out for hidden_channels",
    "set_layers": "Leave it out for 2",
}


@pytest.mark.parametrize(("name", "remedy"), SIZES.items(), ids=SIZES)
def test_sizes_that_are_no_sizes(name: str, remedy: str) -> None:
    sizes: dict[str, Any] = {"hidden_channels": 8, "num_layers": 2, "out_channels": 1}
    with pytest.raises(ValueError, match=rf"Expected {name} of at least 1 \(got 0\)\. {remedy}"):
        esan.ds_gnn(4, **(sizes | {name: 0}))
    for value in (True, 2.0, "2"):
        with pytest.raises(TypeError, match=rf"Expected {name} to be a whole number \(got {value!r}\)\. {remedy}"):
            esan.dss_gnn(4, **(sizes | {name: value}))


@pytest.mark.parametrize(
    ("choices", "match"),
    [
        ({"conv": 5}, r"Expected the name of a convolution, or a callable .*\(got 5\)\. Pass e\.g\. conv='gin'"),
        ({"conv": nn.Linear(4, 4)}, r"Expected the name of a convolution, or a callable .*\(got Linear\(.*Pass e\.g\."),
        ({"conv": lambda i, o: None}, r"Expected conv to return a convolution, a torch module \(got None\)\. Pass"),
        (
            {"act": None},
            r"Expected act to be a name or a callable .*\(got None\)\. Pass e\.g\. 'relu'.*Identity\(\) for",
        ),
        ({"act": nn.ReLU}, r"Expected act to be a name or a callable .*\(got <class .*ReLU'>\)\. Pass"),
        ({"dropout": "0.5"}, r"Expected dropout to be a number \(got '0\.5'\)\. Pass 0\.0 for none"),
    ],
    ids=["number", "module", "returns nothing", "no act", "class of act", "text"],
)
def test_choices_of_a_wrong_kind(choices: dict[str, Any], match: str) -> None:
    with pytest.raises(TypeError, match=match):
        esan.dss_gnn(4, 8, 2, 1, **choices)


@pytest.mark.parametrize("adjacency", ["sum", "original"])
def test_ppgn_has_no_adjacency_to_choose(adjacency: str) -> None:
    with pytest.raises(
        ValueError, match=rf"Expected no choice of adjacency with conv='ppgn' \(got '{adjacency}'\)\. Leave it out"
    ):
        esan.dss_gnn(4, 8, 2, 1, conv="ppgn", adjacency=adjacency)
    assert esan.dss_gnn(4, 8, 2, 1, conv="ppgn", adjacency="max").num_layers == 2


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


def test_a_bag_for_fewer_layers() -> None:
    network = strategies.model("dss", "gin", ND, num_layers=5)
    with pytest.raises(ValueError, match=r"Expected a bag built for 5 layers or more \(got 3\)\. .*num_layers=5"):
        network(esan.Bag.of(GRAPHS, ND, 3))


@pytest.mark.parametrize("policy", [esan.EgoNets(1), esan.EgoNets(1, marked=True)], ids=repr)
def test_marks_must_agree(policy: esan.EgoNets) -> None:
    other = esan.EgoNets(1, marked=not policy.marked)
    wanted, got = ("marked", "unmarked") if policy.marked else ("unmarked", "marked")
    with pytest.raises(
        ValueError, match=rf"Expected a bag with {wanted} nodes \(got {got} ones\).*marked=policy.marked"
    ):
        strategies.model("ds", "gin", policy)(esan.Bag.of(GRAPHS, other, 3))


def test_a_bag_on_another_device() -> None:
    network = strategies.model("ds", "gin", ND)
    with pytest.raises(
        ValueError, match=r"Expected a bag on cpu, where the model is \(got one on meta\).*bag.to\('cpu'\)"
    ):
        network(esan.Bag.of(GRAPHS, ND, 3).to("meta"))


def test_things_that_are_no_bags() -> None:
    with pytest.raises(TypeError, match=r"Expected a Bag \(got list\)\. Make one with Bag.of"):
        strategies.model("ds", "gin", ND)(GRAPHS)
    with pytest.raises(ValueError, match=r"Expected a policy, or data that carry their selection"):
        strategies.model("ds", "gin", ND)(GRAPHS[3])


@pytest.mark.parametrize(
    ("in_channels", "x", "match"),
    [
        (3, torch.ones(2, 2), r"Expected x with 3 numbers a line \(got shape \(2, 2\)\)\. Build the model"),
        (3, None, r"Expected graphs with x \(got none\)\. Add it to the data"),
        (esan.Categories(2), torch.tensor([0, 2]), r"Expected x below \(2,\) in each column \(got up to \[2\]"),
        (esan.Categories(2), torch.tensor([0, -1]), r"Expected x below \(2,\) .*\[-1\].*Number categories from 0"),
        (esan.Categories(2), torch.tensor([0.0, 0.5]), r"Expected x to hold category numbers \(got fractions\)"),
        (
            esan.Categories(2, 2),
            torch.tensor([0, 1]),
            r"Expected x with 2 category numbers a line \(got shape \(2,\)\)",
        ),
        (esan.OneHot(2), torch.tensor([0, 5]), r"Expected x below \(2,\)"),
    ],
)
def test_features_that_do_not_fit_the_model(in_channels: Any, x: torch.Tensor | None, match: str) -> None:
    data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2, **({} if x is None else {"x": x}))
    network = esan.ds_gnn(in_channels, 4, 1, 1)
    with pytest.raises(ValueError, match=match):
        network(esan.Bag.of(data, ND, 1))


def test_edge_features_that_do_not_fit_the_model() -> None:
    graph = GRAPHS[5].clone()
    network = strategies.model("ds", "gine", ND)
    graph.edge_attr = graph.edge_attr + strategies.BONDS
    with pytest.raises(ValueError, match=r"Expected edge_attr below \(3,\) in each column"):
        network(esan.Bag.of(graph, ND, 3))
    graph.edge_attr = None
    with pytest.raises(ValueError, match=r"Expected graphs with edge_attr \(got none\)"):
        network(esan.Bag.of(graph, ND, 3))


@pytest.mark.parametrize("channels", [-1, "many", 2.5, True])
def test_channels_that_mean_nothing(channels: Any) -> None:
    with pytest.raises(ValueError, match=r"Expected a number of features, Categories, OneHot or None \(got"):
        esan.ds_gnn(channels, 4, 1, 1)
    with pytest.raises(ValueError, match=r"Expected a number of features, Categories, OneHot or None \(got"):
        esan.ds_gnn(4, 4, 1, 1, conv="ppgn", edge_channels=channels)


def test_categories_that_mean_nothing() -> None:
    with pytest.raises(
        ValueError, match=r"Expected the number of categories of each column \(got none\)\. Pass e\.g\."
    ):
        esan.Categories()
    with pytest.raises(
        ValueError, match=r"Expected a size of Categories of at least 1 \(got 0\)\. Pass the categories"
    ):
        esan.Categories(4, 0)
    with pytest.raises(
        TypeError, match=r"Expected a size of Categories to be a whole number \(got \[3, 4\]\)\. .*Categories\(3, 4\)"
    ):
        esan.Categories([3, 4])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"Expected the size of OneHot of at least 1 \(got 0\)\. .*OneHot\(5\)"):
        esan.OneHot(0)
    for size in (True, 5.0, "5"):
        with pytest.raises(TypeError, match=r"Expected the size of OneHot to be a whole number \(got .*OneHot\(5\)"):
            esan.OneHot(size)  # type: ignore[arg-type]


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
        "SAGEConv reads the rows that its arcs go",
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


def test_a_bag_without_room_to_look_ahead_is_extended_once_said() -> None:
    network = strategies.model("dss", "gcn", ND).eval()
    with pytest.warns(UserWarning, match=r"The bag is extended to 4 layers .*Build it with num_layers=4"):
        got = network(esan.Bag.of(GRAPHS, ND, 3))
    check_close(got, network(esan.Bag.of(GRAPHS, ND, literal=True)), "predictions on the literal bag")


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


def test_a_convolution_of_another_width() -> None:
    network = esan.ds_gnn(None, 4, 2, 1, conv=lambda i, o: pyg.GATv2Conv(i, o, heads=3))
    with pytest.raises(ValueError, match=r"Expected GATv2Conv to give 4 numbers a row \(got shape .*concat=False"):
        network(esan.Bag.of(esan.graphs.cycle(5), ND, 2))
