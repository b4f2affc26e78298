"""Campaigns: every job once, what is there is left alone, what is missing is run, wherever it runs."""

import fcntl
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from esan.train.campaigns import campaign
from esan.train.campaigns.campaign import TrainGroup, job_groups, run_campaign
from esan.train.campaigns.executors import Processes, TaskResult, run_task
from esan.train.runs.job import Job, protocol
from esan.train.runs.records import Record
from esan.train.runs.training_loop import finished_record, run_jobs
from small_campaign import Deadly, InterruptedTrainingError, Interrupting, fingerprints, recipe, write_set


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_set(tmp_path_factory.mktemp("data"))


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESAN_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def test_a_campaign_runs_configurations_folds_and_seeds_and_then_nothing(place: Path, tmp_path: Path) -> None:
    recipes = [recipe(place), recipe(place, name="small/gin", model="gnn", policy="identity")]
    jobs = [job for one in recipes for job in protocol(one)]
    result: list[tuple[int, int]] = []
    outcome = run_campaign(jobs, tmp_path, progress=lambda done, total: result.append((done, total)))
    assert len(outcome.records) == 2 * 2 * 2
    assert not outcome.failures
    assert [(r.recipe.name, r.fold, r.seed) for r in outcome.records] == [(j.recipe.name, j.fold, j.seed) for j in jobs]
    assert result == [(done, 8) for done in range(9)]
    before = fingerprints(tmp_path)
    again = run_campaign([*jobs, *jobs], tmp_path)
    assert again.records == outcome.records
    assert again.found == 8
    assert fingerprints(tmp_path) == before


def test_a_campaign_goes_on_with_what_is_missing(place: Path, tmp_path: Path) -> None:
    """A job is killed after some epochs, another never started; records of all are those of an undisturbed campaign."""
    jobs = protocol(recipe(place))
    whole = run_campaign(jobs, tmp_path / "whole", together=4)
    run_campaign(jobs[:2], tmp_path / "broken")
    with pytest.raises(InterruptedTrainingError):
        run_jobs([jobs[2]], tmp_path / "broken", every=0, loggers=[Interrupting(after=2)])
    assert (jobs[2].folder(tmp_path / "broken") / "checkpoint.pt").exists()
    before = fingerprints(tmp_path / "broken")
    outcome = run_campaign(jobs, tmp_path / "broken", together=4)
    assert outcome.found == 2
    assert outcome.records == whole.records
    after = fingerprints(tmp_path / "broken")
    assert len(after) == 4
    assert before.items() <= after.items()


class DyingOnce(Processes):
    """Processes of which one is killed when it has ended its first job and not the second of its group."""

    def __init__(self, mark: Path) -> None:
        super().__init__(workers=1)
        self.mark = mark

    def map(self, work: Callable[[Any], object], items: Sequence[Any]) -> Iterator[TaskResult]:
        assert isinstance(work, TrainGroup)
        return super().map(Deadly(work, str(self.mark)), items)


@pytest.mark.exhaustive
def test_processes_give_the_records_of_one_process_though_one_is_killed(place: Path, tmp_path: Path) -> None:
    jobs = protocol(recipe(place))
    here = run_campaign(jobs, tmp_path / "here")
    there = run_campaign(jobs, tmp_path / "there", DyingOnce(tmp_path / "died"), together=2)
    assert (tmp_path / "died").exists()
    assert not there.failures
    assert there.records == here.records
    assert len(fingerprints(tmp_path / "there")) == 4


def test_a_job_that_fails_is_reported_and_the_others_run(place: Path, tmp_path: Path) -> None:
    wrong = recipe(place.parent / "nowhere", name="small/nowhere", seeds=1)
    outcome = run_campaign([*protocol(wrong), *protocol(recipe(place, seeds=1))], tmp_path)
    assert sorted(outcome.failures) == ["small/nowhere/0-0", "small/nowhere/1-0"]
    assert "nowhere" in outcome.failures["small/nowhere/0-0"].reason
    assert len(outcome.records) == 2


