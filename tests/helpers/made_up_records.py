"""Records that nobody trained, for tests of what is made of records."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from esan.train.campaigns.campaign import TrainGroup
from esan.train.campaigns.executors import Failure, TaskResult
from esan.train.recipes.catalogue import named
from esan.train.recipes.recipe import Recipe
from esan.train.runs.job import Job
from esan.train.runs.records import Epoch, Point, Record

VERSIONS = {"esan": "0.1.0", "torch": "2.6.0"}


def record(recipe: Recipe | str, value: float, fold: int = 0, seed: int = 0, epochs: int = 6) -> Record:
    """A run that comes to `value` at its last epoch but one, and ends a little worse."""
    recipe = named(recipe) if isinstance(recipe, str) else replace(recipe, grid=())
    metric = "mae" if recipe.data == "zinc" else "rocauc" if recipe.split != "folds" else "accuracy"
    sign = 1.0 if metric == "mae" else -1.0
    off = [0.5 / epoch for epoch in range(1, epochs - 1)] + [0.0, 0.01]
    values = [round(value * (1 + sign * away), 9) for away in off]
    tested = recipe.split != "folds"
    curve = tuple(Epoch(i + 1, 0.01, 1.0 / (i + 1), v, v if tested else None) for i, v in enumerate(values))
    best, last = curve[-2], curve[-1]
    return Record(
        recipe=replace(recipe, grid=()),
        fold=fold,
        seed=seed,
        task="regression" if metric == "mae" else "classification",
        metric=metric,
        epochs=epochs,
        best=Point(best.epoch, None, best.valid, best.test),
        final=Point(last.epoch, 0.9, last.valid, last.test),
        curve=curve,
        parameters=12_345,
        versions=VERSIONS,
        hardware="a machine",
        seconds=90.0,
        peak_bytes=2**30,
        started="2026-01-01T00:00:00+00:00",
        finished="2026-01-01T00:01:30+00:00",
    )


def save(records: Sequence[Record], runs: Path) -> None:
    for one in records:
        one.save(Job(one.recipe, one.fold, one.seed).folder(runs) / "record.json")


class Pretend:
    """An executor that trains nothing: it writes a made-up record for each job, and can be told to fail or to stop."""

    def __init__(self, value: float = 0.1, bad: str = "", stop_after: int | None = None) -> None:
        self.value, self.bad, self.stop_after = value, bad, stop_after
        self.ran: list[str] = []

    def make(self, job: Job) -> float:
        """What a job comes to."""
        return self.value + 0.001 * job.seed

    def map(self, work: Callable[[Any], object], items: Sequence[Any]) -> Iterator[TaskResult]:
        assert isinstance(work, TrainGroup)
        for index, jobs in enumerate(items):
            if self.stop_after is not None and len(self.ran) >= self.stop_after:
                raise KeyboardInterrupt
            if self.bad and any(self.bad in job.name for job in jobs):
                yield TaskResult(index, Failure("Expected good luck (got bad)."))
                continue
            for job in jobs:
                self.ran.append(job.name)
                made = record(job.recipe, self.make(job), job.fold, job.seed)
                made.save(job.folder(work.runs) / "record.json")
            yield TaskResult(index)
