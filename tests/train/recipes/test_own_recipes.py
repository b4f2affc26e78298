"""Recipes and fits on one's own data: how it is read, split and found, and which seeds train."""

import csv
import dataclasses
import re
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch
from typer.testing import CliRunner, Result

from esan.cli.main import app
from esan.train import Predictor, Recipe, fit
from esan.train.recipes.recipe_fields import columns_of, plain
from esan.train.runs.prepare_data import splits_for
from small_sets import ROOT, graphs, needs, small

QUICK: dict[str, Any] = {"epochs": 1, "hidden_channels": 8, "num_layers": 2, "progress": False}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: mine.csv with a row that cannot be read, good.csv without, and a recipe of three lines."""
    pytest.importorskip("rdkit")
    monkeypatch.setenv("ESAN_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    rows = [f"{'C' * (1 + n // 2)}{'O' if n % 2 else 'N'},{3 + 4 * (n % 2)},{n + 0.5}" for n in range(20)]
    (tmp_path / "good.csv").write_text("\n".join(["smiles,active,size", *rows]) + "\n")
    (tmp_path / "mine.csv").write_text("\n".join(["smiles,active,size", rows[0], "C(,3,0.5", *rows[1:]]) + "\n")
    (tmp_path / "good.toml").write_text('data = "good.csv"\ntargets = "active"\nepochs = 1\nwidth = 8\nlayers = 2\n')
    return tmp_path


def esan(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "200"})


def table(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


@pytest.mark.filterwarnings("always::UserWarning")
def test_the_smallest_recipe_trains_and_its_predictions_tell_the_parts(place: Path) -> None:
    done = esan("train", "good.toml", "--quiet")
    assert done.exit_code == 0, done.output + done.stderr
    result = esan("predict", "runs", "good.csv")
    assert result.exit_code == 0, result.output + result.stderr
    lines = table(place / "predictions.csv")
    assert list(lines[0]) == ["graph", "line", "target", "part", "smiles", "prediction", "p(3)", "p(7)"]
    assert [line["part"] for line in lines].count("valid") == 2
    assert {line["target"] for line in lines if line["part"] == "valid"} == {"3", "7"}, "stratified, by their names"
    assert [line["line"] for line in lines] == [str(n) for n in range(2, 22)]
    (place / "other.csv").write_text((place / "good.csv").read_text() + "CCCCS,3,1\n")
    result = esan("predict", "runs", "other.csv")
    assert result.stderr.startswith("1 of 21 graphs has categories that no training graph had: 15 of x (column 0)")
    assert list(table(place / "predictions.csv")[0]) == ["graph", "line", "smiles", "prediction", "p(3)", "p(7)"]


def test_a_split_that_is_not_there_is_reported_in_words_of_a_recipe(place: Path) -> None:
    done = esan("train", "good.toml", "--set", "split=given")
    assert done.exit_code == 2
    assert 'Set split = "auto", "folds", "scaffold" or "random".' in done.stderr


def test_auto_takes_the_split_that_comes_with_the_data() -> None:
    dataset = small()
    assert splits_for(Recipe("small"), dataset) == [dataset.given]


@pytest.mark.filterwarnings("always::UserWarning")
def test_rows_that_cannot_be_read(place: Path) -> None:
    with pytest.raises(ValueError, match="skip_unreadable=True"):
        fit("mine.csv", targets="active", **QUICK)
    with pytest.warns(UserWarning, match=r"Left out 1 of 21 rows of mine.csv: line 3 \('C\('\)"):
        fitted = fit("mine.csv", targets="active", skip_unreadable=True, **QUICK)
    fitted.save("net.pt")
    result = esan("predict", "net.pt", "mine.csv", "--skip-unreadable")
    assert result.stderr == "Left out 1 of 21 rows of mine.csv: line 3 ('C(').\n"
    lines = table(place / "predictions.csv")
    assert [line["line"] for line in lines] == [str(n) for n in range(2, 23) if n != 3]
    assert {line["part"] for line in lines} == {"train", "valid", "test"}
    done = esan("train", "good.toml", "--set", "data=mine.csv", "--set", "skip_unreadable=true", "--quiet")
    assert done.exit_code == 0, done.output + done.stderr
    assert done.stderr.startswith("Left out 1 of 21 rows")


@pytest.mark.filterwarnings("always::UserWarning")
def test_rows_without_their_target(place: Path) -> None:
    (place / "good.csv").write_text((place / "good.csv").read_text() + "CCCCS,,1.5\n")
    with pytest.raises(ValueError, match="skip_missing=True"):
        fit("good.csv", targets="active", task="classification", **QUICK)
    done = esan("train", "good.toml", "--set", "task=classification", "--set", "skip_missing=true", "--quiet")
    assert done.exit_code == 0, done.output + done.stderr
    assert "line 22" in done.stderr


def test_labels_of_graphs_that_have_none(place: Path) -> None:
    cycles, paths = [nx.cycle_graph(n) for n in range(3, 9)], [nx.path_graph(n) for n in range(3, 9)]
    labels = [1] * 6 + [0] * 6
    fitted = fit(cycles + paths, labels=labels, **QUICK)
    assert fitted.task.kind == "classification"
    (place / "some.g6").write_bytes(b"".join(nx.to_graph6_bytes(g, header=False) for g in cycles + paths))
    (place / "labels.txt").write_text("\n".join(map(str, labels)) + "\n")
    again = fit("some.g6", labels="labels.txt", **QUICK)
    assert again.header.data == fitted.header.data
    assert again.header.model_spec.recipe.labels == "labels.txt"
    (place / "g6.toml").write_text('data = "some.g6"\nlabels = "labels.txt"\nepochs = 1\nwidth = 8\nlayers = 2\n')
    done = esan("train", "g6.toml", "--quiet")
    assert done.exit_code == 0, done.output + done.stderr
    assert Predictor.load("runs").header.data == fitted.header.data


def test_wrong_words_are_reported_before_data_is_read() -> None:
    with pytest.raises(ValueError, match=r"\(got lrr\). Did you mean lr"):
        fit("nowhere", lrr=0.1)
    with pytest.raises(TypeError, match="Expected epochs to be a whole number"):
        fit("nowhere", epochs=2.5)
    with pytest.raises(ValueError, match=r"Expected nothing on how to read a Dataset.*\(got labels\)"):
        fit(small(), labels=[0] * 24)
    with pytest.raises(ValueError, match=r"Expected nothing on how to read mutag.*\(got targets\)"):
        fit("mutag", targets="a")


def test_targets_as_a_text_or_a_list(place: Path) -> None:
    """Of columns with commas in their names too."""
    assert Recipe("a.csv", targets=["a", "b,c"]).targets == 'a,"b,c"'  # type: ignore[arg-type]
    assert columns_of('a, "b,c"') == ["a", "b,c"]
    assert columns_of("") == []
    one = fit("good.csv", targets=["active", "size"], task="regression", **QUICK)
    other = fit("good.csv", targets="active, size", task="regression", **QUICK)
    assert one.task.out_channels == other.task.out_channels == 2
    assert one.score("good.csv") == other.score("good.csv", targets="active,size")
    with pytest.raises(ValueError, match=r"Expected targets for regression of 2 \(got regression of 1\)"):
        one.score("good.csv", targets=["size"])


def test_classes_that_a_network_never_saw_are_refused() -> None:
    fitted = fit(small(), **QUICK)
    strange = graphs()
    with pytest.raises(ValueError, match=r"Expected the classes 0, 1 \(got 5 for graph 0\)"):
        fitted.score(strange, labels=torch.arange(24) % 2 + 5)
    with pytest.raises(ValueError, match=r"Expected the classes 0, 1 \(got 2 for graph 0\)"):
        fitted.score(strange, labels=torch.full((24,), 2))
    ones, zeros = (fitted.score(strange, labels=torch.full((24,), c)) for c in (1, 0))
    assert ones + zeros == 1


@needs("TU/MUTAG")
def test_a_network_takes_names_as_fit_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ESAN_DATA", str(ROOT))
    monkeypatch.setenv("ESAN_CACHE", str(tmp_path))
    fitted = fit("mutag", policy="identity", **QUICK)
    assert len(fitted.predict("mutag")) == 188
    assert 0 < fitted.score("MUTAG") < 1


def test_data_beside_the_recipe(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "elsewhere").mkdir()
    monkeypatch.chdir(place / "elsewhere")
    assert Recipe.load("../good.toml").data == "../good.csv"
    (place / "elsewhere" / "good.csv").write_text("smiles,active\nC,1\n")
    assert Recipe.load("../good.toml").data == "good.csv", "the current folder comes first"
    done = esan("train", "../good.toml", "--set", "data=no.csv")
    assert f"looked up in {place / 'elsewhere'} and, for a recipe, beside its file" in done.stderr


def test_the_order_of_settings_does_not_matter() -> None:
    one = Recipe("zinc", name="a").override(["hidden_channels=8", "epochs=3"])
    assert one == Recipe("zinc", name="a").override(["epochs=3", "hidden_channels=8"])
    assert one.name == "a~epochs=3,hidden_channels=8"


def test_seeds_that_did_not_train_are_reported(place: Path) -> None:
    hint = "This is seed 0 alone. The recipe has 3: add --seeds 3."
    assert hint in esan("train", "good.toml", "--set", "seeds=3", "--quiet").output
    assert "seed 0 alone" not in esan("train", "good.toml", "--set", "seeds=3", "--seed", "0", "--quiet").output
    assert "Without --seeds, only seed 0 is trained" in " ".join(
        re.sub(r"[│\s]+", " ", esan("train", "--help").output).split()
    )


def test_a_table_in_place_of_a_recipe(place: Path) -> None:
    done = esan("train", "good.csv")
    assert done.exit_code == 2
    assert "write data = \"good.csv\" into a file that ends in .toml, or call esan.fit('good.csv')" in done.stderr
    done = esan("train", "--list", "nope")
    assert done.exit_code == 2
    assert "got 'nope', with which none begins" in done.stderr


def test_the_table_of_defaults_is_the_recipe_s_own() -> None:
    text = (Path(__file__).parents[3] / "docs" / "training.md").read_text()
    result = dict(re.findall(r"^\| `(\w+)` \| (?:`(.*?)`)? \| .+ \|$", text, re.MULTILINE))
    for known in dataclasses.fields(Recipe):
        default = plain(known.default)
        if known.name in ("data", "name", "grid"):
            assert result.get(known.name) == "", known.name
            continue
        words = (
            str(default).lower()
            if isinstance(default, bool)
            else f'"{default}"'
            if isinstance(default, str)
            else repr(default)
        )
        assert result.get(known.name) == words, known.name
