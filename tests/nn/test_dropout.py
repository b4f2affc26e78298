"""Dropout for every pair, on the literal bag, or once per node, the same on both bags."""

from typing import Any

import pytest
import torch

import esan
import strategies

LINE = strategies.from_edges(9, [(i, i + 1) for i in range(8)], 11)
GRAPHS = [*strategies.odd_graphs(), LINE]


def outcome(model: esan.nn.SubgraphGNN, bag: esan.Bag, seed: int = 3) -> list[torch.Tensor]:
    model.zero_grad()
    torch.manual_seed(seed)
    output = model(bag)
    output.square().sum().backward()
    return [output.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]


@pytest.mark.parametrize("policy", [strategies.POLICIES[name] for name in ("ND", "ED", "EGO+(2)", "ND^")], ids=repr)
@pytest.mark.parametrize("encoder", ["gin", "gine", "gcn", "graphconv", "gat"])
@pytest.mark.parametrize("architecture", strategies.ARCHITECTURES)
def test_dropout_on_nodes_is_the_same_on_both_bags(architecture: str, encoder: str, policy: esan.Policy) -> None:
    model = strategies.model(architecture, encoder, policy, dropout=0.4, dropout_on="nodes")
    assert model.why_literal is None
    compact = esan.Bag.of(GRAPHS, policy, 4, literal=False, generator=torch.Generator().manual_seed(0))
    for mine, theirs in zip(outcome(model, compact), outcome(model, compact.to_literal()), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-6)
    again = outcome(model, compact, seed=4)[0]
    assert not torch.allclose(again, outcome(model, compact)[0])


def test_ppgn_drops_nodes_too() -> None:
    policy = esan.NodeDeletion()
    model = strategies.model("dss", "ppgn", policy, dropout=0.4, dropout_on="nodes", output="node")
    bag = esan.Bag.of([LINE], policy, literal=True)
    assert not torch.allclose(outcome(model, bag, 1)[0], outcome(model, bag, 2)[0])
    torch.testing.assert_close(outcome(model, bag, 1)[0], outcome(model, bag, 1)[0])


@pytest.mark.parametrize("on", ["pairs", "nodes"])
def test_what_is_drawn(on: str) -> None:
    """Entries are 0 with probability p and else 1 / (1 - p); rows of one node are alike only where it is meant."""
    bag = esan.Bag.of([esan.graphs.cycle(40)], esan.NodeDeletion(), literal=True)
    stage = bag.layer_view(1)
    torch.manual_seed(0)
    given = esan.nn.dropout.drop(torch.ones(stage.num_rows, 50), stage, 0.25, True, on)
    assert {round(value, 4) for value in given.unique().tolist()} == {0.0, round(1 / 0.75, 4)}
    # 2,000 numbers drawn per node, 80,000 per pair: five standard deviations.
    assert (given == 0).float().mean() == pytest.approx(0.25, abs=0.05 if on == "nodes" else 0.008)
    first = given[stage.node == 0]
    assert bool((first == first[0]).all()) == (on == "nodes")
    for other in (given[stage.node == 1][0], given[stage.node == 39][0]):
        assert not torch.equal(other, first[0])
    assert esan.nn.dropout.drop(given, stage, 0.25, False, on) is given


def test_dropout_on_pairs_still_takes_the_literal_bag() -> None:
    policy = esan.NodeDeletion()
    model = strategies.model("ds", "gin", policy, dropout=0.5)
    assert model.why_literal == "dropout is drawn for every pair while training"
    with pytest.warns(UserWarning, match="The literal bag is used in place of the compact one: dropout"):
        model(esan.Bag.of([LINE], policy, 3))
    assert model.eval().why_literal is None


def test_evaluation_does_not_depend_on_it() -> None:
    policy = esan.NodeDeletion()
    bag = esan.Bag.of(GRAPHS, policy, 3)
    models: list[Any] = [
        strategies.model("dss", "gin", policy, dropout=0.5, dropout_on=on) for on in ("pairs", "nodes")
    ]
    models[1].load_state_dict(models[0].state_dict())
    torch.testing.assert_close(models[0].eval()(bag), models[1].eval()(bag))
    with pytest.raises(ValueError, match=r"Expected dropout_on to be one of pairs, nodes \(got 'rows'\)"):
        esan.ds_gnn(None, 4, 1, 1, dropout_on="rows")


@pytest.mark.parametrize("conv", ["gin", "graphconv"])
def test_padded_batches_drop_nodes_too(conv: str) -> None:
    """All rows of a node have its mask, and a compact batch that of the literal one, which is padded alike."""
    policy = esan.NodeDeletion()
    model = strategies.model("dss", conv, policy, dropout=0.4, dropout_on="nodes")
    losses, graphs = [], [LINE, strategies.from_edges(4, [(0, 1), (1, 2)], 5)]
    for literal in (True, None):
        (batch,) = esan.Loader(esan.Bag.of(graphs, policy, 3, literal=literal), 2, padded=True)
        losses.append(outcome(model, batch))
        stage = batch.layer_view(2)
        given = esan.nn.dropout.drop(torch.ones(stage.num_rows, 20), stage, 0.5, True, "nodes")
        for node in range(5):
            mine = given[stage.node == node]
            assert len(mine) > 1
            assert bool((mine == mine[0]).all())
            assert 0 < float(mine[0].mean()) < 2
    for mine, theirs in zip(*losses, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-6)
    (other,) = esan.Loader(esan.Bag.of(graphs, policy, 3), 2, padded=True)
    assert not torch.allclose(outcome(model, other, seed=9)[0], losses[0][0])


def test_networks_that_drop_otherwise_are_no_ensemble() -> None:
    models = [esan.ds_gnn(None, 4, 2, 1, dropout=0.4, dropout_on=on) for on in ("pairs", "nodes")]
    with pytest.raises(ValueError, match=r"Expected networks that are built alike \(got 2 kinds\)"):
        esan.Ensemble(models)
