"""`esan train RECIPE`: train a recipe of the paper or of your own, on any of its folds and seeds."""

from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from esan.cli.executing import whole_numbers
from esan.cli.plainly import console, plainly, resumable
from esan.train.recipes.catalogue import find_recipe, names, paper_value
from esan.train.recipes.recipe import Recipe
from esan.train.runs.job import Job
from esan.train.runs.loggers import Logger, ProgressBars, TensorBoard, WandB
from esan.train.runs.records import Record
from esan.train.runs.summary import MeanStd, Summary, summary
from esan.train.runs.training_loop import run_jobs


@plainly
@resumable
def run(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="A name (zinc/dss-gin-ego+) or a TOML file.")] = "",
    change: Annotated[
        list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="Change a field; repeat for more.")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="0..9", help="Seeds: 3, 0..9, or 0,2,5; seed 0 alone if not given.")
    ] = None,
    folds: Annotated[str | None, typer.Option(metavar="0..9", help="Folds; all of them if not given.")] = None,
    runs: Annotated[Path, typer.Option(help="The folder of all runs.")] = Path("runs"),
    data: Annotated[Path | None, typer.Option(help="The folder of the data; else $ESAN_DATA.")] = None,
    cache: Annotated[Path | None, typer.Option(help="The folder of cached bags; else $ESAN_CACHE.")] = None,
    device: Annotated[str, typer.Option(help="Where to train: cpu, cuda, cuda:1.")] = "cpu",
    every: Annotated[float, typer.Option(help="Seconds between two checkpoints, at least.")] = 5.0,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write curves for TensorBoard.")] = False,
    wandb: Annotated[str | None, typer.Option(metavar="PROJECT", help="Send curves to this project of W&B.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bars.")] = False,
    show: Annotated[bool, typer.Option("--list", help="List recipes, those that begin with RECIPE, and stop.")] = False,
) -> None:
    """Train a recipe; the same command again continues what was interrupted, and repeats nothing.

    Folds and seeds train side by side. A run folder, RUNS/<recipe>/<fold>-<seed>, holds recipe.toml, record.json,
    curve.csv, checkpoint.pt and, once training is over, best.pt. One seed trains unless --seeds says more; `esan
    campaign` runs all seeds of a recipe.
    """
    if show or not recipe:
        console.print(_listed(recipe))
        return
    chosen = find_recipe(recipe).override(change or [])
    every_fold = range(chosen.folds if chosen.split == "folds" else 1)
    numbers = list(every_fold) if folds is None else whole_numbers(folds, "folds")
    some = whole_numbers("0" if seeds is None else seeds, "seeds")
    jobs = [Job(chosen, fold, seed) for seed in some for fold in numbers]
    loggers: list[Logger] = [] if quiet else [ProgressBars()]
    loggers += [TensorBoard()] if tensorboard else []
    loggers += [] if wandb is None else [WandB(wandb)]
    found = run_jobs(jobs, runs, root=data, cache=cache, device=device, every=every, loggers=loggers)
    console.print(_table(chosen, found))
    console.print(Text(_reported(chosen, summary(found))), style="bold")
    if seeds is None and chosen.seeds > 1:
        console.print(Text(f"Seed 0 alone; for all {chosen.seeds} of the recipe: --seeds 0..{chosen.seeds - 1}"))
    console.print(Text(f"Runs: {runs / chosen.name}"))


def _table(recipe: Recipe, found: list[Record]) -> Table:
    metric = found[0].metric
    table = Table(title=recipe.name, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    heads = ("fold", "seed", "epochs", "best at", f"valid {metric}", f"test {metric}", "last valid", "last test", "s")
    for head in heads:
        table.add_column(head, justify="right")
    for record in found:
        points = [record.best.valid, record.best.test, record.final.valid, record.final.test]
        cells = [str(record.fold), str(record.seed), str(record.epochs), str(record.best.epoch)]
        table.add_row(*cells, *("" if value is None else f"{value:.4f}" for value in points), f"{record.seconds:.0f}")
    return table


def _reported(recipe: Recipe, outcome: Summary) -> str:
    """The number by the recipe's rule, the best-validation one beside it, and the paper's."""
    words = f"{outcome.metric} {_spread(outcome.value)}: {outcome.rule}"
    words += f" (epoch {outcome.epoch})" if outcome.epoch is not None else ""
    if recipe.select in ("mean-valid", "last"):
        words += f"\n{outcome.metric} {_spread(outcome.best)}: {outcome.part} at the best validation of each run"
    paper = paper_value(recipe)
    if paper is not None:
        changed = f", for {recipe.base} as it is" if recipe.name != recipe.base else ""
        words += f"\n{outcome.metric} {_spread(paper)}: the paper's{changed}"
    return words


def _spread(value: MeanStd | None) -> str:
    return "not measured" if value is None else f"{value:.4f}"


def _listed(start: str) -> Table:
    table = Table("recipe", "paper", title="Recipes", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    listed = [name for name in names() if name.startswith(start)]
    if not listed:
        raise ValueError(
            f"Expected the first letters of a recipe's name (got {start!r}, with which none begins). Run esan train "
            "--list for all of them."
        )
    for name in listed:
        value = paper_value(name)
        table.add_row(name, "" if value is None else _spread(value))
    return table
