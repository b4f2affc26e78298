"""The script that packs single records: nothing is lost, and networks that have changed since are kept apart."""

import json
import runpy
from dataclasses import replace
from pathlib import Path

import pytest

from esan.report.reproduction.grid_results import load_grid_results
from esan.report.reproduction.results_page import earlier_text, table_text
from esan.report.reproduction.stored_results import load_results
from esan.report.reproduction.timing import load_times
from esan.train.recipes.catalogue import named
from esan.train.runs.record_table import read_table
from made_up_records import record

SCRIPT = Path(__file__).parents[2] / "paper" / "pack.py"


def pack(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["pack.py", "--results", str(results)])
    runpy.run_path(str(SCRIPT), run_name="__main__")


def seven_digits(path: Path) -> None:
    """Round a curve as version 0.2 did before it stored it."""
    values = json.loads(path.read_text())
    values["curve"] = [[float(f"{v:.7g}") if isinstance(v, float) else v for v in line] for line in values["curve"]]
    path.write_text(json.dumps(values))


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A folder as version 0.2 wrote it: a row of today's network, one of an earlier network, its variant and grid."""
    for seed in range(2):
        made = record("zinc/gin", 0.25, seed=seed)
        made.save(tmp_path / "zinc" / "zinc" / "gin" / f"0-{seed}.json")
    old = replace(named("mutag/gin"), jk="cat", head="mlp")
    for recipe in (old, replace(old, hidden_channels=16, name="mutag/gin~width=16")):
        for fold in range(2):
            path = tmp_path / "tu" / recipe.name / f"{fold}-0.json"
            record(recipe, 0.8, fold=fold).save(path)
            values = json.loads(path.read_text())
            del values["commit"], values["data_sha256"]
            values["recipe"]["width"] = values["recipe"].pop("hidden_channels")
            path.write_text(json.dumps(values))
            seven_digits(path)
    scores = "configuration,valid,std,runs\nmutag/gin~width=16,0.85,0.1,10\nmutag/gin,0.8,,10\n"
    (tmp_path / "tu" / "mutag" / "gin" / "grid.csv").write_text(scores)
    times = {"recipe": "zinc/gin", "seconds": [0.5, 0.25], "setup_seconds": 1.0, "graphs": 3, "hardware": "a GPU"}
    (tmp_path / "timing" / "zinc").mkdir(parents=True)
    (tmp_path / "timing" / "zinc" / "gin.json").write_text(json.dumps(times | {"versions": {}, "finished": "then"}))
    return tmp_path


def test_records_are_packed_where_they_belong(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (results / "zinc").rglob("*.json"):
        seven_digits(path)
    pack(results, monkeypatch)
    assert [one.recipe.name for one in load_results(results / "zinc").records] == ["zinc/gin"] * 2
    table = read_table(results / "earlier" / "tu")
    names = ["mutag/gin~head=mlp,jk=cat", "mutag/gin~head=mlp,hidden_channels=16,jk=cat"]
    assert [one.recipe.name for one in table.records] == [name for name in names for _ in range(2)]
    assert [table.recipes[name]["name"] for name in names] == ["mutag/gin", "mutag/gin~width=16"], "as recorded"
    assert table.recipes[names[1]]["width"] == 16
    assert table.records[0].commit is None
    (grid,) = load_grid_results(results / "earlier" / "tu")
    assert grid.scores == {"mutag/gin~width=16": 0.85, "mutag/gin": 0.8}
    assert load_times(results / "timing")["zinc/gin"].seconds == (0.5, 0.25)
    left = {path.name for path in results.rglob("*") if path.is_file()}
    assert left == {".lock", "curves.npz", "recipes.json", "runs.jsonl", "grids.jsonl", "times.jsonl"}
    before = {path: path.read_bytes() for path in results.rglob("*") if path.is_file()}
    pack(results, monkeypatch)
    assert before == {path: path.read_bytes() for path in results.rglob("*") if path.is_file()}, "and again: nothing"


def test_pages_tell_them_apart(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (results / "zinc" / "zinc" / "gin" / "0-0.json").unlink()
    (results / "zinc" / "zinc" / "gin" / "0-1.json").unlink()
    pack(results, monkeypatch)
    text = table_text("tu", results)
    assert "None of the paper's 221 rows run yet. " in text
    assert "[records of version 0.1](../earlier/tu/README.md)" in text
    assert "[records of version 0.1]" not in table_text("zinc", results)
    earlier = earlier_text("tu", results)
    assert "These 4 runs were made before version 0.2.0" in earlier
    assert "| GIN with head=mlp, jk=cat | 89.4 ± 5.6 | 80.0 ± 0.0 |" in earlier
    assert "Commit of esan: not recorded (4 runs)." in earlier


def test_a_value_that_would_be_lost_stops_it(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Curves have seven digits; a file with more is not removed."""
    path = results / "zinc" / "zinc" / "gin" / "0-1.json"
    assert any(len(str(line[2])) > 9 for line in json.loads(path.read_text())["curve"])
    with pytest.raises(ValueError, match=r"Expected curve of .*0-0\.json among the packed records"):
        pack(results, monkeypatch)
    assert path.is_file()
