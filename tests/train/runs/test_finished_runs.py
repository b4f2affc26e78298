"""Finished runs are results of their data: the same call with other data is refused, however it names them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data
from typer.testing import CliRunner

from esan.cli.main import app
from esan.data import Dataset
from esan.graphs import Categories
from esan.train import Job, fit, run_jobs
from esan.train.campaigns.campaign import run_campaign
from esan.train.runs import recipe_data
from esan.train.runs.records import Record
from small_campaign import recipe, write_set
from small_sets import graphs, quick, small

QUICK: dict[str, Any] = {"epochs": 1, "hidden_channels": 4, "num_layers": 1, "progress": False}
OTHER_DATA = r"Expected the data that the finished run in .*0-0 was trained on \(got other data: "
REMEDY = "Choose another folder for the runs, or remove that one to train on these data"


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESAN_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def labelled(first: int = 0, second: int = 1) -> list[Data]:
    made = graphs()
    for number, graph in enumerate(made):
        graph.y = torch.tensor([second if number % 4 > 1 else first])
    return made


def test_fit_refuses_other_targets_features_and_classes(tmp_path: Path) -> None:
    trained = fit(labelled(), folder=tmp_path, **QUICK)
    assert fit(labelled(), folder=tmp_path, **QUICK).record == trained.record
    wide = labelled()
    for graph in wide:
        graph.x = torch.rand(graph.num_nodes, 3)
    for others in (labelled(1, 0), wide, labelled()[:20]):
        with pytest.raises(ValueError, match=OTHER_DATA + rf"SHA-256 .*, not .*\)\. {REMEDY}"):
            fit(others, folder=tmp_path, **QUICK)
    # Classes 3 and 7 are numbered 0 and 1 too: the digests are equal.
    with pytest.raises(ValueError, match=OTHER_DATA + r"classes \[3, 7\], not None\)"):
        fit(labelled(3, 7), folder=tmp_path, **QUICK)


def test_another_kind_of_the_same_features_is_refused(tmp_path: Path) -> None:
    one = small()
    run_jobs([Job(quick(epochs=1))], tmp_path, dataset=one)
    with pytest.raises(ValueError, match=OTHER_DATA + "in_channels"):
        run_jobs([Job(quick(epochs=1))], tmp_path, dataset=replace(one, in_channels=Categories(5)))


def test_a_record_that_does_not_say_its_data_is_accepted(tmp_path: Path) -> None:
    (record,) = run_jobs([Job(quick(epochs=1))], tmp_path, dataset=small())
    path = Job(quick()).folder(tmp_path) / "record.json"
    replace(record, data_sha256=None).save(path)
    assert json.loads(path.read_text())["data_sha256"] is None
    assert run_jobs([Job(quick(epochs=1))], tmp_path, dataset=small(count=28)) == [record]


def test_finished_runs_are_compared_before_others_begin(tmp_path: Path) -> None:
    jobs = [Job(quick(epochs=1), seed=seed) for seed in (0, 1)]
    run_jobs(jobs[:1], tmp_path, dataset=small())
    with pytest.raises(ValueError, match=OTHER_DATA):
        run_jobs(jobs, tmp_path, dataset=small(count=28))
    assert not jobs[1].folder(tmp_path).exists()


def _flip(folder: Path) -> None:
    """Other classes in the file behind the same path."""
    file = folder / "SMALL_graph_labels.txt"
    file.write_text(file.read_text().translate(str.maketrans("01", "10")))


def test_a_file_that_was_replaced_is_other_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    place = write_set(tmp_path)
    recipe(place, epochs=1).save("small.toml")
    command = ["train", "small.toml", "--fold", "0", "--quiet"]
    assert CliRunner().invoke(app, command).exit_code == 0
    assert "nothing was trained" in CliRunner().invoke(app, command).output
    _flip(place)
    again = CliRunner().invoke(app, command, env={"COLUMNS": "300"})
    assert again.exit_code == 2
    assert "Expected the data that the finished run in runs/small/ds/0-0 was trained on (got other" in again.stderr
    assert CliRunner().invoke(app, [*command, "--runs", "others"]).exit_code == 0


def test_a_campaign_reads_its_data_once_and_refuses_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = write_set(tmp_path)
    jobs = [Job(recipe(place, epochs=1), fold) for fold in (0, 1)]
    records = run_campaign(jobs, tmp_path / "runs").records
    reads: list[Dataset] = []

    def reading(*arguments: Any) -> Dataset:
        reads.append(load(*arguments))
        return reads[-1]

    load = recipe_data.load_recipe_data
    monkeypatch.setattr(recipe_data, "load_recipe_data", reading)
    assert run_campaign(jobs, tmp_path / "runs").records == records
    assert len(reads) == 1
    _flip(place)
    with pytest.raises(ValueError, match=OTHER_DATA):
        run_campaign(jobs, tmp_path / "runs")
    place.rename(tmp_path / "elsewhere")
    assert run_campaign(jobs, tmp_path / "runs").records == records, "nothing to compare with"


def test_a_campaign_refuses_finished_runs_on_another_copy_of_a_named_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [Job(quick(data="csl", epochs=1, split="folds", folds=2), fold) for fold in (0, 1)]
    monkeypatch.setattr(recipe_data, "load_recipe_data", lambda *_: small())
    (record,) = run_jobs([replace(jobs[0], recipe=quick(epochs=1))], None, dataset=small(count=28))
    jobs[0].folder(tmp_path).mkdir(parents=True)
    replace(record, recipe=jobs[0].recipe).save(jobs[0].folder(tmp_path) / "record.json")
    with pytest.raises(ValueError, match=OTHER_DATA):
        run_campaign(jobs, tmp_path)
    assert not jobs[1].folder(tmp_path).exists()


def test_a_named_set_is_not_read_for_finished_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(quick(data="csl", epochs=1))
    (record,) = run_jobs([Job(quick(epochs=1))], None, dataset=small())
    job.folder(tmp_path).mkdir(parents=True)
    replace(record, recipe=job.recipe).save(job.folder(tmp_path) / "record.json")
    monkeypatch.setattr(recipe_data, "load_recipe_data", None)
    assert run_campaign([job], tmp_path).records == (Record.load(job.folder(tmp_path) / "record.json"),)
    assert len(run_jobs([job], tmp_path)) == 1