class Crowded:
    """An executor of several workers, for which the memory of a device is too small for all groups at once."""

    def __init__(self, workers: int, always: str = "") -> None:
        self.workers, self.always = workers, always
        self.rounds: list[list[str]] = []

    def map(self, work: Callable[[Any], object], items: Sequence[Any]) -> Iterator[TaskResult]:
        self.rounds.append([jobs[0].name for jobs in items])
        for index, jobs in enumerate(items):
            full = (index < 2 and len(items) > 1) or (self.always and self.always in jobs[0].name)

            def fill(_: Any) -> None:
                raise torch.OutOfMemoryError("CUDA out of memory.")

            yield TaskResult(index, run_task(fill if full else work, jobs))


def test_groups_that_found_no_memory_beside_others_are_tried_alone(place: Path, tmp_path: Path) -> None:
    jobs = protocol(recipe(place))
    names = [job.name for job in jobs]
    executor, counts = Crowded(workers=2), []
    outcome = run_campaign(jobs, tmp_path / "a", executor, progress=lambda done, total: counts.append(done))
    assert not outcome.failures
    assert [record.seed for record in outcome.records] == [job.seed for job in jobs]
    assert executor.rounds == [names, [names[0]], [names[1]]]
    assert counts == [0, 0, 0, 1, 2, 3, 4]
    executor = Crowded(workers=2, always=names[0])
    assert set(run_campaign(jobs, tmp_path / "b", executor).failures) == {names[0]}, "once more, not for ever"
    executor = Crowded(workers=1)
    assert set(run_campaign(jobs, tmp_path / "c", executor).failures) == set(names[:2]), "it was alone"


def test_a_damaged_record_is_put_aside_and_the_job_ends_again(place: Path, tmp_path: Path) -> None:
    (job, *_) = protocol(recipe(place))
    (record,) = run_campaign([job], tmp_path).records
    path = job.folder(tmp_path) / "record.json"
    path.write_text(path.read_text()[:200])
    (again,) = run_campaign([job], tmp_path).records
    assert again == record
    assert path.with_name("record.damaged.json").exists()
    assert Record.load(path) == record


def test_two_recipes_of_one_name_are_refused(place: Path, tmp_path: Path) -> None:
    first, second = recipe(place), recipe(place, lr=0.1)
    with pytest.raises(
        ValueError, match=r"Expected one recipe of the name small/ds \(got two that differ: one with lr 0.01, not 0.1\)"
    ):
        run_campaign([Job(first), Job(second)], tmp_path)
    run_campaign([Job(first)], tmp_path)
    with pytest.raises(
        ValueError, match=r"Expected the record of this recipe at .*record\.json \(got one with lr 0.01, not 0.1\)"
    ):
        run_campaign([Job(second)], tmp_path)
    # A longer protocol, or a grid, does not make another training of it.
    assert finished_record(Job(replace(first, seeds=10, grid=({"lr": (0.1, 0.01)},))), tmp_path) is not None


def test_a_run_folder_has_one_writer(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "LOCK_SECONDS", 0.1)
    job = Job(recipe(place))
    job.folder(tmp_path).mkdir(parents=True)
    with (job.folder(tmp_path) / ".lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match="another process is training"):
            TrainGroup(str(tmp_path))([job])
    TrainGroup(str(tmp_path))([job])
    assert finished_record(job, tmp_path) is not None


def test_jobs_of_one_recipe_are_grouped(place: Path) -> None:
    one, other = recipe(place, seeds=3), recipe(place, name="small/other", seeds=1)
    mixed = [job for pair in zip(protocol(one)[:2], protocol(other), strict=True) for job in pair] + [
        *protocol(one)[2:]
    ]
    sizes = [[job.recipe.name for job in group] for group in job_groups(mixed, 4)]
    assert sizes == [["small/ds"] * 4, ["small/ds"] * 2, ["small/other"] * 2]
    with pytest.raises(ValueError, match="together of at least 1"):
        job_groups(mixed, 0)
