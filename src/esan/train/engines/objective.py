"""`Objective`: the loss of a task, entry by entry, in a form that a captured graph of kernels can hold."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

#: The kinds of task, as `esan.data.Task.kind` names them.
KINDS = ("classification", "regression", "labels")


@dataclass(frozen=True, eq=False)
class Terms:
    """The losses of a batch.

    Attributes:
        value: the loss of each entry, `[B, T]`; finite also where it does not count.
        there: 1 where it counts, 0 where the target is missing, `[B, T]`.
    """

    value: Tensor
    there: Tensor

    def mean(self) -> Tensor:
        """The loss of the batch: the mean of what counts."""
        return (self.value * self.there).sum() / self.there.sum().clamp(min=1)


@dataclass(frozen=True, eq=False)
class Objective:
    """Cross entropy of classes, L1 of regression, binary cross entropy of labels; missing targets (NaN) do not count.

    No shape depends on the data and nothing is read back from the device.

    Args:
        kind: from `KINDS`.
        shift: of regression, what is taken from a target before the network sees it, `[T]`; None for nothing.
        scale: of regression, what it is then divided by, `[T]`.
    """

    kind: str
    shift: Tensor | None = None
    scale: Tensor | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"Expected a task of the kind {', '.join(KINDS)} (got {self.kind!r}).")

    def terms(self, prediction: Tensor, y: Tensor) -> Terms:
        """The losses of predictions `[B, C]` for targets `[B]` (classes) or `[B, T]`."""
        if self.kind == "classification":
            value = F.cross_entropy(prediction, y, reduction="none")[:, None]
            return Terms(value, torch.ones_like(value))
        there = torch.isfinite(y).to(prediction.dtype)
        target = torch.nan_to_num(y.to(prediction.dtype), nan=0.0, posinf=0.0, neginf=0.0)
        if self.kind == "labels":
            return Terms(F.binary_cross_entropy_with_logits(prediction, target, reduction="none"), there)
        if self.shift is not None and self.scale is not None:
            target = (target - self.shift) / self.scale
        return Terms((prediction - target).abs(), there)

    def answer(self, prediction: Tensor) -> Tensor:
        """Predictions in the units of the targets; scores of classes and labels as they are."""
        if self.shift is None or self.scale is None:
            return prediction
        return prediction * self.scale + self.shift

    def to(self, device: torch.device | str) -> "Objective":
        if self.shift is None or self.scale is None:
            return self
        return Objective(self.kind, self.shift.to(device), self.scale.to(device))


def objective_for(kind: str, y: Tensor, scale_targets: bool) -> Objective:
    """The objective of a task; of regression with `scale_targets`, scaled by the training targets `y`."""
    if kind != "regression" or not scale_targets:
        return Objective(kind)
    there = torch.isfinite(y)
    count = there.sum(0).clamp(min=1)
    filled = torch.where(there, y.double(), 0.0)
    shift = filled.sum(0) / count
    spread = torch.where(there, (y.double() - shift).square(), 0.0).sum(0).div(count).sqrt()
    # A target that never varies is left in its own units.
    return Objective(kind, shift.float(), torch.where(spread > 1e-8, spread, 1.0).float())
