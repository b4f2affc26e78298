"""Committed results: the records of a table, small enough to be kept with the code, and the rows that they make."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from esan.report.gather import Gathered, gather
from esan.report.paper import table_rows
from esan.report.rows import Row, row_of, unrun
from esan.train.campaigns.campaign import differences, same_training
from esan.train.recipes.catalogue import named
from esan.train.recipes.recipe import Recipe
from esan.train.runs.files import write_text
from esan.train.runs.job import Job
from esan.train.runs.records import Record


def result_file(job: Job, folder: Path) -> Path:
    """Where the result of a job is kept in the folder of its table."""
    return folder / job.recipe.name / f"{job.fold}-{job.seed}.json"


def keep(record: Record, folder: Path) -> Path:
    """Write a record for keeping: all of it, an epoch a line, floating-point numbers of curves in seven digits."""
    path = result_file(Job(record.recipe, record.fold, record.seed), folder)
    values = record.to_dict()
    curve = values.pop("curve")
    text = json.dumps(values, indent=1, allow_nan=False, ensure_ascii=False)
    lines = ",\n  ".join(json.dumps([_seven(value) for value in line], separators=(",", ":")) for line in curve)
    write_text(path, f'{text[:-2]},\n "curve": [\n  {lines}\n ]\n}}\n')
    return path


def _seven(value: Any) -> Any:
    return float(f"{value:.7g}") if isinstance(value, float) else value


def is_kept(job: Job, folder: Path) -> bool:
    """Whether the result of this very job is there; a damaged file is not, and is written again."""
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


def results_of(folder: Path) -> Gathered:
    """What is kept for a table; nothing if its folder is not there.

    A result of a recipe of the paper that has changed since is left out, and named among the problems.
    """
    if not folder.is_dir():
        return Gathered((), ())
    found = gather([folder])
    stale = [record for record in found.records if not _as_named(record.recipe)]
    problems = [
        f"{result_file(Job(record.recipe, record.fold, record.seed), folder)}: left out. The recipe "
        f"{record.recipe.name} has other settings now. Remove it, or rename its recipe to a variant of that one."
        for record in stale
    ]
    kept = tuple(record for record in found.records if _as_named(record.recipe))
    return Gathered(kept, (*found.problems, *problems))


def _as_named(recipe: Recipe) -> bool:
    """Whether a recipe is what its name says today; variants and a user's own say it themselves."""
    try:
        return "~" in recipe.name or same_training(named(recipe.name), recipe)
    except ValueError:
        return True


def rows_of(table: str, kept: Gathered) -> list[Row]:
    """All rows of a table of the paper, run or not, each followed by its variants that were run; then other recipes.

    Args:
        table: its name.
        kept: its results.
    """
    done = kept.by_recipe()
    rows = []
    for cited in table_rows(table):
        if cited.recipe not in done:
            rows.append(unrun(named(cited.recipe)))
        mine = sorted(name for name in done if name.partition("~")[0] == cited.recipe)
        rows += [row_of(done.pop(name)) for name in mine]
    order = list(dict.fromkeys(row.data for row in rows))
    rows += [row_of(records) for records in done.values()]
    return sorted(rows, key=lambda row: order.index(row.data) if row.data in order else len(order))


def is_meant(word: str, name: str) -> bool:
    """Whether what was asked for, a recipe, dataset or method, is or has the recipe of this name."""
    return word in (name, *name.split("/", 1))


def chosen_rows(table: str, wanted: Sequence[str]) -> list[str]:
    """The recipes that are asked for: rows of the table by name, dataset or method, or others on its datasets."""
    names = [row.recipe for row in table_rows(table)]
    sets = list(dict.fromkeys(name.partition("/")[0] for name in names))
    if not wanted:
        return names
    found: list[str] = []
    for word in wanted:
        here = [name for name in names if is_meant(word, name)]
        if not here and word.partition("/")[0] in sets and "/" in word:
            here = [named(word).name]
        if not here:
            raise ValueError(
                f"Expected a row of the table {table} (got {word!r}). Name a recipe such as {names[0]}, a dataset "
                f"({', '.join(sets)}), or a method such as {names[-1].partition('/')[2]}."
            )
        found += here
    return list(dict.fromkeys(found))
