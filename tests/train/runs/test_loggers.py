"""Loggers: bars with loss, metric and time left; TensorBoard; Weights & Biases."""

import io
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

from esan.train import Epoch, Job, run_jobs
from esan.train.runs.loggers import ProgressBars, TensorBoard, WandB, in_words
from small_campaign import InterruptedTrainingError, Interrupting
from small_sets import quick, small


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESAN_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def test_numbers_in_a_few_words() -> None:
    assert in_words(Epoch(1, 0.1, 0.5, 0.25, None), "mae") == "loss 0.5000 valid 0.2500"
    assert in_words(Epoch(1, 0.1, 0.5, 0.25, 1.0), "accuracy") == "loss 0.5000 valid 25.00 test 100.00"


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).replace("\r", "\n")


@pytest.mark.parametrize("most", [12, 1])
def test_bars(most: int) -> None:
    text = io.StringIO()
    bars = ProgressBars(Console(file=text, force_terminal=True, width=80), most)
    jobs = [Job(quick(stop_after=1, lr=1e-9, schedule="constant"), seed=0), Job(quick(), seed=1)]
    run_jobs(jobs, None, dataset=small(), loggers=[bars])
    shown = text.getvalue()
    assert ("2 runs" in shown) if most == 1 else re.search(r"^0-1 .* 4/4 ", _plain(shown), re.MULTILINE)
    assert "small/quick, accuracy, per cent" in shown
    assert re.search(r" loss \d\.\d{4} valid \d+\.\d\d test \d+\.\d\d ", _plain(shown))
    assert "…" not in shown, "nothing is cut at 80 columns"
    assert all(task.finished for task in bars.progress.tasks), "what an early stop saves does not count as left"


def test_runs_that_continue_are_named(tmp_path: Path) -> None:
    jobs = [Job(quick(epochs=2), seed=seed) for seed in range(5)]
    with pytest.raises(InterruptedTrainingError):
        run_jobs(jobs[:4], tmp_path, dataset=small(), every=0, loggers=[Interrupting(2)])
    text = io.StringIO()
    run_jobs(jobs, tmp_path, dataset=small(), loggers=[ProgressBars(Console(file=text, width=40))])
    named = ", ".join(f"small/quick/0-{seed} at epoch 2" for seed in range(3))
    assert text.getvalue().startswith(f"Continued from the last checkpoint: {named} and 1 more.\n")
    assert text.getvalue().count("Continued") == 1


def test_nothing_is_said_where_nothing_continues(tmp_path: Path) -> None:
    text, job = io.StringIO(), Job(quick())
    for _ in range(2):  # running, and finished
        run_jobs([job], tmp_path, dataset=small(), loggers=[ProgressBars(Console(file=text))])
    # As if killed after the last epoch, before the record was written.
    (job.folder(tmp_path) / "record.json").unlink()
    run_jobs([job], tmp_path, dataset=small(), loggers=[ProgressBars(Console(file=text))])
    assert "Continued" not in text.getvalue()


def test_tensorboard(tmp_path: Path) -> None:
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    job = Job(quick())
    (record,) = run_jobs([job], tmp_path, dataset=small(), loggers=[TensorBoard()])
    events = accumulators.EventAccumulator(str(job.folder(tmp_path) / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("valid")] == [1, 2, 3, 4]
    assert [event.value for event in events.Scalars("valid")] == pytest.approx([line.valid for line in record.curve])


class FakeRun:
    def __init__(self, given: dict[str, Any]) -> None:
        self.given, self.lines, self.summary, self.over = given, list[tuple[int, dict[str, Any]]](), dict[str, Any](), 0

    def log(self, values: dict[str, Any], step: int) -> None:
        self.lines.append((step, values))

    def finish(self) -> None:
        self.over += 1


def test_weights_and_biases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a stand-in: the real one wants an account."""
    made: list[FakeRun] = []

    def init(**given: Any) -> FakeRun:
        made.append(FakeRun(given))
        return made[-1]

    fake = ModuleType("wandb")
    monkeypatch.setattr(fake, "init", init, raising=False)
    monkeypatch.setitem(sys.modules, "wandb", fake)
    (record,) = run_jobs([Job(quick())], None, dataset=small(), loggers=[WandB("mine")])
    (run,) = made
    assert (run.given["project"], run.given["name"]) == ("mine", "small/quick/0-0")
    assert run.given["config"]["lr"] == 0.01
    assert [step for step, _ in run.lines] == [1, 2, 3, 4]
    assert run.summary["best valid"] == record.best.valid
    assert run.over == 1


@pytest.mark.parametrize(("name", "logger", "extra"), [("wandb", WandB, "wandb"), ("tensorboard", TensorBoard, "log")])
def test_extras_that_are_not_there(name: str, logger: type[Any], extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [key for key in sys.modules if key.split(".")[0] == name or key == "torch.utils.tensorboard"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ValueError, match=rf"pip install 'esan\[{extra}\]'"):
        logger()
