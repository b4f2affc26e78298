"""Networks on representatives do what they do on the literal bag; a DSS-GNN, which has none, does so on its rows."""

import copy
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data

import esan
import strategies
import zero_multiplicity
from deduplicating import (
    BONDS,
    CATEGORIES,
    EGO,
    EGO_PLUS,
    ND,
    check_deduplicated,
    check_same,
    found,
    graphs_like,
    network_of,
)
from esan.bags.dedup import dedup_limits
from esan.nn.execution import dedup
from esan.ops import reference
from esan.ops.numba import runtime as cpu
from esan.testing.compare import check_close
from hypothesis_examples import examples

pytestmark = [
    pytest.mark.skipif(not cpu.available(), reason="needs numba (the extra fast)"),
    pytest.mark.usefixtures("always_deduplicated"),
]
ARCHITECTURES = pytest.mark.parametrize("architecture", strategies.ARCHITECTURES)


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


@pytest.mark.parametrize(("architecture", "policy", "choices"), CHOICES, ids=str)
def test_nobody_can_tell(architecture: str, policy: esan.Policy, choices: dict[str, Any]) -> None:
    graphs = graphs_like(choices["x"], choices.get("edge_channels"))
    # For more layers than the network has, once.
    bag = esan.Bag.of(graphs, policy, 5 if policy == EGO else 3, generator=torch.Generator().manual_seed(0))
    check_deduplicated(network_of(architecture, policy, **choices), bag)


