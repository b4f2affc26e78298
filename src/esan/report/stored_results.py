"""Stored results: the records of a table of the paper, small enough for the repository, and the rows from them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from esan.report.gather import GatheredRecords, gather
from esan.report.paper_tables import table_rows
from esan.report.rows import Row, empty_row, row_of
from esan.train.campaigns.campaign import differences, same_training
from esan.train.recipes.catalogue import named
from esan.train.recipes.recipe import Recipe
from esan.train.runs.directory import write_text
from esan.train.runs.job import Job
from esan.train.runs.records import Record


def result_file(job: Job, folder: Path) -> Path:
    """The file of a job's result in the folder of its table."""
    return folder / job.recipe.name / f"{job.fold}-{job.seed}.json"


def save_result(record: Record, folder: Path) -> Path:
    """Write a whole record with one line per epoch and seven digits for the numbers of the curve."""
    path = result_file(Job(record.recipe, record.fold, record.seed), folder)
    values = record.to_dict()
    curve = values.pop("curve")
    text = json.dumps(values, indent=1, allow_nan=False, ensure_ascii=False)
    lines = ",\n  ".join(json.dumps([_seven(value) for value in line], separators=(",", ":")) for line in curve)
    write_text(path, f'{text[:-2]},\n "curve": [\n  {lines}\n ]\n}}\n')
    return path


def _seven(value: Any) -> Any:
    return float(f"{value:.7g}") if isinstance(value, float) else value


def has_result(job: Job, folder: Path) -> bool:
    """Whether the result of this job is stored; a damaged file is removed."""
    path = result_file(job, folder)
    if not path.is_file():
        return False
    try:
        record = Record.load(path)
    except ValueError:
        path.unlink()
        return False
    if not same_training(record.recipe, job.recipe):
        raise ValueError(
            f"Expected the result of this recipe at {path} (got one with {differences(job.recipe, record.recipe)}). "
            "Remove it, or choose another folder for the results."
        )
    return True


def load_results(folder: Path) -> GatheredRecords:
    """The stored results of a table; empty if it has no folder.

    A result of a recipe of the paper that has changed since is left out and listed among the problems.
    """
    if not folder.is_dir():
        return GatheredRecords((), ())
    found = gather([folder])
    stale = [record for record in found.records if not _as_named(record.recipe)]
    problems = [
        f"{result_file(Job(record.recipe, record.fold, record.seed), folder)}: left out. The recipe "
        f"{record.recipe.name} has other settings now. Remove it, or rename its recipe to a variant of that one."
        for record in stale
    ]
    current = tuple(record for record in found.records if _as_named(record.recipe))
    return GatheredRecords(current, (*found.problems, *problems))


def _as_named(recipe: Recipe) -> bool:
    """Whether a recipe is what its name says today; variants and a user's own say it themselves."""
    try:
        return "~" in recipe.name or same_training(named(recipe.name), recipe)
    except ValueError:
        return True


def result_rows(table: str, stored: GatheredRecords) -> list[Row]:
    """All rows of a table of the paper, run or not, each followed by its variants; then other recipes.

    Args:
        table: its name.
        stored: its results.
    """
    done = stored.by_recipe()
    rows = []
    for cited in table_rows(table):
        if cited.recipe not in done:
            rows.append(empty_row(named(cited.recipe)))
        mine = sorted(name for name in done if name.partition("~")[0] == cited.recipe)
        rows += [row_of(done.pop(name)) for name in mine]
    order = list(dict.fromkeys(row.data for row in rows))
    rows += [row_of(records) for records in done.values()]
    return sorted(rows, key=lambda row: order.index(row.data) if row.data in order else len(order))


def is_selected(word: str, name: str) -> bool:
    """Whether a word that selects rows (a recipe, dataset or method) selects the recipe of this name."""
    return word in (name, *name.split("/", 1))


def chosen_rows(table: str, wanted: Sequence[str]) -> list[str]:
    """The selected recipes: rows of the table by name, dataset or method, or other recipes on its datasets."""
    names = [row.recipe for row in table_rows(table)]
    sets = list(dict.fromkeys(name.partition("/")[0] for name in names))
    if not wanted:
        return names
    found: list[str] = []
    for word in wanted:
        here = [name for name in names if is_selected(word, name)]
        if not here and word.partition("/")[0] in sets and "/" in word:
            here = [named(word).name]
        if not here:
            raise ValueError(
                f"Expected a row of the table {table} (got {word!r}). Name a recipe such as {names[0]}, a dataset "
                f"({', '.join(sets)}), or a method such as {names[-1].partition('/')[2]}."
            )
        found += here
    return list(dict.fromkeys(found))
