"""The compact bag gives the literal bag's answer, for every policy, architecture and encoder."""

from typing import Any

import pytest
import torch
from hypothesis import given
from torch_geometric.data import Data

import esan
import strategies
from esan.testing import assert_same_execution
from hypothesis_examples import examples

EVERY_POLICY = pytest.mark.parametrize("policy", strategies.POLICIES.values(), ids=strategies.POLICIES)
EVERY_LOCAL_ENCODER = pytest.mark.parametrize("encoder", strategies.LOCAL_ENCODERS)
EVERY_ARCHITECTURE = pytest.mark.parametrize("architecture", strategies.ARCHITECTURES)


#: Long enough that what a subgraph changes does not reach all of it in three layers.
LINE = strategies.from_edges(9, [(i, i + 1) for i in range(8)], 11)


@pytest.mark.pairwise
@EVERY_POLICY
@pytest.mark.parametrize("encoder", ["gin", "gcn-bonds"])
@EVERY_ARCHITECTURE
def test_every_policy(architecture: str, encoder: str, policy: esan.Policy) -> None:
    """With a convolution that sees its neighbours alone, and with one that sees their degrees."""
    network = strategies.model(architecture, encoder, policy)
    assert_same_execution(network, [*strategies.odd_graphs(), LINE], policy, one_by_one=False)


@pytest.mark.each_value
@EVERY_POLICY
@EVERY_LOCAL_ENCODER
@EVERY_ARCHITECTURE
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["double", "single"])
def test_one_of_each_kind_of_graph(dtype: torch.dtype, architecture: str, encoder: str, policy: esan.Policy) -> None:
    network = strategies.model(architecture, encoder, policy).to(dtype)
    assert_same_execution(network, [*strategies.odd_graphs(), LINE], policy, one_by_one=False)


@pytest.mark.each_value
@EVERY_LOCAL_ENCODER
@EVERY_ARCHITECTURE
@examples(1)
@given(graphs=strategies.batches(), policy=strategies.policies())
def test_any_graphs_batched_and_alone(architecture: str, encoder: str, policy: esan.Policy, graphs: list[Data]) -> None:
    assert_same_execution(strategies.model(architecture, encoder, policy, num_layers=2), [*graphs, LINE], policy)


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(policy, id=name, marks=() if name in ("ED", "EGO+(2)", "ND^") else pytest.mark.exhaustive)
        for name, policy in strategies.POLICIES.items()
    ],
)
def test_one_graph_at_a_time(policy: esan.Policy) -> None:
    assert_same_execution(
        strategies.model("dss", "gin", policy, num_layers=2), [*strategies.odd_graphs(), LINE], policy
    )


@pytest.mark.parametrize(
    "choices",
    [
        {"bag_pool": "sum"},
        {"adjacency": "sum"},
        {"adjacency": "original"},
        {"readout": "sum", "set_encoder": "max"},
        {"set_encoder": "deepsets", "set_layers": 1},
        {"set_encoder": "invariant-deepsets", "set_channels": 7, "jk": None},
        {"norm": "layer_norm", "act": "elu"},
        {"norm": None},
        {"output": "node"},
        {"output": "edge"},
        {"output": "edge", "jk": "last"},
    ],
    ids=str,
)
@pytest.mark.parametrize("encoder", ["gin", "gcn-bonds"])
@pytest.mark.each_value
@examples(1)
@given(graphs=strategies.batches())
def test_every_choice(encoder: str, choices: dict[str, Any], graphs: list[Data]) -> None:
    for policy in (esan.NodeDeletion(), esan.EgoNets(hops=1, marked=True)):
        network = strategies.model("dss", encoder, policy, **choices)
        assert_same_execution(network, [*graphs, LINE], policy, one_by_one=False)


@examples(1)
@given(graphs=strategies.batches(max_drawn=3))
def test_samples_of_a_bag(graphs: list[Data]) -> None:
    for policy in (esan.NodeDeletion(), esan.EgoNets(hops=2, marked=True)):
        sampled = esan.Sampled(policy, 0.4)
        assert_same_execution(strategies.model("dss", "gcn", sampled), graphs, sampled)


@EVERY_POLICY
@examples(1)
@given(graphs=strategies.batches())
def test_a_bag_for_more_layers_changes_nothing(policy: esan.Policy, graphs: list[Data]) -> None:
    assert_same_execution(strategies.model("dss", "gcn", policy), graphs, policy, num_layers=7, one_by_one=False)


def test_dropout_that_subgraphs_share_is_drawn_alike() -> None:
    policy = esan.EgoNets(2, marked=True)
    graph = LINE.clone()
    graph.x = torch.randn(9, 3, dtype=torch.double)
    model = esan.dss_gnn(3, 8, 3, 2, marked=True, dropout=0.3, dropout_on="nodes").double()
    assert_same_execution(model, [graph], policy)
