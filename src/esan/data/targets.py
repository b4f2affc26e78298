"""Infers the task from the targets, and converts the targets to the form used for training."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from esan.data.dataset import METRICS, Task


@dataclass
class Targets:
    """Converted targets: class numbers `[G]` or floats `[G, T]`, and the user's labels of the classes."""

    y: Tensor | None
    task: Task
    classes: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Cells:
    """Where targets are in a file, for errors; empty if they come from memory.

    Attributes:
        file: their file.
        lines: the line of each graph.
        columns: the name of each column.
        whole: whether all filled cells of a column are integers.
    """

    file: Path | None = None
    lines: Sequence[int] = ()
    columns: Sequence[str] = ()
    whole: Sequence[bool] = ()

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


def understood(y: Tensor | None, task: Task | str | None, cells: Cells | None = None) -> Targets:
    """The targets and their task.

    Without a task: one column of integers → classification; 0/1, with NaN for what is missing, in several
    columns or as floating-point numbers → labels; other floating-point numbers → regression.

    Args:
        y: one row per graph; None for graphs without targets, which needs a complete `task`.
        task: a `Task`, or its kind alone.
        cells: where they are in a file.
    """
    cells = cells or Cells()
    if isinstance(task, str) and task not in METRICS:
        raise ValueError(f"Expected a task of {', '.join(METRICS)} (got {task!r}). Pass one of these, or a Task.")
    if y is None:
        if not isinstance(task, Task):
            raise ValueError(
                "Expected a target of every graph (got none). Set y on the graphs or pass labels=...; "
                "for graphs that only await predictions, pass the Task of the model."
            )
        return Targets(None, task)
    if y.dim() > 2 or y.dim() == 0 or y.is_complex():
        raise ValueError(f"Expected targets of shape [G] or [G, T] (got {tuple(y.shape)}). Flatten them.")
    columns = y.cpu().reshape(y.size(0), -1)
    if columns.size(1) == 0:
        raise ValueError("Expected at least one target a graph (got none). Pass a column of targets.")
    if columns.is_floating_point() and bool(torch.isinf(columns).any()):
        raise _not_finite(columns, torch.isinf(columns), cells)
    kind = task.kind if isinstance(task, Task) else task if task is not None else _kind(columns)
    if kind == "classification":
        return _numbered(columns, task, cells) if isinstance(task, Task) else _classification(columns, cells)
    found = _regression(columns, cells) if kind == "regression" else _labels(columns, cells)
    if isinstance(task, Task) and found.task.out_channels != task.out_channels:
        raise ValueError(
            f"Expected {task.out_channels} targets a graph (got {found.task.out_channels}). Choose as many columns."
        )
    return found


def _kind(columns: Tensor) -> str:
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


def _class_numbers(columns: Tensor, cells: Cells) -> Tensor:
    missing = torch.isnan(columns)
    if columns.size(1) == 1 and bool(missing.any()):
        raise ValueError(f"Expected a class of every graph (got none {cells.at(missing)}). {cells.remedy}.")
    whole = not columns.is_floating_point() or bool((columns == columns.round()).all())
    if columns.size(1) != 1 or not whole:
        got = f"{columns.size(1)} columns" if columns.size(1) != 1 else "fractions"
        raise ValueError(f"Expected one whole class number a graph (got {got}). Choose one column and fill it.")
    return columns[:, 0].long()


def _numbered(columns: Tensor, task: Task, cells: Cells) -> Targets:
    """For a complete task: classes keep their numbers, even if some have no members here."""
    y = _class_numbers(columns, cells)
    if int(y.min()) < 0 or int(y.max()) >= task.out_channels:
        raise ValueError(
            f"Expected classes from 0 to {task.out_channels - 1} (got {int(y.min())} to {int(y.max())}). "
            "Renumber them, or leave the task to be understood."
        )
    return Targets(y, task)


def _classification(columns: Tensor, cells: Cells) -> Targets:
    found, y, members = _class_numbers(columns, cells).unique(return_inverse=True, return_counts=True)
    if found.numel() < 2:
        raise ValueError(
            f"Expected at least two classes (got only {int(found[0])}). There is nothing to learn; add other graphs."
        )
    if found.numel() >= 10 and int(members.max()) == 1:
        raise ValueError(
            f"Expected classes with several members (got {found.numel()} integers, all different). "
            'Are they quantities? Pass task="regression".'
        )
    labels = tuple(found.tolist())
    return Targets(y, Task("classification", len(labels)), None if labels == tuple(range(len(labels))) else labels)


def _regression(columns: Tensor, cells: Cells) -> Targets:
    y = columns.to(torch.float32)
    if not bool(torch.isfinite(y).all()):
        raise _not_finite(columns, ~torch.isfinite(y), cells)
    return Targets(y, Task("regression", y.size(1)))


def _labels(columns: Tensor, cells: Cells) -> Targets:
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


def _not_finite(columns: Tensor, bad: Tensor, cells: Cells) -> ValueError:
    line = int(bad.any(1).nonzero()[0])
    return ValueError(
        f"Expected finite targets (got {columns[line].tolist()} {cells.at(bad)}). {cells.remedy}; "
        "only labels of 0 and 1 may be missing (NaN)."
    )
