"""`esan campaign RECIPE...`: recipes × folds × seeds, here, in processes or on a Ray cluster."""

from typing import Annotated

import typer
from rich.text import Text

from esan.cli import options
from esan.cli.console import console, plainly, resumable
from esan.cli.jobs import campaign_settings, chosen_folds, chosen_numbers, executor_named, tell, told_numbers
from esan.plural import counted
from esan.train.campaigns.campaign import run_campaign
from esan.train.campaigns.grid import select_jobs
from esan.train.recipes.catalogue import find_recipe


@plainly
@resumable
def run(
    recipe: Annotated[list[str], typer.Argument(metavar="RECIPE", help="Names of recipes (zinc/gin), or TOML files.")],
    change: options.Changes = None,
    seeds: options.Seeds = None,
    seed: options.Seed = None,
    folds: options.Folds = None,
    fold: options.Fold = None,
    executor: options.Executor = "serial",
    workers: options.Workers = None,
    address: options.Address = None,
    wait: options.Wait = None,
    together: options.Together = None,
    runs: options.Runs = options.RUNS,
    data: options.Root = None,
    cache: options.Cache = None,
    device: options.Device = "auto",
    quiet: options.Quiet = False,
) -> None:
    """Train several recipes, each with all its folds and seeds.

    Run the same command again to continue after an interruption; finished runs are not repeated. A run that fails does
    not stop the others. esan report RUNS shows the results with curves.
    """
    chosen = [find_recipe(name, change or []) for name in recipe]
    some_folds = chosen_folds(chosen, folds, fold)
    some_seeds = chosen_numbers(seeds, seed, "seeds")
    jobs = [job for one in chosen for job in select_jobs(one, some_folds, some_seeds)]
    settings = campaign_settings(executor_named(executor, workers, device, address, wait), device, quiet)
    outcome = run_campaign(jobs, runs, together=together, root=data, cache=cache, **settings)
    if outcome.records:
        for part in told_numbers(outcome.records):
            console.print(part)
    before = f", {outcome.found} of them from before" if outcome.found else ""
    console.print(Text(f"{counted(len(outcome.records), 'record')} in {runs}{before}."), soft_wrap=True)
    if outcome.records:
        console.print(Text(f"For curves and the paper's numbers, run: esan report {runs}"), soft_wrap=True)
    tell(outcome.failures, len(outcome.records))
