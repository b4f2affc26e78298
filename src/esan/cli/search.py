"""`esan search RECIPE`: train every configuration of a recipe's grid, and choose by validation."""

from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from esan.cli.executing import EXECUTORS, executor_named, tell, whole_numbers
from esan.cli.plainly import console, plainly, resumable
from esan.train.campaigns.executors import Serial
from esan.train.campaigns.grid import Search, search
from esan.train.recipes.catalogue import find_recipe


@plainly
@resumable
def run(
    recipe: Annotated[
        str, typer.Argument(metavar="RECIPE", help=f"A name, or a TOML file with a {escape('[[grid]]')}.")
    ],
    change: Annotated[
        list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="Change a field; repeat for more.")
    ] = None,
    seeds: Annotated[str | None, typer.Option(metavar="0..9", help="Seeds; those of the recipe if not given.")] = None,
    folds: Annotated[str | None, typer.Option(metavar="0..9", help="Folds; all of them if not given.")] = None,
    executor: Annotated[str, typer.Option(help=f"One of {', '.join(EXECUTORS)}.")] = "serial",
    workers: Annotated[int | None, typer.Option(help="Of processes: how many; one a processor if not given.")] = None,
    address: Annotated[str | None, typer.Option(help="Of ray: a running cluster; auto for this machine's.")] = None,
    wait: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Of ray: for the cluster at --address to answer; else 20.")
    ] = None,
    together: Annotated[
        int | None, typer.Option(help="Runs in lock-step; all of a configuration on a GPU, one elsewhere.")
    ] = None,
    runs: Annotated[Path, typer.Option(help="The folder of all runs.")] = Path("runs"),
    data: Annotated[Path | None, typer.Option(help="The folder of the data; else $ESAN_DATA.")] = None,
    cache: Annotated[Path | None, typer.Option(help="The folder of cached bags; else $ESAN_CACHE.")] = None,
    device: Annotated[str, typer.Option(help="Where to train: cpu, cuda, cuda:1.")] = "cpu",
) -> None:
    """Train the grid of a recipe as a resumable campaign; the test set has no say in what is chosen.

    The best configuration is written to RUNS/<recipe>/best.toml, for esan train, and how all did to scores.csv there.
    """
    chosen = find_recipe(recipe).override(change or [])
    runner = executor_named(executor, workers, device, address, wait)
    found = search(
        chosen,
        runs,
        runner,
        folds=None if folds is None else whole_numbers(folds, "folds"),
        seeds=None if seeds is None else whole_numbers(seeds, "seeds"),
        together=together,
        device=device,
        root=data,
        cache=cache,
        bars=isinstance(runner, Serial),
        progress=lambda done, total: console.print(Text(f"{done} of {total} runs")),
    )
    best = found.best
    console.print(_table(found))
    target = runs / chosen.name / "best.toml"
    best.recipe.save(target)
    found.to_csv(target.with_name("scores.csv"))
    console.print(Text(f"Best on validation: {best.recipe.name}"), style="bold")
    console.print(Text(f"Saved: {target}"))
    tell(found.failures)


def _table(found: Search) -> Table:
    metric = found.best.records[0].metric
    table = Table("configuration", title="Configurations, by validation", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for head in (f"valid {metric}", "±", "runs"):
        table.add_column(head, justify="right")
    for one in found.scored:
        mean, std = (None, None) if one.valid is None else (one.valid.mean, one.valid.std)
        numbers_ = ["" if number is None else f"{number:.4f}" for number in (mean, std)]
        style = "bold green" if one is found.best else None
        table.add_row(Text(one.recipe.name), *numbers_, str(len(one.records)), style=style)
    return table
