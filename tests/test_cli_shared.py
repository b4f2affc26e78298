"""What all commands share: options of one meaning, whole tables at 80 columns, one sentence for what is missing."""

import inspect
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from esan.cli.error_text import OptionNames
from esan.cli.jobs import chosen_numbers, whole_numbers
from esan.cli.main import COMMANDS, app
from esan.graphs import cycle, disjoint_union, path, star, to_graph6
from esan.ops.numba import runtime as cpu
from esan.policies import Whole
from esan.train.recipes.recipe import Recipe
from made_up_records import Pretend

#: Options whose meaning and default are the same in every command that has them.
SHARED: tuple[str, ...] = (
    "seeds",
    "seed",
    "folds",
    "fold",
    "set",
    "device",
    "data",
    "cache",
    "runs",
    "quiet",
    "smiles",
)
SHARED += ("executor", "workers", "address", "wait", "together", "skip_unreadable")
LONG = "a/recipe-with-a-name-that-is-much-longer-than-any-column-of-a-table-has-space-for"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with graphs, labels that are words, and a recipe for them under a long name."""
    monkeypatch.setenv("ESAN_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    kinds = [graph for n in range(4, 12) for graph in (cycle(n), path(n), star(n))]
    Path("graphs.g6").write_text("".join(f"{to_graph6(graph)}\n" for graph in kinds))
    Path("labels.txt").write_text("ring\ntree\ntree\n" * 8)
    Path("own.toml").write_text(
        f'data = "graphs.g6"\nlabels = "labels.txt"\nname = "{LONG}"\npolicy = "ND"\nmodel = "ds"\n'
        "layers = 1\nwidth = 4\nepochs = 1\nseeds = 2\n[[grid]]\nlr = [0.01, 0.001]\n"
    )
    return tmp_path


def esan(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "80"})


def whole(done: Result) -> str:
    """The output of a command that went well, in which nothing is cut and no table is wider than the terminal."""
    assert done.exit_code == 0, done.output
    assert "…" not in done.output
    tables = [line for line in done.stdout.splitlines() if not line.startswith(("Saved", "Runs", "Bag(", "Best on"))]
    assert max(map(len, tables)) <= 80, max(tables, key=len)
    return done.output


@pytest.mark.parametrize("option", SHARED)
def test_an_option_means_the_same_in_every_command(option: str) -> None:
    found: dict[str, Any] = {}
    for command in COMMANDS:
        run = import_module(f"esan.cli.commands.{command}").run
        for parameter in inspect.signature(run).parameters.values():
            if option in OptionNames.of(run).names and _named(parameter) == f"--{option.replace('_', '-')}":
                found[command] = (parameter.annotation, parameter.default)
    assert found
    assert len({str(value) for value in found.values()}) == 1, found


def _named(parameter: inspect.Parameter) -> str:
    return next((str(extra.default) for extra in getattr(parameter.annotation, "__metadata__", ())), "")


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_is_whole_at_80_columns(command: str) -> None:
    text = whole(esan(*command.split(), "--help"))
    assert "Usage: esan" in text
    # A number of words that read badly: "a line a graph", "if not given".
    assert not re.search(r"\b(a line a|a row a|one a|if not given)\b", text)


def test_a_number_alone_is_a_count() -> None:
    assert whole_numbers("3", "seeds") == whole_numbers("0..2", "seeds") == whole_numbers("0,1,2", "seeds") == [0, 1, 2]
    assert chosen_numbers(None, 5, "seeds") == [5]
    assert chosen_numbers(None, None, "seeds") is None
    for many, one, words in [
        ("0", None, r"Expected --folds of at least 1 \(got 0\)\. For number 0 alone, write --fold 0\."),
        ("2", 1, r"Expected --folds or --fold \(got both\)"),
        (None, -1, r"Expected --fold of at least 0 \(got -1\)"),
    ]:
        with pytest.raises(ValueError, match=words):
            chosen_numbers(many, one, "folds")


@pytest.mark.parametrize(
    ("options", "seeds"), [(("--seeds", "2"), {0, 1}), (("--seed", "2"), {2}), (("--seeds", "1..2"), {1, 2})]
)
@pytest.mark.parametrize("command", ["train", "campaign", "search", "reproduce"])
def test_seeds_are_counted_and_named_alike(
    command: str, options: tuple[str, ...], seeds: set[int], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def stop(jobs: Any, *_: object, **__: object) -> None:
        asked.extend(jobs)
        raise ValueError("Expected nothing more (got jobs).")

    monkeypatch.setattr("esan.cli.commands.train.run_jobs", stop)
    for module in ("esan.cli.commands.campaign", "esan.train.campaigns.grid", "esan.report.reproduction.run_tables"):
        monkeypatch.setattr(f"{module}.run_campaign", stop)
    what = ("zinc", "--row", "gin") if command == "reproduce" else ("own.toml",)
    assert "Expected nothing more" in esan(command, *what, *options).stderr
    assert {job.seed for job in asked} == seeds


def test_tables_are_whole_at_80_columns(place: Path) -> None:
    trained = whole(esan("train", "own.toml", "--seeds", "2", "--quiet"))
    assert "accuracy" in trained
    result = whole(esan("campaign", "own.toml"))
    assert LONG[-20:] in "".join(result.split())
    found = whole(esan("search", "own.toml", "--seed", "0"))
    assert "lr=0.01" in "".join(found.split())
    report = whole(esan("report", "runs"))
    assert "test accuracy, %" in " ".join(report.split())
    for words in (("advise", "graphs.g6", "--labels", "labels.txt"), ("advise", "graphs.g6"), ("bag", "graphs.g6")):
        whole(esan(*words))
    assert "different" in whole(esan("wl", "cycle(6)+cycle(6)", "2xcycle(3)+2xcycle(3)"))
    whole(esan("train", "--list"))


def test_progress_is_shown_unless_quiet(place: Path) -> None:
    assert re.search(r"0-0 ━+ 1/1 loss \d", whole(esan("train", "own.toml", "--runs", "a")))
    assert "━ 1/1" not in whole(esan("train", "own.toml", "--runs", "b", "--quiet"))
    assert "of 2 runs" in whole(esan("campaign", "own.toml", "--runs", "c"))
    quiet = whole(esan("campaign", "own.toml", "--runs", "d", "--quiet"))
    assert "of 2 runs" not in quiet
    assert "2 records in d." in quiet


def test_reproduce_prints_the_rows_it_ran(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("esan.train.campaigns.executors.Serial.map", Pretend(0.25).map)
    done = whole(esan("reproduce", "zinc", "--row", "gin", "--seeds", "2", "--results", "results"))
    (row,) = [line for line in done.splitlines() if line.strip().startswith("zinc/gin")]
    assert row.split() == ["zinc/gin", "test", "mae", "0.252", "±", "0.017", *row.split()[6:]]
    assert "2 of 10 runs" in " ".join(done.split())


def test_set_repairs_a_field_of_a_file(place: Path) -> None:
    Path("bad.toml").write_text(Path("own.toml").read_text().replace("epochs = 1", 'epochs = "one"'))
    refused = esan("train", "bad.toml")
    assert refused.exit_code == 2
    assert "Expected epochs to be a whole number (got 'one')" in refused.stderr
    assert Recipe.load("bad.toml", ["epochs=1"]).name == f"{LONG}~epochs=1"
    assert esan("train", "bad.toml", "--set", "epochs=1", "--quiet").exit_code == 0
    still = esan("train", "bad.toml", "--set", "lr=0.1")
    assert "Expected epochs to be a whole number (got 'one')" in still.stderr
    two = Path("two.toml")
    two.write_text('data = "graphs.g6"\nmodel = "gnn"\npolicy = "ND"\n')
    assert Recipe.load(two, ["policy=identity"]).policy == Whole()


@pytest.mark.parametrize(
    ("source", "graphs"), [("graphs.g6", 24), ("graphs.g6[3]", 1), ("rook", 1), ("cycle(4)", 1), ("csl", 150)]
)
def test_sources_of_graphs(source: str, graphs: int, place: Path) -> None:
    assert f"{graphs} graph" in esan("bag", source, "--policy", "NM", "--num-layers", "1").stdout


def test_one_graph_of_many(place: Path) -> None:
    done = esan("wl", "graphs.g6[0]", "cycle(4)", "--test", "1")
    assert "Identical: the two graphs are the same" in done.stdout
    for words, error in [
        (("wl", "graphs.g6", "rook"), "Expected one graph (got 24 in 'graphs.g6'). Name one by its number"),
        (("wl", "graphs.g6[99]", "rook"), "Expected a graph of graphs.g6 from 0 to 23 (got graphs.g6[99])"),
        (("wl", "cycle(99999999)", "rook"), "(got 99999999 nodes of cycle(99999999))"),
        (("advise", "graphs.g6", "--smiles", "x"), "Expected a CSV file with --smiles (got 'graphs.g6')"),
        (("bench", "csl/gin", "--seeds", "3..4"), "Expected a count as --seeds (got 3..4)"),
    ]:
        refused = esan(*words)
        assert refused.exit_code == 2
        assert error in refused.stderr
        assert len(refused.stderr.splitlines()) == 1


def test_errors_name_options_where_options_were_used() -> None:
    options = OptionNames(
        {"num_layers": "--num-layers", "skip_unreadable": "--skip-unreadable", "set": "--set", "weights": "--weights"},
        {"node_labels": "--no-node-labels"},
        frozenset({"skip_unreadable"}),
    )
    for text, worded in [
        ("Expected num_layers of at least 1 (got 0).", "Expected --num-layers of at least 1 (got 0)."),
        (
            "Expected a bag (got 3). Build it with num_layers=5.",
            "Expected a bag (got 3). Build it with --num-layers 5.",
        ),
        ("Expected SMILES (got x). Pass skip_unreadable=True.", "Expected SMILES (got x). Pass --skip-unreadable."),
        ("Expected y (got x). Pass skip_missing=True.", "Expected y (got x). Pass --set skip_missing=true."),
        ('Expected y (got x). Pass task="labels".', "Expected y (got x). Pass --set task=labels."),
        ("Expected y (got x). Pass targets=['a', 'b'].", "Expected y (got x). Pass --set targets=a,b."),
        ("Expected integers (got x). Pass node_labels=False.", "Expected integers (got x). Pass --no-node-labels."),
        ("Expected a file (got 'num_layers of at').", "Expected a file (got 'num_layers of at')."),
    ]:
        assert options.worded(text) == worded


def block(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """As if a package were not installed."""
    for name in [name for name in sys.modules if name.startswith(f"{package}.")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, package, None)


@pytest.mark.parametrize(
    ("package", "words"),
    [
        ("matplotlib", ("bag", "rook", "--draw", "a.png")),
        ("matplotlib", ("wl", "rook", "shrikhande", "--draw", "a.png")),
        ("matplotlib", ("advise", "graphs.g6", "--out", "a.json")),
        ("rdkit", ("advise", "mol.csv")),
        ("rdkit", ("bag", "mol.csv")),
        ("rdkit", ("wl", "mol.csv[0]", "rook")),
        ("rdkit", ("train", "mol.toml", "--quiet")),
        ("rdkit", ("campaign", "mol.toml", "--quiet")),
        ("rdkit", ("search", "mol.toml", "--quiet")),
        ("ogb", ("advise", "mol.csv")),
        ("ogb", ("train", "mol.toml", "--quiet")),
        ("ray", ("campaign", "own.toml", "--executor", "ray")),
        ("ray", ("search", "own.toml", "--executor", "ray")),
        ("ray", ("reproduce", "csl", "--executor", "ray")),
        ("tensorboard", ("train", "own.toml", "--tensorboard")),
        ("wandb", ("train", "own.toml", "--wandb", "x")),
        ("numba", ("compile",)),
    ],
)
def test_a_package_that_is_missing_is_one_sentence(
    package: str, words: tuple[str, ...], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if package == "ogb":
        pytest.importorskip("rdkit")
    Path("mol.csv").write_text("smiles,y\nCCO,0.5\nCCC,1.5\n")
    Path("mol.toml").write_text('data = "mol.csv"\nepochs = 1\n[[grid]]\nlr = [0.01, 0.001]\n')
    block(monkeypatch, package)
    if package == "tensorboard":
        block(monkeypatch, "torch.utils.tensorboard")
    if package == "numba":
        monkeypatch.setattr(cpu, "available", lambda: False)
    done = esan(*words)
    assert done.exit_code == 2, done.output
    assert "Traceback" not in done.output
    lines = [line for line in done.stderr.splitlines() if "Expected" in line]
    assert len(lines) == 1, done.output
    assert package.lower() in lines[0].lower()
    assert re.search(r"esan\[\w+\]", lines[0])


def test_graphs_that_need_more_than_wl(place: Path) -> None:
    Path("hard.g6").write_text(f"{to_graph6(cycle(6))}\n{to_graph6(disjoint_union(cycle(3), cycle(3)))}\n")
    done = esan("advise", "hard.g6", "--policy", "ED")
    assert "DS-WL ED" in done.stdout
    assert not list(place.glob("advice*")), "nothing is written unless --out says where"
