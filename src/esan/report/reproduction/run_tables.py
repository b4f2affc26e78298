"""`reproduce`, `tune_tables`: run rows of tables, or their grids, as a resumable campaign; store records and pages."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from esan.report.reproduced_tables import TABLES, table_named
from esan.report.reproduction.grid_results import load_grid_results, save_grid_result
from esan.report.reproduction.results_page import EARLIER, README, earlier_text, results_page, table_text
from esan.report.reproduction.stored_results import chosen_rows, is_selected, load_results, result_rows, stored_records
from esan.report.reproduction.timing import load_times, measure, save_times, timing_recipes
from esan.report.rows import Row
from esan.train.campaigns.campaign import run_campaign
from esan.train.campaigns.executors import Executor, Failure
from esan.train.campaigns.grid import Search, rank_by_validation, select_jobs
from esan.train.recipes.catalogue import named
from esan.train.runs.job import Job, protocol
from esan.train.runs.record_table import add_records
from esan.train.runs.records import Record
from esan.train.runs.run_files import write_text
from esan.train.runs.training_loop import finished_record

#: Called with a line of progress.
ProgressLine = Callable[[str], None]


def _nothing(words: str) -> None:
    """Ignore progress."""


def table_jobs(
    table: str, rows: Sequence[str] = (), seeds: int | Sequence[int] | None = None, changes: Sequence[str] = ()
) -> list[Job]:
    """The jobs of a table's rows.

    Args:
        table: its name.
        rows: which rows, see `esan.report.reproduction.stored_results.chosen_rows`; empty for all.
        seeds: how many seeds, or which; None for those of the recipes.
        changes: settings such as "lr=0.001" that make variants of the rows.
    """
    recipes = [named(name).override(list(changes)) for name in chosen_rows(table, rows)]
    if seeds is None or isinstance(seeds, int):
        return [job for recipe in recipes for job in protocol(recipe, seeds)]
    return [job for recipe in recipes for job in select_jobs(recipe, None, seeds)]


def reproduce(
    table: str,
    results: Path,
    runs: Path,
    executor: Executor | None = None,
    *,
    rows: Sequence[str] = (),
    seeds: int | Sequence[int] | None = None,
    changes: Sequence[str] = (),
    say: ProgressLine = _nothing,
    **settings: Any,
) -> dict[str, Failure]:
    """Run the missing jobs of a table; its records and Markdown are updated whenever a row has ended.

    Runs of an unfinished row are stored when the campaign ends, is interrupted, or is called again.

    Args:
        table: its name.
        results: the folder of the results, one folder per table.
        runs: the folder of the runs, with their checkpoints.
        executor: where they run.
        rows: which rows; empty for all.
        seeds: how many seeds, or which; None for those of the recipes.
        changes: settings that make variants of the rows.
        say: called with lines of progress.
        settings: anything else for `run_campaign`: together, device, root, cache, bars.

    Returns:
        the failures by name of job.
    """
    return reproduce_tables({table: rows}, results, runs, executor, seeds=seeds, changes=changes, say=say, **settings)


def reproduce_tables(
    tables: Mapping[str, Sequence[str]],
    results: Path,
    runs: Path,
    executor: Executor | None = None,
    *,
    seeds: int | Sequence[int] | None = None,
    changes: Sequence[str] = (),
    say: ProgressLine = _nothing,
    **settings: Any,
) -> dict[str, Failure]:
    """`reproduce` for several tables as one campaign: workers without a job of one table go on with another.

    Times are measured last, when nothing else runs.

    Args:
        tables: which rows of each table, by its name; empty for all rows.
        results: the folder of the results, one folder per table.
        runs: the folder of the runs, with their checkpoints.
        executor: where they run.
        seeds: how many seeds, or which; None for those of the recipes.
        changes: settings that make variants of the rows.
        say: called with lines of progress.
        settings: anything else for `run_campaign`: together, device, root, cache, bars.

    Returns:
        the failures by name of job.
    """
    for table in tables:
        table_named(table)
    jobs = {table: table_jobs(table, rows, seeds, changes) for table, rows in tables.items() if table != "timing"}
    if "timing" in tables:  # what is wrong with it is better known before than after
        _timing_rows(tables["timing"])
        load_times(results / "timing")
    begun: list[_Begun] = []
    for table, some in jobs.items():
        there = stored_records(some, results / table)
        write_table(table, results)  # a folder that cannot be written to, likewise
        begun.append(_Begun(table, table, results / table, some, there).begin(runs, say))
    failures = _run(begun, results, runs, executor, say, **settings) if begun else {}
    if "timing" in tables:
        failures |= _time(results, tables["timing"], say, **settings)
    return failures


def tune_tables(
    tables: Mapping[str, Sequence[str]],
    results: Path,
    runs: Path,
    executor: Executor | None = None,
    *,
    say: ProgressLine = _nothing,
    **settings: Any,
) -> dict[str, Failure]:
    """Run the grid searches of rows, as the paper tunes them, as one campaign; stored ones are not run again.

    Stored are the records of all configurations, and their scores, when the last run of a row has ended. A row with a
    failed run stores nothing: the best of some configurations is not the best of all. Its finished runs stay in the
    folder of the runs, and are not run again.

    Args:
        tables: which rows of each table, by its name; empty for all rows that have a grid.
        results: the folder of the results, one folder per table.
        runs: the folder of the runs, with their checkpoints.
        executor: where they run.
        say: called with lines of progress.
        settings: anything else for `run_campaign`: together, device, root, cache, bars.

    Returns:
        the failures by name of job.
    """
    begun: list[_Begun] = []
    for table, rows in tables.items():
        write_table(table, results)  # a folder that cannot be written to is better known before than after
        stored = {one.recipe for one in load_grid_results(results / table)}
        grids: list[_BegunGrid] = []
        for recipe in map(named, chosen_rows(table, rows)):
            if not recipe.grid or recipe.name in stored:
                say(f"{recipe.name}: {'its grid is there' if recipe.grid else 'the paper tunes nothing'}")
                continue
            jobs = [job for one in recipe.configurations() for job in protocol(one)]
            grids.append(_BegunGrid(table, recipe.name, results / table, jobs, {}))
        known = stored_records([job for one in grids for job in one.jobs], results / table)
        for one in grids:
            there = {job.name: known[job.name] for job in one.jobs if job.name in known}
            begun.append(replace(one, there=there).begin(runs, say))
    # The test metric is hidden, so that nobody chooses by it.
    return _run(begun, results, runs, executor, say, show_test=False, **settings) if begun else {}


@dataclass
class _Begun:
    """A table, or the grid of a row, that is being run.

    Attributes:
        table: the name of the table.
        name: what is run, in words.
        folder: of the table.
        jobs: all that were asked for.
        there: the records that the table has, by the name of the job.
        left: the other jobs.
        waiting: the names of those that have not ended.
        problem: why nothing more can be stored; None if it can.
    """

    table: str
    name: str
    folder: Path
    jobs: list[Job]
    there: Mapping[str, Record]
    left: list[Job] = field(init=False)
    waiting: set[str] = field(init=False)
    problem: Exception | None = None
    kind: ClassVar[str] = ""

    def __post_init__(self) -> None:
        self.left = [job for job in self.jobs if job.name not in self.there]

    def begin(self, runs: Path, say: ProgressLine) -> Self:
        """Find the runs that have ended, and store them."""
        self.waiting = {job.name for job in self.left if finished_record(job, runs) is None}
        say(f"{self.name}: {len(self.jobs) - len(self.waiting)} of {len(self.jobs)} runs{self.kind} are there")
        self.store(runs, say, unfinished_rows=True)
        return self

    def end(self, jobs: Sequence[Job], runs: Path, say: ProgressLine) -> bool:
        """These jobs were run: store what has ended, and return whether anything was stored."""
        ended = {job.name for job in jobs if job.name in self.waiting and _has_record(job, runs)}
        if not ended:
            return False
        self.waiting -= ended
        say(f"{self.name}: {len(self.jobs) - len(self.waiting)} of {len(self.jobs)} runs")
        return self.store(runs, say)

    def store(self, runs: Path, say: ProgressLine, *, unfinished_rows: bool = False) -> bool:
        """Store what has ended; a table that has become damaged does not stop the others."""
        if self.problem is not None or not self.left:
            return False
        try:
            return self._store(runs, say, unfinished_rows)
        except (ValueError, OSError) as problem:
            self.problem = problem
            return False

    def _store(self, runs: Path, say: ProgressLine, unfinished_rows: bool) -> bool:  # noqa: ARG002
        """Add the records of runs that have ended to the table, whole rows at a time."""
        waiting = set() if unfinished_rows else {job.recipe.name for job in self.left if job.name in self.waiting}
        ready = [job for job in self.left if job.name not in self.waiting and job.recipe.name not in waiting]
        found = {job.name: record for job in ready if (record := finished_record(job, runs)) is not None}
        if found:
            add_records(self.folder, list(found.values()))
        self.left = [job for job in self.left if job.name not in found]
        return bool(found)


class _BegunGrid(_Begun):
    """The grid of a row; it is stored whole."""

    kind = " of its grid"

    def _store(self, runs: Path, say: ProgressLine, unfinished_rows: bool) -> bool:  # noqa: ARG002
        """Add the records and scores of all configurations to the table, once all runs have ended."""
        if self.waiting:
            return False
        ended = {job.name: one for job in self.left if (one := finished_record(job, runs)) is not None}
        if len(ended) < len(self.left):  # one was damaged meanwhile
            return False
        records = [(ended.get(job.name) or self.there[job.name]) for job in self.jobs]
        found = Search(rank_by_validation(records), {})
        add_records(self.folder, records)
        if self.name not in {one.recipe for one in load_grid_results(self.folder)}:  # by another process
            save_grid_result(self.name, found, self.folder)
        self.left = []
        say(f"{self.name}: {found.best.recipe.name} is the best of {len(found.scored)}")
        return True


def _run(
    begun: Sequence[_Begun], results: Path, runs: Path, executor: Executor | None, say: ProgressLine, **settings: Any
) -> dict[str, Failure]:
    """Run what is left as one campaign, and store what has ended as soon as it may be."""
    of_job: dict[str, list[_Begun]] = {}
    for one in begun:
        for job in one.left:
            of_job.setdefault(job.name, []).append(one)

    def store(jobs: Sequence[Job]) -> None:
        for one in {id(one): one for job in jobs for one in of_job.get(job.name, ())}.values():
            if one.end(jobs, runs, say):
                write_table(one.table, results)

    def store_all() -> None:
        for one in begun:
            one.store(runs, say, unfinished_rows=True)
        for table in dict.fromkeys(one.table for one in begun if one.problem is None):
            write_table(table, results)

    left = [job for one in begun for job in one.left]
    try:
        failures = run_campaign(left, runs, executor, ended=store, **settings).failures
    except BaseException:
        with suppress(ValueError, OSError):  # what ended the campaign is said, not what came of it
            store_all()
        raise
    store_all()
    problem = next((one.problem for one in begun if one.problem is not None), None)
    if problem is not None:
        raise problem
    return failures


def _has_record(job: Job, runs: Path) -> bool:
    return (job.folder(runs) / "record.json").is_file()


def check_rows(table: str, rows: Sequence[str]) -> None:
    """An error that names the first row that the table does not have, if there is one."""
    if table_named(table) is TABLES["timing"]:
        _timing_rows(rows)
    else:
        chosen_rows(table, rows)


def rows_of_all(rows: Sequence[str]) -> dict[str, list[str]]:
    """All tables that have some of the rows, each with those that it has; all of them for no rows."""
    found = {table: [row for row in rows if any(is_selected(row, name) for name in _names(table))] for table in TABLES}
    for row in rows:
        if not any(row in some for some in found.values()):
            raise ValueError(
                f"Expected a row of one of the tables {', '.join(TABLES)} (got {row!r}). Name a recipe such as "
                "mutag/gin, a dataset, or a method such as dss-gin-ego+; for others, name the table too."
            )
    return {table: some for table, some in found.items() if some or not rows}


def _names(table: str) -> list[str]:
    return list(timing_recipes()) if table == "timing" else chosen_rows(table, ())


def _timing_rows(rows: Sequence[str]) -> list[str]:
    known = _names("timing")
    for row in rows:
        if not any(is_selected(row, name) for name in known):
            raise ValueError(f"Expected a row of the table timing (got {row!r}). There are {', '.join(known)}.")
    return [name for name in known if not rows or any(is_selected(row, name) for row in rows)]


def rows_run(table: str, results: Path, rows: Sequence[str] = (), changes: Sequence[str] = ()) -> list[Row]:
    """The rows that were asked for, with what is stored for them; without any, all that have been run.

    Args:
        table: its name, other than "timing".
        results: the folder of the results.
        rows: which rows.
        changes: settings that make variants of the rows.
    """
    asked = {named(name).override(list(changes)).name for name in chosen_rows(table, rows)}
    hidden = {other for grid in load_grid_results(results / table) for other in grid.others} - asked
    found = result_rows(table, load_results(results / table), hidden)
    return [row for row in found if row.recipe in asked and (rows or row.records)]


def chosen_times(results: Path, rows: Sequence[str] = ()) -> dict[str, tuple[str, str]]:
    """The paper's seconds and ours, of the rows of the table of times that were asked for; "" for those not run."""
    printed, times = timing_recipes(), load_times(results / "timing")
    return {name: (printed[name], str(times[name]) if name in times else "") for name in _timing_rows(rows)}


