"""`run_jobs`: the training loop: any number of jobs in lock-step, each to its record, resumed where interrupted."""

import signal
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import torch
import torch.distributed as dist

from esan.checks import device_here, real_number
from esan.data import Dataset
from esan.train.engines.engine import MakeEngine
from esan.train.engines.engine_factory import EngineFactory
from esan.train.recipes.recipe import Recipe, differences
from esan.train.runs.job import Job
from esan.train.runs.loggers import Logger
from esan.train.runs.prepare_data import PreparedData, prepare
from esan.train.runs.recipe_data import RecipeData
from esan.train.runs.records import Record
from esan.train.runs.run import Run

#: The time between two checkpoints is at least this many times what writing one takes.
_CHECKPOINT_COST_FACTOR = 40
#: The most seconds between two checkpoints, unless `every` asks for more.
_MAX_CHECKPOINT_SECONDS = 600.0


def run_jobs(
    jobs: Iterable[Job],
    runs: str | Path | None,
    *,
    dataset: Dataset | None = None,
    root: str | Path | None = None,
    cache: str | Path | None = None,
    device: torch.device | str = "cpu",
    every: float = 5.0,
    loggers: Sequence[Logger] = (),
    make_engine: MakeEngine | None = None,
) -> list[Record]:
    """Train all jobs epoch by epoch in lock-step; returns their records in the order of the jobs.

    A job whose folder has a record is not trained again, and is refused if its data are not those of the record; one
    that was interrupted continues from its last checkpoint, and ends with the record that it would have had. The result
    of a job does not depend on the other jobs. Ctrl-C (SIGINT) writes a checkpoint of every job before it raises
    KeyboardInterrupt; a second one stops at once.

    Args:
        jobs: what is trained.
        runs: the folder of all runs, with one folder per job; None to write nothing.
        dataset: the data of all jobs, instead of what their recipes name.
        root: the folder of the data, see `esan.data.load`.
        cache: the folder of cached bags.
        device: where to train.
        every: the least seconds between two checkpoints, more where writing them takes long; 0 for one after every
            epoch.
        loggers: are called after every epoch.
        make_engine: makes the engine of a job; None for the fastest, which on a GPU trains jobs that differ in seed or
            fold as one ensemble.
    """
    if not real_number("every", every, "Pass seconds, 0 for a checkpoint after every epoch.") >= 0:
        raise ValueError(f"Expected every of 0 seconds or more (got {every}). Pass seconds, e.g. 5.")
    opened = open_runs(jobs, runs, dataset, root, cache, device_here(device), make_engine or EngineFactory())
    done = {index: entry for index, entry in enumerate(opened) if isinstance(entry, Record)}
    active = {index: entry for index, entry in enumerate(opened) if isinstance(entry, Run)}
    with _logged(loggers, list(active.values())), _deferred_interrupt(active) as interrupt:
        last_save, cost = time.monotonic(), 0.0
        while active:
            for index, run in list(active.items()):
                if run.is_done:
                    done[index] = run.finish()
                    del active[index]
                    for logger in loggers:
                        logger.on_finish(run, done[index])
            _train_epoch(list(active.values()), loggers)
            began = time.monotonic()
            wait = max(every, min(cost * _CHECKPOINT_COST_FACTOR, _MAX_CHECKPOINT_SECONDS)) if every else 0
            if began - last_save >= wait or interrupt.is_set():
                for run in active.values():
                    run.save()
                last_save = time.monotonic()
                cost = last_save - began
            if interrupt.is_set():
                raise KeyboardInterrupt(_resume_message(list(active.values())))
    return [done[index] for index in sorted(done)]


