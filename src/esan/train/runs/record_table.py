"""Record tables: many records in three files: each recipe once, one line per run, and all curves as columns.

    recipes.json   {name: recipe}
    runs.jsonl     one line per run: recipe, fold, seed, results, machine, commit, data, and where its curve is
    curves.npz     lr, loss, valid, test: the epochs of all runs, one run after another; NaN where nothing is measured

Runs are only ever added, at the end. `runs.jsonl` is written last and refers to a prefix of the other two, so that the
three files are consistent whenever a writer is killed.
"""

import fcntl
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from esan.atomic_write import write_file
from esan.graphs.readers.graph_arrays import arrays_in
from esan.train.recipes.recipe import Recipe
from esan.train.runs.records import Epoch, Record
from esan.train.runs.run_files import json_line, read_json_lines, write_text

RECIPES, RUNS, CURVES = "recipes.json", "runs.jsonl", "curves.npz"
#: The columns of `curves.npz`.
COLUMNS = ("lr", "loss", "valid", "test")
Columns = dict[str, NDArray[np.float64]]
#: The name of a recipe, a fold and a seed.
JobKey = tuple[str, int, int]


class Curve(Sequence[Epoch]):
    """The learning curve of one run, as a range of the columns of all runs; entries are made when they are read."""

    def __init__(self, columns: Columns, start: int, stop: int) -> None:
        self._columns = {name: columns[name][start:stop] for name in COLUMNS}

    def __len__(self) -> int:
        return len(self._columns["lr"])

    @overload
    def __getitem__(self, index: int) -> Epoch: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Epoch, ...]: ...
    def __getitem__(self, index: int | slice) -> Epoch | tuple[Epoch, ...]:
        if isinstance(index, slice):
            return tuple(self)[index]
        number = range(len(self))[index]
        lr, *values = (float(self._columns[name][number]) for name in COLUMNS)
        return Epoch(number + 1, lr, *(None if value != value else value for value in values))

    def __iter__(self) -> Iterator[Epoch]:
        lr, loss, valid, test = (_with_none(self._columns[name]) for name in COLUMNS)
        return map(Epoch, range(1, len(self) + 1), lr, loss, valid, test)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Curve of {len(self)} epochs"


def _with_none(column: NDArray[np.float64]) -> list[Any]:
    values: list[Any] = column.tolist()
    missing = np.isnan(column)
    return (
        [None if gone else value for value, gone in zip(values, missing.tolist(), strict=True)]
        if missing.any()
        else values
    )


@dataclass(frozen=True)
class RecordTable:
    """The records of a folder; all empty where it has none.

    Attributes:
        folder: where the files are.
        records: in the order of the lines of `runs.jsonl`.
        recipes: as they are stored, by name.
        end: how many epochs of the columns belong to the records.
        columns: of `curves.npz`.
    """

    folder: Path
    records: tuple[Record, ...]
    recipes: Mapping[str, Mapping[str, Any]]
    end: int
    columns: Columns

    def by_job(self) -> dict[JobKey, Record]:
        return {job_key(record): record for record in self.records}


def job_key(record: Record) -> JobKey:
    return record.recipe.name, record.fold, record.seed


def is_table(folder: Path) -> bool:
    """Whether the folder has a record table."""
    return (folder / RUNS).is_file()


def read_table(folder: str | Path) -> RecordTable:
    """All records of a folder; ValueError names the file, and the line, that is damaged."""
    folder = Path(folder)
    if not is_table(folder):
        return RecordTable(folder, (), {}, 0, {name: np.zeros(0) for name in COLUMNS})
    # Lines first: a writer writes them last, so that the other two files have all that these lines refer to.
    lines = (folder / RUNS).read_bytes()
    plain, recipes = _read_recipes(folder / RECIPES)
    columns = _read_columns(folder / CURVES)
    records: dict[JobKey, Record] = {}
    end = 0

    def read(values: Any) -> None:
        nonlocal end
        record = _read_run(values, recipes, columns, end)
        end = values["curve"][1]
        if records.setdefault(job_key(record), record) is not record:
            raise ValueError(f"a second run of {record.recipe.name}, fold {record.fold}, seed {record.seed}")

    read_json_lines(folder / RUNS, read, lines)
    return RecordTable(folder, tuple(records.values()), plain, end, columns)


