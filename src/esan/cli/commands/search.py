"""`esan search RECIPE`: train every configuration of a recipe's grid, and choose by validation."""

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from esan.cli import options
from esan.cli.console import console, plainly, resumable
from esan.cli.jobs import campaign_settings, chosen_folds, chosen_numbers, executor_named, tell
from esan.cli.tables import figure, plain_table, with_unit
from esan.train.campaigns.grid import Search, search
from esan.train.recipes.catalogue import find_recipe


@plainly
@resumable
def run(
    recipe: Annotated[
        str,
        typer.Argument(metavar="RECIPE", help=f"The name of a recipe, or a TOML file with a {escape('[[grid]]')}."),
    ],
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
    """Train every configuration of a recipe's grid, and choose the best on validation.

    Run the same command again to continue after an interruption. Test results are neither shown nor used to choose.

    The best configuration is written to RUNS/<recipe>/best.toml, for esan train, and all scores to scores.csv there.
    """
    chosen = find_recipe(recipe, change or [])
    some_folds = chosen_folds([chosen], folds, fold)
    some_seeds = chosen_numbers(seeds, seed, "seeds")
    settings = campaign_settings(executor_named(executor, workers, device, address, wait), device, quiet)
    found = search(
        chosen,
        runs,
        folds=some_folds,
        seeds=some_seeds,
        together=together,
        root=data,
        cache=cache,
        **settings,
    )
    if not found.scored:
        tell(found.failures, 0)
    best = found.best
    console.print(_table(found))
    target = runs / chosen.name / "best.toml"
    best.recipe.save(target)
    found.to_csv(target.with_name("scores.csv"))
    console.print(Text(f"Best on validation: {best.recipe.name}"), style="bold", soft_wrap=True)
    console.print(Text(f"Saved: {target}, {target.with_name('scores.csv')}"), soft_wrap=True)
    tell(found.failures, len(found.scored))


def _table(found: Search) -> Table:
    metric = found.best.records[0].metric
    table = plain_table(
        ["configuration"], [f"valid {with_unit(metric)}", "runs"], "Configurations, best validation first"
    )
    for one in found.scored:
        style = "bold green" if one is found.best else None
        table.add_row(
            Text(one.recipe.name), figure(one.valid, metric, one.recipe.name), str(len(one.records)), style=style
        )
    return table
