"""What a step takes is known before it is taken: counts are exact, bytes near the peak, too many are refused."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch_geometric

import esan
import strategies
from esan import memory_limits
from esan.nn.models import ppgn as ppgn_module

GRAPHS = [*strategies.odd_graphs(), strategies.from_edges(9, [(i, i + 1) for i in range(8)], 11)]


@pytest.mark.parametrize("policy", strategies.POLICIES.values(), ids=strategies.POLICIES)
def test_rows_and_edges_are_those_of_the_bags(policy: esan.Policy) -> None:
    model = strategies.model("dss", "gcn", policy)
    compact = esan.Bag.of(GRAPHS, policy, 4, generator=torch.Generator().manual_seed(0))
    literal = compact.to_literal()
    for bag in (compact, literal):
        expected = esan.estimate(bag, model)
        assert (expected.literal.rows, expected.literal.edges) == (literal.num_rows, literal.rows.source.numel())
        assert expected.compact is not None
        assert (expected.compact.rows, expected.compact.edges) == (compact.num_rows, compact.rows.source.numel())


@pytest.mark.exhaustive
@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="peaks of memory are measured on Linux")
def test_bytes_are_within_a_factor_of_two_of_the_measured_peak() -> None:
    script = Path(__file__).parent / "measured_peaks.py"
    env = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line.split(",") for line in done.stdout.splitlines()]
    assert len(lines) == 5  # three networks, one of which needs the literal bag
    ratios = {(name, kind): int(expected) / int(measured) for name, kind, expected, measured in lines}
    assert all(0.5 < ratio < 2 for ratio in ratios.values()), ratios


def test_an_estimate_changes_nothing() -> None:
    policy = esan.NodeDeletion()
    model = strategies.model("dss", "gin", policy, dropout=0.5, dropout_on="nodes").eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    torch.manual_seed(0)
    drawn = torch.rand(3)
    torch.manual_seed(0)
    called: list[str] = []
    for name, module in model.named_modules():
        module.register_forward_hook(lambda *given, name=name: called.append(name))
        module.register_forward_pre_hook(lambda *given, name=name, **more: called.append(name), with_kwargs=True)
    text = str(esan.estimate(esan.Bag.of(GRAPHS, policy, 3), model))
    assert not called
    model(esan.Bag.of(GRAPHS, policy, 3))
    assert called
    assert torch.equal(torch.rand(3), drawn)
    assert not model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert text.startswith("literal: ")
    assert "; compact: " in text


def test_a_network_that_needs_every_pair_has_no_compact_cost() -> None:
    policy = esan.NodeDeletion()
    bag = esan.Bag.of(GRAPHS, policy, 3)
    expected = esan.estimate(bag, strategies.model("ds", "gin", policy, dropout=0.5))
    assert expected.compact is None
    assert "compact: not possible, dropout is drawn for every pair" in str(expected)
    assert expected.literal.bytes > esan.estimate(bag, strategies.model("ds", "gin", policy)).literal.bytes


def test_large_graphs_are_estimated_by_some_of_their_subgraphs() -> None:
    policy = esan.NodeDeletion()
    model = esan.dss_gnn(4, 16, 3, 1)
    costs = []
    for n in (400, 800):
        graph = esan.graphs.cycle(n)
        graph.x = torch.randn(n, 4, generator=torch.Generator().manual_seed(0))  # no two rows alike
        costs.append(esan.estimate(esan.Bag.of(graph, policy, 3), model))
    few, many = costs
    assert few.compact is not None
    assert many.compact is not None
    # Twice the nodes: four times the pairs, twice the rows of the compact bag.
    assert many.literal.bytes == pytest.approx(4 * few.literal.bytes, rel=0.1)
    assert many.compact.bytes == pytest.approx(2 * few.compact.bytes, rel=0.1)


@pytest.mark.parametrize(
    ("choices", "why", "instead"),
    [
        ({"dropout": 0.5}, "dropout is drawn for every pair while training", "dropout_on='nodes'"),
        ({"readout": "max"}, "readout='max' needs every pair", "choices that are exact on a compact bag"),
    ],
    ids=str,
)
@pytest.mark.parametrize("grad", [True, False], ids=["training", "predicting"])
def test_a_literal_bag_beyond_memory_is_refused_before_it_is_built(
    grad: bool, choices: dict[str, object], why: str, instead: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = esan.NodeDeletion()
    bag = esan.Bag.of(esan.graphs.csl(1500, 2), policy, 2)
    model = esan.ds_gnn(None, 32, 2, 1, **choices)  # type: ignore[arg-type]
    built: list[esan.Bag] = []
    whole = esan.Bag.to_literal

    def noted(one: esan.Bag) -> esan.Bag:
        built.append(one)
        return whole(one)

    monkeypatch.setattr(esan.Bag, "to_literal", noted)
    # The bag alone would take less than 800 MiB, and a step on it more.
    monkeypatch.setattr(memory_limits, "available_memory", lambda device=None: 800 * 2**20 if grad else 100 * 2**20)
    monkeypatch.setattr(esan.nn.execution.cost_estimate, "available_memory", memory_limits.available_memory)
    match = rf"literal bag of 2,250,000 rows and 8,988,000 edges, .*\({why}\), .*iB needed.*Use {instead}, a Sampled"
    with torch.set_grad_enabled(grad), pytest.raises(ValueError, match=match):
        model(bag)
    assert all(one.num_pairs < bag.num_pairs / 10 for one in built)


def test_a_literal_bag_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limits, "available_memory", lambda device=None: 2**27)
    with pytest.raises(ValueError, match=r"Expected the literal bag of 2,250,000 pairs to fit .*Use the compact bag"):
        esan.Bag.of(esan.graphs.csl(1500, 2), esan.NodeDeletion(), literal=True)


def ppgn(num_layers: int = 2) -> esan.nn.SubgraphGNN:
    return esan.dss_gnn(4, 16, num_layers, 1, conv="ppgn")


def path_with_features(n: int) -> torch_geometric.data.Data:
    graph = strategies.from_edges(n, [(i, i + 1) for i in range(n - 1)], 0)
    graph.x = torch.randn(n, 4, generator=torch.Generator().manual_seed(0))
    return graph


def test_networks_on_matrices_are_estimated_by_small_ones() -> None:
    costs = [esan.estimate(esan.Bag.of(path_with_features(n), esan.EgoNets(2), 2), ppgn()) for n in (40, 80)]
    small, large = (cost.literal.bytes for cost in costs)
    assert large == pytest.approx(8 * small, rel=0.1)  # twice the subgraphs, matrices four times as large
    assert costs[0].compact is None
    # What a step on the whole bag keeps, and what it adds going back.
    bag = esan.Bag.of(path_with_features(40), esan.EgoNets(2), 2)
    kept = esan.nn.execution.cost_estimate._saved_bytes(bag.to_literal(), ppgn())
    assert kept < small < 2 * kept


@pytest.mark.parametrize("grad", [True, False], ids=["training", "predicting"])
@pytest.mark.parametrize("literal", [True, False], ids=["literal", "compact"])
def test_matrices_beyond_memory_are_refused(literal: bool, grad: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    bag = esan.Bag.of(path_with_features(200), esan.EgoNets(2), 2)
    bag = bag.to_literal() if literal else bag
    entries, size = 200 * 200**2, 16 * 4
    needed = entries * size * (8 * 2 if grad else 4)  # two layers that keep eight values, or four at a time
    monkeypatch.setattr(memory_limits, "available_memory", lambda device=None: needed - 1)
    monkeypatch.setattr(esan.nn.execution.cost_estimate, "available_memory", memory_limits.available_memory)
    match = r"200 matrices of 200 x 200 nodes with 16 channels|literal bag of 40,000 rows"
    with torch.set_grad_enabled(grad), pytest.raises(ValueError, match=match):
        ppgn()(bag)


def test_what_is_refused_needs_at_least_as_much() -> None:
    """Nothing possible is refused: a step keeps more than the numbers that refusals are made of."""
    n, width, num_layers = 30, 16, 2
    bag = esan.Bag.of(path_with_features(n), esan.EgoNets(2), 2).to_literal()
    kept = esan.nn.execution.cost_estimate._saved_bytes(bag, ppgn(num_layers))
    assert kept > ppgn_module._KEPT * num_layers * width * 4 * n * n**2


def test_arguments_the_wrong_way_round() -> None:
    bag, model = esan.Bag.of(GRAPHS, esan.NodeDeletion(), 3), esan.ds_gnn(None, 4, 3, 1)
    with pytest.raises(TypeError, match=r"Expected a Bag \(got SubgraphGNN\)\. Pass bag first"):
        esan.estimate(model, bag)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Expected a network of esan\.ds_gnn .*\(got Linear\)"):
        esan.estimate(bag, torch.nn.Linear(1, 1))
