"""The commands `esan wl` and `esan advise`."""

import errno
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from esan.cli.main import app
from esan.graphs import cycle, disjoint_union, path, to_graph6

RUNNER = CliRunner(env={"COLUMNS": "200"})


def test_names_and_policies() -> None:
    given = RUNNER.invoke(app, ["wl", "rook", "shrikhande", "--policy", "ED", "--test", "dss"])
    assert given.exit_code == 0
    assert "Separated after round 3" in given.stdout
    lines = [line.split() for line in given.stdout.splitlines()]
    counts = [line for line in lines if line and line[0].isdecimal()]
    assert counts == [
        ["0", "1", "1", "1", "equal"],
        ["1", "2", "2", "2", "equal"],
        ["2", "4", "4", "4", "equal"],
        ["3", "4", "6", "3", "different"],
    ]


def test_an_inconclusive_test_is_an_answer() -> None:
    given = RUNNER.invoke(app, ["wl", "rook", "shrikhande", "--test", "2-fwl"])
    assert given.exit_code == 0
    assert "Inconclusive" in given.stdout


def test_graph6_and_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "out.png"
    lines = [to_graph6(cycle(6)), to_graph6(disjoint_union(cycle(3), cycle(3)))]
    given = RUNNER.invoke(app, ["wl", *lines, "--test", "ds", "--policy", "ED", "--draw", str(picture)])
    assert given.exit_code == 0, given.output
    assert picture.read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["wl", "rook", "rok"], "Expected the name of a graph"),
        (["wl", "rook", "rook", "--policy", "ABC"], "Expected the name of a policy"),
        (["wl", "rook", "rook", "--test", "4-wl"], "Expected the name of a test"),
        (["advise", "missing.g6"], "which is not there"),
        (["advise", "graphs.g6", "--num-layers", "0"], "Expected --num-layers of at least 1 (got 0)"),
        (["advise", "graphs.g6", "--labels", "latin.txt"], "Expected a text file in UTF-8 (got latin.txt"),
        (
            ["advise", "graphs.g6", "--policy", "ND", "--out", "folder.g6"],
            "Expected a file that ends in .json as --out",
        ),
        (["advise", "folder.g6"], "NAME_A.txt"),
        (["wl", "rook", "rook", "--most", "0"], "Expected --most of 1 or more (got 0)"),
        (["wl", "rook", "rook", "--draw", "folder.g6"], "a folder"),
        (["wl", "rook", "rook", "--test", "1", "--draw", "none/a.png"], "No such file or directory"),
        (["wl", "rook", "latin.txt"], "in UTF-8 (got latin.txt, whose byte 2"),
        (["wl", "rook", "latin.g6"], "latin.g6, line 1"),
        (["wl", "rook", "weights.csv"], "got '1,2,0.5' in weights.csv, line 2"),
    ],
)
def test_errors_are_one_line(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("graphs.g6").write_text(to_graph6(cycle(6)))
    Path("latin.txt").write_bytes("0 é".encode("latin-1"))
    Path("latin.g6").write_bytes("Cé".encode("latin-1"))
    Path("weights.csv").write_text("0,1\n1,2,0.5\n")
    Path("folder.g6").mkdir()
    given = RUNNER.invoke(app, arguments)
    assert given.exit_code == 2
    assert message in given.stderr
    assert len(given.stderr.splitlines()) == 1
    assert "Traceback" not in given.output


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's own words stay in the line; raised by hand, since the superuser may read everything."""
    file = tmp_path / "secret.g6"
    file.write_text(to_graph6(cycle(6)))

    def refuse(*_: object, **__: object) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied", str(file))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    given = RUNNER.invoke(app, ["advise", str(file)])
    assert given.exit_code == 2
    assert given.stderr.startswith("Expected a path that can be read or written (got Permission denied: ")
    assert len(given.stderr.splitlines()) == 1


def test_advise_saves_what_it_says(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    data, labels = tmp_path / "graphs.g6", tmp_path / "labels.txt"
    graphs = [cycle(6), disjoint_union(cycle(3), cycle(3)), path(5)]
    data.write_text("\n".join(to_graph6(graph) for graph in graphs))
    labels.write_text("0\n1\n0\n")
    out = tmp_path / "out" / "advice.json"
    options = ["--labels", str(labels), "--policy", "ND", "--policy", "ED", "--out", str(out)]
    given = RUNNER.invoke(app, ["advise", str(data), *options])
    assert given.exit_code == 0, given.output
    assert "DS-WL ED is the cheapest that suffices" in " ".join(given.stdout.split())
    result = json.loads(out.read_text())
    assert [option["confused_labels"] for option in result["options"]] == [1, 0, 0, 0, 0]
    assert out.with_suffix(".png").stat().st_size > 5000
    labels.write_text("yes\nno\nyes\n")
    words = RUNNER.invoke(app, ["advise", str(data), *options])
    assert json.loads(out.read_text())["options"][0]["confused_labels"] == 1, words.output
    labels.write_text("a\n")
    assert "Expected one label a graph, 3 in all (got 1)" in RUNNER.invoke(app, ["advise", str(data), *options]).output


def test_advise_on_arrays(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    edges = [graph.edge_index.numpy() for graph in (cycle(6), disjoint_union(cycle(3), cycle(3)))]
    where = tmp_path / "two.npz"
    np.savez(where, edge_index=np.concatenate(edges, 1), edge_ptr=[0, 12, 24], num_nodes=[6, 6], y=[0, 1])
    given = RUNNER.invoke(app, ["advise", str(where), "--policy", "ED", "--out", str(tmp_path / "advice.json")])
    assert given.exit_code == 0, given.output
    assert json.loads((tmp_path / "advice.json").read_text())["best"]["policy"] == "ED"