def write_table(table: str, results: Path) -> Path:
    """Write the Markdown of a table from its stored records."""
    path = results / table / README
    write_text(path, table_text(table, results).removeprefix("#"))
    return path


def write_page(results: Path, page: Path) -> None:
    """Write the page of all tables, and those of earlier results beside their records."""
    write_text(page, results_page(results, page))
    for table in TABLES:
        if (results / EARLIER / table).is_dir():
            write_text(results / EARLIER / table / README, earlier_text(table, results))


def problems_of(results: Path) -> list[str]:
    """What is wrong with the stored files of all tables."""
    return [problem for table in TABLES if table != "timing" for problem in load_results(results / table).problems]


def _time(results: Path, rows: Sequence[str], say: ProgressLine, **settings: Any) -> dict[str, Failure]:
    """Measure the rows of the table of times that are not there yet, one after another."""
    wanted = _timing_rows(rows)
    missing = [name for name in wanted if name not in load_times(results / "timing")]
    say(f"timing: {len(wanted) - len(missing)} of {len(wanted)} rows are there")
    device, root, cache = settings.get("device", "cpu"), settings.get("root"), settings.get("cache")
    failures = {}
    for name in missing:
        try:
            save_times(measure(name, device, root=root, cache=cache), results / "timing")
        except (ValueError, OSError) as error:
            failures[name] = Failure(str(error))
            continue
        write_table("timing", results)
        say(f"timing: {name}")
    write_table("timing", results)
    return failures
