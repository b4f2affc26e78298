"""`esan train` and `esan predict`, as one types them."""

import csv
import re
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data
from typer.testing import CliRunner, Result

from esan.cli.main import app
from esan.train import Predictor, Record, fit, summary
from small_campaign import recipe, write_set
from small_sets import ROOT, needs


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a small set, SMALL, and a recipe for it, small.toml; the current one."""
    monkeypatch.setenv("ESAN_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    recipe(write_set(tmp_path)).save(tmp_path / "small.toml")
    return tmp_path


def esan(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "200"})


def test_train_and_predict(place: Path) -> None:
    done = esan("train", "small.toml", "--set", "epochs=2", "--set", "policy=ED@0.5", "--seeds", "0..1", "--quiet")
    assert done.exit_code == 0, done.output
    assert re.search(
        r"valid at the epoch of best mean validation \(epoch [12], 4 runs\)", " ".join(done.output.split())
    )
    assert "valid at the best validation of each run" in done.output
    found = sorted((place / "runs").rglob("record.json"))
    assert [path.parent.name for path in found] == ["0-0", "0-1", "1-0", "1-1"]
    assert {path.parent.parent.name for path in found} == {"ds~epochs=2,policy=ED@0.5"}
    assert Record.load(found[0]).epochs == 2
    result = esan("predict", str(found[0].parent), "SMALL", "--out", "p.csv")
    assert result.exit_code == 0, result.output
    with (place / "p.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 16
    assert list(lines[0]) == ["graph", "target", "part", "prediction", "p(0)", "p(1)", "spread"]


@pytest.mark.parametrize("command", ["train", "campaign", "search"])
def test_accuracy_is_in_per_cent_as_in_the_tables(command: str, place: Path) -> None:
    recipe(place / "SMALL", epochs=1, grid=({"lr": (0.01,)},)).save(place / "one.toml")
    done = esan(command, "one.toml", "--seeds", "2", "--quiet")
    assert done.exit_code == 0, done.output
    records = [Record.load(path) for path in sorted((place / "runs").rglob("record.json"))]
    found = summary(records).value
    assert found is not None
    assert found.mean <= 1, "records are in parts of 1"
    assert "accuracy, %" in done.output
    assert f"{100 * found.mean:.2f} ± {100 * (found.std or 0):.2f}" in done.output
    assert f"{found.mean:.4f}" not in done.output


@pytest.mark.parametrize("command", ["train", "campaign", "search"])
def test_a_result_of_one_run_has_no_deviation(command: str, place: Path) -> None:
    recipe(place / "SMALL", epochs=1, grid=({"lr": (0.01, 0.001)},)).save(place / "one.toml")
    done = esan(command, "one.toml", "--fold", "0", "--seed", "0")
    assert done.exit_code == 0, done.output
    assert "± 0.00" not in done.output
    if command == "search":
        (scores,) = (place / "runs").rglob("scores.csv")
        with scores.open() as file:
            assert [line["std"] for line in csv.DictReader(file)] == ["", ""]
    else:
        assert esan("report", "runs").exit_code == 0
        assert not re.search(r"± *0\.0+\b", (place / "runs" / "report.md").read_text())


def test_the_same_command_again_trains_nothing(place: Path) -> None:
    first = esan("train", "small.toml", "--fold", "1", "--quiet")
    assert "found, finished" not in first.output
    (file,) = (place / "runs").rglob("record.json")
    before = file.stat().st_mtime_ns
    again = esan("train", "small.toml", "--fold", "1", "--quiet")
    assert again.exit_code == 0
    assert file.stat().st_mtime_ns == before
    day = Record.load(file).finished[:10]
    assert f"1 run found, finished on {day} in runs/small/ds/1-0; nothing was trained. To train again" in again.output
    both = esan("train", "small.toml", "--quiet").output
    assert f"1 of 2 runs found, finished on {day} in runs/small/ds/1-0; only the others were trained." in both
    all_there = esan("train", "small.toml", "--quiet").output
    assert f"2 runs found, finished on {day} in runs/small/ds; nothing was trained." in all_there


def test_the_list_of_recipes() -> None:
    done = esan("train", "--list", "zinc/dss")
    assert "zinc/dss-gin-ego+" in done.output
    assert "0.102 ± 0.003" in done.output
    assert "mutag" not in done.output


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("train", "small.toml", "--set", "epoch=3"), "Did you mean epochs?"),
        (("train", "small.toml", "--set", "lr=fast"), "Expected lr to be a number (got 'fast')"),
        (("train", "zinc/gni"), "Expected the name of a recipe or a TOML file (got 'zinc/gni'). Near: zinc/gin"),
        (("train", "none.toml"), "Expected a recipe at none.toml"),
        (("train", "small.toml", "--fold", "7"), "Expected folds that small/ds has, 0 to 1 (got --fold 7)"),
        (
            ("train", "small.toml", "--seeds", "a..b"),
            "Expected --seeds as a count (5), a range (0..4) or a list (0,2,5) (got 'a..b')",
        ),
        (("train", "small.toml", "--seeds", "5..2"), "Expected at least one number in --seeds"),
        (("train", "small.toml", "--set", "data=nowhere"), "Expected the name of a set, or a file or folder of graphs"),
        (("train", "small.toml", "--set", "split=given"), "Expected a dataset that comes with a split"),
        (
            ("train", "small.toml", "--wandb", "x"),
            "Expected wandb (got none installed). Run: pip install 'esan[wandb]'.",
        ),
        (
            ("train", "small.toml", "--device", "gpu"),
            "(got 'gpu'). Choose one of these, or install a build of torch",
        ),
        (("predict", "nothing", "SMALL"), "Expected a checkpoint at nothing"),
        (("predict", ".", "SMALL"), "Expected the folder of one run"),
    ],
)
def test_what_one_gets_wrong(words: tuple[str, ...], error: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    done = esan(*words)
    assert done.exit_code == 2
    assert error in done.output.replace("\n", " ") + done.stderr
    assert "Traceback" not in done.output


@needs("TU/MUTAG")
@pytest.mark.filterwarnings("always::UserWarning")
def test_predictions_for_known_data_say_which_part_a_graph_was_in(place: Path) -> None:
    settings = ("--set", "epochs=1", "--set", "hidden_channels=4", "--fold", "3", "--data", str(ROOT), "--quiet")
    done = esan("train", "mutag/ds-gin-nd", *settings)
    assert done.exit_code == 0, done.output
    assert "accuracy 89.4 ± 4.8 %: the paper's, for mutag/ds-gin-nd as it is" in done.output
    result = esan("predict", "runs", "mutag", "--data", str(ROOT))
    assert result.exit_code == 0, result.output
    assert "1 of 188 graphs has categories that no training graph had: 4 of x." in result.stderr
    with (place / "predictions.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == ["graph", "target", "part", "prediction", "p(0)", "p(1)"]
    valid = [line for line in lines if line["part"] == "valid"]
    assert len(valid) == 19
    right = sum(line["target"] == line["prediction"] for line in valid) / 19
    record = Record.load(next((place / "runs").rglob("record.json")))
    assert right == record.best.valid


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (torch.rand(3, 6), "x with 4 columns (got 6 in other.pt)"),
        (None, "x with 4 columns (got none in other.pt)"),
    ],
)
def test_features_that_differ_from_those_of_training_are_named(x: torch.Tensor | None, words: str, place: Path) -> None:
    ring = torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]])
    graphs = [Data(x=torch.rand(3, 4), edge_index=ring, y=torch.tensor([i % 2])) for i in range(20)]
    torch.save(graphs, "mine.pt")
    torch.save([Data(x=x, edge_index=ring, num_nodes=3)], "other.pt")
    (place / "mine.toml").write_text('data = "mine.pt"\npolicy = "ND"\nnum_layers = 1\nepochs = 1\n')
    done = esan("train", "mine.toml", "--quiet")
    assert done.exit_code == 0, done.output
    result = esan("predict", "runs", "other.pt")
    assert result.exit_code == 2
    assert f"Expected the node features that the network was trained with, {words}. Give the graphs" in result.stderr


def test_classes_are_words_from_the_table_to_the_predictions(place: Path) -> None:
    pytest.importorskip("rdkit")
    chains = ["C" * n + end for n in range(2, 12) for end in ("", "O", "N")]
    rows = [f"mol{i},{smiles},{'alkane' if smiles[-1] == 'C' else 'other'}" for i, smiles in enumerate(chains)]
    (place / "mine.csv").write_text("\n".join(["id,smiles,kind", *rows]) + "\n")
    (place / "mine.toml").write_text('data = "mine.csv"\ntargets = "kind"\npolicy = "ND"\nlayers = 1\nepochs = 1\n')
    assert esan("train", "mine.toml", "--quiet").exit_code == 0
    assert esan("predict", "runs", "mine.csv").exit_code == 0
    with (place / "predictions.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0])[-3:] == ["prediction", "p(alkane)", "p(other)"]
    assert {line["target"] for line in lines} == {"alkane", "other"}
    assert {line["prediction"] for line in lines} <= {"alkane", "other"}
    assert {line["part"] for line in lines} == {"train", "valid", "test"}
    fitted = Predictor.load(place / "runs" / "mine" / "0-0")
    assert "classification of alkane, other" in repr(fitted)
    right = sum(line["target"] == line["prediction"] for line in lines) / len(lines)
    assert fitted.score("mine.csv") == pytest.approx(right)
    assert fitted.predict("mine.csv").called == [line["prediction"] for line in lines]
    (place / "mine.csv").write_text("id,smiles,kind\nm0,CCO,acid\n")
    with pytest.raises(ValueError, match=r"Expected the classes alkane, other \(got acid at line 2"):
        fitted.score("mine.csv")


def test_whole_numbers_that_are_taken_for_classes_are_named(place: Path) -> None:
    pytest.importorskip("rdkit")
    chains = ["C" * n + end for n in range(2, 12) for end in ("", "O", "N")]
    (place / "mine.csv").write_text("smiles,size\n" + "".join(f"{one},{len(one) % 5}\n" for one in chains))
    (place / "mine.toml").write_text('data = "mine.csv"\npolicy = "ND"\nnum_layers = 1\nepochs = 1\n')
    words = (
        'The targets in column "size" are 5 different whole numbers, so this is a classification. To predict numbers'
    )
    done = esan("train", "mine.toml", "--quiet")
    assert f"{words}, add --set task=regression." in done.output
    assert words not in esan("train", "mine.toml", "--set", "task=classification", "--quiet").output
    numbers = esan("train", "mine.toml", "--set", "task=regression", "--quiet")
    assert numbers.exit_code == 0
    assert words not in numbers.output
    assert "mae" in numbers.output
    named = esan("train", "mine.toml", "--set", "targets=size", "--set", "smiles=smiles", "--quiet")
    assert words in named.output


def test_whole_numbers_in_a_file_of_labels_are_named_and_words_are_not(place: Path) -> None:
    command = ("train", "small.toml", "--set", "labels=y.txt", "--set", "epochs=1", "--set", "data=graphs.g6")
    (place / "graphs.g6").write_text("Dhc\nD~{\n" * 8)
    (place / "y.txt").write_text("1\n4\n" * 8)
    done = esan(*command, "--quiet")
    assert done.exit_code == 0, done.output
    assert "The labels in y.txt are 2 different whole numbers, so this is a classification." in done.output
    (place / "y.txt").write_text("ring\nwhole\n" * 8)
    assert "different whole" not in esan(*command, "--quiet", "--runs", "others").output


def test_a_recipe_of_a_table_reads_its_bonds(place: Path) -> None:
    """The defaults of a TOML file and of `fit` are the same: bonds are read, targets scaled, and some graphs test."""
    pytest.importorskip("rdkit")
    chains = ["C" * n + end for n in range(2, 12) for end in ("=C", "O", "N")]
    (place / "mine.csv").write_text("smiles,y\n" + "".join(f"{one},{1000.5 + len(one)}\n" for one in chains))
    (place / "mine.toml").write_text(
        'data = "mine.csv"\npolicy = "ND"\nnum_layers = 1\nhidden_channels = 4\nepochs = 2\n'
    )
    done = esan("train", "mine.toml", "--quiet")
    assert done.exit_code == 0, done.output + done.stderr
    trained = Predictor.load(place / "runs")
    assert trained.header.model_spec.conv == "gine"
    assert trained.record is not None
    assert trained.record.best.test is not None
    assert trained.objective.scale is not None
    alike = fit("mine.csv", "ND", num_layers=1, hidden_channels=4, epochs=2, progress=False, device="cpu")
    assert torch.equal(alike.predict("mine.csv").value, trained.predict("mine.csv").value)


@pytest.mark.filterwarnings("always::UserWarning")
def test_molecules_from_a_table(place: Path) -> None:
    """A table with a column of names: which columns are targets is said in the recipe."""
    pytest.importorskip("rdkit")
    chains = ["C" * n + end for n in range(2, 12) for end in ("", "O", "N")]
    rows = [f"mol{i},{smiles},{len(smiles) + 0.5}" for i, smiles in enumerate(chains)]
    (place / "mine.csv").write_text("\n".join(["id,structure,size", *rows]) + "\n")
    (place / "mine.toml").write_text(
        'data = "mine.csv"\nsmiles = "structure"\ntargets = "size"\nconv = "gine-ogb"\nsplit = "scaffold"\n'
        'policy = "ND"\nlayers = 2\nwidth = 8\nepochs = 1\nscale_targets = true\n'
    )
    done = esan("train", "mine.toml", "--set", "split=random", "--quiet")
    assert done.exit_code == 0, done.output + done.stderr
    assert re.search(r"valid +test", done.output)
    assert "Expected" in esan("train", "mine.toml", "--set", "targets=id", "--quiet").stderr
    (place / "new.csv").write_text("structure\nCCO\nC(\nCCN\n")
    result = esan("predict", "runs", "new.csv")
    assert result.exit_code == 2
    assert "C(" in result.stderr
    result = esan("predict", "runs", "new.csv", "--skip-unreadable", "--smiles", "structure")
    assert result.exit_code == 0, result.output + result.stderr
    assert result.stderr == "Left out 1 of 3 rows of new.csv: line 3 ('C(').\n"
    lines = (place / "predictions.csv").read_text().splitlines()
    assert lines[0] == "graph,line,smiles,prediction"
    assert [line.split(",")[1] for line in lines[1:]] == ["2", "4"]
    assert [line.split(",")[2] for line in lines[1:]] == ["CCO", "CCN"]
