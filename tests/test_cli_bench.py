"""`esan bench` times epochs of the recipes it is given."""

import json
from importlib.metadata import version
from pathlib import Path

from typer.testing import CliRunner

from esan.cli.main import app


def test_an_epoch_is_timed(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    asked = ["bench", "csl/ds-gin-ego", "--epochs", "1", "--cache", str(tmp_path), "--out", str(out)]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    assert "csl/ds-gin-ego" in done.output
    (figures,) = json.loads(out.read_text())
    assert figures["recipe"] == "csl/ds-gin-ego"
    assert figures["graphs"] == 120
    assert len(figures["seconds"]) == 1
    assert figures["seconds"][0] > 0
    assert f"{figures['warm_seconds']:.1f}" in done.output, "the table says what the file says"
    assert f"esan {figures['versions']['esan']}, torch" in done.output


def test_seeds_are_timed_side_by_side(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    asked = ["bench", "csl/gin", "--epochs", "1", "--seeds", "2", "--cache", str(tmp_path), "--out", str(out)]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    assert "2 seeds as one ensemble" in done.output
    assert json.loads(out.read_text())[0]["seeds"] == 2


def test_a_setting_is_not_taken_for_a_set() -> None:
    assert CliRunner().invoke(app, ["bench", "--set", "lr=0.1"]).exit_code == 2


def test_the_version_is_reported() -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert done.exit_code == 0
    assert done.output == f"esan {version('esan')}\n"


def test_an_unknown_recipe_is_refused() -> None:
    done = CliRunner().invoke(app, ["bench", "csl/nothing"])
    assert done.exit_code == 2
    assert "csl/nothing" in done.output
