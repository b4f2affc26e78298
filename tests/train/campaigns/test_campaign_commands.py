"""`esan campaign` and `esan search`: what they run, what they say, and how they end."""

from pathlib import Path

import pytest
from typer import Exit
from typer.testing import CliRunner

from esan.cli.jobs import tell
from esan.cli.main import app
from esan.train.campaigns.executors import Failure
from esan.train.recipes.recipe import Recipe
from small_campaign import fingerprints, recipe, write_set


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ESAN_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return write_set(tmp_path)


def test_a_campaign_of_recipes_from_files(place: Path) -> None:
    recipe(place).save("ds.toml")
    recipe(place, name="small/gin", model="gnn", policy="identity").save("gin.toml")
    command = ["campaign", "ds.toml", "gin.toml", "--fold", "0", "--seeds", "2", "--set", "epochs=1"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "4 records in runs." in done.output
    result = [line.split() for line in done.stdout.splitlines() if line.strip().startswith("small/")]
    assert [line[:3] for line in result] == [[f"small/{m}~epochs=1", "valid", "accuracy,"] for m in ("ds", "gin")]
    assert all("±" in line and line[-1] == "2" for line in result)
    assert "mean ± std: valid at the epoch of best mean validation" in done.output
    assert "esan report runs" in done.output
    assert len(fingerprints(Path("runs"))) == 4
    again = CliRunner().invoke(app, command)
    assert "4 records in runs, 4 of them from before." in again.output


def test_runs_that_fail_are_named_with_their_reason_and_the_exit_code_says_so(place: Path) -> None:
    recipe(place).save("ds.toml")
    recipe(place / "nowhere", name="small/nowhere").save("nowhere.toml")
    done = CliRunner().invoke(app, ["campaign", "nowhere.toml", "ds.toml", "--set", "epochs=1"])
    assert done.exit_code == 1
    assert "small/nowhere~epochs=1/0-0, " in done.output
    assert "and 1 more" in done.output
    assert "4 runs failed. Correct the input as said above" in done.output
    assert len(fingerprints(Path("runs"))) == 4


def test_a_search_shows_configurations_and_writes_the_best(place: Path) -> None:
    recipe(place, grid=({"lr": (0.01, 0.001)},)).save("ds.toml")
    done = CliRunner().invoke(app, ["search", "ds.toml", "--fold", "0", "--seed", "0", "--set", "epochs=1"])
    assert done.exit_code == 0, done.output
    best = Recipe.load("runs/small/ds~epochs=1/best.toml")
    assert f"Best on validation: {best.name}" in done.output
    assert best.grid == ()
    assert best.name in ("small/ds~epochs=1", "small/ds~epochs=1,lr=0.001")


def test_only_what_may_go_well_another_time_is_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    refused = Failure("Expected a folder (got none).", "Traceback")
    died = Failure("Expected the worker to finish (got 3 crashes).")
    for failures, words in [
        ({"a": died}, "1 run failed. Run the same command to try again."),
        ({"a": died, "b": Failure("OutOfMemoryError: 1 GiB", "Traceback")}, "Run the same command to try again."),
        ({"a": refused, "b": died}, "Correct the input of 1 of them"),
    ]:
        with pytest.raises(Exit):
            tell(failures, 1)
        assert words in capsys.readouterr().out.replace("\n", " ")


def test_the_help_of_a_search_shows_what_a_grid_is_called() -> None:
    assert "[[grid]]" in CliRunner().invoke(app, ["search", "--help"]).output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--executor", "slurm"], "Expected --executor to be one of serial, processes, ray (got 'slurm')"),
        (["--workers", "2"], "Expected --executor processes with --workers (got 'serial')"),
        (["--folds", "9..1"], "Expected at least one number in --folds"),
        (["--folds", "7"], "Expected folds that small/ds has, 0 to 1 (got --folds 7)"),
    ],
)
def test_bad_options_are_reported_in_one_line(place: Path, options: list[str], words: str) -> None:
    recipe(place).save("ds.toml")
    done = CliRunner().invoke(app, ["campaign", "ds.toml", *options])
    assert done.exit_code == 2
    assert words in done.output.replace("\n", " ")
