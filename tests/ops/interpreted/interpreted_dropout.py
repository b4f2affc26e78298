"""Interpreted: dropout per node in padded batches: for each member of an ensemble by its seed, on both bags alike."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

import esan
import strategies
from esan.nn.dropout import drop
from interpreting import ONLY_INTERPRETED, close, poison

pytestmark = ONLY_INTERPRETED
GRAPHS = [strategies.from_edges(n, [(i, i + 1) for i in range(n - 1)], n) for n in (7, 4)]
SEEDS = torch.tensor([5, 6])


@pytest.fixture(autouse=True)
def _poison(monkeypatch: pytest.MonkeyPatch) -> None:
    poison(monkeypatch)


def network(seed: int) -> esan.nn.SubgraphGNN:
    torch.manual_seed(seed)
    atoms = esan.Categories(strategies.ATOMS)
    return esan.dss_gnn(atoms, 8, 2, 1, dropout=0.5, dropout_on="nodes")


def batch(seeds: Tensor, literal: bool | None = None) -> esan.Bag:
    bag = esan.Bag.of(GRAPHS, esan.NodeDeletion(), 2, literal=literal)
    (found,) = esan.Loader(bag, 2, padded=True, members=len(seeds))
    return replace(found, step_seeds=seeds)  # type: ignore[call-arg]


@pytest.mark.exhaustive
def test_each_member_drops_as_if_it_were_alone() -> None:
    models = [network(seed) for seed in (1, 2)]
    together = esan.Ensemble(models)
    outputs = together(batch(SEEDS))
    outputs.square().sum().backward()
    close(together(batch(SEEDS, literal=True)).detach(), outputs.detach(), "the literal bag")
    assert not torch.allclose(together(batch(SEEDS + 2)), outputs)
    for member, model in enumerate(models):
        alone = model(batch(SEEDS[member : member + 1]))
        alone.square().sum().backward()
        close(outputs[member].detach(), alone.detach(), "predictions")
        for one, all_of in zip(model.parameters(), together.parameters(), strict=True):
            assert all_of.grad is not None
            close(all_of.grad[member], one.grad, "gradients")


def test_rows_of_a_node_have_its_mask() -> None:
    view = batch(SEEDS).layer_view(2)
    given = [drop(torch.ones(view.num_rows, 16), view, 0.5, True, "nodes", SEEDS, layer) for layer in (1, 2)]
    assert not torch.equal(*given)
    several = 0
    for node in range(view.by_node.size):
        rows = given[0][view.node == node]
        several += len(rows) > 1
        assert bool((rows == rows[:1]).all())
    assert several >= 2 * sum(int(graph.num_nodes) for graph in GRAPHS)