def add_records(
    folder: str | Path, records: Sequence[Record], recorded: Mapping[str, Mapping[str, Any]] | None = None
) -> int:
    """Add the records of jobs that the folder does not have yet, and return how many those are.

    Whole or not at all: a reader sees the table before or after. Numbers of curves have seven digits.

    Args:
        folder: of the table; it is made where it is not there.
        records: of any recipes. One of a recipe that has the name of a stored one, and other settings or other data,
            is an error.
        recorded: recipes by name as an earlier version wrote them, to be stored as they are.
    """
    folder = Path(folder)
    with _lock(folder):
        table = read_table(folder)
        known, recipes = table.by_job(), dict(table.recipes)
        first = {record.recipe.name: record.recipe for record in table.records}
        # Runs of version 0.1 do not say what they were trained on.
        data = {record.recipe.name: record.data_sha256 for record in table.records if record.data_sha256 is not None}
        new: dict[JobKey, Record] = {}
        for record in records:
            name = record.recipe.name
            if first.setdefault(name, record.recipe) != record.recipe:
                raise ValueError(
                    f"Expected runs of one recipe of the name {name} in {folder} (got two that differ). Give one of "
                    "them another name, or choose another folder."
                )
            sha256 = record.data_sha256
            if sha256 is not None and data.setdefault(name, sha256) != sha256:
                raise ValueError(
                    f"Expected runs of {name} that were all trained on the data of those in {folder}, with the SHA-256 "
                    f"{data[name][:12]}… (got {sha256[:12]}…, in fold {record.fold}, seed {record.seed}). Choose "
                    "another folder, or remove the runs on other data."
                )
            if why := _why_not_its_curve(record):
                raise ValueError(
                    f"Expected a run whose results are those of its curve (got {why}, in fold {record.fold}, seed "
                    f"{record.seed} of {name}). Restore its record, or train again."
                )
            if (key := job_key(record)) not in known:
                new.setdefault(key, record)
                recipes.setdefault(name, (recorded or {}).get(name) or record.recipe.to_dict())
        if new:
            write_table(table, recipes, tuple(new.values()))
    return len(new)


def write_table(table: RecordTable, recipes: Mapping[str, Mapping[str, Any]], new: Sequence[Record]) -> None:
    """Write new records behind those of a table; the lines and curves that are there stay as they are."""
    folder, end = table.folder, table.end
    # A writer that was killed may have left curves behind the last line's; they are written over.
    columns = {name: [table.columns[name][:end]] for name in COLUMNS}
    lines = (folder / RUNS).read_text(encoding="utf-8") if is_table(folder) else ""
    for record in new:
        values = record.to_dict()
        for name, column in zip(COLUMNS, zip(*(line[1:] for line in values["curve"]), strict=True), strict=True):
            columns[name].append(np.array([np.nan if value is None else _seven(value) for value in column]))
        values |= {"recipe": record.recipe.name, "curve": [end, end := end + len(record.curve)]}
        lines += json_line(values)
    arrays = {name: np.concatenate(some) for name, some in columns.items()}
    entries = [f"{json.dumps(name)}: {json.dumps(values)}" for name, values in sorted(recipes.items())]
    write_text(folder / RECIPES, "{\n" + ",\n".join(entries) + "\n}\n")
    write_file(folder / CURVES, lambda file: np.savez_compressed(file, **arrays))  # type: ignore[arg-type]
    write_text(folder / RUNS, lines)


