"""`esan bench`: how long training epochs take here, of GIN, DS- and DSS-GNN with four policies, or of named recipes."""

import json
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Annotated

import torch
import typer
from rich.text import Text

from esan.checks import device_here, device_named
from esan.cli import options
from esan.cli.console import console, plainly
from esan.cli.jobs import MOST_NUMBERS, whole_numbers
from esan.cli.tables import plain_table
from esan.report.reproduction.timing import EpochTimes, measure
from esan.train.runs.records import peak_bytes
from esan.train.runs.run_files import write_text

#: What is measured if nothing is named: the rows of the paper's table of times.
METHODS = ("gin", *(f"{kind}-gin-{policy}" for kind in ("ds", "dss") for policy in ("ed", "nd", "ego", "ego+")))
SETS = ("zinc", "nci1")


@plainly
def run(
    recipe: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RECIPE",
            help="Names of recipes (zinc/gin), or a data set (zinc) for the paper's nine (default: zinc and nci1).",
        ),
    ] = None,
    epochs: Annotated[
        int,
        typer.Option("--epochs", metavar="N", min=1, max=MOST_NUMBERS, help="Epochs to time, after a warm-up of two."),
    ] = 5,
    seeds: options.Seeds = None,
    device: options.Device = "auto",
    data: options.Root = None,
    cache: options.Cache = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the times to this JSON file.")
    ] = None,
    quiet: options.Quiet = False,
) -> None:
    """Time training epochs as esan train runs them: batches, forward, backward, optimiser and loss.

    With --seeds 10, an epoch trains ten networks as one ensemble. benchmarks/epoch.py times PyG on the union of all
    subgraphs for comparison.
    """
    numbers = [0] if seeds is None else whole_numbers(seeds, "seeds")
    if numbers != list(range(len(numbers))):
        raise ValueError(f"Expected a count as --seeds (got {seeds}). Times do not depend on which seeds are trained.")
    if out is not None and out.is_dir():
        raise ValueError(f"Expected a file as --out (got the folder {out}). Write e.g. --out times.json.")
    place = device_here(device_named(device))
    title = "Training epochs" if len(numbers) == 1 else f"Training epochs of {len(numbers)} seeds as one ensemble"
    heads = ["epoch, s\n(median)", "warm-up\ns", "data and\nbag, s", "peak\nMiB"]
    table = plain_table(["recipe"], heads, title)
    figures: list[dict[str, object]] = []
    for name in [one for given in recipe or SETS for one in _named(given)]:
        if not quiet:
            console.print(Text(f"Timing {name} on {place}"))
        if place.type == "cuda":
            torch.cuda.reset_peak_memory_stats(place)
        timed = measure(name, str(place), epochs, seeds=len(numbers), root=data, cache=cache)
        peak = peak_bytes(place) / 2**20
        table.add_row(*_cells(timed, peak))
        figures.append(asdict(timed) | {"peak_mib": round(peak)})
        if out is not None:
            write_text(out, json.dumps(figures, indent=1) + "\n")
    console.print(table)
    versions = f"esan {timed.versions['esan']}, torch {timed.versions['torch']}"
    console.print(Text(f"{timed.hardware}; {versions}"), soft_wrap=True)
    if out is not None:
        console.print(Text(f"Saved: {out}"), soft_wrap=True)


def _named(given: str) -> list[str]:
    return [given] if "/" in given else [f"{given}/{method}" for method in METHODS]


def _cells(timed: EpochTimes, peak: float) -> list[str]:
    # The warm-up also holds what is done once: compiling and capturing.
    times = f"{median(timed.seconds):.3f}", f"{timed.warm_seconds:.1f}", f"{timed.setup_seconds:.1f}"
    return [timed.recipe, *times, f"{peak:,.0f}"]
