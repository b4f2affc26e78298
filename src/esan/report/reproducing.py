"""Run the rows of a table of the paper as a resumable campaign, and keep their records with its Markdown."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from esan.report.docs import results_page, table_text
from esan.report.paper import TABLES, table_named
from esan.report.results import chosen_rows, is_kept, keep, result_file, results_of
from esan.report.timing import keep_timed, measure, times_of, timing_recipes
from esan.train.campaign import finished, run_campaign
from esan.train.executors import Executor, Failure
from esan.train.files import write_text
from esan.train.job import Job, protocol
from esan.train.recipes import named

#: Told of what has come to an end, in words.
Say = Callable[[str], None]


def _nothing(words: str) -> None:
    """Say nothing."""


def table_jobs(
    table: str, rows: Sequence[str] = (), seeds: int | None = None, changes: Sequence[str] = ()
) -> list[Job]:
    """The jobs of a table's rows.

    Args:
        table: its name.
        rows: which rows, see `esan.report.results.chosen_rows`; empty for all.
        seeds: how many seeds; None for those of the recipes.
        changes: settings such as "lr=0.001" that make variants of the rows.
    """
    recipes = [named(name).override(list(changes)) for name in chosen_rows(table, rows)]
    return [job for recipe in recipes for job in protocol(recipe, seeds)]


def reproduce(
    table: str,
    results: Path,
    runs: Path,
    executor: Executor | None = None,
    *,
    rows: Sequence[str] = (),
    seeds: int | None = None,
    changes: Sequence[str] = (),
    say: Say = _nothing,
    **settings: Any,
) -> dict[str, Failure]:
    """Run what a table lacks; its records and its Markdown are brought up to date whenever a group of jobs has ended.

    Args:
        table: its name.
        results: the folder of the results, a folder a table.
        runs: the folder of the runs, with their checkpoints.
        executor: where they run.
        rows: which rows; empty for all.
        seeds: how many seeds; None for those of the recipes.
        changes: settings that make variants of the rows.
        say: told how it goes on.
        settings: anything else for `run_campaign`: together, device, root, cache, bars.

    Returns:
        why some jobs have no record, by their names.
    """
    table_named(table)
    if table == "timing":
        return _time(results, rows, say, **settings)
    jobs = table_jobs(table, rows, seeds, changes)
    folder = results / table
    missing = [job for job in jobs if not is_kept(job, folder)]
    say(f"{table}: {len(jobs) - len(missing)} of {len(jobs)} runs are there")

    def harvest(done: int, total: int) -> None:
        for job in missing:
            if not result_file(job, folder).is_file() and (record := finished(job, runs)) is not None:
                keep(record, folder)
        write_table(table, results)
        if done:
            say(f"{table}: {len(jobs) - total + done} of {len(jobs)} runs")

    outcome = run_campaign(missing, runs, executor, progress=harvest, **settings)
    write_table(table, results)
    return outcome.failures


def check_rows(table: str, rows: Sequence[str]) -> None:
    """An error that names the first row that the table does not have, if there is one."""
    if table_named(table) is TABLES["timing"]:
        _timing_rows(rows)
    else:
        chosen_rows(table, rows)


def _timing_rows(rows: Sequence[str]) -> list[str]:
    known = list(timing_recipes())
    for row in rows:
        if not any(row in (name, *name.split("/", 1)) for name in known):
            raise ValueError(f"Expected a row of the table timing (got {row!r}). There are {', '.join(known)}.")
    return [name for name in known if not rows or any(row in (name, *name.split("/", 1)) for row in rows)]


def write_table(table: str, results: Path) -> Path:
    """Write the Markdown of a table from the records that are kept."""
    path = results / table / "README.md"
    write_text(path, table_text(table, results).removeprefix("#"))
    return path


def write_page(results: Path, page: Path) -> None:
    """Write the page of all tables."""
    write_text(page, results_page(results, page))


def problems_of(results: Path) -> list[str]:
    """What is wrong with the files that are kept, of all tables."""
    return [problem for table in TABLES if table != "timing" for problem in results_of(results / table).problems]


def _time(results: Path, rows: Sequence[str], say: Say, **settings: Any) -> dict[str, Failure]:
    """Measure the rows of the table of times that are not there yet, one after another."""
    wanted = _timing_rows(rows)
    missing = [name for name in wanted if name not in times_of(results / "timing")]
    say(f"timing: {len(wanted) - len(missing)} of {len(wanted)} rows are there")
    device, root, cache = settings.get("device", "cpu"), settings.get("root"), settings.get("cache")
    failures = {}
    for name in missing:
        try:
            keep_timed(measure(name, device, root=root, cache=cache), results / "timing")
        except (ValueError, OSError) as error:
            failures[name] = Failure(str(error))
            continue
        write_table("timing", results)
        say(f"timing: {name}")
    write_table("timing", results)
    return failures
