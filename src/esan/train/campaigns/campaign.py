"""A campaign: many jobs as one whole, run by any executor, started again at what is missing."""

import fcntl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from esan.checks import device_here, whole_number
from esan.data import Dataset
from esan.train.campaigns.executors import Executor, Failure, Processes, Serial
from esan.train.recipes.recipe import Recipe
from esan.train.runs.job import Job
from esan.train.runs.loggers import Bars
from esan.train.runs.loop import run_jobs
from esan.train.runs.records import Record

#: Seconds that a job waits for another process to let go of its run folder.
PATIENCE = 60.0


@dataclass(frozen=True)
class Work:
    """What an executor does with a group of jobs: train them in lock-step; each writes its record itself.

    Args:
        runs: the folder of the runs.
        device: where they train.
        root: the folder of the data, see `esan.data.load`.
        cache: the folder of cached bags.
        dataset: the data of all jobs, in place of what their recipes name.
        bars: whether to show how each training goes on.
        show_test: whether that shows the test metric too.
    """

    runs: str
    device: str = "cpu"
    root: str | None = None
    cache: str | None = None
    dataset: Dataset | None = None
    bars: bool = False
    show_test: bool = True

    def __call__(self, jobs: Sequence[Job]) -> None:
        with ExitStack() as held:
            for job in jobs:
                held.enter_context(_alone(job.folder(self.runs)))
            # Asked again: while this group waited for its turn, another campaign may have run some of it.
            left = [job for job in jobs if finished(job, self.runs) is None]
            if left:
                run_jobs(
                    left,
                    self.runs,
                    dataset=self.dataset,
                    root=self.root,
                    cache=self.cache,
                    device=self.device,
                    watchers=[Bars(test=self.show_test)] if self.bars else [],
                )


@dataclass(frozen=True)
class Outcome:
    """What a campaign gave.

    Attributes:
        records: of the jobs that are done, in the order of the jobs.
        failures: why the others are not, by the name of the job.
        found: how many records were there before.
    """

    records: tuple[Record, ...]
    failures: dict[str, Failure] = field(default_factory=dict)
    found: int = 0


#: Called after each group with the jobs that are done and the jobs of the whole campaign.
Progress = Callable[[int, int], None]


def run_campaign(
    jobs: Sequence[Job],
    runs: str | Path,
    executor: Executor | None = None,
    *,
    together: int | None = None,
    device: str = "cpu",
    root: str | Path | None = None,
    cache: str | Path | None = None,
    dataset: Dataset | None = None,
    bars: bool = False,
    show_test: bool = True,
    progress: Progress | None = None,
) -> Outcome:
    """Run every job that has no record yet. Killed at any moment and called again, it goes on with what is missing.

    A job whose record is complete is not run again; one that was interrupted continues from its checkpoint. A job that
    fails does not keep the others from running.

    Args:
        jobs: configurations × folds × seeds, e.g. from `esan.train.protocol`.
        runs: the folder of the runs.
        executor: where they run; None for one group after another in this process.
        together: how many jobs of one recipe train in lock-step as one group; None for all of them on a GPU, where
            they share it, and one elsewhere.
        device: where they train.
        root: the folder of the data.
        cache: the folder of cached bags.
        dataset: the data of all jobs, in place of what their recipes name; sent along to other processes.
        bars: whether to show how each training goes on.
        show_test: whether that shows the test metric too.
        progress: told of every group that ends.
    """
    if executor is None or isinstance(executor, Serial | Processes):
        device_here(device)  # or one error now, in place of one from every job; other machines have other devices
    jobs = distinct(jobs)
    before = {job.name: record for job in jobs if (record := finished(job, runs)) is not None}
    missing = [job for job in jobs if job.name not in before]
    if together is None:
        together = len(jobs) if str(device).startswith("cuda") else 1
    pieces = groups(missing, together) if missing else []
    root, cache = (None if folder is None else str(folder) for folder in (root, cache))
    work = Work(str(runs), device, root, cache, dataset, bars, show_test)
    if missing:
        Path(runs).mkdir(parents=True, exist_ok=True)  # or one error now, in place of one from every job
    failures: dict[str, Failure] = {}
    done = len(before)
    if progress is not None:
        progress(done, len(jobs))
    for ended in (executor or Serial()).map(work, pieces):
        if ended.failure is None:
            done += len(pieces[ended.index])
        else:
            failures |= {job.name: ended.failure for job in pieces[ended.index]}
        if progress is not None:
            progress(done, len(jobs))
    after = {job.name: before.get(job.name) or finished(job, runs) for job in jobs}
    # Of a group that failed, some jobs may have ended well before.
    failures = {name: failure for name, failure in failures.items() if after[name] is None}
    return Outcome(tuple(record for record in after.values() if record is not None), failures, len(before))


def distinct(jobs: Sequence[Job]) -> list[Job]:
    """The jobs, each once; two that differ but would write to one folder are refused."""
    by_name: dict[str, Job] = {}
    for job in jobs:
        other = by_name.setdefault(job.name, job)
        if same_training(other.recipe, job.recipe):
            continue
        raise ValueError(
            f"Expected one recipe of the name {job.recipe.name} (got two that differ: one with "
            f"{differences(job.recipe, other.recipe)}). Give one of them another name."
        )
    return list(by_name.values())


def groups(jobs: Sequence[Job], most: int) -> list[tuple[Job, ...]]:
    """Jobs of one recipe together, in groups of `most` at most, recipes in the order of their first job."""
    whole_number("together", most, 1, "Pass e.g. together=10, or leave it out.")
    by_recipe: dict[str, list[Job]] = {}
    for job in jobs:
        by_recipe.setdefault(job.recipe.name, []).append(job)
    return [tuple(some[i : i + most]) for some in by_recipe.values() for i in range(0, len(some), most)]


def finished(job: Job, runs: str | Path) -> Record | None:
    """The record of a job that is done, else None; a damaged record is put aside, so that the job runs again."""
    path = job.folder(runs) / "record.json"
    if not path.is_file():
        return None
    try:
        record = Record.load(path)
    except ValueError:
        path.replace(path.with_name("record.damaged.json"))
        return None
    if not same_training(record.recipe, job.recipe):
        raise ValueError(
            f"Expected the record of this recipe at {path} (got one with "
            f"{differences(job.recipe, record.recipe)}). "
            "Give the recipe a name of its own, or choose another folder for the runs."
        )
    return record


def same_training(one: Recipe, other: Recipe) -> bool:
    """Whether two recipes train the same; how many seeds a protocol has, and grids, say nothing about one training."""
    return replace(one, grid=(), seeds=1) == replace(other, grid=(), seeds=1)


def differences(wanted: Recipe, found: Recipe) -> str:
    """In what a recipe trains otherwise than it should, in words: "lr 0.01, not 0.001"; the first four."""
    mine, its = wanted.to_dict(), found.to_dict()
    differ = [f"{k} {its[k]!r}, not {v!r}" for k, v in mine.items() if k not in ("grid", "seeds") and its[k] != v]
    return "; ".join(differ[:4]) + (f" and {len(differ) - 4} more" if len(differ) > 4 else "")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other processes out of a run folder, until this one ends in whatever way."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                # A machine that a cluster has given up may need a moment to die.
                if time.monotonic() > end:
                    raise ValueError(
                        f"Expected a run folder that nobody else writes to (got {folder}, where another process is "
                        "training). Wait for it, or choose another folder for the runs."
                    ) from None
                time.sleep(0.2)
        yield
