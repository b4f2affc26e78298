"""Infers the task from the targets, and converts them to the form that training uses."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from esan.data.dataset import METRICS, Classes, Task


@dataclass
class Targets:
    """Class numbers `[G]` or floats `[G, T]`, their task, and what the user calls the classes if not 0, 1, ..."""

    y: Tensor | None
    task: Task
    classes: Classes | None = None


@dataclass(frozen=True)
class TargetCells:
    """Where targets stand in a file, for errors; nowhere if they come from memory.

    Attributes:
        file: their file.
        lines: the line of each graph.
        columns: the name of each column.
        whole: whether all that is written in a column are whole numbers.
        words: of classes that are words, the words; the targets are their places in it.
        names: what the user calls the targets; None where they are numbered.
    """

    file: Path | None = None
    lines: Sequence[int] = ()
    columns: Sequence[str] = ()
    whole: Sequence[bool] = ()
    words: tuple[str, ...] | None = None
    names: tuple[str, ...] | None = None

    def at(self, bad: Tensor) -> str:
        """The first true entry of a mask `[G, T]`, in words."""
        graph, column = bad.nonzero()[0].tolist()
        if self.file is None:
            return f"for graph {graph}"
        return f"at line {self.lines[graph]} of {self.file}, column {self.columns[column]}"

    def named(self, column: int) -> str:
        """A column by its name, or else its number."""
        return self.columns[column] if self.columns else str(column)

    @property
    def remedy(self) -> str:
        """What to do where a target is missing."""
        if self.file is None:
            return "Correct or leave out that graph"
        return "Fill it, or leave such rows of a table out: skip_missing=True"


def infer_targets(
    y: Tensor | None, task: Task | str | None, cells: TargetCells | None = None, classes: Classes | None = None
) -> Targets:
    """The targets and their task.

    Unless the task is given: words or one column of integers → classification; 0/1, with NaN where one is missing, in
    several columns or as floating-point numbers → labels; other floating-point numbers → regression.

    Args:
        y: one row per graph; None for graphs whose targets are to be predicted, which needs a whole `task`.
        task: a `Task`, or its kind alone.
        cells: where they stand in a file, and their words if they are classes.
        classes: the classes in the order of their numbers; None for those that are found, sorted.
    """
    cells = cells or TargetCells()
    if isinstance(task, str) and task not in METRICS:
        raise ValueError(f"Expected a task of {', '.join(METRICS)} (got {task!r}). Pass one of these, or a Task.")
    if y is None:
        if not isinstance(task, Task):
            raise ValueError(
                "Expected a target for every graph (got none). Set y on the graphs or pass labels=...; "
                "for graphs that only await predictions, pass the Task of the model."
            )
        return Targets(None, task)
    if y.dim() > 2 or y.dim() == 0 or y.is_complex():
        raise ValueError(f"Expected targets of shape [G] or [G, T] (got {tuple(y.shape)}). Flatten them.")
    columns = y.cpu().reshape(y.size(0), -1)
    if columns.size(1) == 0:
        raise ValueError("Expected at least one target per graph (got none). Pass a column of targets.")
    if columns.is_floating_point() and bool(torch.isinf(columns).any()):
        raise _not_finite(columns, torch.isinf(columns), cells)
    kind = task.kind if isinstance(task, Task) else task if task is not None else _kind(columns, cells)
    if classes is not None and kind != "classification":
        raise ValueError(f"Expected a classification with classes (got the task {kind}). Leave classes out.")
    if cells.words is not None and kind != "classification":
        raise ValueError(
            f"Expected numbers as targets for {kind} (got {cells.words[int(columns[0, 0])]!r} "
            f'{cells.at(torch.ones_like(columns[:1]))}). Words are classes: choose task="classification".'
        )
    if kind == "classification" and classes is not None:
        found = _known(columns, cells, tuple(classes))
        if isinstance(task, Task) and found.task.out_channels != task.out_channels:
            raise ValueError(f"Expected {task.out_channels} classes (got {len(classes)}). Name all of the task.")
        return found
    if kind == "classification":
        numbered = isinstance(task, Task) and cells.words is None
        return _numbered(columns, task, cells) if numbered else _classification(columns, cells, task)
    found = _regression(columns, cells) if kind == "regression" else _labels(columns, cells)
    if isinstance(task, Task) and found.task.out_channels != task.out_channels:
        raise ValueError(
            f"Expected {task.out_channels} targets per graph (got {found.task.out_channels}). Choose as many columns."
        )
    return found


def _kind(columns: Tensor, cells: TargetCells) -> str:
    if cells.words is not None:
        return "classification"
    binary = bool(((columns == 0) | (columns == 1) | torch.isnan(columns)).all())
    if columns.size(1) > 1 or columns.is_floating_point():
        if binary:
            return "labels"
        if not columns.is_floating_point():
            raise ValueError(
                f"Expected one column of classes, or columns of 0/1 (got {columns.size(1)} columns of other integers). "
                'Pass task="regression", or choose one column.'
            )
        return "regression"
    return "classification"


def _class_numbers(columns: Tensor, cells: TargetCells) -> Tensor:
    missing = torch.isnan(columns)
    if columns.size(1) == 1 and bool(missing.any()):
        raise ValueError(f"Expected a class for every graph (got none {cells.at(missing)}). {cells.remedy}.")
    whole = not columns.is_floating_point() or bool((columns == columns.round()).all())
    if columns.size(1) != 1 or not whole:
        got = f"{columns.size(1)} columns" if columns.size(1) != 1 else "fractions"
        raise ValueError(f"Expected one whole class number per graph (got {got}). Choose one column and fill it.")
    return columns[:, 0].long()


def _known(columns: Tensor, cells: TargetCells, classes: Classes) -> Targets:
    """Of classes that are given: those that have no graphs here keep their numbers, others are refused."""
    found = _class_numbers(columns, cells).tolist()
    labels = found if cells.words is None else [cells.words[number] for number in found]
    known = {label: number for number, label in enumerate(classes)}
    strange = torch.tensor([[label not in known] for label in labels])
    if bool(strange.any()):
        bad = labels[int(strange[:, 0].nonzero()[0])]
        raise ValueError(
            f"Expected the classes {', '.join(map(str, known))} (got {bad} {cells.at(strange)}). Leave those graphs "
            "out: the network was not trained on that class."
        )
    usual = classes == tuple(range(len(classes)))
    y = torch.tensor([known[label] for label in labels])
    return Targets(y, Task("classification", len(classes)), None if usual else classes)


def _numbered(columns: Tensor, task: Task | str | None, cells: TargetCells) -> Targets:
    """Of a whole task: classes keep their numbers, even where some have no members here."""
    assert isinstance(task, Task)
    y = _class_numbers(columns, cells)
    if int(y.min()) < 0 or int(y.max()) >= task.out_channels:
        raise ValueError(
            f"Expected classes from 0 to {task.out_channels - 1} (got {int(y.min())} to {int(y.max())}). "
            "Renumber them, or leave the task to be inferred."
        )
    return Targets(y, task)


def _classification(columns: Tensor, cells: TargetCells, task: Task | str | None) -> Targets:
    found, y, members = _class_numbers(columns, cells).unique(return_inverse=True, return_counts=True)
    labels: Classes = tuple(found.tolist() if cells.words is None else [cells.words[i] for i in found.tolist()])
    if len(labels) < 2:
        raise ValueError(
            f"Expected at least two classes (got only {labels[0]}). There is nothing to learn; add other graphs."
        )
    if len(labels) >= 10 and int(members.max()) == 1:
        what = "integers" if cells.words is None else f"words such as {labels[0]!r}"
        advice = 'Are they quantities? Pass task="regression".'
        if cells.words is not None:
            advice = "Are they names of molecules? Name the column of targets: targets='COLUMN'."
        raise ValueError(f"Expected classes with several members (got {len(labels)} {what}, all different). {advice}")
    if isinstance(task, Task) and len(labels) != task.out_channels:
        raise ValueError(
            f"Expected {task.out_channels} classes (got {len(labels)}: {', '.join(map(str, labels))[:100]}). "
            "Name them in order: classes=[...]."
        )
    usual = labels == tuple(range(len(labels)))
    return Targets(y, Task("classification", len(labels)), None if usual else labels)


def _regression(columns: Tensor, cells: TargetCells) -> Targets:
    y = columns.to(torch.float32)
    if not bool(torch.isfinite(y).all()):
        raise _not_finite(columns, ~torch.isfinite(y), cells)
    return Targets(y, Task("regression", y.size(1)))


def _labels(columns: Tensor, cells: TargetCells) -> Targets:
    y = columns.to(torch.float32)
    fine = (y == 0) | (y == 1) | torch.isnan(y)
    if not bool(fine.all()):
        line = int((~fine).any(1).nonzero()[0])
        raise ValueError(
            f"Expected labels of 0 or 1, or NaN where one is missing (got {columns[line].tolist()} {cells.at(~fine)}). "
            "Correct them, or name another task."
        )
    empty = torch.isnan(y).all(0)
    if bool(empty.any()):
        column = cells.named(int(empty.nonzero()[0]))
        raise ValueError(
            f"Expected every label to be known of some graph (got none in column {column}). Leave that column out."
        )
    return Targets(y, Task("labels", y.size(1)))


def _not_finite(columns: Tensor, bad: Tensor, cells: TargetCells) -> ValueError:
    line = int(bad.any(1).nonzero()[0])
    return ValueError(
        f"Expected finite targets (got {columns[line].tolist()} {cells.at(bad)}). {cells.remedy}; "
        "only labels of 0 and 1 may be missing (NaN)."
    )
