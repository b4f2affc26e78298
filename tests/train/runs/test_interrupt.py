"""An interrupt (SIGINT) during training: checkpoints first, then one line that says how to continue."""

import os
import signal
import time
from pathlib import Path

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

from esan.cli.main import app
from esan.train import EagerEngine, Epoch, Job, Processes, Record, run_jobs
from esan.train.campaigns.executors import _Worker
from esan.train.runs.checkpoints import load_checkpoint
from esan.train.runs.run import Run
from small_campaign import recipe, write_set
from small_sets import quick, small

#: Seconds between two checkpoints; none is written by time.
NEVER = 1e6


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESAN_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


class SendsSignal:
    """A logger that interrupts its own process after some epochs, as Ctrl-C would."""

    def __init__(self, after: int, times: int = 1) -> None:
        self.after, self.times = after, times

    def on_start(self, runs: list[Run]) -> None:
        pass

    def on_epoch(self, run: Run, epoch: Epoch) -> None:
        for _ in range(self.times if epoch.epoch == self.after and run.job.seed == 0 else 0):
            os.kill(os.getpid(), signal.SIGINT)

    def on_finish(self, run: Run, record: Record) -> None:
        pass

    def close(self) -> None:
        pass


class InterruptedEngine(EagerEngine):
    """An engine that is interrupted in the middle of the second epoch."""

    epochs = 0

    def train_epoch(self, ids: Tensor, recalibration_batch_size: int = 0) -> Tensor:
        self.epochs += 1
        if self.epochs == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return super().train_epoch(ids, recalibration_batch_size)


def checkpoint_epochs(folder: Path) -> int:
    return len(load_checkpoint(folder / "checkpoint.pt")[1]["curve"])


def test_checkpoints_of_all_jobs_are_written_first(tmp_path: Path) -> None:
    jobs, dataset = [Job(quick(policy="ND@0.5", dropout=0.2), seed=seed) for seed in (0, 1)], small()
    undisturbed = run_jobs(jobs, None, dataset=dataset)
    words = r"Interrupted\. Run the same command again .*: small/quick/0-0 at epoch 3, small/quick/0-1 at epoch 3\."
    with pytest.raises(KeyboardInterrupt, match=words):
        run_jobs(jobs, tmp_path, dataset=dataset, every=NEVER, loggers=[SendsSignal(after=2)])
    assert [checkpoint_epochs(job.folder(tmp_path)) for job in jobs] == [2, 2]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert run_jobs(jobs, tmp_path, dataset=dataset) == undisturbed


def test_the_second_interrupt_stops_at_once(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt, match="at epoch 1"):
        run_jobs([Job(quick())], tmp_path, dataset=small(), every=NEVER, loggers=[SendsSignal(after=2, times=2)])
    assert not list(tmp_path.rglob("checkpoint.pt"))


@pytest.mark.parametrize(("every", "finished"), [(0.0, 1), (NEVER, 2)])
def test_an_epoch_is_only_finished_where_something_would_be_lost(every: float, finished: int, tmp_path: Path) -> None:
    """In the second epoch: with a checkpoint of the first one it ends at once, without one it is finished first."""
    job = Job(quick())
    with pytest.raises(KeyboardInterrupt, match=f"at epoch {finished + 1}"):
        run_jobs([job], tmp_path, dataset=small(), every=every, make_engine=InterruptedEngine)
    assert checkpoint_epochs(job.folder(tmp_path)) == finished


def test_the_command_ends_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe(write_set(tmp_path), epochs=4).save(tmp_path / "small.toml")
    monkeypatch.setattr("esan.cli.commands.train.ProgressBars", lambda: SendsSignal(after=2))
    command = [
        "train",
        str(tmp_path / "small.toml"),
        "--fold",
        "0",
        "--runs",
        str(tmp_path / "runs"),
        "--every",
        "900",
    ]
    ended = CliRunner().invoke(app, command)
    assert ended.exit_code == 130
    assert ended.output.splitlines() == [
        "Interrupted. Run the same command again to continue from the checkpoints: small/ds/0-0 at epoch 3."
    ]
    monkeypatch.undo()
    assert CliRunner().invoke(app, [*command, "--quiet"]).exit_code == 0
    assert Record.load(tmp_path / "runs/small/ds/0-0/record.json").epochs == 4


class Train:
    """A task that trains a job without checkpoints by time, and leaves a file after the second epoch."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs

    def __call__(self, job: Job) -> None:
        run_jobs([job], self.runs, every=NEVER, loggers=[Mark(self.runs / "second")])


class Mark(SendsSignal):
    def __init__(self, file: Path) -> None:
        super().__init__(after=2)
        self.file = file

    def on_epoch(self, run: Run, epoch: Epoch) -> None:
        if epoch.epoch == self.after:
            self.file.touch()


@pytest.mark.exhaustive
def test_a_worker_that_is_stopped_writes_a_checkpoint(tmp_path: Path) -> None:
    """As a campaign stops its workers when it is interrupted."""
    job = Job(recipe(write_set(tmp_path), epochs=100_000))
    runs = tmp_path / "runs"
    runs.mkdir()
    worker = _Worker(Processes(workers=1, threads=torch.get_num_threads()), 0)
    worker.submit(Train(runs), job)
    end = time.monotonic() + 120
    while not (runs / "second").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    worker.stop()
    assert checkpoint_epochs(job.folder(runs)) >= 2
