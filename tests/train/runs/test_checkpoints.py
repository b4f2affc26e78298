"""Checkpoints: those of another model, policy or dataset are refused, and so is what is no checkpoint."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from esan.graphs import ATOMS, Categories, OneHot
from esan.train import Job, Predictor, Recipe, run_jobs
from esan.train.model_spec import ModelSpec
from esan.train.runs.checkpoints import CheckpointHeader, load_checkpoint, save_checkpoint
from small_campaign import InterruptedTrainingError, Interrupting
from small_sets import quick, small


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESAN_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """The folder of runs with a training that was interrupted."""
    with pytest.raises(InterruptedTrainingError):
        run_jobs([Job(quick())], tmp_path, dataset=small(), every=0, loggers=[Interrupting(2)])
    return tmp_path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"policy": "ED"}, "policy 'ND', not 'ED'"),
        ({"hidden_channels": 4}, "hidden_channels 8, not 4"),
        ({"model": "ds"}, "model 'dss', not 'ds'"),
        ({"lr": 0.1}, "lr 0.01, not 0.1"),
    ],
)
def test_one_of_another_training_is_refused(change: dict[str, Any], words: str, half: Path) -> None:
    file = Job(quick()).folder(half) / "checkpoint.pt"
    before = file.read_bytes()
    with pytest.raises(ValueError, match=f"Expected a checkpoint of the same training.*{words}"):
        run_jobs([Job(quick(**change))], half, dataset=small())
    assert file.read_bytes() == before


def test_one_of_other_data_is_refused(half: Path) -> None:
    with pytest.raises(ValueError, match="fingerprint of the data"):
        run_jobs([Job(quick())], half, dataset=small(count=28))
    with pytest.raises(ValueError, match="task "):
        run_jobs([Job(quick())], half, dataset=small("regression"))


def test_one_of_another_seed_is_refused(half: Path) -> None:
    one, other = Job(quick()).folder(half), Job(quick(), seed=1).folder(half)
    other.mkdir()
    (other / "checkpoint.pt").write_bytes((one / "checkpoint.pt").read_bytes())
    with pytest.raises(ValueError, match="seed 0, not 1"):
        run_jobs([Job(quick(), seed=1)], half, dataset=small())


def test_what_is_no_checkpoint(half: Path) -> None:
    file = Job(quick()).folder(half) / "checkpoint.pt"
    whole = file.read_bytes()
    with pytest.raises(FileNotFoundError, match="Expected a checkpoint at"):
        load_checkpoint(half / "nothing.pt")
    for damaged in (whole[: len(whole) // 2], b"", b"text", whole[:100] + b"x" + whole[101:-3000]):
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match="Expected a whole checkpoint of esan at"):
            load_checkpoint(file)
        with pytest.raises(ValueError, match="Remove it to train from the start"):
            run_jobs([Job(quick())], half, dataset=small())
    torch.save({"weights": torch.zeros(1)}, file)
    with pytest.raises(ValueError, match="Expected a whole checkpoint of esan at"):
        Predictor.load(file)


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("touched"),))


def test_code_in_a_file_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"header": Evil()}, tmp_path / "evil.pt")
    with pytest.raises(ValueError, match="Expected a whole checkpoint of esan at"):
        load_checkpoint(tmp_path / "evil.pt")
    assert not (tmp_path / "touched").exists()


@pytest.mark.parametrize("channels", [None, 7, Categories(28), OneHot(5), ATOMS])
def test_a_model_spec_is_stored_whole(channels: Any, tmp_path: Path) -> None:
    model_spec = ModelSpec(Recipe("zinc"), small().task, channels, None, classes=(-1, 1))
    header = CheckpointHeader(model_spec, 1, 2, "abc")
    save_checkpoint(tmp_path / "a.pt", header, {"x": torch.ones(2)})
    found, state = load_checkpoint(tmp_path / "a.pt", header)
    assert found.model_spec.to_dict() == model_spec.to_dict()
    assert repr(found.model_spec.in_channels) == repr(channels)
    assert state["x"].tolist() == [1, 1]
    assert header.differences(replace(header, fold=0)) == ["fold 0, not 1"]
