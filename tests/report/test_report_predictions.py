"""Pictures of predictions: calibration and confusion from the files that runs have saved."""

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from esan.cli.main import app
from esan.report.page.prediction_plots import (
    PredictionTable,
    confusion,
    load_predictions,
    pictures,
    reliability,
    scatter,
)
from esan.report.rows import row_of
from esan.train.recipes.catalogue import named
from esan.train.runs.job import Job
from made_up_records import record, save

SVG = "{http://www.w3.org/2000/svg}"


def words(picture: str) -> list[str]:
    return [str(text.text) for text in ET.fromstring(picture).iter(f"{SVG}text")]


def put(runs: Path, recipe: str, seed: int, text: str) -> Path:
    job = Job(named(recipe), seed=seed)
    job.recipe.save(job.folder(runs) / "recipe.toml")
    file = job.folder(runs) / "predictions.csv"
    file.write_text(text)
    return file


def test_predictions_are_found_by_job_and_damaged_ones_are_named(tmp_path: Path) -> None:
    save([record("zinc/gin", 0.25, seed=seed) for seed in range(4)], tmp_path)
    put(tmp_path, "zinc/gin", 0, "graph,part,target,prediction\n3,valid,1.0,1.5\n5,test,2.0,2.5\n")
    damaged = [
        put(tmp_path, "zinc/gin", 1, "graph,part,target,prediction\n3,test,1.0\n"),
        put(tmp_path, "zinc/gin", 2, "graph,part,target,prediction\n3,test,1.0,<b>\n"),
        put(tmp_path, "zinc/gin", 3, ""),
    ]
    found, problems = load_predictions([tmp_path])
    assert found == {
        ("zinc/gin", 0, 0): PredictionTable(
            "test", {"graph": ["5"], "part": ["test"], "target": ["2.0"], "prediction": ["2.5"]}
        )
    }
    assert [problem.partition(": ")[0] for problem in problems] == [str(path.resolve()) for path in damaged]
    done = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert done.exit_code == 0, done.output
    page = (tmp_path / "report.html").read_text()
    assert "<h3>Predictions</h3>" in page
    assert "MAE 0.5" in page
    assert "&lt;b&gt;" in page


def test_numbers_are_compared_point_by_point_or_on_a_grid() -> None:
    picture = scatter("a", "b", [1.0, 2.0, 3.0, float("nan"), 1.0], [1.0, 2.0, 4.0, 9.0, 1e308])
    assert len(ET.fromstring(picture).findall(f"{SVG}circle")) == 3, "neither a missing target nor what diverged"
    assert "MAE 0.333, R² 0.500" in words(picture)
    many = [float(i) for i in range(2000)]
    grid = ET.fromstring(scatter("a", "b", many, many))
    assert not grid.findall(f"{SVG}circle")
    assert 30 < len(grid.findall(f"{SVG}rect")) <= 40, "the diagonal of the grid"


def test_reliability_is_the_observed_fraction_by_probability() -> None:
    picture = reliability("a", "b", [0.9] * 10 + [0.1] * 10, [True] * 9 + [False] + [True] * 5 + [False] * 5, "p")
    # The first bin is right, the second off by 0.4, each with half of the graphs.
    assert "calibration error 0.200" in words(picture)
    assert len(ET.fromstring(picture).findall(f"{SVG}circle")) == 2
    assert "calibration error 0.000" in words(reliability("a", "b", [1.0, 0.0], [True, False], "p"))


def test_confusion_counts_true_classes_by_predicted_ones() -> None:
    told = words(confusion("t", "n", ["a", "<b>"], ["a", "a", "<b>", "<b>"], ["a", "<b>", "<b>", "<b>"]))
    assert [word for word in told if word.isdecimal()] == ["1", "1", "0", "2"]
    assert "<b>" in told


@pytest.mark.parametrize(("classes", "expected"), [(2, 2), (3, 2), (13, 1)])
def test_classes_have_reliability_and_if_few_confusion(classes: int, expected: int) -> None:
    row = row_of([record("mutag/gin", 0.9, fold=fold) for fold in range(2)])
    head = {f"p({c})": [str(float(c == 0)), str(float(c == 1))] for c in range(classes)}
    table = PredictionTable("valid", {"target": ["0", "1"], "prediction": ["0", "1"]} | head)
    drawn = pictures(row, {("mutag/gin", 0, 0): table, ("mutag/gin", 1, 0): table})
    assert len(drawn) == expected
    assert "valid graphs of 2 runs, at best validation" in words(drawn[0])
    assert "calibration error 0.000" in words(drawn[0])
    if expected == 2:
        assert [word for word in words(drawn[1]) if word == "2"][:1] == ["2"], "both runs count"
    assert pictures(row, {("mutag/gin", 7, 0): table}) == []


def test_labels_have_one_picture_and_missing_answers_do_not_count() -> None:
    row = row_of([replace(record("zinc/gin", 0.9), task="labels")])
    columns = {"target 0": ["1.0", "nan"], "target 1": ["0.0", "0.0"]}
    told = {"prediction 0": ["0.8", "0.8"], "prediction 1": ["0.3", "0.3"]}
    (picture,) = pictures(row, {("zinc/gin", 0, 0): PredictionTable("test", columns | told)})
    assert "calibration error 0.267" in words(picture), "(0.2 + 2 × 0.3) / 3"
