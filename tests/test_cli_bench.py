"""`esan bench` times epochs of the recipes it is given."""

import json
from pathlib import Path

from typer.testing import CliRunner

from esan.cli import app


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


def test_an_unknown_recipe_is_refused() -> None:
    done = CliRunner().invoke(app, ["bench", "csl/nothing"])
    assert done.exit_code == 2
    assert "csl/nothing" in done.output
