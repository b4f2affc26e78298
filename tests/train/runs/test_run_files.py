"""The folder of a run: weights of another run, of none, of one that is not over; files for whom the umask allows."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from esan.train import Job, Predictor, Record, run_jobs
from esan.train.runs.run_files import write_text
from small_campaign import InterruptedTrainingError, Interrupting
from small_sets import quick, small


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESAN_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def trained(runs: Path, fold: int = 0, seed: int = 0, **changes: Any) -> Path:
    job = Job(quick(epochs=1, **changes), fold, seed)
    run_jobs([job], runs, dataset=small())
    return job.folder(runs)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The folder of a run with these changes, trained once: no test may write there."""
    known: dict[str, Path] = {}

    def found(**changes: Any) -> Path:
        name = str(changes)
        if name not in known:
            known[name] = trained(tmp_path_factory.mktemp("runs"), **changes)
        return known[name]

    return found


@pytest.mark.each_value
@pytest.mark.parametrize("weights", ["best", "last"])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"policy": "ED"}, "policy 'ED', not 'ND'"),
        ({"model": "ds"}, "model 'ds', not 'dss'"),
        ({"hidden_channels": 4}, "hidden_channels 4, not 8"),
        ({"seed": 1}, "seed 1, not 0"),
        ({"fold": 1}, "fold 1, not 0"),
    ],
)
@pytest.mark.parametrize("left", ["all", "recipe.toml", "record.json", "nothing"])
def test_weights_of_another_run_are_refused(
    change: dict[str, Any], words: str, weights: str, left: str, runs: Callable[..., Path], tmp_path: Path
) -> None:
    folds: dict[str, Any] = {"split": "folds", "folds": 2}
    known, other = runs(**folds), runs(**folds | change)
    # Its name tells fold and seed.
    mine = shutil.copytree(known, tmp_path / known.name)
    assert Predictor.load(mine, weights).header.seed == 0
    file = {"best": "best.pt", "last": "checkpoint.pt"}[weights]
    shutil.copy(other / file, mine / file)
    for name in ("recipe.toml", "record.json"):
        if left not in ("all", name):
            (mine / name).unlink()
    if left == "nothing" and not {"seed", "fold"} & set(change):
        assert Predictor.load(mine, weights), "nothing tells of another run"
        return
    with pytest.raises(ValueError, match=f"Expected the weights of this very run in .*{file}.*{words}"):
        Predictor.load(mine, weights)


def test_a_run_that_is_not_over_has_last_weights_only(tmp_path: Path) -> None:
    with pytest.raises(InterruptedTrainingError):
        run_jobs([Job(quick())], tmp_path, dataset=small(), every=0, loggers=[Interrupting(2)])
    with pytest.raises(FileNotFoundError, match=r"Expected best.pt .*its training is not over.*--weights last"):
        Predictor.load(tmp_path)
    assert len(Predictor.load(tmp_path, "last").predict(small())) == 24


def test_a_file_that_is_no_network_is_reported_in_plain_words(tmp_path: Path) -> None:
    whole = (trained(tmp_path) / "best.pt").read_bytes()
    file = tmp_path / "net.pt"
    torch.save({"weights": torch.zeros(1)}, tmp_path / "foreign.pt")
    foreign = (tmp_path / "foreign.pt").read_bytes()
    for contents, words in (
        (whole[: len(whole) // 2], "one that is damaged or cut off"),
        (b"", "an empty file"),
        (b"text", "a file of another kind"),
        (foreign, "a file that something else wrote"),
    ):
        file.write_bytes(contents)
        with pytest.raises(ValueError, match="Expected a whole checkpoint of esan") as caught:
            Predictor.load(file)
        assert f"(got {words}" in str(caught.value)
        assert str(caught.value).endswith("Check the path, or train again.")
        assert "\x1b" not in str(caught.value)


def test_what_is_printed_is_short(tmp_path: Path) -> None:
    fitted = Predictor.load(trained(tmp_path))
    assert fitted.record is not None
    assert fitted.record.best.valid is not None
    assert repr(fitted).endswith(f"accuracy {fitted.record.best.valid:.4g})")
    assert repr(fitted.predict(small())) == "Predictions(24 graphs, classification of 0, 1)"
    one = small().graphs.take(torch.tensor([0]))
    assert repr(fitted.predict(one)) == "Predictions(1 graph, classification of 0, 1)"


def test_a_damaged_record_is_put_aside(tmp_path: Path) -> None:
    folder = trained(tmp_path)
    before = Record.load(folder / "record.json")
    (folder / "record.json").write_text('{"recipe": ')
    with pytest.warns(UserWarning, match=r"The record of small/quick/0-0 was damaged: it is renamed to .*damaged.json"):
        trained(tmp_path)
    assert (folder / "record.damaged.json").read_text() == '{"recipe": '
    assert Record.load(folder / "record.json") == before


@pytest.mark.skipif(os.name != "posix", reason="there is no umask")
@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o002, 0o664), (0o077, 0o600)])
def test_files_are_for_whom_the_umask_allows(umask: int, mode: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        write_text(tmp_path / "a.txt", "a")
    finally:
        os.umask(before)
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == mode
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]
