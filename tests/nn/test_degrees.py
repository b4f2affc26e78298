"""Degrees in each subgraph as node features: what they are, exact on compact bags, refused where too high."""

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch_geometric.utils import degree

import esan
import strategies
from esan.graphs import cycle, star
from esan.testing.compare import check_close

EVERY_POLICY = pytest.mark.parametrize("policy", strategies.POLICIES.values(), ids=strategies.POLICIES)


@EVERY_POLICY
def test_the_degree_of_each_row(policy: esan.Policy) -> None:
    """The rows of a literal bag have the one-hot degrees of their subgraphs behind marks and features."""
    graphs = strategies.odd_graphs()
    bag = esan.Bag.of(graphs, policy, literal=True)
    network: Any = strategies.model("ds", "gin", policy, degrees=7)
    rows = network.features(bag, bag.layer_view(0), next(network.parameters()))
    wanted = [F.one_hot(degree(g.edge_index[1], g.num_nodes).long(), 7) for g in bag.subgraphs()]
    assert torch.equal(rows[:, -7:], torch.cat(wanted).double())
    without: Any = strategies.model("ds", "gin", policy)
    without.features.encoder.load_state_dict(network.features.encoder.state_dict())
    assert torch.equal(rows[:, :-7], without.features(bag, bag.layer_view(0), next(without.parameters())))


@EVERY_POLICY
@pytest.mark.parametrize(("architecture", "encoder"), [("ds", "gin"), ("dss", "gine"), ("dss", "gcn")])
def test_a_compact_bag_gives_the_literal_answer(architecture: str, encoder: str, policy: esan.Policy) -> None:
    network = strategies.model(architecture, encoder, policy, degrees=7)
    clone, graphs = copy.deepcopy(network), strategies.odd_graphs()
    compact = network(esan.Bag.of(graphs, policy, network.num_layers + network.encoder.lookahead, literal=False))
    literal = clone(esan.Bag.of(graphs, policy, literal=True))
    check_close(compact, literal, "predictions")
    noise = torch.randn_like(literal)
    (compact * noise).sum().backward()
    (literal * noise).sum().backward()
    scale = max(float(p.grad.abs().max()) for p in clone.parameters() if p.grad is not None)
    for (name, mine), theirs in zip(network.named_parameters(), clone.parameters(), strict=True):
        assert mine.grad is not None
        assert theirs.grad is not None
        check_close(mine.grad, theirs.grad, f"gradient of {name}", scale=scale)
    for (name, buffer), other in zip(network.named_buffers(), clone.buffers(), strict=True):
        check_close(buffer, other, name)


def test_a_deleted_edge_shows_without_any_layer_of_message_passing() -> None:
    """Two graphs whose nodes are all alike: with degrees the sum of the input alone tells deleted edges."""
    torch.manual_seed(0)
    model = esan.ds_gnn(None, 4, 1, 1, degrees=3).double().eval()
    assert model.features.out_channels == 3
    bag = esan.Bag.of([cycle(6)], "ED", 2)
    rows = model.features(bag, bag.layer_view(1), next(model.parameters()))
    assert rows.size(0) == 6 + 2 * 6
    assert rows.sum(0).tolist() == [0.0, 12.0, 6.0]


def test_a_bag_of_too_few_layers_is_extended() -> None:
    model = esan.ds_gnn(None, 4, 2, 1, degrees=5).eval()
    short, right = (esan.Bag.of([star(4), cycle(5)], "ND", layers) for layers in (2, 3))
    with pytest.warns(UserWarning, match=r"1 hop earlier: it reads degrees.*Build the bag with num_layers=3"):
        got = model(short)
    torch.testing.assert_close(got, model(right))


def test_degrees_that_have_no_column() -> None:
    model = esan.ds_gnn(None, 4, 2, 1, degrees=4)
    bag = esan.Bag.of([star(4), cycle(5)], "ND", 3)
    with pytest.raises(ValueError, match=r"Expected degrees below 4 \(got 4\)\. Build the model with degrees=5"):
        model(bag)
    with pytest.raises(ValueError, match=r"Expected degrees below 4 \(got 4\)"):
        model.features.check(bag.graphs)
    with pytest.raises(ValueError, match="degrees"):
        esan.ds_gnn(None, 4, 2, 1, degrees=0)
