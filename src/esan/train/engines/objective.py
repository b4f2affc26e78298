"""`Objective`: the loss of a task, per entry and without reading back from the device, for one network or several."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from esan.ops.dispatch import implementation

#: The kinds of task, as `esan.data.Task.kind` names them.
KINDS = ("classification", "regression", "labels")


@dataclass(frozen=True, eq=False)
class Losses:
    """The losses of a batch.

    Attributes:
        value: the loss of each entry, `[B, T]`; finite also where the mask is 0.
        mask: 1 where there is a target, 0 where it is missing, `[B, T]`.
    """

    value: Tensor
    mask: Tensor

    def mean(self) -> Tensor:
        """The loss of the batch: the mean over all targets that are not missing."""
        return (self.value * self.mask).sum() / self.mask.sum().clamp(min=1)


@dataclass(frozen=True, eq=False)
class Objective:
    """Cross entropy for classes, L1 for regression, binary cross entropy for labels; missing targets are masked.

    Missing targets are NaN. No shape depends on the data and nothing is read back from the device, so that a CUDA graph
    can hold it.

    Args:
        kind: from `KINDS`.
        shift: for regression, subtracted from targets before training, `[T]`; None for nothing.
        scale: for regression, what targets are then divided by, `[T]`.
    """

    kind: str
    shift: Tensor | None = None
    scale: Tensor | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"Expected a task of the kind {', '.join(KINDS)} (got {self.kind!r}).")

    def losses(self, prediction: Tensor, y: Tensor) -> Losses:
        """The losses of predictions `[B, C]` for targets `[B]` (classes) or `[B, T]`."""
        if self.kind == "classification":
            value = F.cross_entropy(prediction, y, reduction="none")[:, None]
            return Losses(value, torch.ones_like(value))
        mask = torch.isfinite(y).to(prediction.dtype)
        target = torch.nan_to_num(y.to(prediction.dtype), nan=0.0, posinf=0.0, neginf=0.0)
        if self.kind == "labels":
            return Losses(F.binary_cross_entropy_with_logits(prediction, target, reduction="none"), mask)
        if self.shift is not None and self.scale is not None:
            target = (target - self.shift) / self.scale
        return Losses((prediction - target).abs(), mask)

    def unscale(self, prediction: Tensor) -> Tensor:
        """Predictions in the units of the targets; scores of classes and labels are unchanged."""
        if self.shift is None or self.scale is None:
            return prediction
        return prediction * self.scale + self.shift

    def to(self, device: torch.device | str) -> "Objective":
        if self.shift is None or self.scale is None:
            return self
        return Objective(self.kind, self.shift.to(device), self.scale.to(device))


def objective_for(kind: str, y: Tensor, scale_targets: bool) -> Objective:
    """The objective of a task; for regression with `scale_targets`, scaled by the training targets `y`."""
    if kind != "regression" or not scale_targets:
        return Objective(kind)
    mask = torch.isfinite(y)
    count = mask.sum(0).clamp(min=1)
    shift = torch.where(mask, y.double(), 0.0).sum(0) / count
    std = torch.where(mask, (y.double() - shift).square(), 0.0).sum(0).div(count).sqrt()
    # A constant target keeps its units.
    return Objective(kind, shift.float(), torch.where(std > 1e-8, std, 1.0).float())


def loss_gradient(
    objective: Objective, prediction: Tensor, y: Tensor, weight: Tensor, sums: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradient of each member's mean loss on a padded batch of an ensemble; losses are added to `sums`.

    Args:
        objective: of all members.
        prediction: for the B graphs of each of S members and one padding graph behind them, `[S (B + 1), C]`.
        y: the targets of the graphs, `[S B]` (classes) or `[S B, T]`.
        weight: 1 for each graph of the batch, 0 for padding, `[S (B + 1)]`.
        sums: the sum of losses and the number of targets of each member, `[2, S]`.

    Returns:
        the gradient, of the shape of `prediction`, 0 for padding; and 1 for each member that has a target, else 0.
    """
    members = sums.size(1)
    y = y.to(prediction.dtype) if y.is_floating_point() else y
    fast = implementation("loss", prediction, sums)
    if fast is not None and fast.fits(prediction, members):
        scaled = None if objective.shift is None or objective.scale is None else (objective.shift, objective.scale)
        return fast.loss_gradient(objective.kind, prediction, y, weight, sums, scaled)
    with torch.enable_grad():
        # Predictions for padding may be NaN.
        leaf = torch.where(weight[:, None] > 0, prediction.detach(), 0.0).requires_grad_()
        losses = objective.losses(leaf.view(members, -1, leaf.size(1))[:, :-1].flatten(0, 1), y)
        mask = weight.view(members, -1)[:, :-1].reshape(-1, 1) * losses.mask
        value, count = (losses.value * mask).view(members, -1).sum(1), mask.view(members, -1).sum(1)
        # One gradient of the sum: the loss of a member does not depend on the parameters of the others.
        (grad,) = torch.autograd.grad((value / count.clamp(min=1)).sum(), leaf)
    sums += torch.stack([value.detach(), count])
    return grad, (count > 0).to(sums.dtype)
