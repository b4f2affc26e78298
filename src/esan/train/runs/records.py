"""`Record`: the result of a job as JSON: learning curve, best and last epoch, versions and hardware."""

import json
import math
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import torch

from esan.checks import whole_number
from esan.train.recipes.recipe import Recipe
from esan.train.runs.run_files import refuse_constant, write_text
from esan.version import __version__

#: Whether a higher value of a metric is better.
HIGHER_IS_BETTER = {"accuracy": True, "rocauc": True, "mae": False}
#: What a metric is multiplied by where it is shown: accuracy and ROC-AUC are in per cent there.
DISPLAY_SCALE = {"accuracy": 100.0, "rocauc": 100.0, "mae": 1.0}


class Epoch(NamedTuple):
    """One epoch of the learning curve: training loss, and metrics after it; None where nothing is measured."""

    epoch: int
    lr: float
    loss: float | None
    valid: float | None
    test: float | None


class Point(NamedTuple):
    """The metric on each split of the data after an epoch; None where there is nothing to measure."""

    epoch: int
    train: float | None
    valid: float | None
    test: float | None


@dataclass(frozen=True)
class Record:
    """The result of a job; accuracy and ROC-AUC are from 0 to 1.

    Versions, commit, data, hardware, times and memory are not compared: equal records are equal results.

    Attributes:
        recipe: what was trained.
        fold: on which fold.
        seed: with which seed.
        task: the kind of task.
        metric: "accuracy", "rocauc" or "mae".
        epochs: how many epochs were trained.
        best: the epoch of best validation; its training metric is not measured.
        final: the last epoch.
        curve: one entry per epoch.
        parameters: the number of trained parameters.
        spread: for sampled bags, how much predictions differ between samples, on average over the validation graphs
            after the last epoch; None for whole bags.
        versions: of esan and its main dependencies.
        hardware: the device in words.
        seconds: of training, without interruptions; for jobs trained in lock-step, an equal share of the time of all.
        peak_bytes: peak memory, of the device where it is known, else of the process.
        started: date and time, UTC.
        finished: date and time, UTC.
        commit: of esan, see `esan.train.runs.provenance.code_commit`; None where it was not recorded.
        data_sha256: of the dataset, see `esan.train.runs.provenance.data_sha256`; None where it was not recorded.
    """

    recipe: Recipe
    fold: int
    seed: int
    task: str
    metric: str
    epochs: int
    best: Point
    final: Point
    curve: Sequence[Epoch]
    parameters: int
    spread: float | None = None
    versions: dict[str, str] = field(default_factory=dict, compare=False)
    hardware: str = field(default="", compare=False)
    seconds: float = field(default=0.0, compare=False)
    peak_bytes: int = field(default=0, compare=False)
    started: str = field(default="", compare=False)
    finished: str = field(default="", compare=False)
    commit: str | None = field(default=None, compare=False)
    data_sha256: str | None = field(default=None, compare=False)

    @property
    def higher_is_better(self) -> bool:
        return HIGHER_IS_BETTER[self.metric]

    def to_dict(self) -> dict[str, Any]:
        values = {known.name: getattr(self, known.name) for known in fields(self)}
        points = {name: getattr(self, name)._asdict() for name in ("best", "final")}
        copied = {"versions": dict(self.versions), "curve": [list(line) for line in self.curve]}
        return values | points | copied | {"recipe": self.recipe.to_dict()}

    @staticmethod
    def from_dict(values: dict[str, Any]) -> "Record":
        """From plain values; TypeError, ValueError or KeyError where a field is missing or of another kind."""
        curve = tuple(Epoch(*line) for line in values["curve"])
        made = Record.of_fields(values, Recipe.from_dict(values["recipe"]), curve)
        _check_curve(curve)
        return made

    @staticmethod
    def of_fields(values: dict[str, Any], recipe: Recipe, curve: Sequence[Epoch]) -> "Record":
        """From plain values, a recipe, and a curve whose numbers are checked; errors as in `from_dict`."""
        points = {name: Point(**values[name]) for name in ("best", "final")}
        made = Record(**values | points | {"recipe": recipe, "curve": curve})
        _check_fields(made)
        return made

    def save(self, path: str | Path) -> None:
        """Write it as JSON, whole or not at all."""
        write_text(Path(path), json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n")

    @staticmethod
    def load(path: str | Path) -> "Record":
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"Expected a record at {path} (got no file there). Check the path.")
        try:
            return Record.from_dict(json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse_constant))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            why = f"no {error}" if isinstance(error, KeyError) else str(error).splitlines()[0][:300]
            raise ValueError(
                f"Expected a whole record at {path} (got one that is not: {why}). Remove it and train again."
            ) from None


