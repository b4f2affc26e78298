"""Interpreted: losses and the gradients of predictions against the objective's own terms, in double precision."""

from contextlib import nullcontext
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor

from esan.ops import reference
from esan.ops.triton import loss as gpu_loss
from esan.train.engines.objective import KINDS, Objective, loss_gradient
from interpreting import ONE_OR_THREE, ONLY_INTERPRETED, close

pytestmark = ONLY_INTERPRETED
GRAPHS = 5


def targets(kind: str, networks: int, outputs: int) -> Tensor:
    count = networks * GRAPHS
    if kind == "classification":
        return torch.randint(outputs, (count,))
    y = torch.randn(count, outputs) if kind == "regression" else torch.randint(2, (count, outputs)).float()
    y[torch.rand_like(y) < 0.2] = torch.nan
    return y


def batch(kind: str, networks: int, outputs: int) -> tuple[Tensor, Tensor, Tensor]:
    """Predictions, targets and weights; the first network lacks a graph, and padding has predictions of any value."""
    torch.manual_seed(networks + outputs)
    prediction = 3 * torch.randn(networks * (GRAPHS + 1), outputs)
    weight = torch.ones(networks, GRAPHS + 1)
    weight[:, -1], weight[0, -2] = 0.0, 0.0
    prediction.view(networks, GRAPHS + 1, outputs)[weight == 0] = torch.nan
    return prediction, targets(kind, networks, outputs), weight.reshape(-1)


def objective_of(kind: str, outputs: int, scaled: bool) -> Objective:
    if not scaled:
        return Objective(kind)
    return Objective(kind, torch.linspace(-1, 1, outputs), torch.linspace(0.5, 2, outputs))


def expected(objective: Objective, prediction: Tensor, y: Tensor, weight: Tensor, network: int) -> list[Tensor]:
    """The gradient, the sum and the number of losses of one network, of the graphs that count alone."""
    graphs = weight.view(-1, GRAPHS + 1)[network, :-1] > 0
    leaf = prediction.view(-1, GRAPHS + 1, prediction.size(1))[network, :-1].double().requires_grad_()
    terms = objective.losses(leaf[graphs], y.view(-1, GRAPHS, *y.shape[1:])[network][graphs])
    (grad,) = torch.autograd.grad(terms.mean(), leaf)
    return [grad, (terms.value * terms.mask).sum(), terms.mask.sum()]


@pytest.mark.pairwise
@ONE_OR_THREE
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize(("kind", "scaled"), [(kind, False) for kind in KINDS] + [("regression", True)])
@pytest.mark.parametrize("plain", [False, True])
def test_losses(
    kind: str, scaled: bool, outputs: int, networks: int, plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's, and those of the reference, which takes what does not fit the kernel."""
    kernel = Mock(wraps=gpu_loss.loss_gradient)
    monkeypatch.setattr(gpu_loss, "loss_gradient", kernel)
    objective = objective_of(kind, outputs, scaled)
    prediction, y, weight = batch(kind, networks, outputs)
    sums = torch.full((2, networks), 7.0)
    with reference() if plain else nullcontext():
        grad, live = loss_gradient(objective, prediction, y, weight, sums)
    assert kernel.called == (not plain)
    assert torch.equal(live, torch.ones(networks))
    every = grad.view(networks, GRAPHS + 1, outputs)
    assert not every[weight.view(networks, -1) == 0].any()
    for network in range(networks):
        wanted, total, count = expected(objective, prediction, y, weight, network)
        close(every[network, :-1], wanted, f"gradient of network {network}")
        close(sums[:, network] - 7, torch.stack([total.detach(), count.double()]), f"losses of network {network}")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("plain", [False, True])
def test_a_network_without_graphs(kind: str, plain: bool) -> None:
    prediction, y, weight = batch(kind, 3, 2)
    weight.view(3, -1)[1] = 0
    sums = torch.zeros(2, 3)
    with reference() if plain else nullcontext():
        grad, live = loss_gradient(Objective(kind), prediction, y, weight, sums)
    assert live.tolist() == [1, 0, 1]
    assert not grad.view(3, -1)[1].any()
    assert sums[:, 1].tolist() == [0, 0]
    assert sums.isfinite().all()
