"""Limits in which a subgraph network is something known: the plain GNN, DS-GNN, the whole bag."""

import copy
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from hypothesis import given
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.data import Batch, Data

import esan
import strategies
from esan.testing.compare import check_close
from hypothesis_examples import examples

EVERY_POLICY = pytest.mark.parametrize("policy", strategies.POLICIES.values(), ids=strategies.POLICIES)


def _mlp(theirs: Any) -> nn.Sequential:
    """Linear, BN, ReLU, Linear with the same weights, of torch's own modules."""
    norm = nn.BatchNorm1d(theirs.norm.num_features).double()
    norm.load_state_dict(theirs.norm.state_dict())
    return nn.Sequential(copy.deepcopy(theirs.first), norm, nn.ReLU(), copy.deepcopy(theirs.second))


def _gin(theirs: Any) -> nn.Module:
    conv = pyg.GINConv(nn.Identity())
    conv.nn = _mlp(theirs.mlp)  # set here, since the constructor draws new weights
    return conv


def _gine(theirs: Any) -> nn.Module:
    conv = pyg.GINEConv(nn.Sequential(nn.Linear(1, 1)), train_eps=True).double()
    conv.nn, conv.lin = _mlp(theirs.mlp), None
    conv.eps.data.copy_(theirs.eps.data)
    return conv


def _graphconv(theirs: Any) -> nn.Module:
    conv = pyg.GraphConv(theirs.lin_rel.in_features, theirs.lin_rel.out_features).double()
    conv.lin_rel.load_state_dict(theirs.lin_rel.state_dict())
    conv.lin_root.load_state_dict(theirs.lin_root.state_dict())
    return conv


def _gcn(theirs: Any) -> nn.Module:
    conv = pyg.GCNConv(theirs.lin.in_features, theirs.lin.out_features).double()
    conv.lin.weight.data.copy_(theirs.lin.weight.data)
    conv.bias.data.copy_(theirs.bias.data)
    return conv


PLAIN: dict[str, Callable[..., nn.Module]] = {"gin": _gin, "gine": _gine, "graphconv": _graphconv, "gcn": _gcn}


def plain_gnn(network: Any, encoder: str, batch: Batch, readout: str) -> Tensor:
    """The base GNN on the graphs themselves, written with PyG's modules and the weights of `network`."""
    h = network.features.encoder.tables[0](batch.x)
    read = [h]
    for layer in network.encoder.layers:
        conv = PLAIN[encoder](layer.inside)
        norm = nn.BatchNorm1d(layer.norm.num_features).double()
        norm.load_state_dict(layer.norm.state_dict())
        extra = [layer.inside.edge_encoder(batch.edge_attr, h)] if encoder == "gine" else []
        h = torch.relu(norm(conv(h, batch.edge_index, *extra)))
        read.append(h)
    pool = {"sum": pyg.global_add_pool, "mean": pyg.global_mean_pool, "max": pyg.global_max_pool}[readout]
    return network.head(pool(torch.cat(read, 1), batch.batch, size=batch.num_graphs))


@pytest.mark.parametrize("encoder", PLAIN)
@pytest.mark.parametrize("readout", ["sum", "mean"])
@examples(3)
@given(graphs=strategies.batches(max_drawn=3))
def test_identity_policy_is_the_plain_gnn(readout: str, encoder: str, graphs: list[Data]) -> None:
    network = strategies.model("ds", encoder, esan.Whole(), readout=readout, set_encoder="mean")
    expected = plain_gnn(network, encoder, Batch.from_data_list(graphs), readout)
    for literal in (True, False):
        # GCN looks one layer ahead; a bag with a layer to spare is right for all.
        bag = esan.Bag.of(graphs, esan.Whole(), 4, literal=literal)
        check_close(copy.deepcopy(network)(bag), expected, "DS-GNN on {G}")


@EVERY_POLICY
@pytest.mark.parametrize("encoder", ["gin", "gine", "graphconv", "gcn"])
def test_without_a_shared_branch_dss_is_ds(encoder: str, policy: esan.Policy) -> None:
    dss: Any = strategies.model("dss", encoder, policy, norm=None, jk="cat-input").eval()
    ds = strategies.model("ds", encoder, policy, norm=None, readout="mean", set_encoder="mean").eval()
    ds.load_state_dict({k: v for k, v in dss.state_dict().items() if ".shared" not in k})
    bag = esan.Bag.of([*strategies.odd_graphs()], policy, 4)
    with torch.no_grad():
        for layer in dss.encoder.layers:
            # The last map of L2 is made zero; its norm is left out, as it would divide 0 by 0.
            for name, parameter in layer.shared.named_parameters():
                if "mlp.second" in name or name.startswith(("lin", "bias")):
                    parameter.zero_()
    check_close(dss(bag), ds(bag), "DSS-GNN with L2 = 0")
    with torch.no_grad():
        for parameter in dss.encoder.layers[0].shared.parameters():
            parameter.add_(1.0)
    assert not torch.allclose(dss(bag), ds(bag))


