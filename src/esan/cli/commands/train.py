"""`esan train RECIPE`: train a recipe of the paper or of your own, on any of its folds and seeds."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from esan.checks import device_named
from esan.cli import options
from esan.cli.console import console, plainly, resumable
from esan.cli.inferred_task_notice import InferredTaskNotice
from esan.cli.jobs import chosen_folds, chosen_numbers
from esan.cli.tables import figure, plain_table, with_unit
from esan.plural import counted
from esan.report.reproduced_tables import paper_number
from esan.train.recipes.catalogue import find_recipe, names
from esan.train.recipes.recipe import Recipe
from esan.train.runs.job import Job
from esan.train.runs.loggers import Logger, ProgressBars, TensorBoard, WandB
from esan.train.runs.records import Record
from esan.train.runs.summary import MeanStd, Summary, summary
from esan.train.runs.training_loop import finished_record, run_jobs


@plainly
@resumable
def run(
    recipe: Annotated[
        str, typer.Argument(metavar="RECIPE", help="The name of a recipe (zinc/dss-gin-ego+), or a TOML file.")
    ] = "",
    change: options.Changes = None,
    seeds: options.Seeds = None,
    seed: options.Seed = None,
    folds: options.Folds = None,
    fold: options.Fold = None,
    runs: options.Runs = options.RUNS,
    data: options.Root = None,
    cache: options.Cache = None,
    device: options.Device = "auto",
    every: Annotated[
        float, typer.Option("--every", metavar="SECONDS", help="The least time between two checkpoints.")
    ] = 5.0,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write curves for TensorBoard.")] = False,
    wandb: Annotated[
        str | None, typer.Option("--wandb", metavar="PROJECT", help="Send curves to this Weights & Biases project.")
    ] = None,
    quiet: options.Quiet = False,
    show: Annotated[
        bool, typer.Option("--list", help="List the recipes whose names begin with RECIPE, and stop.")
    ] = False,
) -> None:
    """Train a recipe on its folds and seeds.

    Run the same command again to continue an interrupted training; finished runs are not repeated.

    Each run has a folder, RUNS/<recipe>/<fold>-<seed>, with recipe.toml, record.json, curve.csv, checkpoint.pt and,
    once training has ended, best.pt.

    Without --seeds, only seed 0 is trained; esan campaign trains all seeds of a recipe.
    """
    if show or not recipe:
        console.print(_listed(recipe))
        return
    chosen = find_recipe(recipe, change or [])
    numbers = chosen_folds([chosen], folds, fold)
    if numbers is None:
        numbers = list(range(chosen.folds if chosen.split == "folds" else 1))
    some = chosen_numbers(seeds, seed, "seeds")
    jobs = [Job(chosen, at, one) for one in some or [0] for at in numbers]
    loggers: list[Logger] = [InferredTaskNotice(console), *([] if quiet else [ProgressBars()])]
    loggers += [TensorBoard()] if tensorboard else []
    loggers += [] if wandb is None else [WandB(wandb)]
    place = device_named(device)
    before = [record for job in jobs if (record := finished_record(job, runs)) is not None]
    found = run_jobs(jobs, runs, root=data, cache=cache, device=place, every=every, loggers=loggers)
    console.print(_table(chosen, found))
    if before:
        console.print(Text(_from_before(before, len(jobs), runs / chosen.name)), soft_wrap=True)
    console.print(Text(_reported(chosen, summary(found))), style="bold")
    if some is None and chosen.seeds > 1:
        console.print(Text(f"This is seed 0 alone. The recipe has {chosen.seeds}: add --seeds {chosen.seeds}."))
    console.print(Text(f"Runs: {runs / chosen.name}"), soft_wrap=True)


def _table(recipe: Recipe, found: list[Record]) -> Table:
    metric = found[0].metric
    unit = with_unit(metric)
    heads = ["fold", "seed", "epochs", "best\nepoch", f"valid\n{unit}", f"test\n{unit}", "last\nvalid"]
    table = plain_table([], [*heads, "last\ntest", "s"], recipe.name)
    for record in found:
        points = [record.best.valid, record.best.test, record.final.valid, record.final.test]
        cells = [str(record.fold), str(record.seed), str(record.epochs), str(record.best.epoch)]
        table.add_row(*cells, *(figure(value, metric, recipe.name) for value in points), f"{record.seconds:.0f}")
    return table


def _from_before(found: list[Record], jobs: int, folder: Path) -> str:
    """Which runs were finished already, when they were, and how to train them again."""
    days = sorted({record.finished.partition("T")[0] for record in found if record.finished})
    when = f", finished on {' to '.join(dict.fromkeys((days[0], days[-1])))}" if days else ""
    one = len(found) == 1
    folder = folder / f"{found[0].fold}-{found[0].seed}" if one else folder
    which = "that folder" if one else "their folders there"
    who = counted(jobs, "run") if len(found) == jobs else f"{len(found)} of {counted(jobs, 'run')}"
    trained = "nothing was trained" if len(found) == jobs else "only the others were trained"
    again = f"To train again, remove {which}, or store runs elsewhere: --runs FOLDER."
    return f"{who} found{when} in {folder}; {trained}. {again}"


def _reported(recipe: Recipe, outcome: Summary) -> str:
    """The number by the recipe's rule, the best-validation one beside it, and the paper's."""
    sign = "" if outcome.metric == with_unit(outcome.metric) else " %"

    def measured(value: MeanStd | None) -> str:
        text = figure(value, outcome.metric, recipe.name)
        return f"{outcome.metric} {text}{sign}" if text else f"{outcome.metric} not measured"

    words = f"{measured(outcome.value)}: {outcome.rule}"
    words += f" (epoch {outcome.epoch}, {counted(outcome.runs, 'run')})" if outcome.epoch is not None else ""
    if recipe.select in ("mean-valid", "last"):
        words += f"\n{measured(outcome.best)}: {outcome.part} at the best validation of each run"
    paper = paper_number(recipe.name)
    if paper is not None:
        changed = f", for {recipe.base} as it is" if recipe.name != recipe.base else ""
        words += f"\n{outcome.metric} {paper}{sign}: the paper's{changed}"
    return words


def _listed(start: str) -> Table:
    table = plain_table(["recipe"], ["paper"], "Recipes; accuracy and ROC-AUC in per cent")
    listed = [name for name in names() if name.startswith(start)]
    if not listed:
        raise ValueError(
            f"Expected the beginning of a recipe's name (got {start!r}, with which none begins). Run esan train "
            "--list to see all."
        )
    for name in listed:
        table.add_row(name, str(paper_number(name) or ""))
    return table
