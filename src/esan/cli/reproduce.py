"""`esan reproduce TABLE`: run the rows of a table of the paper, and write the table with its numbers and ours."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from esan.cli.executing import EXECUTORS, MOST_NUMBERS, executor_named, tell
from esan.cli.plainly import console, plainly, resumable
from esan.report.paper_tables import TABLES
from esan.report.reproducing import check_rows, problems_of, reproduce, rows_of_all, tune, write_page, write_table
from esan.train.campaigns.executors import Failure, Serial


@plainly
@resumable
def run(
    table: Annotated[str, typer.Argument(metavar="TABLE", help=f"{', '.join(TABLES)}, or all.")],
    row: Annotated[
        list[str] | None, typer.Option(help="A recipe, dataset or method of the table; repeat for more.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, max=MOST_NUMBERS, help="How many seeds; as the paper if not given.")
    ] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="Run variants of the rows.")
    ] = None,
    grid: Annotated[
        bool, typer.Option("--grid", help="Run all that the paper tunes, and save_result the best on validation.")
    ] = False,
    device: Annotated[str, typer.Option(help="Where to train: cpu, cuda, cuda:1.")] = "cpu",
    together: Annotated[
        int | None, typer.Option(help="Runs of a row in lock-step; all on a GPU, one elsewhere if not given.")
    ] = None,
    executor: Annotated[str, typer.Option(help=f"One of {', '.join(EXECUTORS)}.")] = "serial",
    workers: Annotated[int | None, typer.Option(help="Of processes: how many.")] = None,
    address: Annotated[str | None, typer.Option(help="Of ray: a running cluster; auto for this machine's.")] = None,
    wait: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Of ray: for the cluster at --address to answer; else 20.")
    ] = None,
    results: Annotated[Path, typer.Option(help="The folder of the results.")] = Path("paper/results"),
    runs: Annotated[Path, typer.Option(help="The folder of the runs, with checkpoints.")] = Path("runs"),
    data: Annotated[Path | None, typer.Option(help="The folder of the data; else $ESAN_DATA.")] = None,
    cache: Annotated[Path | None, typer.Option(help="The folder of cached bags; else $ESAN_CACHE.")] = None,
    docs: Annotated[Path | None, typer.Option(metavar="PAGE", help="Also write the page of all tables.")] = None,
    dry: Annotated[bool, typer.Option("--dry", help="Run nothing, only write tables from what is there.")] = False,
) -> None:
    """Run what a table still lacks; the same command again goes on where it was interrupted.

    Records go to RESULTS/<table>/<recipe>/<fold>-<seed>.json, the table to RESULTS/<table>/README.md. Rows that were
    not run are shown as not yet run.
    """
    rows = row or []
    if table == "all":
        tables = rows_of_all(rows)
        if grid:
            tables.pop("timing", None)
    else:
        check_rows(table, rows)
        tables = {table: rows}
    if grid and (change or seeds is not None or table == "timing"):
        what = "--set" if change else "--seeds" if seeds is not None else "the table timing"
        raise ValueError(
            f"Expected --grid with rows that are trained, as they are and whole (got {what}). Leave one of them out."
        )
    runner = executor_named(executor, workers, device, address, wait)
    work = tune if grid else partial(reproduce, seeds=seeds, changes=change or ())
    failures: dict[str, Failure] = {}
    for name, some in tables.items():
        if not dry:
            failures |= work(
                name,
                results,
                runs,
                runner,
                rows=some,
                say=lambda words: console.print(Text(words)),
                together=together,
                device=device,
                root=data,
                cache=cache,
                bars=isinstance(runner, Serial),
            )
        console.print(Text(f"Saved: {write_table(name, results)}"))
    if docs is not None:
        write_page(results, docs)
        console.print(Text(f"Saved: {docs}"))
    for problem in problems_of(results):
        Console(stderr=True).print(Text(problem), style="yellow", soft_wrap=True)
    tell(failures)
