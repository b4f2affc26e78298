"""`esan campaign RECIPE...`: recipes × folds × seeds, here, in processes or on a Ray cluster."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from esan.cli.executing import EXECUTORS, executor_named, tell, told_numbers, whole_numbers
from esan.cli.plainly import console, plainly, resumable
from esan.train.campaigns.campaign import run_campaign
from esan.train.campaigns.executors import Serial
from esan.train.campaigns.grid import select_jobs
from esan.train.recipes.catalogue import find_recipe


@plainly
@resumable
def run(
    recipe: Annotated[list[str], typer.Argument(metavar="RECIPE...", help="Names (zinc/gin) or TOML files.")],
    change: Annotated[
        list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="Change a field; repeat for more.")
    ] = None,
    seeds: Annotated[str | None, typer.Option(metavar="0..9", help="Seeds; those of the recipes if not given.")] = None,
    folds: Annotated[str | None, typer.Option(metavar="0..9", help="Folds; all of them if not given.")] = None,
    executor: Annotated[str, typer.Option(help=f"One of {', '.join(EXECUTORS)}.")] = "serial",
    workers: Annotated[int | None, typer.Option(help="Of processes: how many; one a processor if not given.")] = None,
    address: Annotated[str | None, typer.Option(help="Of ray: a running cluster; auto for this machine's.")] = None,
    wait: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Of ray: for the cluster at --address to answer; else 20.")
    ] = None,
    together: Annotated[
        int | None, typer.Option(help="Runs of a recipe in lock-step; all on a GPU, one elsewhere if not given.")
    ] = None,
    runs: Annotated[Path, typer.Option(help="The folder of all runs.")] = Path("runs"),
    data: Annotated[Path | None, typer.Option(help="The folder of the data; else $ESAN_DATA.")] = None,
    cache: Annotated[Path | None, typer.Option(help="The folder of cached bags; else $ESAN_CACHE.")] = None,
    device: Annotated[str, typer.Option(help="Where to train: cpu, cuda, cuda:1.")] = "cpu",
) -> None:
    """Train many recipes; killed and called again, it goes on with what is missing.

    A run that fails does not keep the others from running; `esan report RUNS` shows what they gave.
    """
    chosen = [find_recipe(name).override(change or []) for name in recipe]
    some_folds = None if folds is None else whole_numbers(folds, "folds")
    some_seeds = None if seeds is None else whole_numbers(seeds, "seeds")
    jobs = [job for one in chosen for job in select_jobs(one, some_folds, some_seeds)]
    runner = executor_named(executor, workers, device, address, wait)
    outcome = run_campaign(
        jobs,
        runs,
        runner,
        together=together,
        device=device,
        root=data,
        cache=cache,
        bars=isinstance(runner, Serial),
        progress=lambda done, total: console.print(Text(f"{done} of {total} runs")),
    )
    if outcome.records:
        for part in told_numbers(outcome.records):
            console.print(part)
    console.print(Text(f"{len(outcome.records)} records under {runs}, {outcome.found} of them from before."))
    if outcome.records:
        console.print(Text(f"Curves and the paper's numbers: esan report {runs}"))
    tell(outcome.failures)
