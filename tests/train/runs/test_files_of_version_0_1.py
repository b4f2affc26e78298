"""Files that version 0.1 wrote: its records, weights and checkpoints are read, and its trainings continue."""

import shutil
from pathlib import Path

import pytest
import torch

from esan.train import Job, Predictor, Recipe, Record, run_jobs
from esan.train.runs.checkpoints import load_checkpoint
from small_sets import small

STORED = Path(__file__).parent / "stored_0_1"
RUN = Path("stored") / "0-0"


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESAN_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def test_a_record() -> None:
    record = Record.load(STORED / "done" / RUN / "record.json")
    assert (record.epochs, record.best.epoch, record.metric, record.versions["esan"]) == (3, 3, "accuracy", "0.1.0")
    assert record.recipe == Recipe.load(STORED / "done" / RUN / "recipe.toml")


def test_weights_predict_what_they_predicted() -> None:
    predictor = Predictor.load(STORED / "done" / RUN)
    expected = torch.tensor([[0.4800547, 0.5199453], [0.4836787, 0.5163213], [0.4814071, 0.5185929]])
    probability = predictor.predict(small()).probability
    assert probability is not None
    torch.testing.assert_close(probability[:3], expected, atol=1e-5, rtol=0)


def test_a_training_continues_from_its_checkpoint(tmp_path: Path) -> None:
    shutil.copytree(STORED / "half", tmp_path / "runs")
    header, state = load_checkpoint(tmp_path / "runs" / RUN / "checkpoint.pt")
    assert len(state["curve"]) == 1
    (record,) = run_jobs([Job(header.model_spec.recipe)], tmp_path / "runs", dataset=small())
    before = Record.load(STORED / "done" / RUN / "record.json")
    assert record.epochs == before.epochs
    # On other processors, the last digits differ.
    for mine, its in zip(record.curve, before.curve, strict=True):
        assert mine.loss == pytest.approx(its.loss, abs=1e-4)
