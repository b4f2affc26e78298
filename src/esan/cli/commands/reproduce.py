"""`esan reproduce TABLE`: run the rows of a table of the paper, and write the table with its numbers and ours."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from esan.cli import options
from esan.cli.console import console, plainly, resumable
from esan.cli.jobs import campaign_settings, chosen_numbers, executor_named, tell
from esan.cli.tables import plain_table, rows_table
from esan.report.reproduced_tables import TABLES
from esan.report.reproduction.run_tables import (
    check_rows,
    chosen_times,
    problems_of,
    reproduce_tables,
    rows_of_all,
    rows_run,
    tune_tables,
    write_page,
    write_table,
)
from esan.train.campaigns.executors import Failure


@plainly
@resumable
def run(
    table: Annotated[str, typer.Argument(metavar="TABLE", help=f"A table of the paper: {', '.join(TABLES)}; or all.")],
    row: Annotated[
        list[str] | None,
        typer.Option("--row", metavar="NAME", help="A recipe, data set or method of the table; repeat for more."),
    ] = None,
    change: options.Changes = None,
    seeds: options.Seeds = None,
    seed: options.Seed = None,
    grid: Annotated[
        bool, typer.Option("--grid", help="Run every configuration that the paper tunes; validation chooses.")
    ] = False,
    executor: options.Executor = "serial",
    workers: options.Workers = None,
    address: options.Address = None,
    wait: options.Wait = None,
    together: options.Together = None,
    results: Annotated[
        Path, typer.Option("--results", metavar="FOLDER", help="Where records and tables are stored.")
    ] = Path("paper/results"),
    runs: options.Runs = options.RUNS,
    data: options.Root = None,
    cache: options.Cache = None,
    device: options.Device = "auto",
    docs: Annotated[
        Path | None, typer.Option("--docs", metavar="FILE", help="Also write one page with all tables.")
    ] = None,
    dry: Annotated[bool, typer.Option("--dry", help="Run nothing; write the tables from stored records.")] = False,
    quiet: options.Quiet = False,
) -> None:
    """Run the rows of a table of the paper, and write the table with the paper's numbers and yours.

    Run the same command again to continue after an interruption; finished runs are not repeated.

    Records are stored in RESULTS/<table> as recipes.json, runs.jsonl and curves.npz, the table as README.md.
    """
    rows = row or []
    if table not in (*TABLES, "all"):
        raise ValueError(
            f"Expected a table of the paper (got {table!r}). There are {', '.join(TABLES)}; all runs every one of them."
        )
    if table == "all":
        tables = rows_of_all(rows)
        if grid:
            tables.pop("timing", None)
    else:
        check_rows(table, rows)
        tables = {table: rows}
    numbers = chosen_numbers(seeds, seed, "seeds")
    if dry and (change or grid):
        other = "--set" if change else "--grid"
        raise ValueError(f"Expected --dry alone, which runs nothing (got {other} too). Leave out one of the two.")
    if grid and (change or numbers is not None or table == "timing"):
        what = "--set" if change else "--seeds" if seeds else "--seed" if numbers is not None else "the table timing"
        raise ValueError(
            f"Expected --grid with rows of the paper as they are (got {what} too). Leave out one of the two."
        )
    settings = campaign_settings(executor_named(executor, workers, device, address, wait), device, quiet)
    settings |= {"together": together, "root": data, "cache": cache}
    del settings["progress"]
    runner = settings.pop("executor")

    def say(words: str) -> None:
        if not quiet:
            console.print(Text(words))

    failures: dict[str, Failure] = {}
    done = 0
    if grid and not dry:
        failures = tune_tables(tables, results, runs, runner, say=say, **settings)
    elif not dry:
        failures = reproduce_tables(
            tables, results, runs, runner, seeds=numbers, changes=change or (), say=say, **settings
        )
    for name, some in tables.items():
        written = write_table(name, results)
        if not dry:
            done += _show_rows(name, results, some, change or [])
        console.print(Text(f"Saved: {written}"), soft_wrap=True)
    if docs is not None:
        write_page(results, docs)
        console.print(Text(f"Saved: {docs}"), soft_wrap=True)
    for problem in problems_of(results):
        Console(stderr=True).print(Text(problem), style="yellow", soft_wrap=True)
    tell(failures, done)


def _show_rows(table: str, results: Path, rows: list[str], changes: list[str]) -> int:
    """Print the rows that were asked for, and say how many of them have a number."""
    if table == "timing":
        times = chosen_times(results, rows)
        shown = plain_table(["recipe"], ["paper, s", "ours, s"], "Seconds per epoch: timing")
        for name, (paper, ours) in times.items():
            shown.add_row(Text(name), paper, ours)
        console.print(shown)
        return sum(bool(ours) for _, ours in times.values())
    found = rows_run(table, results, rows, changes)
    console.print(rows_table(found, f"Table {table}"))
    return sum(bool(one.records) for one in found)
