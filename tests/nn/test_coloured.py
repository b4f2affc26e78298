"""Networks on colours do what they do on the literal bag, and go the plain way where rows have to be as they are."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch_geometric.data import Data

import esan
import strategies
from esan.bags import colours
from esan.kernels import cpu
from esan.nn import coloured
from esan.nn.norm import LayerNorm
from esan.testing.compare import check_close

pytestmark = pytest.mark.skipif(not cpu.available(), reason="needs numba (the extra fast)")

ND, EGO, EGO_PLUS = esan.NodeDeletion(), esan.EgoNets(2), esan.EgoNets(2, marked=True)
CATEGORIES, BONDS = esan.Categories(strategies.ATOMS), esan.Categories(strategies.BONDS)
ARCHITECTURES = pytest.mark.parametrize("architecture", strategies.ARCHITECTURES)


@pytest.fixture
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Colours are used however many there are."""
    monkeypatch.setattr(colours, "_FIRST", 2.0)
    monkeypatch.setattr(colours, "_WORTH", 2.0)


always = pytest.mark.usefixtures("_always")


def _graphs(x: Any = CATEGORIES, edge_attr: Any = BONDS) -> list[Data]:
    """Two copies of a tree, and others, with such features; numbers are lines of a small table, so they come again."""
    tree = strategies.from_edges(8, [(0, 1), (1, 2), (1, 3), (3, 4), (3, 5), (5, 6), (5, 7)], 7)
    made = [
        tree,
        strategies.from_edges(10, [(v, v + 1) for v in range(9)], 1),
        esan.graphs.permuted(tree, torch.Generator().manual_seed(1)),
        strategies.from_edges(7, [(0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (4, 5)], 4),
        strategies.from_edges(3, [], 3),
    ]
    generator = torch.Generator().manual_seed(0)
    for name, kind in (("x", x), ("edge_attr", edge_attr)):
        if isinstance(kind, int):
            table = torch.randn(strategies.ATOMS, kind, generator=generator, dtype=torch.double)
            for graph in made:
                graph[name] = table[graph[name]]
    return made


def _network(architecture: str, policy: esan.Policy, x: Any = CATEGORIES, **choices: Any) -> esan.nn.SubgraphGNN:
    """A small network in double precision, no number of which is 0: where rounding decides the slope of a ReLU."""
    network = strategies.ARCHITECTURES[architecture](x, 6, 3, 2, marked=policy.marked, **choices).double()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return network


def _found(bag: esan.Bag) -> list[Any]:
    """The colours that networks looked for, None where they were too many."""
    return [found for key, found in bag.found.items() if isinstance(key, tuple) and key[0] == "colours"]


def _outcome(network: nn.Module, bag: esan.Bag, *inputs: Tensor) -> dict[str, Tensor]:
    """Predictions, buffers, the gradient of every parameter, and of the inputs that are given."""
    mine = copy.deepcopy(network)
    output = mine(bag)
    noise = torch.randn(output.shape, generator=torch.Generator().manual_seed(0), dtype=output.dtype)
    names, parameters = zip(*mine.named_parameters(), strict=True)
    found = torch.autograd.grad((output * noise).sum(), [*parameters, *inputs], retain_graph=True)
    names = *(f"the gradient of {name}" for name in names), *(f"that of input {i}" for i in range(len(inputs)))
    return {"predictions": output} | dict(mine.named_buffers()) | dict(zip(names, found, strict=True))


def check_same(network: nn.Module, bag: esan.Bag, *inputs: Tensor, tolerance: float = 1e-9) -> None:
    """Raise an `AssertionError` unless a network does the same on a bag as on the literal one."""
    expected = _outcome(network, bag.to_literal(), *inputs)
    for name, one in _outcome(network, bag, *inputs).items():
        check_close(one, expected[name], name, tolerance=tolerance)


def _checked_on_colours(network: nn.Module, bag: esan.Bag, *inputs: Tensor, tolerance: float = 1e-9) -> None:
    before = len(_found(bag))
    check_same(network, bag, *inputs, tolerance=tolerance)
    assert [type(found) for found in _found(bag)[before:]] == [list]


#: Networks, policies and choices, so that each network meets each choice.
CHOICES: list[tuple[str, esan.Policy, dict[str, Any]]] = [
    ("ds", ND, {"x": CATEGORIES, "jk": "cat", "readout": "sum"}),
    ("ds", esan.EdgeDeletion(), {"x": None, "conv": "gine", "edge_channels": BONDS, "jk": "last", "readout": "mean"}),
    ("ds", EGO, {"x": 3, "output": "node"}),
    ("ds", EGO_PLUS, {"x": esan.OneHot(strategies.ATOMS), "conv": "gine", "edge_channels": 2, "output": "edge"}),
    ("ds", esan.NodeMarking(), {"x": None, "set_encoder": "max", "readout": "mean"}),
    ("dss", ND, {"x": CATEGORIES, "jk": "last", "readout": "mean", "bag_pool": "mean", "adjacency": "max"}),
    ("dss", esan.EdgeDeletion(), {"x": None, "conv": "gine", "edge_channels": 2, "jk": "cat", "adjacency": "sum"}),
    ("dss", EGO, {"x": 3, "output": "node", "bag_pool": "sum", "adjacency": "original"}),
    ("dss", EGO, {"x": 3, "readout": "sum", "bag_pool": "sum", "adjacency": "sum"}),
    ("dss", EGO_PLUS, {"x": esan.OneHot(4), "conv": "gine", "edge_channels": BONDS, "output": "edge"}),
    ("dss", esan.NodeMarking(), {"x": CATEGORIES, "conv": "gine-ogb", "edge_channels": BONDS, "readout": "sum"}),
    ("dss", esan.Sampled(ND, 0.5), {"x": None, "bag_pool": "mean", "jk": "cat"}),
]


@always
@pytest.mark.parametrize(("architecture", "policy", "choices"), CHOICES, ids=str)
def test_nobody_can_tell(architecture: str, policy: esan.Policy, choices: dict[str, Any]) -> None:
    graphs = _graphs(choices["x"], choices.get("edge_channels"))
    # For more layers than the network has, once.
    bag = esan.Bag.of(graphs, policy, 5 if policy == EGO else 3, generator=torch.Generator().manual_seed(0))
    _checked_on_colours(_network(architecture, policy, **choices), bag)


@always
@ARCHITECTURES
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(graphs=strategies.batches(), policy=strategies.policies(), conv=st.sampled_from(["gin", "gine"]))
def test_nobody_can_tell_on_any_graphs(architecture: str, graphs: list[Data], policy: esan.Policy, conv: str) -> None:
    network = _network(architecture, policy, conv=conv, edge_channels=BONDS if conv == "gine" else None)
    _checked_on_colours(network, esan.Bag.of([*graphs, *_graphs()[:2]], policy, 3))


@always
@ARCHITECTURES
def test_nobody_can_tell_in_single_precision(architecture: str) -> None:
    network = _network(architecture, EGO_PLUS, conv="gine", edge_channels=BONDS).float()
    _checked_on_colours(network, esan.Bag.of(_graphs(), EGO_PLUS, 3), tolerance=1e-4)


@always
def test_networks_that_differ_share_a_bag() -> None:
    """What one network does not tell apart, another may: each has its own colours, and finds them once."""
    bag = esan.Bag.of(_graphs(), ND, 3)
    networks = [
        _network("ds", ND, None),
        _network("ds", ND),
        _network("ds", ND, conv="gine", edge_channels=BONDS),
        *(_network("dss", ND, None, bag_pool=pool) for pool in ("sum", "mean")),
        *(_network("dss", ND, None, adjacency=adjacency) for adjacency in ("sum", "original")),
    ]
    for network in networks:
        _checked_on_colours(network, bag)
        network(bag)
    assert len(_found(bag)) == len(networks)


@always
@ARCHITECTURES
@pytest.mark.parametrize("output", ["graph", "node"])
def test_the_gradient_of_features_is_that_of_each_node_and_arc(architecture: str, output: str) -> None:
    """Also where nodes and arcs are alike: predictions about them, or about their graphs, are not."""
    for name in ("x", "edge_attr"):
        graphs = _graphs(3, 2)
        inputs = [graph[name].requires_grad_() for graph in graphs]
        network = _network(architecture, EGO_PLUS, 3, conv="gine", edge_channels=2, output=output)
        _checked_on_colours(network, esan.Bag.of(graphs, EGO_PLUS, 3), *inputs)


@always
@ARCHITECTURES
@pytest.mark.parametrize(("x", "edge_attr"), [(CATEGORIES, 2), (3, BONDS)], ids=str)
def test_features_that_are_written_to_are_read_again(architecture: str, x: Any, edge_attr: Any) -> None:
    network = _network(architecture, ND, x, conv="gine", edge_channels=edge_attr)
    bag = esan.Bag.of(_graphs(x, edge_attr), ND, 3)
    _checked_on_colours(network, bag)
    for lines in (bag.graphs.x, bag.graphs.edge_attr):
        assert lines is not None
        lines[:5] = lines[:5].flip(0)
        _checked_on_colours(network, bag)


@always
@ARCHITECTURES
@pytest.mark.parametrize("of_nodes", [True, False])
def test_what_differs_under_one_number_is_noticed(
    architecture: str, of_nodes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison itself rejects colours of nodes, or arcs, that are not alike."""
    network = _network(architecture, ND, conv="gine", edge_channels=BONDS)
    bag, right = esan.Bag.of(_graphs(), ND, 3), coloured._numbers
    monkeypatch.setattr(
        coloured, "_numbers", lambda x, n: torch.zeros(n).long() if (n == bag.num_nodes) == of_nodes else right(x, n)
    )
    with pytest.raises(AssertionError, match="Expected predictions to agree"):
        check_same(network, bag)


@always
@ARCHITECTURES
def test_more_keys_than_are_put_in_order(architecture: str) -> None:
    """Stars whose leaves come in another order."""
    star = esan.graphs.star(131)
    star.x = torch.arange(star.num_nodes) % strategies.ATOMS
    graphs = [star, esan.graphs.permuted(star, torch.Generator().manual_seed(0))]
    _checked_on_colours(_network(architecture, ND), esan.Bag.of(graphs, ND, 3))


# -- the plain way -----------------------------------------------------------------------------------------------


class Doubled(esan.nn.GINE):
    def forward(self, *args: Any) -> Tensor:
        return 2 * super().forward(*args)


#: What a user may do to a network, after which rows cannot be merged, or nobody knows whether they can.
CHANGES: dict[str, Callable[[Any], Any]] = {
    "evaluation": lambda network: network.eval(),
    "a norm in evaluation": lambda network: network.encoder.layers[2].norm.eval(),
    "a shared norm in evaluation": lambda network: network.encoder.layers[2].shared_norm.eval(),
    "a subclass": lambda network: setattr(network.encoder.layers[1], "inside", Doubled(6, 6, 2).double()),
    "another norm": lambda network: setattr(network.encoder.layers[1], "norm", LayerNorm(6).double()),
    "another activation": lambda network: setattr(network.encoder.layers[1], "act", nn.ELU()),
    "other edge features": lambda network: setattr(
        network.encoder.layers[0].inside.edges, "project", nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.0)).double()
    ),
}
LAYER, CONV = "encoder.layers.1", "encoder.layers.0.inside"
HOOKED = [
    *(("forward_hook", part) for part in ("features", "features.lines", "encoder", LAYER, CONV)),
    *(("forward_hook", f"{LAYER}.{part}") for part in ("act", "norm", "shared", "shared_norm")),
    *(("forward_hook", f"{CONV}.{part}") for part in ("edges", "edges.lines", "mlp", "mlp.first", "mlp.norm")),
    *((kind, LAYER) for kind in ("forward_pre_hook", "full_backward_hook", "full_backward_pre_hook")),
]


def _usual() -> tuple[esan.nn.SubgraphGNN, esan.Bag]:
    """A network and a bag that go through colours."""
    return _network("dss", ND, 3, conv="gine", edge_channels=2), esan.Bag.of(_graphs(3, 2), ND, 3)


@always
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_networks_that_are_not_as_they_were_built(change: Callable[[Any], Any]) -> None:
    network, bag = _usual()
    change(network)
    check_same(network, bag)
    assert _found(bag) == []


@always
@pytest.mark.parametrize(("kind", "path"), HOOKED)
def test_hooks_are_called(kind: str, path: str) -> None:
    (network, bag), seen = _usual(), list[int]()
    getattr(network.get_submodule(path), f"register_{kind}")(lambda *given: seen.append(1))
    network(bag).sum().backward()
    assert seen
    assert _found(bag) == []


@always
def test_dropout_and_literal_bags() -> None:
    network, bag = _usual()
    # Without either, colours are used: the tests of what is done to this network would pass for another reason else.
    _checked_on_colours(network, bag)
    literal = bag.to_literal()
    network(literal)
    assert _found(literal) == []
    network.encoder.dropout, bag = 0.5, bag[:]
    with pytest.warns(UserWarning, match="dropout is drawn for every pair"):
        network(bag)
    like = next(network.parameters())
    assert coloured.stages(network.features, network.encoder, bag, like) is None  # type: ignore[arg-type]
    assert _found(bag) == []


@always
@ARCHITECTURES
def test_few_nodes(architecture: str) -> None:
    network = _network(architecture, ND)
    single, other, edge = (strategies.from_edges(n, [(0, 1)][: n - 1], 1) for n in (1, 1, 2))
    other.x, edge.x = single.x + 1, torch.tensor([0, 3])
    for graphs in ([single, other], [edge]):
        bag = esan.Bag.of(graphs, ND, 3)
        check_same(network, bag)
        assert _found(bag) == []
    _checked_on_colours(network, esan.Bag.of([edge, single], ND, 3))
    with pytest.raises(ValueError, match="Expected more than one pair"):
        network(esan.Bag.of(single, ND, 3))


@ARCHITECTURES
def test_rows_that_nearly_all_differ(architecture: str) -> None:
    """With the limits as they are: colours of random features are given up, those of a ring are used."""
    graphs = _graphs()
    for graph in graphs:
        graph.x = torch.randn(graph.num_nodes, 3)
    bag = esan.Bag.of(graphs, ND, 3)
    check_same(_network(architecture, ND, 3), bag)
    assert _found(bag) == [None]
    _checked_on_colours(_network(architecture, ND, None), esan.Bag.of(esan.graphs.cycle(12), ND, 3))
