"""Grids of rows: every configuration runs and is stored, with its score, and the best on validation is shown."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from esan.cli.main import app
from esan.report.reproduction.grid_results import load_grid_results, save_grid_result
from esan.report.reproduction.results_page import table_text
from esan.report.reproduction.run_tables import reproduce, tune_tables
from esan.report.reproduction.stored_results import load_results
from esan.train.campaigns.grid import search
from esan.train.recipes.catalogue import named
from esan.train.runs.job import Job
from made_up_records import Pretend, record

ROW = "mutag/gin"


class Graded(Pretend):
    """Pretends that small steps are better than large ones, and large batches than small ones."""

    def make(self, job: Job) -> float:
        recipe = job.recipe
        return (
            0.7 + 0.1 * (recipe.lr == 0.001) + 0.05 * (recipe.batch_size == 128) + 0.002 * recipe.hidden_channels / 16
        )


def tuned(results: Path, executor: Pretend) -> list[str]:
    said: list[str] = []
    tune_tables({"tu": [ROW]}, results, results / "runs", executor, say=said.append)
    return said


def test_the_best_of_a_grid_is_kept_with_the_scores_of_all(tmp_path: Path) -> None:
    best = f"{ROW}~batch_size=128,lr=0.001"
    said = tuned(tmp_path, Graded())
    assert said[0] == f"{ROW}: 0 of 80 runs of its grid are there"
    assert said[-1] == f"{ROW}: {best} is the best of 8"
    kept = load_results(tmp_path / "tu")
    assert {one.recipe.name for one in kept.records} == {one.name for one in named(ROW).configurations()}
    assert len(kept.records) == 80, "every run of the grid"
    (found,) = load_grid_results(tmp_path / "tu")
    assert found.recipe == ROW
    assert len(found.scores) == 8
    assert next(iter(found.scores.items())) == (best, pytest.approx(0.854))
    assert min(found.scores.values()) == pytest.approx(0.702)
    text = table_text("tu", tmp_path)
    assert "| mutag | GIN | 8 | 70.2 | 77.8 | 85.4 | batch_size=128, lr=0.001 | 89.4 ± 5.6 |" in text
    assert "Over 1 row, the best configuration is **+15.0** above the recipe as it is" in text
    assert "and differs from the paper by **−4.0**.\n" in text
    assert "1 of the paper's 221 rows run; 1 variant of them." in text
    assert "| GIN | **70.4 ± 0.0** (85.4 ± 0.0 with batch_size=128, lr=0.001), 89.4 ± 5.6 |" in text


def test_what_grids_gain_has_a_standard_error_over_rows(tmp_path: Path) -> None:
    tune_tables({"tu": [ROW, "ptc/gin"]}, tmp_path, tmp_path / "runs", Graded())
    # 85.4 on both sets, where the paper has 89.4 and 64.6.
    text = table_text("tu", tmp_path)
    assert "Over 2 rows, the best configuration is **+15.0 ± 0.0** above the recipe as it is" in text
    assert "and differs from the paper by **+8.4 ± 12.4** (mean ± its standard error)." in text


def test_grids_of_several_rows_are_one_campaign_and_each_is_stored_when_it_ends(tmp_path: Path) -> None:
    stored: list[int] = []

    class Watching(Graded):
        def map(self, work: Any, items: Any) -> Any:
            for result in super().map(work, items):
                yield result
                stored.append(len(load_grid_results(tmp_path / "tu")))

    tables = {"tu": [ROW, "ptc/gin"], "zinc": ["zinc/gin"]}
    assert tune_tables(tables, tmp_path, tmp_path / "runs", Watching()) == {}
    assert stored == [0] * 79 + [1] * 80 + [2]


def test_a_grid_that_is_there_is_not_run_again(tmp_path: Path) -> None:
    tuned(tmp_path, Graded())
    again = Graded()
    assert tuned(tmp_path, again) == [f"{ROW}: its grid is there"]
    assert again.ran == []


def test_what_is_kept_is_scored_and_not_run_again(tmp_path: Path) -> None:
    reproduce("tu", tmp_path, tmp_path / "elsewhere", Pretend(0.9), rows=[ROW])
    kept = tmp_path / "tu" / "runs.jsonl"
    text = kept.read_text()
    executor = Graded()
    assert tuned(tmp_path, executor)[-1] == f"{ROW}: {ROW} is the best of 8"
    assert len(executor.ran) == 70
    assert kept.read_text().startswith(text), "a record that was kept is not written again"
    assert len(kept.read_text().splitlines()) == 80
    (found,) = load_grid_results(tmp_path / "tu")
    assert next(iter(found.scores.items())) == (ROW, pytest.approx(0.9))
    assert "| 90.0 | the recipe as it is | 89.4 ± 5.6 |" in table_text("tu", tmp_path)


def test_a_grid_is_scored_whole_or_not_at_all(tmp_path: Path) -> None:
    failures = tune_tables({"tu": [ROW]}, tmp_path, tmp_path / "runs", Graded(bad="lr=0.001"))
    assert failures
    assert not load_grid_results(tmp_path / "tu")
    assert not load_results(tmp_path / "tu").records
    tuned(tmp_path, Graded())
    assert len(load_grid_results(tmp_path / "tu")) == 1


def test_a_row_without_a_grid_says_so(tmp_path: Path) -> None:
    said: list[str] = []
    tune_tables({"zinc": ["zinc/gin"]}, tmp_path, tmp_path / "runs", Graded(), say=said.append)
    assert said == ["zinc/gin: the paper tunes nothing"]


class Slow(Pretend):
    """Pretends that smaller steps make smaller errors."""

    def make(self, job: Job) -> float:
        return 100 * job.recipe.lr


def test_errors_are_reported_in_their_unit_and_the_smallest_is_the_best(tmp_path: Path) -> None:
    """The paper tunes nothing on ZINC: the grid is one's own, below a row of the paper."""
    row = "zinc/ds-gin-nd"
    assert named(row).grid == ()
    found = search(replace(named(row), grid=({"lr": (0.004, 0.001, 0.002)},)), tmp_path / "runs", Slow(), seeds=[0])
    assert [one.recipe.name for one in found.scored] == [row, f"{row}~lr=0.002", f"{row}~lr=0.004"]
    save_grid_result(row, found, tmp_path / "zinc")
    assert "| zinc | DS-GNN (GIN) (ND) | 3 | 0.404 | 0.202 | 0.101 | the recipe as it is |  |" in table_text(
        "zinc", tmp_path
    )


