"""What `ds_gnn` and `dss_gnn` refuse: choices, sizes, features and bags that do not fit."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.data import Batch, Data

import esan
import strategies

GRAPHS = strategies.odd_graphs()
ND = esan.NodeDeletion()


@pytest.mark.parametrize(
    ("choices", "match"),
    [
        (
            {"conv": "gat"},
            r"Expected the name of a convolution \(got 'gat'\)\. Known: gin, gine, gine-ogb, graphconv, gcn, ppgn",
        ),
        (
            {"bag_pool": "median"},
            r"Expected bag_pool to be one of sum, mean, max, others \(got 'median'\)\. Choose one of these",
        ),
        ({"adjacency": "mean"}, r"Expected adjacency to be one of max, sum, original \(got 'mean'\)"),
        ({"readout": "min"}, r"Expected readout to be one of sum, mean, max \(got 'min'\)"),
        (
            {"set_encoder": "attention"},
            r"Expected set_encoder to be one of deepsets, invariant-deepsets, mean, max \(got",
        ),
        ({"jk": "lstm"}, r"Expected jk to be one of cat, cat-input, last \(got 'lstm'\)"),
        ({"norm": "group_norm"}, r"Expected norm to be one of batch_norm, layer_norm, None \(got 'group_norm'\)"),
        ({"output": "subgraph"}, r"Expected output to be one of graph, node, edge \(got 'subgraph'\)"),
        ({"dropout": 1.0}, r"Expected a dropout in \[0, 1\) \(got 1\.0\)"),
        ({"conv": "gine"}, r"Expected edge_channels for a convolution with edge features \(got None\)\. Pass e\.g\."),
        (
            {"conv": "gin", "edge_channels": 3},
            r"Expected a convolution with edge features .*got 'gin'.*Use conv='gine'",
        ),
        (
            {"act": "rellu"},
            r"Expected act to be the name of an .* that needs no arguments \(got 'rellu'\)\. Pass e\.g\. 'relu'",
        ),
        ({"act": "threshold"}, r"Expected act to be the name .*\(got 'threshold'\)\. .*torch\.nn\.Threshold\(0\.1"),
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
        ({"marked": "yes"}, r"Expected marked to be True or False \(got 'yes'\)\. Pass policy\.marked"),
        ({"dropout": "0.5"}, r"Expected dropout to be a number \(got '0\.5'\)\. Pass 0\.0 for none"),
    ],
    ids=["number", "module", "returns nothing", "no act", "class of act", "text for a truth value", "text"],
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


def test_a_network_takes_a_bag_and_nothing_else() -> None:
    data = GRAPHS[0]
    with pytest.raises(
        TypeError, match=r"^Expected a bag and nothing else \(got 2 arguments\)\. Make one of your data"
    ):
        esan.ds_gnn(None, 4, 1, 2)(data.x, data.edge_index)


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
    with pytest.raises(ValueError, match=r"Expected a bag, or graphs with a policy"):
        strategies.model("ds", "gin", ND)(GRAPHS[3])


@pytest.mark.parametrize(
    ("in_channels", "x", "match"),
    [
        (3, torch.ones(2, 2), r"Expected x with 3 numbers per row \(got shape \(2, 2\)\)\. Build the model"),
        (3, None, r"Expected graphs with x \(got none\)\. Add it to the data"),
        (esan.Categories(2), torch.tensor([0, 2]), r"Expected x below \(2,\) in each column \(got up to \[2\]"),
        (esan.Categories(2), torch.tensor([0, -1]), r"Expected x below \(2,\) .*\[-1\].*Number categories from 0"),
        (esan.Categories(2), torch.tensor([0.0, 0.5]), r"Expected x to hold category numbers \(got fractions\)"),
        (
            esan.Categories(2, 2),
            torch.tensor([0, 1]),
            r"Expected x with 2 category numbers per row \(got shape \(2,\)\)",
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
    with pytest.raises(
        ValueError, match=r"Expected in_channels to be a number of features, Categories, OneHot or None"
    ):
        esan.ds_gnn(channels, 4, 1, 1)
    for conv in ("gin", "gine", "gcn", "ppgn"):
        with pytest.raises(ValueError, match=r"Expected edge_channels to be a number of features, .*\(got"):
            esan.dss_gnn(4, 4, 1, 1, conv=conv, edge_channels=channels)
    with pytest.raises(ValueError, match=r"Expected the channels of edge_attr to be a number of features"):
        esan.nn.GINEConv(4, 4, channels)


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


def test_a_convolution_of_another_width() -> None:
    network = esan.ds_gnn(None, 4, 2, 1, conv=lambda i, o: pyg.GATv2Conv(i, o, heads=3))
    with pytest.raises(ValueError, match=r"Expected GATv2Conv to give 4 numbers per row \(got shape .*concat=False"):
        network(esan.Bag.of(esan.graphs.cycle(5), ND, 2))


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"hidden_channels": 10**11}, "Expected hidden_channels of at most 65,536"),
        ({"num_layers": 10**9}, "Expected num_layers of at most 10,000"),
        ({"out_channels": 10**20}, "Expected out_channels of at most 10,000,000"),
        (
            {"in_channels": 10**13},
            r"a network of 2 layers of width 4 to fit into memory \(got 145.5 TiB needed",
        ),
        ({"in_channels": esan.Categories(10**13)}, "to fit into memory"),
    ],
)
def test_sizes_that_cannot_be(choices: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"in_channels": None, "hidden_channels": 4, "num_layers": 2, "out_channels": 1}
    with pytest.raises(ValueError, match=message):
        esan.ds_gnn(**given | choices)


def test_an_ensemble_says_what_it_takes() -> None:
    model = esan.ds_gnn(None, 4, 2, 1)
    with pytest.raises(TypeError, match=r"Expected a list of networks \(got one SubgraphGNN\)"):
        esan.Ensemble(model)  # type: ignore[arg-type]
    with pytest.raises(IndexError, match=r"Expected a member from 0 to 1 \(got 2\)"):
        esan.Ensemble([model, model]).member(2)


def _hooked(models: list[Any]) -> None:
    models[1].head.register_forward_hook(lambda module, inputs, output: 2 * output)


def _hooked_itself(models: list[Any]) -> None:
    models[1].register_forward_hook(lambda module, inputs, output: 2 * output)


def _frozen(models: list[Any]) -> None:
    models[1].head.requires_grad_(False)


def _one_in_eval_mode(models: list[Any]) -> None:
    models[1].encoder.layers[0].norm.eval()


def _tied(models: list[Any]) -> None:
    for model in models:
        first, second = (layer.inside.mlp.second for layer in model.encoder.layers)
        second.weight = first.weight


class _Scaled(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.factor * x


def _scaled(models: list[Any]) -> None:
    for factor, model in enumerate(models, start=1):
        model.head = nn.Sequential(model.head, _Scaled(factor))


@pytest.mark.parametrize(
    ("change", "got"),
    [
        (_hooked, "one with a hook or a method of its own in head"),
        (_hooked_itself, "one with a hook or a method of its own in the network itself"),
        (_tied, r"one with encoder\.layers\.1\.inside\.mlp\.second\.weight, which is also in another place"),
        (_frozen, "2 kinds"),
        (_one_in_eval_mode, "2 kinds"),
        (_scaled, "2 kinds"),
    ],
)
def test_members_differ_in_their_parameters_alone(change: Callable[[list[Any]], None], got: str) -> None:
    models = [esan.ds_gnn(None, 4, 2, 1) for _ in range(2)]
    esan.Ensemble(models)
    change(models)
    with pytest.raises(ValueError, match=rf"\(got {got}"):
        esan.Ensemble(models)


def test_batches_for_several_members_need_a_gpu() -> None:
    models = esan.Ensemble([esan.ds_gnn(None, 4, 2, 1) for _ in range(2)])
    bag = esan.Bag.of([esan.graphs.cycle(5)], esan.NodeDeletion(), 2)
    with pytest.raises(ValueError, match=r"Expected a GPU.*\(got batches for 2\).*members=1"):
        models(next(iter(esan.Loader(bag, padded=True, members=2))))


def test_a_network_takes_a_batch_for_itself_alone() -> None:
    model = esan.dss_gnn(esan.Categories(strategies.ATOMS), 4, 2, 1)
    batch = next(iter(esan.Loader(esan.Bag.of(GRAPHS, "EGO(2)", 2), 2, padded=True, members=3)))
    with pytest.raises(ValueError, match=r"Expected a batch for one network \(got one for 3\)\. Use Loader"):
        model(batch)


def test_members_with_parametrisations_are_named() -> None:
    models = [esan.dss_gnn(esan.Categories(strategies.ATOMS), 4, 2, 1) for _ in range(2)]
    for model in models:
        nn.utils.parametrizations.weight_norm(model.encoder.layers[1].inside.mlp.first)  # type: ignore[arg-type, union-attr]
    with pytest.raises(ValueError, match=r"\(got one with a parametrisation of encoder\.layers\.1\.inside\.mlp\.first"):
        esan.Ensemble(models)


def test_a_pyg_convolution_in_a_layer_says_how_to_pass_it() -> None:
    model: Any = esan.ds_gnn(None, 4, 2, 1)
    model.encoder.layers[1].inside = pyg.GCNConv(4, 4)
    with pytest.raises(TypeError, match=r"\(got PyG's GCNConv\).*conv=lambda i, o: GCNConv\(i, o\)"):
        model(esan.Bag.of([esan.graphs.cycle(5)], esan.NodeDeletion(), literal=True))


@pytest.mark.parametrize(("part", "what"), [("norm", "a module as a norm"), ("act", "an activation")])
@pytest.mark.parametrize("padded", [False, True])
def test_a_part_of_a_layer_that_is_taken_out(part: str, what: str, padded: bool) -> None:
    model = esan.dss_gnn(esan.Categories(strategies.ATOMS), 4, 2, 1)
    setattr(model.encoder.layers[0], part, None)
    (bag,) = esan.Loader(esan.Bag.of(GRAPHS, "EGO(2)", 2), len(GRAPHS), padded=padded)
    with pytest.raises(TypeError, match=rf"Expected {what} \(got None\)\. Put torch\.nn\.Identity\(\) there\."):
        model(bag)


def test_jit_tracing_is_refused_before_anything_is_kept() -> None:
    class Wrapped(nn.Module):
        def forward(self, factor: torch.Tensor) -> torch.Tensor:
            return factor * model(bag)

    bag, model = esan.Bag.of([esan.graphs.cycle(5)], esan.NodeDeletion(), 2), esan.ds_gnn(None, 4, 2, 1)
    with pytest.raises(RuntimeError, match=r"Expected a network that is run by esan \(got torch.jit.trace"):
        torch.jit.trace(Wrapped(), (torch.ones(1),))
    model(bag).sum().backward()


def test_many_gradients_at_a_time_are_refused_by_fused_operators() -> None:
    bag, model = esan.Bag.of([esan.graphs.cycle(5)] * 2, esan.NodeDeletion(), 2), esan.ds_gnn(None, 4, 2, 1)
    weights = [*model.parameters()]
    each = torch.eye(2).reshape(2, 2, 1)
    with esan.reference():
        torch.autograd.grad(model(bag), weights, each, is_grads_batched=True)
    if find_spec("numba") is not None:
        with pytest.raises(RuntimeError, match=r"Expected one gradient at a time .*esan.reference\(\)"):
            torch.autograd.grad(model(bag), weights, each, is_grads_batched=True)


def _without_bias(pooled: Any) -> Any:
    pooled.bias = None
    return pooled


@pytest.mark.parametrize("change", [_without_bias, lambda pooled: nn.Sequential(pooled, nn.Tanh())])
def test_a_changed_set_encoder_loads_its_own_weights(change: Callable[[Any], Any]) -> None:
    model: Any = esan.ds_gnn(None, 4, 2, 1)
    model.set_encoder.bag[0] = change(model.set_encoder.bag[0])
    model.load_state_dict(model.state_dict())


def test_ensembles_take_what_networks_take() -> None:
    policy, models = esan.EdgeDeletion(), [esan.ds_gnn(None, 4, 2, 1).eval() for _ in range(2)]
    ensemble = esan.Ensemble(models)
    assert not ensemble.training
    batch = Batch.from_data_list([policy(esan.graphs.cycle(n)) for n in (5, 6)])
    torch.testing.assert_close(ensemble(batch), torch.stack([model(batch) for model in models]))
    with pytest.raises(TypeError, match=r"Expected a Bag \(got list\)"):
        ensemble([esan.graphs.cycle(5)])


def test_networks_of_an_ensemble_have_one_precision() -> None:
    with pytest.raises(ValueError, match="in the same mode and precision"):
        esan.Ensemble([esan.ds_gnn(None, 4, 2, 1), esan.ds_gnn(None, 4, 2, 1).double()])
