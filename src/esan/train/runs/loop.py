"""The loop: any number of jobs trained in lock-step, each to its record; what was interrupted continues."""

import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from esan.checks import device_here, real_number
from esan.data import Dataset
from esan.train.engines.engine import MakeEngine
from esan.train.engines.ensembles import Teams
from esan.train.recipes.recipe import Recipe
from esan.train.runs.job import Job
from esan.train.runs.loggers import Watcher
from esan.train.runs.prepare import Prepared, prepare
from esan.train.runs.records import Record
from esan.train.runs.run import Run

#: Checkpoints are so far apart that writing them takes one part in so many of the time.
_SELDOM = 40
#: Seconds that they are apart at most, if no more are asked for.
_LONGEST = 600.0


def run_jobs(
    jobs: Iterable[Job],
    runs: str | Path | None,
    *,
    dataset: Dataset | None = None,
    root: str | Path | None = None,
    cache: str | Path | None = None,
    device: torch.device | str = "cpu",
    every: float = 5.0,
    watchers: Sequence[Watcher] = (),
    make_engine: MakeEngine | None = None,
) -> list[Record]:
    """Train all jobs, epoch by epoch side by side, and give their records in the order of the jobs.

    A job whose record is in its folder already is not trained again; one that was interrupted continues from its last
    checkpoint, and ends with the record that it would have had. The outcome of a job does not depend on which other
    jobs run beside it.

    Args:
        jobs: what is trained.
        runs: the folder of all runs, in which each job has its own; None to keep nothing on disk.
        dataset: the data of all jobs, in place of what their recipes name.
        root: the folder of the data, see `esan.data.load`.
        cache: the folder of cached bags.
        device: where to train.
        every: the least seconds between two checkpoints, more where writing them takes long; 0 for one after every
            epoch.
        watchers: are told of every epoch.
        make_engine: makes the engine of a job; None for the fastest, which on a GPU trains jobs that differ in seed or
            fold together.
    """
    if not real_number("every", every, "Pass seconds, 0 for a checkpoint after every epoch.") >= 0:
        raise ValueError(f"Expected every of 0 seconds or more (got {every}). Pass seconds, e.g. 5.")
    found = open_runs(jobs, runs, dataset, root, cache, device_here(device), make_engine or Teams())
    done = {at: entry for at, entry in enumerate(found) if isinstance(entry, Record)}
    active = {at: entry for at, entry in enumerate(found) if isinstance(entry, Run)}
    with _watched(watchers, list(active.values())):
        saved, cost = time.monotonic(), 0.0
        while active:
            for at, run in list(active.items()):
                if run.over:
                    done[at] = run.finish()
                    del active[at]
                    for watcher in watchers:
                        watcher.finished(run, done[at])
            _epoch(list(active.values()), watchers)
            began = time.monotonic()
            if began - saved >= (max(every, min(cost * _SELDOM, _LONGEST)) if every else 0):
                for run in active.values():
                    run.save()
                saved = time.monotonic()
                cost = saved - began
    return [done[at] for at in sorted(done)]


def open_runs(
    jobs: Iterable[Job],
    runs: str | Path | None,
    dataset: Dataset | None,
    root: str | Path | None,
    cache: str | Path | None,
    device: torch.device,
    make_engine: MakeEngine,
) -> list[Record | Run]:
    """The record of each job that has one, and a run, continued if it was interrupted, of each other."""
    prepared: dict[Recipe, Prepared] = {}
    found: list[Record | Run] = []
    for job in jobs:
        folder = None if runs is None else job.folder(runs)
        record = None if folder is None else _record(folder, job)
        if record is not None:
            found.append(record)
            continue
        if job.recipe not in prepared:
            prepared[job.recipe] = prepare(job.recipe, dataset=dataset, root=root, cache=cache, device=device)
        run = Run(job, prepared[job.recipe], folder, make_engine)
        if not run.resume() and folder is not None:
            job.recipe.save(folder / "recipe.toml")
        found.append(run)
    return found


def _record(folder: Path, job: Job) -> Record | None:
    if not (folder / "record.json").is_file():
        return None
    try:
        record = Record.load(folder / "record.json")
    except ValueError:
        aside = (folder / "record.json").replace(folder / "record.damaged.json")
        warnings.warn(
            f"The record of {job.name} was damaged: it is put aside as {aside}, and trained again.", stacklevel=4
        )
        return None
    if record.recipe != job.recipe:
        mine, its = job.recipe.to_dict(), record.recipe.to_dict()
        differs = [f"{k} {its[k]!r}, not {v!r}" for k, v in mine.items() if k != "grid" and its[k] != v]
        raise ValueError(
            f"Expected the record of this recipe in {folder} (got one with {'; '.join(differs[:4])}). "
            "Give the recipe a name of its own, or choose another folder for the runs."
        )
    return record


def _epoch(runs: list[Run], watchers: Sequence[Watcher]) -> None:
    """One epoch of every run; first all is issued, then read, so that runs overlap on a GPU."""
    since = time.perf_counter()
    for run in runs:
        run.train()
    for run in runs:
        run.engine.issue()
    for run in runs:
        run.predict()
    lines = [run.read() for run in runs]
    for run, line in zip(runs, lines, strict=True):
        run.seconds += (time.perf_counter() - since) / len(runs)
        for watcher in watchers:
            watcher.epoch(run, line)


@contextmanager
def _watched(watchers: Sequence[Watcher], runs: list[Run]) -> Iterator[None]:
    for watcher in watchers:
        watcher.started(runs)
    try:
        yield
    finally:
        for watcher in watchers:
            watcher.stopped()