def open_runs(
    jobs: Iterable[Job],
    runs: str | Path | None,
    dataset: Dataset | None,
    root: str | Path | None,
    cache: str | Path | None,
    device: torch.device,
    make_engine: MakeEngine,
) -> list[Record | Run]:
    """The record of each job that has one, and for each other job a run, resumed if it was interrupted."""
    jobs, data = list(jobs), RecipeData(dataset, root, cache)
    records: list[Record | None] = []
    for job in jobs:
        records.append(None if runs is None else finished_record(job, runs))
        if records[-1] is None:
            data.dataset(job.recipe)
    if runs is not None:
        # After the data of the other jobs are read: finished runs are compared with these too.
        for job, record in zip(jobs, records, strict=True):
            if record is not None:
                data.check(job, record, runs)
    prepared: dict[Recipe, PreparedData] = {}
    found: list[Record | Run] = []
    for job, record in zip(jobs, records, strict=True):
        if record is not None:
            found.append(record)
            continue
        folder = None if runs is None else job.folder(runs)
        if job.recipe not in prepared:
            prepared[job.recipe] = prepare(job.recipe, dataset=data.dataset(job.recipe), cache=cache, device=device)
        run = Run(job, prepared[job.recipe], folder, make_engine)
        if not run.resume() and folder is not None:
            job.recipe.save(folder / "recipe.toml")
        found.append(run)
    return found


def finished_record(job: Job, runs: str | Path) -> Record | None:
    """The record of a finished job, else None; a damaged record is renamed, so that the job is trained again."""
    path = job.folder(runs) / "record.json"
    if not path.is_file():
        return None
    try:
        record = Record.load(path)
    except ValueError:
        renamed = path.replace(path.with_name("record.damaged.json"))
        warnings.warn(
            f"The record of {job.name} was damaged: it is renamed to {renamed}, and the job is trained again.",
            stacklevel=4,
        )
        return None
    if record.recipe != job.recipe:
        raise ValueError(
            f"Expected the record of this recipe at {path} (got one with {differences(job.recipe, record.recipe)}). "
            "Give the recipe a name of its own, or choose another folder for the runs."
        )
    return record


def _train_epoch(runs: list[Run], loggers: Sequence[Logger]) -> None:
    """One epoch of every run; all are started before any result is read, so that runs overlap on a GPU."""
    since = time.perf_counter()
    for run in runs:
        run.train()
    for run in runs:
        run.engine.flush()
    for run in runs:
        run.predict()
    epochs = [run.read() for run in runs]
    for run, epoch in zip(runs, epochs, strict=True):
        run.seconds += (time.perf_counter() - since) / len(runs)
        for logger in loggers:
            logger.on_epoch(run, epoch)


@contextmanager
def _logged(loggers: Sequence[Logger], runs: list[Run]) -> Iterator[None]:
    for logger in loggers:
        logger.on_start(runs)
    try:
        yield
    finally:
        for logger in loggers:
            logger.close()


@contextmanager
def _deferred_interrupt(active: dict[int, Run]) -> Iterator[threading.Event]:
    """Inside, Ctrl-C sets the event: the loop ends the epoch and writes checkpoints, which are of whole epochs.

    It raises KeyboardInterrupt at once if all checkpoints are of the last epoch already, or the second time. This holds
    for every signal that would raise KeyboardInterrupt: SIGINT, in the workers of a campaign SIGTERM. Nothing changes
    in other threads than the main one, and in distributed trainings, whose processes would stop at different epochs.
    """
    interrupt = threading.Event()
    signals = [number for number in (signal.SIGINT, signal.SIGTERM) if _interrupts(number)]
    main = threading.current_thread() is threading.main_thread()
    if not (signals and main) or (dist.is_available() and dist.is_initialized()):
        yield interrupt
        return

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if interrupt.is_set() or all(run.is_saved for run in active.values()):
            raise KeyboardInterrupt(_resume_message(list(active.values())))
        interrupt.set()

    for number in signals:
        signal.signal(number, handle)
    try:
        yield interrupt
    finally:
        for number in signals:
            signal.signal(number, signal.default_int_handler)


def _interrupts(number: signal.Signals) -> bool:
    return signal.getsignal(number) is signal.default_int_handler


def _resume_message(runs: list[Run]) -> str:
    """How to continue after an interrupt, in one line."""
    if not runs:
        return "Interrupted. Run the same command again to continue."
    if any(run.folder is None for run in runs):
        return "Interrupted. Nothing was written: there is no folder for the runs."
    resumed = [f"{run.job.name} at epoch {run.saved_epoch + 1}" for run in runs]
    names = ", ".join(resumed[:3]) + (f" and {len(resumed) - 3} more" if len(resumed) > 3 else "")
    return f"Interrupted. Run the same command again to continue from the checkpoints: {names}."
