"""The loop: the same bits for the same seed, jobs that do not disturb each other, and continuing where one stopped."""

import csv
import errno
import os
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from esan.data import Split
from esan.train import Job, Record, run_jobs
from esan.train.runs.run import Run
from small_campaign import InterruptedTrainingError, Interrupting
from small_sets import quick, small

RANDOM = {"policy": "ND@0.5", "dropout": 0.3, "votes": 2}


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESAN_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.mark.parametrize("kind", ["classification", "regression", "labels"])
def test_a_record_tells_what_happened(kind: str, tmp_path: Path) -> None:
    job = Job(quick(), seed=3)
    (record,) = run_jobs([job], tmp_path, dataset=small(kind))
    metric = {"classification": "accuracy", "regression": "mae", "labels": "rocauc"}[kind]
    assert (record.task, record.metric, record.seed, record.epochs) == (kind, metric, 3, 4)
    assert [line.epoch for line in record.curve] == [1, 2, 3, 4]
    assert record.final.train is not None
    assert record.final.test == record.curve[-1].test
    assert record.curve[record.best.epoch - 1].valid == record.best.valid
    values = [line.valid for line in record.curve if line.valid is not None]
    assert record.best.valid == (max(values) if record.higher_is_better else min(values))
    assert record.spread is None
    folder = job.folder(tmp_path)
    files = {"recipe.toml", "record.json", "curve.csv", "checkpoint.pt", "best.pt", "predictions.csv"}
    assert {path.name for path in folder.iterdir()} == files
    assert Record.load(folder / "record.json") == record
    assert len((folder / "curve.csv").read_text().splitlines()) == 1 + 4
    assert record.seconds > 0
    assert record.peak_bytes > 0
    assert record.versions["torch"] == torch.__version__


@pytest.mark.parametrize("kind", ["classification", "regression", "labels"])
def test_predictions_of_the_best_epoch_are_saved_with_their_targets(kind: str, tmp_path: Path) -> None:
    job, dataset = Job(quick(), seed=3), small(kind)
    (record,) = run_jobs([job], tmp_path, dataset=dataset)
    with (job.folder(tmp_path) / "predictions.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    split = dataset.given
    assert split is not None
    for part, wanted in (("valid", record.best.valid), ("test", record.best.test)):
        mine = [row for row in rows if row["part"] == part]
        assert [int(row["graph"]) for row in mine] == getattr(split, part).tolist()
        if kind == "classification":
            assert sum(row["target"] == row["prediction"] for row in mine) / len(mine) == wanted
            assert float(mine[0]["p(0)"]) + float(mine[0]["p(1)"]) == pytest.approx(1)
        elif kind == "regression":
            targets = [name for name in rows[0] if name.startswith("target")]
            pairs = [(row[name], row[name.replace("target", "prediction")]) for row in mine for name in targets]
            errors = [abs(float(t) - float(p)) for t, p in pairs if t != "nan"]
            assert sum(errors) / len(errors) == pytest.approx(wanted, rel=1e-5)
        else:
            assert all(0 <= float(row[name]) <= 1 for row in mine for name in row if name.startswith("prediction"))


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({}, marks=pytest.mark.exhaustive),
        RANDOM,
        {"model": "gnn", "policy": "identity", "random_features": 0.5},
    ],
)
def test_a_seed_decides_every_bit(more: dict[str, Any]) -> None:
    recipe, dataset = quick(**more), small()
    runs = [run_jobs([Job(recipe, seed=seed)], None, dataset=dataset)[0] for seed in (0, 0, 1)]
    assert runs[0] == runs[1]
    assert runs[0].curve != runs[2].curve


def test_the_state_of_torch_is_left_alone() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    run_jobs([Job(quick(**RANDOM))], None, dataset=small())
    assert torch.equal(torch.get_rng_state(), before)


def test_jobs_side_by_side_are_what_they_are_alone() -> None:
    dataset = small()
    recipe = quick(split="folds", folds=2, select="mean-valid", epochs=2, **RANDOM)
    shorter = recipe.variant(epochs=1)
    jobs = [Job(recipe, 0, 0), Job(shorter, 1, 0), Job(recipe, 1, 7)]
    together = run_jobs(jobs, None, dataset=dataset)
    assert together == [run_jobs([job], None, dataset=dataset)[0] for job in jobs]
    assert [record.epochs for record in together] == [2, 1, 2]
    assert together[0].final.test is None


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({}, marks=pytest.mark.exhaustive),
        RANDOM,
        pytest.param(
            {"schedule": "plateau", "patience": 0, "factor": 0.1, "min_lr": 1e-4}, marks=pytest.mark.exhaustive
        ),
    ],
)
def test_an_interrupted_run_ends_as_if_it_had_not_been(more: dict[str, Any], tmp_path: Path) -> None:
    job, dataset = Job(quick(**more)), small()
    (whole,) = run_jobs([job], None, dataset=dataset)
    for after in (1, 4):
        runs = tmp_path / str(after)
        if whole.epochs >= after:
            with pytest.raises(InterruptedTrainingError):
                run_jobs([job], runs, dataset=dataset, every=0, loggers=[Interrupting(after)])
            assert not (job.folder(runs) / "record.json").exists()
        assert run_jobs([job], runs, dataset=dataset) == [whole], f"after epoch {after}"


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    job, dataset = Job(quick()), small()
    run_jobs([job], tmp_path, dataset=dataset)
    file = job.folder(tmp_path) / "record.json"
    before = file.stat().st_mtime_ns
    run_jobs([job, Job(quick(), seed=1)], tmp_path, dataset=dataset)
    assert file.stat().st_mtime_ns == before
    assert (Job(quick(), seed=1).folder(tmp_path) / "record.json").exists()


