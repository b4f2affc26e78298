"""Stored results: the record table of a table of the paper, and the rows from it."""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path

from esan.plural import counted
from esan.report.gather import GatheredRecords, gather
from esan.report.reproduced_tables import table_rows
from esan.report.rows import Row, empty_row, row_of
from esan.train.recipes.catalogue import named
from esan.train.recipes.legacy_fields import RENAMED
from esan.train.recipes.recipe import Recipe, differences
from esan.train.runs.job import Job
from esan.train.runs.record_table import is_table, read_table
from esan.train.runs.records import Record


def stored_records(jobs: Sequence[Job], folder: Path) -> dict[str, Record]:
    """The stored records of these jobs, by the name of the job.

    ValueError names a damaged record table, and a stored recipe that has other settings than the job's. A damaged file
    of a single record does not count: its job has no record.
    """
    if not folder.is_dir():
        return {}
    if is_table(folder):
        read_table(folder)  # damage is an error here: what is stored must not be run and stored again
    found = {(record.recipe.name, record.fold, record.seed): record for record in gather([folder]).records}
    wanted = {(job.recipe.name, job.fold, job.seed): job for job in jobs}
    checked: set[str] = set()
    for key in wanted.keys() & found.keys():
        mine, its = wanted[key].recipe, found[key].recipe
        if mine.name not in checked and its != mine:
            raise ValueError(
                f"Expected results of the recipe {mine.name} in {folder} (got some with {differences(mine, its)}). "
                "Choose another folder for the results."
            )
        checked.add(mine.name)
    return {job.name: found[key] for key, job in wanted.items() if key in found}


def load_results(folder: Path) -> GatheredRecords:
    """The stored results of a table; empty if it has no folder.

    A result of a recipe of the paper that has changed since is left out and listed among the problems.
    """
    if not folder.is_dir():
        return GatheredRecords((), ())
    found = gather([folder])
    current = {name: records for name, records in found.by_recipe().items() if is_current(records[0].recipe)}
    problems = [
        f"{folder}: {counted(len(records), 'run')} of {name} left out. The recipe has other settings now."
        for name, records in found.by_recipe().items()
        if name not in current
    ]
    kept = tuple(record for record in found.records if record.recipe.name in current)
    return GatheredRecords(kept, (*found.problems, *problems))


def is_current(recipe: Recipe) -> bool:
    """Whether a recipe, or variant of one, has the settings that its name says today; names of a user's own do."""
    said = name_of_settings(recipe)
    base, changed, changes = recipe.name.partition("~")
    parts = [part.partition("=") for part in changes.split(",")]
    renamed = ",".join(sorted(f"{RENAMED.get(key, key)}={value}" for key, _, value in parts))
    return said is None or said == (f"{base}~{renamed}" if changed else base)


def name_of_settings(recipe: Recipe) -> str | None:
    """The name of a recipe as a variant of today's recipe, `zinc/gin~head=mlp,jk=last`; None if there is none today."""
    try:
        today = named(recipe.base)
    except ValueError:
        return None
    skipped = ("name", "grid", "seeds")
    settings = {one.name: getattr(recipe, one.name) for one in fields(recipe) if one.name not in skipped}
    return today.variant(**settings).name


def result_rows(table: str, stored: GatheredRecords, hidden: Iterable[str] = ()) -> list[Row]:
    """All rows of a table of the paper, run or not, each followed by its variants; then other recipes.

    Args:
        table: its name.
        stored: its results.
        hidden: recipes without a row: the other configurations of grids.
    """
    out = set(hidden)
    done = {name: records for name, records in stored.by_recipe().items() if name not in out}
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