@EVERY_POLICY
def test_sampling_all_of_a_bag_is_the_bag(policy: esan.Policy) -> None:
    graphs = strategies.odd_graphs()
    for literal in (True, None):
        whole = esan.Bag.of(graphs, policy, 2, literal=literal)
        sampled = esan.Bag.of(graphs, esan.Sampled(policy, 1.0), 2, literal=literal)
        assert sampled.selection.fingerprint == whole.selection.fingerprint
        assert sampled.rows.fingerprint == whole.rows.fingerprint


def test_norm_over_weighted_rows_is_the_norm_over_repeated_rows() -> None:
    ours, theirs = esan.nn.BatchNorm(4).double(), nn.BatchNorm1d(4).double()
    weight = torch.tensor([3, 1, 0, 5])
    x = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    copies = x.detach().repeat_interleave(weight, 0).requires_grad_()
    grad = torch.randn(9, 4, dtype=torch.float64)
    got, expected = ours(x, weight), theirs(copies)
    check_close(got.repeat_interleave(weight, 0), expected, "normalised rows")
    expected.backward(grad)
    owner = torch.repeat_interleave(weight)
    zeros = torch.zeros(4, 4, dtype=torch.float64)
    got.backward(zeros.index_add(0, owner, grad))
    assert x.grad is not None
    assert copies.grad is not None
    check_close(x.grad, zeros.index_add(0, owner, copies.grad), "gradients of rows")
    for name, value in theirs.state_dict().items():
        check_close(ours.state_dict()[name], value, name)


def test_norm_of_one_pair_is_refused_as_torch_does() -> None:
    with pytest.raises(ValueError, match="Expected more than one pair"):
        esan.nn.BatchNorm(2)(torch.randn(2, 2), torch.tensor([0, 1]))


#: With the last policy a single node has two subgraphs, and only what they share is one line.
ALONE = [("ds", esan.NodeDeletion()), ("dss", esan.NodeDeletion()), ("dss", esan.Augmented(esan.NodeDeletion()))]


@pytest.mark.parametrize("literal", [True, False])
@pytest.mark.parametrize(("architecture", "policy"), ALONE)
@pytest.mark.parametrize("encoder", ["gin", "gcn"])
def test_training_on_a_single_node_is_refused_alike(
    literal: bool, architecture: str, policy: esan.Policy, encoder: str
) -> None:
    network = strategies.model(architecture, encoder, policy, num_layers=2)
    bag = esan.Bag.of(strategies.from_edges(1, []), policy, 3, literal=literal)
    with pytest.raises(ValueError, match=r"Expected more than one pair, or node .*\(got one\)\. Use larger batches"):
        network(bag)
    assert network.eval()(bag).shape == (1, 2)


@pytest.mark.parametrize("device", ["cpu", pytest.param("gpu", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("as_reference", [False, True])
@pytest.mark.parametrize(("architecture", "policy"), ALONE)
def test_a_padded_batch_of_a_single_node(
    architecture: str, policy: esan.Policy, as_reference: bool, device: Any, request: pytest.FixtureRequest
) -> None:
    """It is refused like any other; on a GPU, which does not wait to count, nothing becomes infinite."""
    device = torch.device("cpu") if device == "cpu" else request.getfixturevalue("gpu")
    network = strategies.model(architecture, "gin", policy, num_layers=2).to(device)
    (batch,) = esan.Loader(esan.Bag.of(strategies.from_edges(1, []), policy, 3), padded=True, device=device)
    with esan.reference() if as_reference else nullcontext():
        if device.type == "cpu":
            with pytest.raises(ValueError, match="Expected more than one pair"):
                network(batch)
        else:
            assert network(batch).isfinite().all()
        assert all(value.isfinite().all() for value in network.state_dict().values())


@pytest.mark.parametrize("architecture", strategies.ARCHITECTURES)
@pytest.mark.parametrize("encoder", strategies.ENCODERS)
def test_both_bags_share_one_state(architecture: str, encoder: str) -> None:
    """A model does not change with the bag that it is given: what was trained on one runs on the other."""
    policy = esan.NodeDeletion()
    network = strategies.model(architecture, encoder, policy, num_layers=2)
    before = list(network.state_dict())
    network(esan.Bag.of(strategies.odd_graphs(), policy, literal=True))
    assert list(network.state_dict()) == before
    if encoder != "ppgn":
        network(esan.Bag.of(strategies.odd_graphs(), policy, 3))
        assert list(network.state_dict()) == before
