"""`run_campaign`: many jobs in groups, run by any executor; called again, it runs what is missing."""

import fcntl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from esan.checks import device_here, whole_number
from esan.data import Dataset
from esan.train.campaigns.executors import Executor, Failure, Processes, Serial
from esan.train.recipes.recipe import differences
from esan.train.runs.job import Job
from esan.train.runs.loggers import ProgressBars
from esan.train.runs.recipe_data import RecipeData
from esan.train.runs.records import Record
from esan.train.runs.training_loop import finished_record, run_jobs

#: Seconds that a job waits for another process to release its run directory.
LOCK_SECONDS = 60.0


@dataclass(frozen=True)
class TrainGroup:
    """The task of an executor: train a group of jobs in lock-step; each job writes its own record.

    Args:
        runs: the folder of the runs.
        device: where they train.
        root: the folder of the data, see `esan.data.load`.
        cache: the folder of cached bags.
        dataset: the data of all jobs, instead of what their recipes name.
        bars: whether to show a progress bar per job.
        show_test: whether the bars show the test metric.
    """

    runs: str
    device: str = "cpu"
    root: str | None = None
    cache: str | None = None
    dataset: Dataset | None = None
    bars: bool = False
    show_test: bool = True

    def __call__(self, jobs: Sequence[Job]) -> None:
        with ExitStack() as locks:
            for job in jobs:
                locks.enter_context(_lock(job.folder(self.runs)))
            # Checked again: while this group waited for its turn, another campaign may have run some of it.
            left = [job for job in jobs if finished_record(job, self.runs) is None]
            if left:
                run_jobs(
                    left,
                    self.runs,
                    dataset=self.dataset,
                    root=self.root,
                    cache=self.cache,
                    device=self.device,
                    loggers=[ProgressBars(test=self.show_test)] if self.bars else [],
                )


@dataclass(frozen=True)
class Outcome:
    """The result of a campaign.

    Attributes:
        records: of the finished jobs, in the order of the jobs.
        failures: of the other jobs, by name of the job.
        found: how many records existed before.
    """

    records: tuple[Record, ...]
    failures: dict[str, Failure] = field(default_factory=dict)
    found: int = 0


#: Called after each group with the number of finished jobs and of all jobs.
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
    ended: Callable[[Sequence[Job]], None] | None = None,
) -> Outcome:
    """Run every job that has no record yet. Killed at any moment and called again, it continues with what is missing.

    A job with a record is not run again, and is refused if its data, given or in a file, are not those of the record.
    One that was interrupted continues from its checkpoint. A job that fails does not stop the others. A group that ran
    out of memory while others ran is tried again at the end, alone.

    Args:
        jobs: configurations × folds × seeds, e.g. from `esan.train.protocol`.
        runs: the folder of the runs.
        executor: where they run; None for one group after another in this process.
        together: how many jobs of one recipe train in lock-step as one group; None for all of them on a GPU, where they
            form ensembles, and one elsewhere.
        device: where they train.
        root: the folder of the data.
        cache: the folder of cached bags.
        dataset: the data of all jobs, instead of what their recipes name; it is sent to other processes.
        bars: whether to show a progress bar per job.
        show_test: whether the bars show the test metric.
        progress: called after every group.
        ended: called after every group with its jobs, whether they have a record or failed.
    """
    if _is_here(executor):
        device_here(device)  # one error now instead of one per job; other machines have other devices
    jobs = unique_jobs(jobs)
    before = {job.name: record for job in jobs if (record := finished_record(job, runs)) is not None}
    missing = [job for job in jobs if job.name not in before]
    _check_finished(jobs, before, missing if _is_here(executor) else [], runs, RecipeData(dataset, root, cache))
    if together is None:
        together = len(jobs) if str(device).startswith("cuda") else 1
    groups = job_groups(missing, together) if missing else []
    root, cache = (None if folder is None else str(folder) for folder in (root, cache))
    work = TrainGroup(str(runs), device, root, cache, dataset, bars, show_test)
    if missing:
        Path(runs).mkdir(parents=True, exist_ok=True)  # one error now instead of one per job
    failures: dict[str, Failure] = {}
    done = len(before)
    if progress is not None:
        progress(done, len(jobs))
    crowded = not (executor is None or isinstance(executor, Serial) or getattr(executor, "workers", 0) == 1)
    rounds = [groups]
    while rounds:
        some = rounds.pop(0)
        for result in (executor or Serial()).map(work, some):
            group = some[result.index]
            if result.failure is None:
                done += len(group)
            elif result.failure.out_of_memory and crowded and len(some) > 1:
                rounds.append([group])
            else:
                failures |= {job.name: result.failure for job in group}
            if ended is not None:
                ended(group)
            if progress is not None:
                progress(done, len(jobs))
    after = {job.name: before.get(job.name) or finished_record(job, runs) for job in jobs}
    # Some jobs of a failed group may have finished before the failure.
    failures = {name: failure for name, failure in failures.items() if after[name] is None}
    return Outcome(tuple(record for record in after.values() if record is not None), failures, len(before))


def _is_here(executor: Executor | None) -> bool:
    """Whether jobs run on this machine, with its devices and files."""
    return executor is None or isinstance(executor, Serial | Processes)


def _check_finished(
    jobs: Sequence[Job], finished: Mapping[str, Record], missing: Sequence[Job], runs: str | Path, data: RecipeData
) -> None:
    """ValueError if a finished run was trained on other data than now; here, where each set is read once.

    Args:
        jobs: all of them.
        finished: records by the name of the job.
        missing: jobs whose data this machine reads anyway: what they share with finished ones is compared, too.
        runs: the folder of the runs.
        data: reads the data.
    """
    there = {job.recipe.data for job in jobs if job.name in finished and finished[job.name].data_sha256 is not None}
    for recipe in {job.recipe for job in missing if job.recipe.data in there}:
        with suppress(ValueError, OSError):  # the job that needs it will say so
            data.dataset(recipe)
    for job in jobs:
        if job.name in finished:
            data.check(job, finished[job.name], runs)


def unique_jobs(jobs: Sequence[Job]) -> list[Job]:
    """The jobs without duplicates; ValueError where two different ones would write to the same folder."""
    by_name: dict[str, Job] = {}
    for job in jobs:
        other = by_name.setdefault(job.name, job)
        if other.recipe == job.recipe:
            continue
        raise ValueError(
            f"Expected one recipe of the name {job.recipe.name} (got two that differ: one with "
            f"{differences(job.recipe, other.recipe)}). Give one of them another name."
        )
    return list(by_name.values())


def job_groups(jobs: Sequence[Job], most: int) -> list[tuple[Job, ...]]:
    """Groups of at most `most` jobs of one recipe; recipes in the order of their first job."""
    whole_number("together", most, 1, "Pass e.g. together=10, or leave it out.")
    by_recipe: dict[str, list[Job]] = {}
    for job in jobs:
        by_recipe.setdefault(job.recipe.name, []).append(job)
    return [tuple(some[i : i + most]) for some in by_recipe.values() for i in range(0, len(some), most)]


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Lock a run directory against other processes; the system releases it when this process ends."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        end = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                # A worker that a cluster has given up may still be ending.
                if time.monotonic() > end:
                    raise ValueError(
                        f"Expected a run folder that nobody else writes to (got {folder}, where another process is "
                        "training). Wait for it, or choose another folder for the runs."
                    ) from None
                time.sleep(0.2)
        yield
