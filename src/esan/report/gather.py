"""`gather`: all readable records under some folders, each job once, and the problems of the other files."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from esan.report.reproduced_tables import by_recipe
from esan.report.rows import Row, empty_row, row_of
from esan.train.recipes.recipe import Recipe
from esan.train.runs.record_table import RUNS, as_stored, read_table
from esan.train.runs.records import Record

#: A record in its run folder, or on its own (3-0.json: fold 3, seed 0), or a record table.
_NAMES = re.compile(rf"record\.json|\d+-\d+\.json|{re.escape(RUNS)}")


@dataclass(frozen=True)
class GatheredRecords:
    """The records under some folders.

    Attributes:
        records: each job once, in the order of their paths.
        problems: one line with its path for every file that could not be used.
        unfinished: the recipes of runs that have no record yet, one per run.
    """

    records: tuple[Record, ...]
    problems: tuple[str, ...]
    unfinished: tuple[Recipe, ...] = ()

    def by_recipe(self) -> dict[str, list[Record]]:
        """The records of each recipe, by its name, folds and seeds in order."""
        found: dict[str, list[Record]] = {}
        for record in sorted(self.records, key=lambda r: (r.recipe.name, r.seed, r.fold)):
            found.setdefault(record.recipe.name, []).append(record)
        return found

    def rows(self) -> list[Row]:
        """One row per recipe, those of one dataset together."""
        unfinished: dict[str, list[Recipe]] = {}
        for recipe in self.unfinished:
            unfinished.setdefault(recipe.name, []).append(recipe)
        done = self.by_recipe()
        rows = [row_of(records, unfinished=len(unfinished.get(name, []))) for name, records in done.items()]
        rows += [empty_row(some[0], len(some)) for name, some in unfinished.items() if name not in done]
        order = list(by_recipe())
        # The paper's rows in its order, then all others by name.
        position = {name: index for index, name in enumerate(order)}
        return sorted(rows, key=lambda r: (r.data, position.get(r.recipe.partition("~")[0], len(order)), r.recipe))


def gather(folders: Sequence[str | Path]) -> GatheredRecords:
    """All records under some folders, or files of records themselves; single records and record tables.

    A file that cannot be read is named among the problems, and the others are used. Of two records of one job the first
    is used; so is, of one recipe, the first of its name.

    Args:
        folders: searched with all their subfolders.
    """
    paths: list[Path] = []
    for folder in map(Path, folders):
        if not folder.exists():
            raise FileNotFoundError(f"Expected a folder of runs (got {str(folder)!r}, which is not there).")
        inside = [folder] if folder.is_file() else sorted([*folder.rglob("*.json"), *folder.rglob(RUNS)])
        paths += [path for path in inside if path == folder or _NAMES.fullmatch(path.name)]
    jobs: dict[tuple[str, int, int], str] = {}
    records: dict[str, Record] = {}
    first: dict[str, str] = {}
    data: dict[str, str] = {}
    problems = []
    for path in dict.fromkeys(path.resolve() for path in paths):
        try:
            found = _read(path)
        except (ValueError, OSError) as error:
            problems.append(f"{_near(path)}: left out. {error}")
            continue
        for shown, record in found:
            job = (record.recipe.name, record.fold, record.seed)
            if job in jobs:
                same = as_stored(record) == as_stored(records[jobs[job]])
                outcome = "the same outcome" if same else "another outcome"
                problems.append(f"{shown}: left out. It has {outcome} of the same job as {jobs[job]}, which is used.")
                continue
            example = first.setdefault(record.recipe.name, shown)
            if record.metric != records.get(example, record).metric:
                problems.append(f"{shown}: left out. Its metric differs from that in {example}, of the same recipe.")
                continue
            if record.recipe != records.get(example, record).recipe:
                problems.append(f"{shown}: left out. Its recipe differs from that in {example}, of the same name.")
                continue
            # Runs of version 0.1 do not say what they were trained on.
            source = data.setdefault(record.recipe.name, shown) if record.data_sha256 is not None else shown
            if record.data_sha256 != records.get(source, record).data_sha256:
                problems.append(f"{shown}: left out. Its data are not those of {source}, of the same recipe.")
                continue
            jobs[job], records[shown] = shown, record
    unfinished = []
    for path in sorted(p for folder in map(Path, folders) if folder.is_dir() for p in folder.rglob("recipe.toml")):
        if not path.with_name("record.json").exists():
            try:
                unfinished.append(Recipe.load(path))
            except (ValueError, TypeError, OSError) as error:
                problems.append(f"{_near(path)}: left out. {error}")
    return GatheredRecords(tuple(records.values()), tuple(problems), tuple(unfinished))


def _read(path: Path) -> list[tuple[str, Record]]:
    """The records of a file, each with its place in words."""
    if path.name != RUNS:
        return [(_near(path), Record.load(path))]
    records = read_table(path.parent).records
    return [(f"{_near(path)}, line {number}", record) for number, record in enumerate(records, start=1)]


def _near(path: Path) -> str:
    """A path relative to the working directory, if it is below."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