@ARCHITECTURES
@examples(8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(graphs=strategies.batches(), policy=strategies.policies(), conv=st.sampled_from(["gin", "gine"]))
def test_nobody_can_tell_on_any_graphs(architecture: str, graphs: list[Data], policy: esan.Policy, conv: str) -> None:
    network = network_of(architecture, policy, conv=conv, edge_channels=BONDS if conv == "gine" else None)
    check_deduplicated(network, esan.Bag.of([*graphs, *graphs_like()[:2]], policy, 3))


@ARCHITECTURES
def test_nobody_can_tell_in_single_precision(architecture: str) -> None:
    network = network_of(architecture, EGO_PLUS, conv="gine", edge_channels=BONDS).float()
    check_deduplicated(network, esan.Bag.of(graphs_like(), EGO_PLUS, 3), tolerance=1e-4)


def test_networks_that_differ_share_a_bag() -> None:
    """What one network does not tell apart, another may: each has its own representatives, and finds them once."""
    bag = esan.Bag.of(graphs_like(), ND, 3)
    networks = [
        network_of("ds", ND, None),
        network_of("ds", ND),
        network_of("ds", ND, conv="gine", edge_channels=BONDS),
    ]
    for network in networks:
        check_deduplicated(network, bag)
        network(bag)
    assert len(found(bag)) == len(networks)
    for adjacency in ("sum", "original"):
        check_same(network_of("dss", ND, None, bag_pool="sum", adjacency=adjacency), bag)
    assert len(found(bag)) == len(networks)


def test_networks_of_other_depths_share_a_bag() -> None:
    bag = esan.Bag.of(graphs_like(), ND, 3)
    for num_layers in (2, 3, 1, 2):
        network = esan.ds_gnn(CATEGORIES, 6, num_layers, 2).double()
        check_deduplicated(network, bag)
        network(bag)
    assert len(found(bag)) == 3


@ARCHITECTURES
@pytest.mark.parametrize("output", ["graph", "node"])
def test_the_gradient_of_features_is_that_of_each_node_and_edge(architecture: str, output: str) -> None:
    """Also where nodes and edges are alike: predictions about them, or about their graphs, are not."""
    for name in ("x", "edge_attr"):
        graphs = graphs_like(3, 2)
        inputs = [graph[name].requires_grad_() for graph in graphs]
        network = network_of(architecture, EGO_PLUS, 3, conv="gine", edge_channels=2, output=output)
        check_deduplicated(network, esan.Bag.of(graphs, EGO_PLUS, 3), *inputs)


@ARCHITECTURES
@pytest.mark.parametrize(("x", "edge_attr"), [(CATEGORIES, 2), (3, BONDS)], ids=str)
def test_features_that_are_written_to_are_read_again(architecture: str, x: Any, edge_attr: Any) -> None:
    network = network_of(architecture, ND, x, conv="gine", edge_channels=edge_attr)
    bag = esan.Bag.of(graphs_like(x, edge_attr), ND, 3)
    check_deduplicated(network, bag)
    for lines in (bag.graphs.x, bag.graphs.edge_attr):
        assert lines is not None
        lines[:5] = lines[:5].flip(0)
        check_deduplicated(network, bag)


@pytest.mark.parametrize("of_nodes", [True, False])
def test_what_differs_under_one_number_is_noticed(of_nodes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison itself rejects nodes, or edges, that have one number and are not alike."""
    network = network_of("ds", ND, conv="gine", edge_channels=BONDS)
    bag, right = esan.Bag.of(graphs_like(), ND, 3), dedup.row_ids

    def numbers(fast: Any, x: Any, n: int) -> Tensor:
        return torch.zeros(n).long() if (n == bag.num_nodes) == of_nodes else right(fast, x, n)

    monkeypatch.setattr(dedup, "row_ids", numbers)
    with pytest.raises(AssertionError, match="Expected predictions to agree"):
        check_same(network, bag)


@ARCHITECTURES
def test_nodes_of_high_degree(architecture: str) -> None:
    """Stars whose leaves come in another order."""
    star = esan.graphs.star(40)
    star.x = torch.arange(star.num_nodes) % strategies.ATOMS
    graphs = [star, esan.graphs.permuted(star, torch.Generator().manual_seed(0))]
    check_deduplicated(network_of(architecture, ND), esan.Bag.of(graphs, ND, 3))


@pytest.mark.parametrize(
    ("architecture", "frozen"),
    [
        *(
            (kind, part)
            for kind in ("ds", "dss")
            for part in ("features", "encoder.layers.0", "encoder.layers.1.inside")
        ),
        ("dss", "encoder.layers.2.shared"),
    ],
)
def test_frozen_parameters(architecture: str, frozen: str) -> None:
    network = network_of(architecture, ND, conv="gine", edge_channels=BONDS)
    network.get_submodule(frozen).requires_grad_(requires_grad=False)
    bag, grads = esan.Bag.of(graphs_like(), ND, 3), []
    for kind in (bag, bag.to_literal()):
        mine = copy.deepcopy(network)
        mine(kind).square().sum().backward()
        grads.append({name: part.grad for name, part in mine.named_parameters()})
    for name, one in grads[0].items():
        assert (one is None) == (grads[1][name] is None)
        if one is not None and (other := grads[1][name]) is not None:
            check_close(one, other, name, tolerance=1e-9)
    assert [type(views) for views in found(bag)] == ([list] if architecture == "ds" else [])


@ARCHITECTURES
def test_a_layer_that_is_used_twice_and_norms_of_other_kinds(architecture: str) -> None:
    network = network_of(architecture, ND)
    network.encoder.layers[2] = network.encoder.layers[1]
    norm: Any = network.encoder.layers[1].norm
    norm.momentum, norm.track_running_stats = None, True
    bag = esan.Bag.of(graphs_like(), ND, 3)
    check_deduplicated(network, bag)
    norm.running_mean = norm.running_var = norm.num_batches_tracked = None
    norm.track_running_stats = False
    check_deduplicated(network, bag)


@pytest.mark.exhaustive
def test_a_hub_whose_neighbours_come_in_many_orders() -> None:
    """Its rows, each of which lacks one of them, have two representatives, one per kind of what is lacking."""
    star = esan.graphs.star(1500)
    star.x = torch.arange(star.num_nodes) % 2
    network, bag = network_of("ds", ND, esan.Categories(2)), esan.Bag.of(star, ND, 3)
    network(bag)
    assert found(bag)[-1][1].num_rows < 12


def test_products_of_another_precision() -> None:
    """Where torch chooses the precision of products, lines of edges are made those of rows."""
    network = network_of("ds", ND, conv="gine", edge_channels=2).float()
    bag = esan.Bag.of(graphs_like(CATEGORIES, 2), ND, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        given = network(bag).float()
    check_close(given, network(bag), "predictions", tolerance=0.5)


def test_a_copy_of_a_bag_finds_its_own_representatives() -> None:
    """What is written to the features of a copy counts."""
    network, bag = network_of("ds", ND), esan.Bag.of(graphs_like(), ND, 3)
    assert bag.graphs.x is not None
    for _ in range(2):
        bag.graphs.x.mul_(1)
    network(bag)
    copied = copy.deepcopy(bag)
    assert copied.graphs.x is not None
    copied.graphs.x.copy_(copied.graphs.x.flip(0))
    check_deduplicated(network, copied)


CONVS = pytest.mark.parametrize("conv", ["gin", "gine", "graphconv"])


@CONVS
@pytest.mark.parametrize("literal", [True, False])
def test_second_derivatives_are_refused(conv: str, literal: bool) -> None:
    """They would lack what passes through loops, and nobody would know."""
    network = network_of("ds", ND, conv=conv, edge_channels=BONDS if conv == "gine" else None)
    output = network(esan.Bag.of(graphs_like(), ND, 3, literal=literal))
    with pytest.raises(RuntimeError, match=r"Expected first derivatives .* `with esan\.reference\(\):`"):
        torch.autograd.grad(
            output.square().sum(), list(network.encoder.parameters()), create_graph=True, allow_unused=True
        )


@CONVS
@ARCHITECTURES
def test_second_derivatives_of_the_reference(architecture: str, conv: str) -> None:
    """The reference implementation has them: the same on rows as on pairs, and nothing is deduplicated."""
    network = network_of(architecture, ND, conv=conv, edge_channels=BONDS if conv == "gine" else None)
    parameters, second = list(network.encoder.parameters()), []
    bag = esan.Bag.of(graphs_like(), ND, 3)
    for kind in (bag, bag.to_literal()):
        with reference():
            first = torch.autograd.grad(network(kind).square().sum(), parameters, create_graph=True)
            total = torch.stack([grad.square().sum() for grad in first]).sum()
        second.append(torch.autograd.grad(total, parameters))
    for one, other in zip(*second, strict=True):
        check_close(one, other, "second derivatives", tolerance=1e-7)
    assert any(bool((one != 0).any()) for one in second[0])
    assert found(bag) == []


@pytest.mark.pairwise
@pytest.mark.parametrize("policy", [esan.EgoNets(1), esan.EdgeDeletion()], ids=repr)
@pytest.mark.parametrize("conv", ["gin", "graphconv"])
@ARCHITECTURES
def test_rows_that_stand_for_no_pair_blow_nothing_up(architecture: str, conv: str, policy: esan.Policy) -> None:
    """Where all pairs are alike a norm divides by next to nothing, and rows that are no pair's are not."""
    network = zero_multiplicity.network(architecture, conv, 6)
    for first in (1.0, 0.0):
        with dedup_limits(first, overall=1.0):
            compact, literal = (
                network(esan.Bag.of(zero_multiplicity.GRAPHS, policy, 6, literal=kind)) for kind in (None, True)
            )
        check_close(compact, literal, "predictions", tolerance=1e-7)