def test_another_recipe_of_the_same_name_is_refused(tmp_path: Path) -> None:
    run_jobs([Job(quick())], tmp_path, dataset=small())
    with pytest.raises(ValueError, match=r"Expected the record of this recipe at .*lr 0.01, not 0.5"):
        run_jobs([Job(quick(lr=0.5))], tmp_path, dataset=small())


@pytest.mark.parametrize("more", [{}, pytest.param({"policy": "ND@0.5", "votes": 2}, marks=pytest.mark.exhaustive)])
def test_a_full_disk_costs_nothing_but_time(
    more: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, dataset = Job(quick(**more)), small()
    (whole,) = run_jobs([job], None, dataset=dataset)
    with pytest.raises(InterruptedTrainingError):
        run_jobs([job], tmp_path, dataset=dataset, every=0, loggers=[Interrupting(2)])
    folder = job.folder(tmp_path)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        with pytest.raises(OSError, match=r"Expected to write .* \(got: No space left on device\).*unchanged"):
            run_jobs([job], tmp_path, dataset=dataset, every=0)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert run_jobs([job], tmp_path, dataset=dataset) == [whole]
    run_jobs([job], tmp_path / "at once", dataset=dataset)
    told = [(job.folder(runs) / "predictions.csv").read_text() for runs in (tmp_path, tmp_path / "at once")]
    assert told[0] == told[1], "the best epoch may lie before the interruption"


def test_no_progress_for_too_long_is_the_end() -> None:
    (record,) = run_jobs([Job(quick(epochs=50, stop_after=2, schedule="constant", lr=1e-9))], None, dataset=small())
    assert record.epochs < 50
    assert record.epochs == record.best.epoch + 2


def test_a_learning_rate_too_small_is_the_end() -> None:
    recipe = quick(epochs=50, schedule="plateau", patience=0, lr=1e-3, factor=0.01, min_lr=1e-4)
    (record,) = run_jobs([Job(recipe)], None, dataset=small())
    assert record.epochs < 50
    assert all(line.lr == 1e-3 for line in record.curve)


def test_sampled_bags_vote_and_tell_their_spread() -> None:
    (record,) = run_jobs([Job(quick(policy="ND@0.3", votes=3))], None, dataset=small("regression"))
    assert record.spread is not None
    assert record.spread > 0


def test_splits_that_cannot_be() -> None:
    dataset, ids = small(), torch.arange(24)
    for split, words in (
        (Split(ids[ids % 4 < 2], ids[ids % 4 >= 2]), "Expected every class among the training graphs"),
        (Split(ids, ids[:0]), "Expected graphs for validation"),
    ):
        object.__setattr__(dataset, "given", split)
        with pytest.raises(ValueError, match=words):
            run_jobs([Job(quick())], None, dataset=dataset)
    labels = small("labels")
    known = (labels.y == 1).all(1).nonzero()[:, 0]
    object.__setattr__(labels, "given", Split(ids[~torch.isin(ids, known)], known))
    with pytest.raises(ValueError, match="Expected a label with both answers among the validation graphs"):
        run_jobs([Job(quick())], None, dataset=labels)
    object.__setattr__(labels, "given", None)
    with pytest.raises(ValueError, match="Expected a dataset that comes with a split"):
        run_jobs([Job(quick(split="given"))], None, dataset=labels)


def test_checkpoints_that_take_long_are_seldom_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock on which an epoch takes a second, or a minute, and writing takes half of that."""
    clock, unit, written = [0.0], [1.0], []
    train = Run.train

    def timed_train(run: Run) -> None:
        clock[0] += unit[0]
        train(run)

    def timed_save(run: Run) -> None:
        clock[0] += unit[0] / 2
        written.append(run.epoch)

    tiny = {"model": "gnn", "policy": "identity", "num_layers": 1}
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(Run, "train", timed_train)
    monkeypatch.setattr(Run, "save", timed_save)
    run_jobs([Job(quick(epochs=30, **tiny))], None, dataset=small("regression", 6), every=5)
    # After 5 seconds, then after forty times what that took, and when the training is over.
    assert written == [5, 25, 30]
    written.clear()
    unit[0] = 60.0
    run_jobs([Job(quick(epochs=30, **tiny))], None, dataset=small("regression", 6), every=300)
    # Ten minutes apart at most.
    assert written == [5, 15, 25, 30]
    written.clear()
    run_jobs([Job(quick(epochs=3, **tiny))], None, dataset=small("regression", 6), every=0)
    assert written == [1, 2, 3, 3]
