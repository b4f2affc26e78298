"""`model.reset_parameters()`: a new network in the same tensors."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, MessagePassing

import esan
import strategies


class Own(MessagePassing):
    """A convolution of a user's own, with the `reset_parameters` that PyG's base class has: it does nothing."""

    lookahead = 0

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin = nn.Linear(in_channels, out_channels)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.lin(x + self.propagate(edge_index, x=x))


class OwnWeight(Own):
    """The same, with a parameter that nothing resets."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(in_channels, out_channels)
        self.scale = nn.Parameter(torch.ones(1))


def network(make: Callable[..., Any], conv: Any) -> esan.nn.SubgraphGNN:
    """`conv`, with bonds if a word behind it says so."""
    bonds, name = None, conv
    if isinstance(conv, str) and conv.endswith(" with bonds"):
        bonds, name = esan.Categories(strategies.BONDS), conv.removesuffix(" with bonds")
    model: esan.nn.SubgraphGNN = make(
        esan.Categories(strategies.ATOMS), 8, 2, 1, conv=name, edge_channels=bonds, set_encoder="deepsets"
    )
    return model


@pytest.mark.parametrize("make", [esan.ds_gnn, esan.dss_gnn])
@pytest.mark.parametrize("conv", ["gin", "gine with bonds", "graphconv", "gcn", "gcn with bonds", GATConv, Own])
def test_weights_and_statistics_are_new(make: Callable[..., Any], conv: Any) -> None:
    """In the same tensors, with the spread that a new network has, and the same again from the same seed."""
    model, new = network(make, conv), network(make, conv)
    spread = {name: float(p.detach().abs().max()) for name, p in new.named_parameters()}
    addresses = [value.data_ptr() for value in model.state_dict().values()]
    with torch.no_grad():
        for value in model.state_dict().values():
            value.fill_(1000)
    found = []
    for _ in range(2):
        torch.manual_seed(3)
        model.reset_parameters()
        found.append({name: value.clone() for name, value in model.state_dict().items()})
    assert all(value.equal(found[1][name]) for name, value in found[0].items())
    assert [value.data_ptr() for value in model.state_dict().values()] == addresses
    for name, parameter in model.named_parameters():
        assert float(parameter.detach().abs().max()) <= 4 * spread[name], name
        assert (spread[name] == 0) == (not parameter.any()), name
    for name, buffer in model.named_buffers():
        assert buffer.equal(dict(new.named_buffers())[name]), name


def test_what_nothing_resets_is_refused_before_anything_changes() -> None:
    model = network(esan.ds_gnn, OwnWeight)
    before = [p.clone() for p in model.parameters()]
    with pytest.raises(TypeError, match=r"Expected parts with a reset_parameters method \(got OwnWeight as conv"):
        model.reset_parameters()
    assert all(p.equal(other) for p, other in zip(model.parameters(), before, strict=True))
