"""The command `esan bag`."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import esan
from esan.cli.main import app
from esan.graphs import cycle, to_graph6

RUNNER = CliRunner(env={"COLUMNS": "200"})


def _rows(text: str) -> list[list[str]]:
    lines = (line.replace(",", "").split() for line in text.splitlines())
    return [line for line in lines if len(line) == 4 and line[1].isdecimal()]


def test_rows_of_every_layer() -> None:
    result = RUNNER.invoke(app, ["bag", "csl(12,3)", "--policy", "ND", "--num-layers", "2"])
    assert result.exit_code == 0
    bag = esan.Bag.of(esan.graphs.csl(12, 3), "ND", 2)
    assert repr(bag) in result.stdout
    expected = [
        [str(t), str(bag.layer_view(t).num_rows), "144", f"{144 / bag.layer_view(t).num_rows:.1f}"] for t in (1, 2)
    ]
    assert _rows(result.stdout) == expected


def test_a_file_of_graphs_and_a_saved_bag(tmp_path: Path) -> None:
    graphs, saved = tmp_path / "rings.g6", tmp_path / "rings.bag"
    graphs.write_text("".join(f"{to_graph6(cycle(n))}\n" for n in (4, 5)))
    made = RUNNER.invoke(app, ["bag", str(graphs), "--policy", "EGO(1)", "--save", str(saved)])
    assert made.exit_code == 0
    assert "2 graphs, 9 subgraphs, 41 pairs" in made.stdout
    assert "compact for 4 layers" in made.stdout
    shown = RUNNER.invoke(app, ["bag", str(saved), "--literal"])
    assert shown.exit_code == 0
    assert _rows(shown.stdout) == [["each", "41", "41", "1.0"]]
    for options, expected in (
        (["--policy", "ND"], "Expected a bag of NodeDeletion(k=1)"),
        (["--num-layers", "5"], "Expected a bag built for 5 layers or more"),
    ):
        refused = RUNNER.invoke(app, ["bag", str(saved), *options])
        assert refused.exit_code == 2
        assert expected in refused.stderr
    saved.write_bytes(saved.read_bytes()[:3000])
    refused = RUNNER.invoke(app, ["bag", str(saved)])
    assert refused.exit_code == 2
    assert "Expected a whole bag file" in refused.stderr


def test_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    graphs, pictures = tmp_path / "rings.g6", set()
    graphs.write_text("".join(f"{to_graph6(cycle(n))}\n" for n in (4, 5)))
    for number, options in enumerate(([], ["--most", "2"], ["--most", "2", "--graph", "1"])):
        picture = tmp_path / f"{number}.png"
        assert RUNNER.invoke(app, ["bag", str(graphs), "--draw", str(picture), *options]).exit_code == 0
        pictures.add(picture.read_bytes())
    assert len(pictures) == 3


def test_a_long_line_of_graph6() -> None:
    assert "60 subgraphs" in RUNNER.invoke(app, ["bag", to_graph6(cycle(60)), "--num-layers", "2"]).stdout


def test_what_is_no_graph_is_refused_in_one_line() -> None:
    for given, expected in (
        ("rok", "Did you mean rook?"),
        ("none.g6", "which is not there"),
        ("cycle(-6)", "Expected cycle with whole numbers"),
    ):
        result = RUNNER.invoke(app, ["bag", given])
        assert result.exit_code == 2
        assert expected in result.stderr
        assert "Traceback" not in result.output