def test_a_damaged_file_of_grids_is_named(tmp_path: Path) -> None:
    tuned(tmp_path, Graded())
    path = tmp_path / "tu" / "grids.jsonl"
    text = path.read_text()
    for line in (
        "",
        "{",
        '{"recipe":"a"}\n',
        text.replace('"valid":0.', '"valid":null,"v":0.'),
        text.replace("0.8", "NaN"),
    ):
        path.write_text(text + line + "\n")
        with pytest.raises(ValueError, match=r"Expected whole lines in .*grids\.jsonl \(got damage in line 2: "):
            load_grid_results(tmp_path / "tu")


def test_a_grid_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    path = tmp_path / "tu" / ROW / "grid.csv"
    path.parent.mkdir(parents=True)
    head = "configuration,valid,std,runs\n"
    path.write_text(f"{head}mutag/gin~lr=0.001,0.9,0.1,10\nmutag/gin,0.8,0.1,10\n")
    (found,) = load_grid_results(tmp_path / "tu")
    assert found.scores == {"mutag/gin~lr=0.001": 0.9, "mutag/gin": 0.8}
    for text in ("", head, f"{head}mutag/gin,0.", f"{head}mutag/gin,,,10\n", "a,b\n1,2\n"):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"Expected the scores of a grid in .*grid\.csv"):
            load_grid_results(tmp_path / "tu")


def test_configurations_have_the_names_of_variants() -> None:
    names = {one.name for one in named(ROW).configurations()}
    assert named(ROW).override(["lr=0.001", "batch_size=128"]).name in names
    assert record(ROW, 0.8).recipe.name in names
    few = named(ROW).override(["epochs=5"]).configurations()
    assert named(ROW).override(["lr=0.001", "epochs=5", "batch_size=128"]).name in {one.name for one in few}


def test_the_command_refuses_what_has_no_grid() -> None:
    for more in (["tu", "--set", "lr=0.1"], ["tu", "--seeds", "1"], ["timing"]):
        done = CliRunner().invoke(app, ["reproduce", *more, "--grid"])
        assert done.exit_code == 2
        assert "Expected --grid with rows of the paper as they are" in done.output
