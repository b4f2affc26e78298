"""`Dataset`: graphs with their task, the kinds of their features and their split, if they come with one."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import torch
from torch import Tensor

from esan.checks import shown, whole_number
from esan.graphs import Channels, Graphs
from esan.graphs.indexing import Ids, graph_ids
from esan.plural import counted

#: What a user calls the classes 0, 1, ...: whole numbers or words.
Classes: TypeAlias = tuple[int | str, ...]

#: The kinds of tasks, and the usual metric of each.
METRICS = {"classification": "accuracy", "regression": "mae", "labels": "rocauc"}

#: The most classes, numbers or labels.
MOST_CHANNELS = 2**24


@dataclass(frozen=True)
class Task:
    """What is predicted for a graph.

    Attributes:
        kind: "classification" (one of several classes), "regression" (numbers), or "labels" (one or several yes/no
            questions, with NaN for an unknown answer).
        out_channels: how many classes, numbers or labels.
        metric: "accuracy", "mae" or "rocauc".
    """

    kind: str
    out_channels: int
    metric: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind not in METRICS:
            raise ValueError(f"Expected a task of {', '.join(METRICS)} (got {shown(self.kind)}). Pass one of these.")
        remedy = "Pass the number of classes, targets or labels."
        whole_number("out_channels of a task", self.out_channels, 1, remedy, MOST_CHANNELS)
        metric = self.metric or METRICS[self.kind]
        if metric != METRICS[self.kind]:
            raise ValueError(
                f"Expected the metric {METRICS[self.kind]!r} for {self.kind} (got {metric!r}). Leave it out to have it."
            )
        object.__setattr__(self, "metric", metric)


def _no_ids() -> Tensor:
    return torch.empty(0, dtype=torch.long)


@dataclass(frozen=True, eq=False)
class Split:
    """The graphs for training, validation and test, as graph ids on the CPU.

    `test` is empty where a protocol has none, as in cross-validation on the TU sets.
    """

    train: Tensor
    valid: Tensor
    test: Tensor = field(default_factory=_no_ids)

    def __post_init__(self) -> None:
        for name in ("train", "valid", "test"):
            value = getattr(self, name)
            try:
                ids = torch.as_tensor(value).cpu()
            except (TypeError, ValueError, RuntimeError, OverflowError, LookupError):
                raise TypeError(
                    f"Expected {name} to be a list of graph ids (got {shown(value)}). Pass whole numbers."
                ) from None
            if ids.dim() != 1 or (ids.numel() and (ids.is_floating_point() or ids.dtype == torch.bool)):
                raise ValueError(
                    f"Expected {name} to be a list of graph ids (got {ids.dtype} of shape {tuple(ids.shape)}). "
                    "Pass whole numbers; of a mask, mask.nonzero()[:, 0]."
                )
            object.__setattr__(self, name, ids.long())

    def __repr__(self) -> str:
        return f"Split({self.train.numel():,} train, {self.valid.numel():,} valid, {self.test.numel():,} test)"


@dataclass(frozen=True)
class SkippedLine:
    """A line of a file that was left out, and why."""

    line: int
    text: str
    reason: str


@dataclass(frozen=True)
class UnusedFeatures:
    """Features that graphs came with and that their dataset leaves out.

    Attributes:
        columns: how many there are.
        row: their only row, if it is the same everywhere; else None.
        asked: whether the user asked to leave them out.
    """

    columns: int
    row: tuple[float, ...] | None
    asked: bool


@dataclass(frozen=True, eq=False)
class Dataset:
    """Graphs and everything that training needs to know about them.

    Attributes:
        name: what it is called.
        graphs: all graphs; `y` holds class numbers `[G]`, or float targets `[G, T]`, with NaN where a label is missing.
        task: what a model predicts.
        in_channels: what `x` holds: 7 (numbers), Categories(28), OneHot(5) or None (nothing: every node alike).
        edge_channels: what `edge_attr` holds; None where it is not used.
        given: the split that comes with the data.
        classes: what the user calls the classes 0, 1, ...: other numbers, or words; None for these numbers.
        targets: the name of each target, that of its column in a table; None where they have none.
        smiles: the molecules as they were written, one per graph.
        skipped: the rows of a file that were left out, if that was asked for.
        source: where it was read from.
        unused: the features that the graphs came with and that are left out, "x" or "edge_attr".
    """

    name: str
    graphs: Graphs
    task: Task
    in_channels: Channels = None
    edge_channels: Channels = None
    given: Split | None = None
    classes: Classes | None = None
    targets: tuple[str, ...] | None = None
    smiles: tuple[str, ...] | None = None
    skipped: tuple[SkippedLine, ...] = ()
    source: str = ""
    unused: Mapping[str, UnusedFeatures] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.graphs)

    def __getitem__(self, ids: Ids) -> "Dataset":
        """Some of the graphs, without the split."""
        chosen = graph_ids(ids, len(self), self.graphs.device, "dataset")
        smiles = None if self.smiles is None else tuple(self.smiles[i] for i in chosen.tolist())
        return replace(self, graphs=self.graphs.take(chosen), smiles=smiles, given=None)

    def __repr__(self) -> str:
        named = self.classes is not None and len(self.classes) <= 10
        what = ", ".join(map(str, self.classes or ())) if named else str(self.task.out_channels)
        task = f"{self.task.kind} of {what}"
        channels = f"x={self.in_channels}, edges={self.edge_channels}"
        return f"Dataset({self.name!r}, {counted(len(self), 'graph')}, {task}, {channels})"

    @property
    def y(self) -> Tensor:
        """The targets; an error where there are none."""
        if self.graphs.y is None:
            raise ValueError(f"Expected targets in {self.name} (got none). Set y on the graphs, or pass labels.")
        return self.graphs.y

    def called(self, number: int) -> int | str:
        """What the user calls a class."""
        return number if self.classes is None else self.classes[number]

    @property
    def fingerprint(self) -> str:
        """The digest of the graphs with their features and targets."""
        return self.graphs.fingerprint
