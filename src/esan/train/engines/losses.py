"""The losses of a batch of several networks, and where they lead the predictions."""

import torch
from torch import Tensor

from esan.ops.dispatch import implementation
from esan.train.engines.objective import Objective


def loss_backward(
    objective: Objective, prediction: Tensor, y: Tensor, weight: Tensor, sums: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradient of each network's mean loss, and which networks had any; what was lost is added to `sums`.

    Args:
        objective: of all networks.
        prediction: those of the graphs of each of S networks and, behind them, of one that is filler, `[S (B + 1), C]`.
        y: the targets of the graphs, `[S B]` (classes) or `[S B, T]`.
        weight: 1 for each graph of the batch, 0 for the filler and for graphs that a last batch lacks, `[S (B + 1)]`.
        sums: the sum of losses, and how many they are, of each network, `[2, S]`.

    Returns:
        the gradient, like `prediction`, 0 for what does not count; and 1 for each network that something counts of.
    """
    networks = sums.size(1)
    fast = implementation("loss", prediction, sums)
    if fast is not None and fast.fits(prediction, networks):
        scaled = None if objective.shift is None or objective.scale is None else (objective.shift, objective.scale)
        return fast.loss_backward(objective.kind, prediction, y, weight, sums, scaled)
    with torch.enable_grad():
        # Filler predicts anything, also what is no number.
        leaf = torch.where(weight[:, None] > 0, prediction.detach(), 0.0).requires_grad_()
        terms = objective.terms(leaf.view(networks, -1, leaf.size(1))[:, :-1].flatten(0, 1), y)
        counted = weight.view(networks, -1)[:, :-1].reshape(-1, 1) * terms.there
        value, count = (terms.value * counted).view(networks, -1).sum(1), counted.view(networks, -1).sum(1)
        # The losses of the networks are added up: none depends on the others' parameters.
        (grad,) = torch.autograd.grad((value / count.clamp(min=1)).sum(), leaf)
    sums += torch.stack([value.detach(), count])
    return grad, (count > 0).to(sums.dtype)
