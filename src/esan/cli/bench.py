"""`esan bench`: how long a training epoch takes here, for GIN, DS-GNN and DSS-GNN with every policy."""

import json
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Annotated

import torch
import typer
from rich.table import Table

from esan.checks import device_here
from esan.cli.executing import MOST_NUMBERS
from esan.cli.plainly import console, plainly
from esan.report.timing import EpochTimes, measure
from esan.train.runs.directory import write_text
from esan.train.runs.records import peak_bytes

#: What is measured if nothing is named: the rows of the paper's table of times.
METHODS = ("gin", *(f"{kind}-gin-{policy}" for kind in ("ds", "dss") for policy in ("ed", "nd", "ego", "ego+")))


@plainly
def run(
    recipe: Annotated[
        list[str] | None, typer.Argument(metavar="[RECIPE]...", help="As `esan train --list` shows them.")
    ] = None,
    sets: Annotated[list[str] | None, typer.Option("--data-set", help="zinc or nci1; both if not given.")] = None,
    device: Annotated[str, typer.Option(help="Where to train: cpu, cuda, cuda:1.")] = "cpu",
    epochs: Annotated[
        int, typer.Option(min=1, max=MOST_NUMBERS, help="Epochs that are timed, after two that warm up.")
    ] = 5,
    seeds: Annotated[int, typer.Option(min=1, max=MOST_NUMBERS, help="Networks that are trained side by side.")] = 1,
    data: Annotated[Path | None, typer.Option(help="The folder of the data; else $ESAN_DATA.")] = None,
    cache: Annotated[Path | None, typer.Option(help="The folder of cached bags; else $ESAN_CACHE.")] = None,
    out: Annotated[Path | None, typer.Option(help="A JSON file for the figures.")] = None,
) -> None:
    """Time training epochs as `esan train` runs them: batches, forward, backward, optimiser and loss.

    `python benchmarks/epoch.py` measures the usual way (PyG over the disjoint union of all subgraphs) beside it.
    """
    place = device_here(device)
    names = recipe or [f"{name}/{method}" for name in sets or ("zinc", "nci1") for method in METHODS]
    title = "A training epoch" if seeds == 1 else f"A training epoch of {seeds} seeds together"
    table = Table("recipe", "s an epoch, median", "two epochs before, s", "data and bag, s", "peak MiB", title=title)
    figures: list[dict[str, object]] = []
    for name in names:
        if place.type == "cuda":
            torch.cuda.reset_peak_memory_stats(place)
        timed = measure(name, device, epochs, seeds=seeds, root=data, cache=cache)
        peak = peak_bytes(place) / 2**20
        table.add_row(*_cells(timed, peak))
        figures.append(asdict(timed) | {"peak_mib": round(peak)})
        if out is not None:
            write_text(out, json.dumps(figures, indent=1) + "\n")
    console.print(table)
    console.print(
        f"{figures[-1]['hardware']}; esan {timed.versions['esan']}, torch {timed.versions['torch']}", highlight=False
    )


def _cells(timed: EpochTimes, peak: float) -> list[str]:
    # The epochs before also hold what is done once: compiling and capturing.
    times = f"{median(timed.seconds):.3f}", f"{timed.warm_seconds:.1f}", f"{timed.setup_seconds:.1f}"
    return [timed.recipe, *times, f"{peak:,.0f}"]
