"""`Predictions`: what a network predicts for graphs, in the units and classes of the training data."""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from esan.data.dataset import Classes, Dataset
from esan.plural import counted
from esan.train.runs.metrics import combine_samples
from esan.train.runs.run_files import write_text


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions, one row per graph.

    Attributes:
        kind: of the task.
        outcome: as `Dataset.y` holds targets: class numbers `[G]`, numbers `[G, T]`, or the probability of each label
            `[G, T]`. `value` has classes as the training data calls them.
        probability: of each class, `[G, C]`; None for other tasks.
        spread: for sampled bags, how much the votes differ: for classes the fraction against the winner `[G, 1]`, for
            numbers and labels the standard deviation `[G, T]`; None for whole bags.
        classes: the class of each column of `probability`, as the training data calls it.
        targets: the name of each number or label, that of its column in the training data; None where they had none.
    """

    kind: str
    outcome: Tensor
    probability: Tensor | None
    spread: Tensor | None
    classes: Classes = ()
    targets: tuple[str, ...] | None = None

    @staticmethod
    def of(
        votes: Tensor, kind: str, classes: Classes | None = None, targets: tuple[str, ...] | None = None
    ) -> "Predictions":
        """From what the network gave for each sample, `[votes, G, C]`."""
        outcome = combine_samples(votes, kind)
        if kind == "classification":
            named: Classes = tuple(range(votes.size(2))) if classes is None else classes
            probability = votes.softmax(2).mean(0)
            return Predictions(kind, outcome.prediction.argmax(1), probability, outcome.spread, named, targets)
        answer = outcome.prediction.sigmoid() if kind == "labels" else outcome.prediction
        return Predictions(kind, answer, None, outcome.spread, targets=targets)

    @property
    def value(self) -> Tensor:
        """What the targets would be: the class `[G]` as the training data calls it, the numbers `[G, T]`, or the
        probability of each label `[G, T]`.

        Classes that are words are no tensor: they are in `called`.
        """
        if self.kind != "classification":
            return self.outcome
        if self._in_words:
            raise ValueError(
                f"Expected classes that are numbers for value (got the words {', '.join(map(str, self.classes))[:100]})"
                ". Read called for the class of each graph, or number for its place in classes."
            )
        return torch.tensor(self.classes)[self.outcome]

    @property
    def number(self) -> Tensor:
        """The class numbers `[G]`: the place of each graph's class in `classes`, its column of `probability`."""
        if self.kind != "classification":
            raise ValueError(f"Expected predictions of classes for number (got {self.kind}). Read value.")
        return self.outcome

    @property
    def _in_words(self) -> bool:
        return any(isinstance(name, str) for name in self.classes)

    def __len__(self) -> int:
        return self.outcome.size(0)

    def __repr__(self) -> str:
        what = f" of {', '.join(map(str, self.classes))}" if 0 < len(self.classes) <= 10 else ""
        return f"Predictions({counted(len(self), 'graph')}, {self.kind}{what})"

    @property
    def called(self) -> list[int | str]:
        """The class of each graph as the training data calls it, a number or a word: `classes[number]`."""
        return [self.classes[number] for number in self.number.tolist()]

    def columns(self) -> dict[str, list[Any]]:
        """The columns of a table, by name."""
        columns: dict[str, list[Any]] = {}
        if self.probability is not None:
            columns["prediction"] = self.called
            columns |= {f"p({c})": column.tolist() for c, column in zip(self.classes, self.probability.T, strict=True)}
        else:
            columns |= _named("prediction", self.outcome, self.targets)
        return columns if self.spread is None else columns | _named("spread", self.spread, self.targets)

    def to_csv(self, path: str | Path, more: dict[str, list[object]] | None = None) -> None:
        """Write one row per graph: its number, the columns of `more`, and the predictions."""
        columns = {"graph": list(range(len(self)))} | (more or {}) | self.columns()
        write_text(Path(path), _csv(columns))


def save_predictions(path: Path, votes: Mapping[str, Tensor], ids: Mapping[str, Tensor], dataset: Dataset) -> None:
    """Write the predictions for parts of a dataset as CSV: number of the graph, part, targets and predictions.

    Args:
        path: the file.
        votes: what the network gave for the graphs of each part, for each sample, `[votes, G, C]`.
        ids: the numbers of these graphs in the dataset.
        dataset: its task, classes and targets.
    """
    columns: dict[str, list[Any]] = {}
    for part, given in votes.items():
        numbers = ids[part].tolist()
        targets = {name: [column[number] for number in numbers] for name, column in target_columns(dataset).items()}
        told = Predictions.of(given, dataset.task.kind, dataset.classes, dataset.targets).columns()
        for name, column in ({"graph": numbers, "part": [part] * len(numbers)} | targets | told).items():
            columns.setdefault(name, []).extend(column)
    write_text(path, _csv(columns))


def target_columns(dataset: Dataset) -> dict[str, list[Any]]:
    """The targets of all graphs by the name of their column: classes as the user calls them, or numbers."""
    if dataset.task.kind == "classification":
        return {"target": [dataset.called(number) for number in dataset.y.tolist()]}
    return _named("target", dataset.y, dataset.targets)


def _csv(columns: Mapping[str, list[Any]]) -> str:
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(columns)
    lines.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def _named(name: str, lines: Tensor, targets: tuple[str, ...] | None) -> dict[str, list[Any]]:
    """Columns for what there is of each target; of several, with their names, or else their numbers."""
    if lines.size(1) == 1:
        return {name: lines[:, 0].tolist()}
    told = range(lines.size(1)) if targets is None else targets
    return {f"{name} {target}": column.tolist() for target, column in zip(told, lines.T, strict=True)}
