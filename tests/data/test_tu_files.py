"""TU text files, arrays and GIN's format: what they mean, and errors that name the file when one is cut short."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from esan.data.sets.gin_text_format import read_gin
from esan.data.sets.set_arrays import arrays_in, checked_arrays
from esan.data.sets.tu_sets import TUFiles, read_tu
from esan.graphs.readers.graph_arrays import GraphArrays

#: A triangle and an edge; an edge twice and a self-loop, which are dropped.
TEXTS = {
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n1, 3\n3, 1\n4, 5\n5, 4\n4, 5\n4, 4\n",
    "graph_indicator": "1\n1\n1\n2\n2\n",
    "graph_labels": "-1\n1\n",
    "node_labels": "3\n4\n3\n5\n3\n",
    "edge_labels": "7\n7\n8\n8\n7\n7\n9\n9\n9\n7\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for part, text in TEXTS.items():
        (tmp_path / f"TOY_{part}.txt").write_text(text)
    return tmp_path


def _read(folder: Path) -> GraphArrays:
    return read_tu(TUFiles.of(folder), attributes=True, edge_labels=True)


def test_the_files_mean_graphs_with_labels(folder: Path) -> None:
    arrays = _read(folder)
    assert arrays.num_nodes.tolist() == [3, 2]
    assert arrays.num_directed_edges.tolist() == [6, 2]
    assert arrays.x is not None
    assert arrays.edge_attr is not None
    assert arrays.y is not None
    assert arrays.x[:, 0].tolist() == [0, 1, 0, 2, 0], "labels from 0 on"
    assert arrays.y.tolist() == [-1, 1]
    seen = dict(zip(map(tuple, arrays.edge_index[:, :6].T.tolist()), arrays.edge_attr[:6, 0].tolist(), strict=True))
    assert seen == {(0, 1): 0, (1, 0): 0, (1, 2): 1, (2, 1): 1, (0, 2): 0, (2, 0): 0}
    assert arrays.edge_index[:, 6:].tolist() == [[0, 1], [1, 0]]
    assert len(arrays.to_graphs("toy")) == 2


def test_attributes_stand_in_front_of_labels(folder: Path) -> None:
    (folder / "TOY_node_attributes.txt").write_text("0.5, 1\n" * 5)
    arrays = _read(folder)
    assert arrays.x is not None
    assert arrays.x[3].tolist() == [0.5, 1, 0, 0, 1]
    plain = read_tu(TUFiles.of(folder), attributes=False, edge_labels=False)
    assert plain.x is not None
    assert plain.x.shape == (5, 1)
    assert plain.edge_attr is None


def test_real_targets_stay_real(folder: Path) -> None:
    (folder / "TOY_graph_labels.txt").unlink()
    (folder / "TOY_graph_attributes.txt").write_text("1.0\n2.0\n")
    y = _read(folder).y
    assert y is not None
    assert y.dtype == np.float64


def test_an_archive_is_read_where_it_lies(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    packed = tmp_path_factory.mktemp("packed")
    with zipfile.ZipFile(packed / "raw.zip", "w") as archive:
        for path in folder.iterdir():
            archive.write(path, f"raw/{path.name}")
    assert np.array_equal(_read(packed).edge_index, _read(folder).edge_index)
    assert [path.name for path in packed.iterdir()] == ["raw.zip"]
    content = (packed / "raw.zip").read_bytes()
    (packed / "raw.zip").write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=r"raw\.zip"):
        _read(packed)
    with pytest.raises(ValueError, match="Expected a whole archive"):
        read_tu(TUFiles(packed, "TOY"), attributes=False, edge_labels=False)


@pytest.mark.parametrize(
    ("part", "text", "message"),
    [
        (
            "A",
            "1, 2\n2, 1\n2, 3\n3, 2\n1, 3\n3, 1\n4, 5\n",
            r"Expected 7 lines.*got 10 in TOY_edge_labels.txt.*One of them is cut short",
        ),
        ("A", "1, 2\n2, 1\n9, 1\n", r"from 1 to 5, .*got \(9, 1\) at line 3 of TOY_A.txt"),
        ("A", "1, 2\n2, 1\n1, 5\n5, 1\n", r"got \(1, 5\), of graphs 1 and 2, at line 3"),
        ("A", "1, 2\n2,\n", "lines of integers in TOY_A.txt .*got other text"),
        ("A", "1\n2\n", r'Expected lines "u, v" \(got 1 numbers'),
        ("A", "", "got an empty file, TOY_A.txt"),
        ("graph_indicator", "1\n1\n1\n2\n", r"from 1 to 4, .*One of the two files is cut short"),
        ("graph_indicator", "2\n2\n2\n1\n1\n", "Expected the nodes graph after graph"),
        ("graph_indicator", "1\n1\n1\n3\n3\n", "Expected graphs with at least one node|Expected 3 lines"),
        ("graph_labels", "-1\n", r"Expected 2 lines.*got 1 in TOY_graph_labels.txt"),
        ("graph_labels", "yes\nno\n", "lines of numbers in TOY_graph_labels.txt .*got other text"),
        ("node_labels", "3\n4\n3\n5\n", r"Expected 5 lines.*got 4 in TOY_node_labels.txt"),
        ("edge_labels", "7\n", r"Expected 10 lines.*got 1 in TOY_edge_labels.txt"),
    ],
)
def test_a_damaged_file_is_named(folder: Path, part: str, text: str, message: str) -> None:
    (folder / f"TOY_{part}.txt").write_text(text)
    with pytest.raises(ValueError, match=message):
        _read(folder).to_graphs("toy")


def test_a_missing_or_cut_file_is_named(folder: Path) -> None:
    (folder / "TOY_graph_indicator.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"Expected TOY_graph_indicator\.txt"):
        _read(folder)
    (folder / "TOY_graph_indicator.txt").write_text(TEXTS["graph_indicator"])
    (folder / "TOY_edge_labels.txt").unlink()
    (folder / "TOY_A.txt").write_text(TEXTS["A"][:-15])
    with pytest.raises(ValueError, match="0→1 of graph 1 in one direction only"):
        _read(folder).to_graphs("toy")
    (folder / "TOY_A.txt").unlink()
    with pytest.raises(ValueError, match=r"Expected one file NAME_A\.txt .*got none"):
        _read(folder)
    for name in ("X", "Y"):
        (folder / f"{name}_A.txt").write_text("1, 2\n")
    with pytest.raises(ValueError, match="got 2: X, Y"):
        _read(folder)


def test_gin_text_names_the_line_that_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "toy.txt"
    path.write_text("2\n3 1\n4 1 1\n9 2 0 2\n4 1 1\n1 0\n7 0\n")
    arrays = read_gin(path)
    assert arrays.num_nodes.tolist() == [3, 1]
    assert arrays.num_directed_edges.tolist() == [4, 0]
    assert arrays.x is not None
    assert arrays.x[:, 0].tolist() == [0, 2, 0, 1]
    assert arrays.y is not None
    assert arrays.y.tolist() == [1, 0]
    for text, message in [
        ("2\n3 1\n4 1 1\n9 2 0 2\n", "after line 4"),
        ("1\n1 0\n7 2 0\n", "2 neighbours announced and 1 listed at line 3"),
        ("1\n1 0\nx 0\n", "at line 3"),
        ("", "after line 0"),
    ]:
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            read_gin(path)


def test_arrays_name_what_is_missing_or_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    whole = {
        "edge_index": np.array([[0, 1], [1, 0]]),
        "edge_ptr": np.array([0, 2]),
        "node_ptr": np.array([0, 2]),
        "x": np.zeros(2),
        "y": np.ones(1),
    }

    def read(**changed: np.ndarray) -> None:
        np.savez(path, **{**whole, **changed})  # type: ignore[arg-type]
        checked_arrays(arrays_in(path), "", path, needs=("x", "y")).to_graphs("a.npz")

    read()
    for changed, message in [
        ({"x": np.zeros(3)}, r"Expected 2 rows of x \(got 3"),
        ({"y": np.zeros(2)}, "Expected 1 rows of y"),
        ({"edge_ptr": np.array([0, 3])}, "Expected 3 rows of edge_index"),
        ({"edge_index": np.array([[0, 2], [2, 0]])}, r"from 0 to 1 in graph 0 \(got the edge \(0, 2\)"),
        ({"edge_index": np.array([[0, 0], [1, 1]])}, "more than once"),
        ({"node_ptr": np.array([0])}, "Expected node_ptr with where each graph begins"),
    ]:
        with pytest.raises(ValueError, match=message):
            read(**changed)
    np.savez(path, edge_index=whole["edge_index"])
    with pytest.raises(ValueError, match="got no edge_ptr in"):
        checked_arrays(arrays_in(path), "", path, needs=("x", "y"))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=r"Expected an \.npz of plain arrays"):
        arrays_in(path)
    np.savez(path, x=np.array([object()], dtype=object))
    with pytest.raises(ValueError, match=r"Expected an \.npz of plain arrays"):
        arrays_in(path)
