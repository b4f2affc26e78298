"""`measure`: seconds per training epoch of a recipe, and the paper's table of them."""

import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from esan.report.reproduced_tables import method
from esan.train.engines.engine_factory import EngineFactory
from esan.train.recipes.catalogue import named
from esan.train.runs.job import Job
from esan.train.runs.prepare_data import prepare
from esan.train.runs.provenance import code_commit
from esan.train.runs.record_table import append_json_line
from esan.train.runs.records import hardware, now, versions
from esan.train.runs.run import Run
from esan.train.runs.run_files import read_json_lines

#: The times of all recipes, one line each.
TIMES = "times.jsonl"
#: Seconds per epoch on an RTX 2080, as the paper prints them; NCI1 with batches of 32, ZINC with batches of 128.
PRINTED = """
method        nci1       nci1-20%   zinc
gin           1.00±0.05  -          1.45±0.01
ds-gin-ed     2.07±0.01  1.73±0.01  3.56±0.03
ds-gin-nd     2.08±0.03  1.71±0.01  3.42±0.02
ds-gin-ego    1.96±0.01  1.72±0.01  3.02±0.04
ds-gin-ego+   2.01±0.02  1.73±0.01  3.09±0.04
dss-gin-ed    3.26±0.07  2.94±0.01  4.25±0.01
dss-gin-nd    3.19±0.07  2.91±0.02  4.12±0.03
dss-gin-ego   3.14±0.04  2.79±0.02  3.63±0.02
dss-gin-ego+  3.19±0.03  2.90±0.01  3.69±0.05
"""


@dataclass(frozen=True)
class EpochTimes:
    """How long epochs of one recipe took.

    Attributes:
        recipe: its name.
        seconds: of each epoch that was timed.
        setup_seconds: before the first epoch: data, bag and network.
        graphs: per epoch.
        hardware: what it ran on.
        versions: of esan and its main dependencies.
        finished: when.
        warm_seconds: of the epochs before, in which kernels are compiled and CUDA graphs captured.
        seeds: how many networks were trained in lock-step.
        commit: of esan; None where it was not recorded.
        data_sha256: of the dataset; None where it was not recorded.
    """

    recipe: str
    seconds: tuple[float, ...]
    setup_seconds: float
    graphs: int
    hardware: str
    versions: dict[str, str]
    finished: str
    warm_seconds: float = 0.0
    seeds: int = 1
    commit: str | None = None
    data_sha256: str | None = None

    def __str__(self) -> str:
        middle = median(self.seconds)
        least, most = (f"{end(self.seconds):.3g}" for end in (min, max))
        return f"{middle:.3g} ({least} to {most})"


def timing_recipes() -> dict[str, str]:
    """The recipes of the table and the time that the paper prints for each."""
    head, *lines = [line.split() for line in PRINTED.strip().splitlines()]
    found = {}
    for name, *cells in lines:
        for column, cell in zip(head[1:], cells, strict=True):
            data, _, share = column.partition("-")
            if cell != "-":
                found[f"{data}/{name}{f'-{share}' if share else ''}"] = cell.replace("±", " ± ")
    return found


def measure(
    recipe: str,
    device: str = "cpu",
    epochs: int = 5,
    warm: int = 2,
    seeds: int = 1,
    *,
    root: str | Path | None = None,
    cache: str | Path | None = None,
) -> EpochTimes:
    """Time some training epochs of one recipe, alone on the device.

    Args:
        recipe: its name.
        device: where.
        epochs: how many are timed.
        warm: how many are run before.
        seeds: how many networks are trained side by side, as `esan train --seeds` does.
        root: the folder of the data.
        cache: the folder of cached bags.
    """
    since = time.perf_counter()
    chosen = named(recipe)
    prepared, make_engine = prepare(chosen, root=root, cache=cache, device=device), EngineFactory()
    runs = [Run(Job(chosen, seed=seed), prepared, None, make_engine) for seed in range(seeds)]
    setup, train = time.perf_counter() - since, runs[0].split.train
    seconds = []
    for _ in range(warm + epochs):
        since = time.perf_counter()
        orders = [train[torch.randperm(len(train), generator=run.order)] for run in runs]
        losses = [run.engine.train_epoch(order) for run, order in zip(runs, orders, strict=True)]
        for run in runs:
            run.engine.flush()
        # Reading the losses waits for the end of the epoch.
        torch.stack(losses).tolist()
        seconds.append(round(time.perf_counter() - since, 5))
    before = round(sum(seconds[:warm]), 3)
    machine = hardware(torch.device(device)), versions(), now()
    made = code_commit(), prepared.sha256
    return EpochTimes(recipe, tuple(seconds[warm:]), round(setup, 3), len(train), *machine, before, seeds, *made)


def save_times(timed: EpochTimes, folder: Path) -> None:
    """Add the times of a recipe to those of the table."""
    append_json_line(folder / TIMES, asdict(timed))


def load_times(folder: Path) -> dict[str, EpochTimes]:
    """The stored times by recipe; ValueError names a damaged file, and its line."""
    found = []
    # Version 0.1 wrote one file per recipe.
    for path in sorted(folder.rglob("*.json")):
        try:
            found.append(_times(json.loads(path.read_text(encoding="utf-8"))))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ValueError(f"Expected times at {path} (got a damaged file: {error}). Remove it.") from None
    if (folder / TIMES).is_file():
        found += read_json_lines(folder / TIMES, _times)
    return {timed.recipe: timed for timed in found}


def _times(values: Any) -> EpochTimes:
    seconds = tuple(map(float, values["seconds"]))
    if not seconds or not all(math.isfinite(one) for one in seconds):
        raise ValueError("no finite seconds")
    return EpochTimes(**values | {"recipe": str(values["recipe"]), "seconds": seconds})


def times_table(times: dict[str, EpochTimes]) -> str:
    """The table: for each method the paper's seconds and ours, of each set."""
    printed = timing_recipes()
    columns = [("nci1", "", "NCI1"), ("nci1", "-20%", "NCI1, 20%"), ("zinc", "", "ZINC")]
    methods = dict.fromkeys(name.partition("/")[2].removesuffix("-20%") for name in printed)
    head = ["method", *(f"{title}, {who}" for _, _, title in columns for who in ("paper", "ours"))]
    lines = [head, ["---", *["--:"] * (len(head) - 1)]]
    for name in methods:
        cells = [method(f"zinc/{name}")]
        for data, share, _ in columns:
            recipe = f"{data}/{name}{share}"
            ours = f"**{times[recipe]}**" if recipe in times else "not yet run"
            cells += [printed[recipe], ours] if recipe in printed else ["", ""]
        lines.append(cells)
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{_where(list(times.values()))}\n\n{table}\n"


def _where(times: Sequence[EpochTimes]) -> str:
    machines = dict.fromkeys(timed.hardware for timed in times)
    ours = f"ours: {', '.join(machines)}, median (least to most)" if machines else "ours: none yet"
    return f"The paper: RTX 2080, mean ± deviation; {ours}. {len(times)} of {len(timing_recipes())} rows run."
