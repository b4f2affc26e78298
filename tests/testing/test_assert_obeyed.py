"""`assert_obeyed` on the library's networks, pairwise over bags, modes and changes, and on models it must reject."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import esan
import strategies
from esan.ops.dispatch import _REFERENCE
from esan.testing import assert_obeyed
from esan.testing.obedience import CHANGES

POLICY = esan.EgoNets(hops=1, marked=True)
GRAPHS = strategies.odd_graphs()[4:6]
KINDS = [*CHANGES]


def network(architecture: str, encoder: str, **choices: Any) -> esan.nn.SubgraphGNN:
    """Whose biases are not 0, so that no ReLU is given 0 but for rounding."""
    model = strategies.model(architecture, encoder, POLICY, width=4, num_layers=2, **choices)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.rand_like(parameter))
    return model


def some(model: nn.Module) -> list[str]:
    """All parts but those of the first layer, which are as those of the second."""
    names = [name for name, part in model.named_modules() if not isinstance(part, nn.ModuleList)]
    return [name for name in names if not name.startswith(("encoder.layers.0.", "aggr_module")) and "aggr" not in name]


def pairwise_cases() -> list[tuple[str, str, bool, bool, str]]:
    """Every encoder with every change, and every change with both architectures, bags and modes."""
    cases = []
    for row, encoder in enumerate(["gin", "gine", "graphconv", "gcn", "gat"]):
        for column, change in enumerate(KINDS):
            bits = row + column
            cases.append((["ds", "dss"][bits % 2], encoder, bits // 2 % 2 == 1, (bits + row) % 2 == 0, change))
    return cases


@pytest.mark.each_value
@pytest.mark.parametrize(("architecture", "encoder", "literal", "training", "change"), pairwise_cases())
def test_every_module(architecture: str, encoder: str, literal: bool, training: bool, change: str) -> None:
    model = network(architecture, encoder)
    assert_obeyed(model, GRAPHS, POLICY, literal=literal, modules=some(model), changes=[change], training=[training])


@pytest.mark.parametrize("change", KINDS)
def test_where_like_rows_are_computed_once(change: str, always_deduplicated: None) -> None:
    model = network("ds", "gine")
    assert_obeyed(model, GRAPHS, POLICY, literal=False, modules=some(model), changes=[change], training=[True])


class Reads(nn.Module):
    """A model that computes the second of two layers from its parameters, in place of calling it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(1, 2), nn.Linear(2, 1)
        self.double()

    def forward(self, bag: esan.Bag) -> Tensor:
        x = self.first(torch.ones(len(bag), 1, dtype=torch.float64))
        return x @ self.second.weight.T + self.second.bias


def test_a_module_whose_parameters_are_read_is_reported() -> None:
    with pytest.raises(AssertionError, match=r"Expected second \(Linear\) to be called .*while training"):
        assert_obeyed(Reads(), GRAPHS, POLICY, num_layers=1)


class Bypasses(esan.nn.SubgraphGNN):
    """Calls its head under the reference alone."""

    def _predict(self, given: Any, bag: esan.Bag) -> Tensor:
        if _REFERENCE.get():
            return super()._predict(given, bag)
        assert self.set_encoder is not None
        x = self.set_encoder(torch.cat([g.view.pool_nodes(g.h, self.readout) for g in given], 1), bag)
        head: Any = self.head
        first, _, last = head
        return torch.relu(x @ first.weight.T + first.bias) @ last.weight.T + last.bias


@pytest.mark.parametrize("change", KINDS)
def test_a_fast_path_that_forgets_a_module_is_reported(change: str) -> None:
    model = network("ds", "gin")
    model.__class__ = Bypasses
    with pytest.raises(AssertionError, match=rf"\(got 0\): head.0 \(Linear\), {change}, in evaluation"):
        assert_obeyed(model, GRAPHS, POLICY, changes=[change], modules=["head.0"], training=[False])


def test_a_wrong_result_is_reported() -> None:
    class Forgets(nn.Linear):
        """Gives something else than under the reference as soon as it has hooks."""

        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) * (1 + len(self._forward_hooks))

    model: Any = network("ds", "gin")
    model.head[0].__class__ = Forgets
    with pytest.raises(AssertionError, match=r"predictions \(head.0 \(Forgets\), forward hook, while training\)"):
        assert_obeyed(model, GRAPHS, POLICY, changes=["forward hook"], modules=["head.0"])


def test_the_model_is_left_as_it_was() -> None:
    model = network("dss", "gin")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert_obeyed(model, GRAPHS, POLICY, modules=["encoder.layers.0.norm"])
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(module._forward_hooks or module._backward_hooks for module in model.modules())


@pytest.mark.pairwise
@pytest.mark.gpu
@pytest.mark.parametrize("change", KINDS)
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize(("architecture", "encoder"), [("ds", "gin"), ("dss", "gine"), ("dss", "graphconv")])
def test_on_a_gpu(architecture: str, encoder: str, kind: torch.dtype, change: str, gpu: torch.device) -> None:
    """Single precision has the fused kernels."""
    model = network(architecture, encoder).to(gpu, kind)
    assert_obeyed(model, GRAPHS, POLICY, changes=[change], training=[change != "subclass"])
