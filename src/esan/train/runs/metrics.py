"""Metrics of the paper on all predictions at once; predictions for samples of a bag become one: a vote, or a mean.

torchmetrics is imported where it is used: it takes seconds, and many who import esan never train.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


def accuracy(prediction: Tensor, y: Tensor) -> float:
    """The fraction of graphs whose class has the highest score."""
    from torchmetrics.functional.classification import multiclass_accuracy

    fraction = multiclass_accuracy(prediction, y, num_classes=prediction.size(1), average="micro")
    # torchmetrics divides in single precision.
    return round(float(fraction) * y.numel()) / y.numel()


def mae(prediction: Tensor, y: Tensor) -> float:
    """The mean absolute error over all targets that are not missing."""
    from torchmetrics.functional import mean_absolute_error

    mask = torch.isfinite(y)
    return float(mean_absolute_error(prediction[mask].double(), y[mask].double()))


def rocauc(prediction: Tensor, y: Tensor) -> float:
    """The mean ROC-AUC over the labels that have both answers among the graphs where they are known, as in OGB.

    NaN where no label has both.
    """
    from torchmetrics.functional.classification import binary_auroc

    areas = []
    for scores, answers in zip(prediction.T, y.T, strict=True):
        known = torch.isfinite(answers)
        scores, answers = scores[known], answers[known].long()
        if answers.unique().numel() == 2:
            # Ranks in place of scores: a sigmoid would make extreme scores equal.
            ranks = scores.unique(return_inverse=True)[1]
            areas.append(binary_auroc(ranks.double() / ranks.numel(), answers))
    return float(torch.stack(areas).mean()) if areas else float("nan")


METRICS: dict[str, Callable[[Tensor, Tensor], float]] = {"accuracy": accuracy, "mae": mae, "rocauc": rocauc}


@dataclass(frozen=True, eq=False)
class CombinedSamples:
    """One prediction per graph from those for samples of its bag.

    Attributes:
        prediction: scores of classes or labels, or numbers, `[G, C]`.
        spread: how much the samples differ: for classes the fraction of samples that predict another class, `[G, 1]`;
            for labels the standard deviation of their probability and for numbers that of the numbers, `[G, T]`. None
            for a single sample.
    """

    prediction: Tensor
    spread: Tensor | None


def combine_samples(samples: Tensor, kind: str) -> CombinedSamples:
    """Majority of classes; mean of numbers and of the scores of labels.

    Args:
        samples: the predictions for each sample, `[samples, G, C]`.
        kind: of the task.
    """
    if samples.size(0) == 1:
        return CombinedSamples(samples[0], None)
    if kind == "classification":
        classes = samples.size(2)
        shares = torch.nn.functional.one_hot(samples.argmax(2), classes).to(samples.dtype).mean(0)
        # Less than one sample: the mean probability only decides among classes that as many samples predict.
        scores = shares + samples.softmax(2).mean(0) / (2 * samples.size(0))
        winner = shares.gather(1, scores.argmax(1, keepdim=True))
        return CombinedSamples(scores, 1 - winner)
    values = samples.sigmoid() if kind == "labels" else samples
    return CombinedSamples(samples.mean(0), values.std(0, correction=0))
