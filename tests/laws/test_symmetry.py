"""S_m × S_n: layers are equivariant and models invariant, for every policy and every encoder."""

from typing import Any

import pytest
from hypothesis import example, given
from torch_geometric.data import Data

import esan
import strategies
from esan.testing import assert_equivariant, assert_invariant, assert_policy_invariant
from hypothesis_examples import examples

EVERY_POLICY = pytest.mark.parametrize("policy", strategies.POLICIES.values(), ids=strategies.POLICIES)
EVERY_ENCODER = pytest.mark.parametrize("encoder", strategies.ENCODERS)
EVERY_ARCHITECTURE = pytest.mark.parametrize("architecture", strategies.ARCHITECTURES)


@EVERY_POLICY
@examples(5)
@given(graphs=strategies.batches())
def test_policies_ignore_numbering_and_company(policy: esan.Policy, graphs: list[Data]) -> None:
    assert_policy_invariant(policy, graphs, trials=2)


def _check(architecture: str, encoder: str, policy: esan.Policy, graphs: list[Data]) -> None:
    network = strategies.model(architecture, encoder, policy, num_layers=2)
    width = network.features.out_channels
    literal = esan.Bag.of(graphs, policy, literal=True)
    assert_equivariant(network.encoder, literal, width, trials=1)
    assert_invariant(network, graphs, policy, literal=True, trials=1)
    if encoder != "ppgn":
        # A layer alone, too: a stack could hide what its next layer undoes.
        assert_equivariant(network.encoder.layers[0], literal, width, trials=1)
        compact = esan.Bag.of(graphs, policy, network.num_layers + network.encoder.lookahead, literal=False)
        assert_equivariant(network.encoder, compact, width, trials=1)
        assert_invariant(network.eval(), graphs, policy, literal=False, trials=1)


@pytest.mark.each_value
@EVERY_POLICY
@EVERY_ENCODER
@EVERY_ARCHITECTURE
def test_one_of_each_kind_of_graph(architecture: str, encoder: str, policy: esan.Policy) -> None:
    _check(architecture, encoder, policy, strategies.odd_graphs())


@pytest.mark.each_value
@EVERY_ENCODER
@EVERY_ARCHITECTURE
@examples(1)
@given(graphs=strategies.batches(), policy=strategies.policies())
def test_any_graphs(architecture: str, encoder: str, policy: esan.Policy, graphs: list[Data]) -> None:
    _check(architecture, encoder, policy, graphs)


@pytest.mark.each_value
@pytest.mark.parametrize("output", ["node", "edge"])
@EVERY_ENCODER
@examples(1)
@given(graphs=strategies.batches())
def test_outputs_about_nodes_and_edges_are_equivariant(encoder: str, output: str, graphs: list[Data]) -> None:
    policy = esan.EgoNets(hops=1, marked=True)
    network = strategies.model("dss", encoder, policy, num_layers=2, output=output)
    assert_invariant(network, graphs, policy, literal=True, trials=1)


@pytest.mark.parametrize(
    "choices",
    [
        {"bag_pool": "sum"},
        {"bag_pool": "max"},
        {"bag_pool": "others"},
        {"adjacency": "sum"},
        {"adjacency": "original"},
        {"readout": "max", "set_encoder": "max"},
        {"readout": "sum", "set_encoder": "deepsets"},
        {"set_encoder": "invariant-deepsets", "jk": "last", "norm": "layer_norm"},
    ],
    ids=str,
)
@examples(1)
@example(graphs=strategies.odd_graphs())
@given(graphs=strategies.batches())
def test_every_choice_is_invariant(choices: dict[str, Any], graphs: list[Data]) -> None:
    policy = esan.EgoNets(hops=1)
    network = strategies.model("dss", "gin", policy, num_layers=2, **choices)
    assert_invariant(network, graphs, policy, literal=True, trials=1)
