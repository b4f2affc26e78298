"""`Record`: what a job gave, as JSON; what depends on the machine is kept beside it and not compared."""

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from esan.train.files import write_text
from esan.train.recipe import Recipe

#: Whether more of a metric is better.
HIGHER_IS_BETTER = {"accuracy": True, "rocauc": True, "mae": False}


class Epoch(NamedTuple):
    """A line of the learning curve: training loss and metrics after an epoch; None where nothing is measured."""

    epoch: int
    lr: float
    loss: float | None
    valid: float | None
    test: float | None


class Point(NamedTuple):
    """The metric on each part of the data after an epoch; None where there is nothing to measure."""

    epoch: int
    train: float | None
    valid: float | None
    test: float | None


@dataclass(frozen=True)
class Record:
    """What a job gave; accuracies and ROC-AUC are parts of 1. Equal records: the same outcome, on any machine.

    Attributes:
        recipe: what was trained.
        fold: on which fold.
        seed: with which seed.
        task: the kind of task.
        metric: "accuracy", "rocauc" or "mae".
        epochs: how many epochs were trained.
        best: the epoch of best validation; its training metric is not measured.
        final: the last epoch.
        curve: a line an epoch.
        parameters: trained numbers of the network.
        spread: of sampled bags, how much the votes differ on the validation graphs at the end, on average; None for
            whole bags.
        versions: of esan and what it stands on.
        hardware: what it ran on.
        seconds: of training, interruptions left out; of jobs trained in lock-step, each one's share.
        peak_bytes: the most memory in use, of the device where it can tell, else of the process.
        started: when.
        finished: when.
    """

    recipe: Recipe
    fold: int
    seed: int
    task: str
    metric: str
    epochs: int
    best: Point
    final: Point
    curve: tuple[Epoch, ...]
    parameters: int
    spread: float | None = None
    versions: dict[str, str] = field(default_factory=dict, compare=False)
    hardware: str = field(default="", compare=False)
    seconds: float = field(default=0.0, compare=False)
    peak_bytes: int = field(default=0, compare=False)
    started: str = field(default="", compare=False)
    finished: str = field(default="", compare=False)

    @property
    def higher_is_better(self) -> bool:
        return HIGHER_IS_BETTER[self.metric]

    def to_dict(self) -> dict[str, Any]:
        values = asdict(self)
        named = {name: getattr(self, name)._asdict() for name in ("best", "final")}
        return values | named | {"recipe": self.recipe.to_dict(), "curve": [list(line) for line in self.curve]}

    @staticmethod
    def from_dict(values: dict[str, Any]) -> "Record":
        return Record(
            **values
            | {
                "recipe": Recipe.from_dict(values["recipe"]),
                "best": Point(**values["best"]),
                "final": Point(**values["final"]),
                "curve": tuple(Epoch(*line) for line in values["curve"]),
            }
        )

    def save(self, path: str | Path) -> None:
        """Write it as JSON, whole or not at all."""
        write_text(Path(path), json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n")

    @staticmethod
    def load(path: str | Path) -> "Record":
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"Expected a record at {path} (got no file there). Check the path.")
        try:
            return Record.from_dict(json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(
                f"Expected a whole record at {path} (got one that is not: {error}). Remove it and train again."
            ) from None


def measured(value: float) -> float | None:
    """A number for a record: None in place of what is not finite, which JSON cannot hold and nothing equals."""
    return value if math.isfinite(value) else None


def load_records(runs: str | Path) -> list[Record]:
    """All records under a folder of runs, sorted by path."""
    return [Record.load(path) for path in sorted(Path(runs).rglob("record.json"))]