def append_json_line(path: Path, values: Any) -> None:
    """Add a line to another file beside the records of a table; several processes may."""
    with _lock(path.parent):
        before = path.read_text(encoding="utf-8") if path.is_file() else ""
        write_text(path, before + json_line(values))


def load_records(runs: str | Path) -> list[Record]:
    """All records under a folder: those of run directories, sorted by path, then those of record tables."""
    found = [Record.load(path) for path in sorted(Path(runs).rglob("record.json"))]
    return found + [record for path in sorted(Path(runs).rglob(RUNS)) for record in read_table(path.parent).records]


def as_stored(record: Record) -> Record:
    """The record with seven digits in its curve, as a table stores it."""
    curve = (Epoch(line.epoch, *(None if v is None else _seven(v) for v in line[1:])) for line in record.curve)  # type: ignore[arg-type]
    return replace(record, curve=tuple(curve))


def _seven(value: float) -> float:
    return float(f"{value:.7g}")


def _read_recipes(path: Path) -> tuple[dict[str, Any], dict[str, Recipe]]:
    """The recipes as they are stored, and read. A recipe is called by its key, whatever it was called when it ran."""
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        return plain, {name: Recipe.from_dict({**values, "name": name}) for name, values in plain.items()}
    except (ValueError, TypeError, AttributeError, RecursionError, OSError) as error:
        raise _damaged(path, str(error).splitlines()[0][:300]) from None


def _read_columns(path: Path) -> Columns:
    try:
        arrays = arrays_in(path)
        columns = {name: arrays[name] for name in COLUMNS}
    except (ValueError, KeyError, OSError) as error:
        why = f"no {error}" if isinstance(error, KeyError) else str(error).splitlines()[0][:300]
        raise _damaged(path, why) from None
    for name, column in columns.items():
        if column.dtype != np.float64 or column.shape != columns["lr"].shape or column.ndim != 1:
            raise _damaged(path, f"{name} of type {column.dtype} and shape {column.shape}")
        if np.isinf(column).any() or (name == "lr" and np.isnan(column).any()):
            raise _damaged(path, f"numbers in {name} that are not finite")
    return columns


def _read_run(values: Any, recipes: Mapping[str, Recipe], columns: Columns, end: int) -> Record:
    """The record of a line; `end` is where the curve of the line before ends."""
    if values["recipe"] not in recipes:
        raise ValueError(f"the recipe {values['recipe']!r:.80}, which is not in {RECIPES}")
    start, stop = values["curve"]
    if type(start) is not int or type(stop) is not int or not 0 <= start < stop <= len(columns["lr"]):
        raise ValueError(f"a curve at {values['curve']!r:.40}, where {CURVES} has {len(columns['lr'])} epochs")
    if start < end:
        raise ValueError(f"a curve at {start}, which is within that of an earlier line")
    record = Record.of_fields(values, recipes[values["recipe"]], Curve(columns, start, stop))
    if why := _why_not_its_curve(record):
        raise ValueError(f"{why} in {CURVES}")
    return record


def _why_not_its_curve(record: Record) -> str:
    """How the curve differs from the results of the run, as that of another run does; empty if it does not."""
    if record.epochs != len(record.curve):
        return f"{record.epochs} epochs, and a curve of {len(record.curve)}"
    for point in (record.best, record.final):
        line = record.curve[point.epoch - 1]
        for name in ("valid", "test"):
            own, there = getattr(point, name), getattr(line, name)
            if (own is None) != (there is None) or (own is not None and _seven(own) != _seven(there)):
                return f"{name} {own} at epoch {point.epoch}, and {there} there in the curve"
    return ""


def _damaged(path: Path, why: str) -> ValueError:
    return ValueError(
        f"Expected a whole file of a record table at {path} (got: {why}). Restore it, or remove its folder and run "
        "again."
    )


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Wait for other processes that add to the table; the system releases the lock when this process ends."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
