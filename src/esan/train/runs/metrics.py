"""The metrics of the paper, on all predictions at once.

torchmetrics is imported where it is used: it takes seconds, and many who import esan never train.
"""

from collections.abc import Callable

import torch
from torch import Tensor


def accuracy(prediction: Tensor, y: Tensor) -> float:
    """The part of the graphs whose class has the highest score."""
    from torchmetrics.functional.classification import multiclass_accuracy

    part = multiclass_accuracy(prediction, y, num_classes=prediction.size(1), average="micro")
    # torchmetrics divides in single precision.
    return round(float(part) * y.numel()) / y.numel()


def mae(prediction: Tensor, y: Tensor) -> float:
    """The mean absolute error over all targets that are there."""
    from torchmetrics.functional import mean_absolute_error

    there = torch.isfinite(y)
    return float(mean_absolute_error(prediction[there].double(), y[there].double()))


def rocauc(prediction: Tensor, y: Tensor) -> float:
    """The mean ROC-AUC over the labels that have both answers among the graphs where they are known, as in OGB.

    Not a number where no label has both.
    """
    from torchmetrics.functional.classification import binary_auroc

    areas = []
    for scores, answers in zip(prediction.T, y.T, strict=True):
        known = torch.isfinite(answers)
        scores, answers = scores[known], answers[known].long()
        if answers.unique().numel() == 2:
            # Ranks in place of scores: a sigmoid would make equal what is far out.
            ranks = scores.unique(return_inverse=True)[1]
            areas.append(binary_auroc(ranks.double() / ranks.numel(), answers))
    return float(torch.stack(areas).mean()) if areas else float("nan")


METRICS: dict[str, Callable[[Tensor, Tensor], float]] = {"accuracy": accuracy, "mae": mae, "rocauc": rocauc}
