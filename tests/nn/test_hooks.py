"""What users put on or into the parts of a layer is called, whichever way the layer is computed."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import esan
from esan.ops import reference

KINDS = pytest.mark.parametrize("make", [esan.ds_gnn, esan.dss_gnn])


class Doubled(nn.ReLU):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


def answers(network: nn.Module) -> Tensor:
    return network(esan.Bag.of([esan.graphs.cycle(5), esan.graphs.path(4)], esan.NodeDeletion(), 2))


@KINDS
@pytest.mark.parametrize("way", [nullcontext, reference], ids=["fast", "reference"])
def test_hooks_and_own_activations(
    make: Callable[..., esan.nn.SubgraphGNN], way: Callable[[], AbstractContextManager[None]]
) -> None:
    torch.manual_seed(0)
    network = make(None, 4, 2, 2).double()
    with way():
        check_hooks(network)


def check_hooks(network: esan.nn.SubgraphGNN) -> None:
    plain, seen = answers(network), []
    layer: Any = network.encoder.layers[0]
    hooks = [
        layer.norm.register_forward_hook(lambda norm, given, found: seen.append(("norm", found.min().item()))),
        layer.act.register_forward_hook(lambda act, given, found: seen.append(("act", found.min().item()))),
    ]
    assert torch.allclose(answers(network), plain)
    assert {name for name, _ in seen} == {"norm", "act"}
    # Before the ReLU, and after it.
    assert min(least for name, least in seen if name == "norm") < 0
    assert all(least >= 0 for name, least in seen if name == "act")
    for hook in hooks:
        hook.remove()
    layer.act = Doubled()
    assert not torch.allclose(answers(network), plain)
