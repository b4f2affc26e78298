"""`Predictions`: what a network says of graphs, in the user's units, with how sure it is."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from esan.counted import counted
from esan.train.runs.directory import write_text
from esan.train.runs.metrics import average_samples


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions, a line a graph.

    Attributes:
        kind: of the task.
        value: the class `[G]` (as the training data called it), the numbers `[G, T]`, or the probability of each
            label `[G, T]`.
        probability: of each class, `[G, C]`; None for other tasks.
        spread: of sampled bags, how much the votes differ: of classes the part that is not for the winner `[G, 1]`, of
            numbers and labels their standard deviation `[G, T]`; None for whole bags.
        classes: the class that each column of `probability` stands for.
    """

    kind: str
    value: Tensor
    probability: Tensor | None
    spread: Tensor | None
    classes: tuple[int, ...] = ()

    @staticmethod
    def of(votes: Tensor, kind: str, classes: tuple[int, ...] | None = None) -> "Predictions":
        """From what the network gave for each sample, `[votes, G, C]`."""
        outcome = average_samples(votes, kind)
        if kind == "classification":
            called = tuple(range(votes.size(2))) if classes is None else classes
            value = torch.tensor(called)[outcome.prediction.argmax(1)]
            return Predictions(kind, value, votes.softmax(2).mean(0), outcome.spread, called)
        value = outcome.prediction.sigmoid() if kind == "labels" else outcome.prediction
        return Predictions(kind, value, None, outcome.spread)

    def __len__(self) -> int:
        return self.value.size(0)

    def __repr__(self) -> str:
        what = f" of {', '.join(map(str, self.classes))}" if 0 < len(self.classes) <= 10 else ""
        return f"Predictions({counted(len(self), 'graph')}, {self.kind}{what})"

    def columns(self) -> dict[str, list[float] | list[int]]:
        """The columns of a table, by name."""
        told: dict[str, list[float] | list[int]] = {}
        if self.probability is not None:
            told["prediction"] = self.value.tolist()
            told |= {f"p({c})": column.tolist() for c, column in zip(self.classes, self.probability.T, strict=True)}
        else:
            told |= _numbered("prediction", self.value)
        return told if self.spread is None else told | _numbered("spread", self.spread)

    def to_csv(self, path: str | Path, more: dict[str, list[object]] | None = None) -> None:
        """Write a line a graph: its number, the columns of `more`, and the predictions."""
        columns = {"graph": list(range(len(self)))} | (more or {}) | self.columns()
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow(columns)
        lines.writerows(zip(*columns.values(), strict=True))
        write_text(Path(path), text.getvalue())


def _numbered(name: str, lines: Tensor) -> dict[str, list[float] | list[int]]:
    many = lines.size(1) > 1
    return {f"{name} {i}" if many else name: column.tolist() for i, column in enumerate(lines.T)}