def _check_fields(record: Record) -> None:
    """TypeError or ValueError that names the first field of the wrong kind; the curve must have entries."""
    for name, least in (("fold", 0), ("seed", 0), ("epochs", 1), ("parameters", 0), ("peak_bytes", 0)):
        whole_number(name, getattr(record, name), least, "Is the record damaged?")
    if record.metric not in HIGHER_IS_BETTER:
        raise ValueError(f"Expected a metric of {', '.join(HIGHER_IS_BETTER)} (got {record.metric!r:.40}).")
    for name in ("task", "hardware", "started", "finished"):
        if not isinstance(getattr(record, name), str):
            raise TypeError(f"Expected {name} to be text (got {getattr(record, name)!r:.40}).")
    for name in ("commit", "data_sha256"):
        if not isinstance(getattr(record, name), str | None):
            raise TypeError(f"Expected {name} to be text or null (got {getattr(record, name)!r:.40}).")
    versions = record.versions
    if not isinstance(versions, dict) or not all(isinstance(v, str) for pair in versions.items() for v in pair):
        raise TypeError(f"Expected versions to be texts by name (got {versions!r:.40}).")
    _check_numbers("seconds", [record.seconds], none=False)
    _check_numbers("spread", [record.spread])
    if not record.curve:
        raise ValueError("Expected a curve with an entry per epoch (got an empty one).")
    for name in ("best", "final"):
        point: Point = getattr(record, name)
        if type(point.epoch) is not int or not 1 <= point.epoch <= len(record.curve):
            raise ValueError(f"Expected {name} at one of {len(record.curve)} epochs (got {point.epoch!r:.40}).")
        _check_numbers(name, point[1:])


def _check_curve(curve: Sequence[Epoch]) -> None:
    for number, line in enumerate(curve, start=1):
        if type(line.epoch) is not int or line.epoch != number:
            raise ValueError(f"Expected epoch {number} of the curve (got {line.epoch!r:.40}).")
        _check_numbers("lr of the curve", [line.lr], none=False)
        _check_numbers("the curve", line[2:])


def _check_numbers(name: str, values: Sequence[Any], none: bool = True) -> None:
    for value in values:
        if not (none and value is None) and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise TypeError(f"Expected numbers in {name} (got {value!r:.40}).")
        if value is not None and not math.isfinite(value):
            raise ValueError(f"Expected finite numbers in {name} (got {value!r:.40}).")


def finite_or_none(value: float) -> float | None:
    """None in place of NaN and infinities, which JSON cannot hold."""
    return value if math.isfinite(value) else None


# -- what a record says of the machine ---------------------------------------------------------------------------------


def versions() -> dict[str, str]:
    """Of esan and the packages that its results depend on."""
    names = ("torch", "torch-geometric", "numpy", "torchmetrics", "scikit-learn")
    return {"python": platform.python_version(), "esan": __version__} | {name: _version(name) for name in names}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def hardware(device: torch.device) -> str:
    """The device in words."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    kind = platform.processor() or platform.machine()
    return f"{kind} with {torch.backends.cpu.get_cpu_capability()}, {torch.get_num_threads()} threads"


def peak_bytes(device: torch.device) -> int:
    """Peak memory: on a GPU what torch allocated there, else that of the process; 0 where unknown."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if sys.platform == "win32":
        return 0
    import resource

    # The unit depends on the system: kilobytes on Linux, bytes on macOS.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def now() -> str:
    """The date and time, UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")
