"""Arrays from files that contradict themselves or promise too much: one error each, before memory is taken."""

import io
import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from esan.graphs import load_graphs, read
from esan.graphs.readers.graph_arrays import arrays_in

#: A path of three nodes and a cycle of four, with features.
WHOLE: dict[str, Any] = {
    "edge_index": np.array([[0, 1, 1, 2, 0, 1, 1, 2, 2, 3, 3, 0], [1, 0, 2, 1, 1, 0, 2, 1, 3, 2, 0, 3]]),
    "edge_ptr": np.array([0, 4, 12]),
    "node_ptr": np.array([0, 3, 7]),
    "x": np.arange(7.0),
    "edge_attr": np.arange(12),
    "y": np.array([0.5, 1.5]),
}


def _save(folder: Path, **changed: Any) -> Path:
    held = {name: value for name, value in (WHOLE | changed).items() if value is not None}
    np.savez(folder / "graphs.npz", **held)
    return folder / "graphs.npz"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"edge_index": WHOLE["edge_index"] + 0.5}, r"whole numbers in edge_index \(got 0.5"),
        ({"edge_index": WHOLE["edge_index"].astype(bool)}, r"whole numbers in edge_index \(got bool"),
        ({"edge_index": WHOLE["edge_index"].T}, r"edge_index of shape \[2, edges\] \(got \[12, 2\]"),
        ({"edge_index": WHOLE["edge_index"] - 1}, r"from 0 to 2 in graph 0 \(got the edge \(-1, 0\)"),
        ({"edge_ptr": [0, 4, 13]}, r"Expected 13 rows of edge_index \(got 12"),
        ({"edge_ptr": [0, 4, 10]}, r"Expected 10 rows of edge_index \(got 12"),
        ({"edge_ptr": [0, 13, 12]}, r"edge_ptr that does not fall \(got 13, then 12"),
        ({"edge_ptr": [-4, 0, 12]}, r"edge_ptr to begin with 0 \(got -4"),
        ({"edge_ptr": [2, 4, 12]}, r"edge_ptr to begin with 0 \(got 2"),
        ({"edge_ptr": [0, 12]}, "as many graphs in edge_ptr as in node_ptr"),
        ({"edge_ptr": [0, 4.5, 12]}, r"whole numbers in edge_ptr \(got 4.5"),
        ({"edge_ptr": 12}, r"edge_ptr with where each graph begins, and the end \(got shape \[\]"),
        ({"node_ptr": [0, 3, 50]}, r"Expected 50 rows of x \(got 7"),
        ({"node_ptr": [0, 3, 5]}, r"Expected 5 rows of x \(got 7"),
        ({"node_ptr": [0, 7, 7]}, "at least one node"),
        ({"node_ptr": [0, 3, 2**62], "x": None}, "add up to less than 2|at most 67,108,864 nodes"),
        (
            {"node_ptr": [0, 3, 2**40], "x": None},
            r"at most 67,108,864 nodes where there is no x \(got 1,099,511,627,776",
        ),
        ({"node_ptr": None, "num_nodes": [3.5, 4]}, r"whole numbers in num_nodes \(got 3.5"),
        ({"node_ptr": None, "num_nodes": [-3, 10]}, r"num_nodes from 0 on \(got -3 for graph 0"),
        ({"node_ptr": None, "num_nodes": [3]}, "as many graphs in edge_ptr as in node_ptr or num_nodes"),
        ({"num_nodes": [4, 3]}, "num_nodes and node_ptr that agree"),
        ({"x": np.arange(8)}, r"Expected 7 rows of x \(got 8"),
        ({"x": np.arange(6)}, r"Expected 7 rows of x \(got 6"),
        ({"x": np.array(list("abcdefg"))}, "x holds <U1"),
        ({"x": np.arange(7) * 1j}, "x holds complex128"),
        ({"edge_attr": np.arange(11)}, r"Expected 12 rows of edge_attr \(got 11"),
        ({"y": np.arange(3)}, r"Expected 2 rows of y \(got 3"),
        ({"y": np.array(1)}, r"Expected 2 rows of y \(got one number"),
        ({"edge_atr": np.arange(12)}, r"and no others \(got edge_atr"),
        ({"node_ptr": None}, "got no num_nodes"),
    ],
)
def test_a_contradiction_is_one_error(changed: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        load_graphs(_save(tmp_path, **changed))


@pytest.mark.parametrize("kind", [">i8", ">i4", "<u2", ">u8", "<f8", ">f4", "|u1"])
def test_other_kinds_and_byte_orders_are_fine_data(kind: str, tmp_path: Path) -> None:
    plain = read(load_graphs(_save(tmp_path)))
    named = ("edge_index", "edge_ptr", "node_ptr")
    other = read(load_graphs(_save(tmp_path, **{n: WHOLE[n].astype(kind) for n in named}, x=WHOLE["x"].astype(">f8"))))
    assert other.fingerprint == plain.fingerprint
    counted = read(load_graphs(_save(tmp_path, x=WHOLE["x"].astype(kind))))
    assert counted.x is not None
    assert counted.x.tolist() == list(range(7))


def test_one_number_of_nodes_stands_for_all_graphs(tmp_path: Path) -> None:
    ends = np.array([[0, 1, 0, 1], [1, 0, 1, 0]])
    np.savez(tmp_path / "a.npz", edge_index=ends, edge_ptr=[0, 2, 4], num_nodes=3)
    assert read(load_graphs(tmp_path / "a.npz")).num_nodes.tolist() == [3, 3]


def _member(descr: str, shape: str, content: bytes = b"") -> bytes:
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (_member("<i8", "(2199023255552,)", bytes(80)), r"promises 17,592,186,044,416 bytes.* and has 80"),
        (_member("<i8", "(5,)", bytes(80)), "promises 40 bytes.* and has 80"),
        (_member("<i8", "(-10,)", bytes(80)), "promises -80 bytes"),
        (_member("|O", "(10,)", bytes(80)), "holds objects"),
        (_member("<i8", "(" * 50), "damaged header"),
        (b"no array", "damaged header"),
    ],
)
def test_headers_that_lie_take_no_memory(content: bytes, message: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", content)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=message):
            arrays_in(tmp_path / "a.npz")
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    file = io.BytesIO()
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("x.npy", "w") as one,
    ):
        one.write(_member("|u1", f"({272 * 2**20},)"))
        for _ in range(272):
            one.write(bytes(2**20))
    (tmp_path / "a.npz").write_bytes(file.getvalue())
    with pytest.raises(ValueError, match=r"members that unpack to 285,.* bytes from a file of 1,"):
        arrays_in(tmp_path / "a.npz")


def test_archives_with_other_bytes_or_doubled_names(tmp_path: Path) -> None:
    content = _save(tmp_path).read_bytes()
    for changed in (content + b"x", b"x" + content, content + content):
        (tmp_path / "graphs.npz").write_bytes(changed)
        with pytest.raises(ValueError, match="other bytes before or behind it"):
            load_graphs(tmp_path / "graphs.npz")
    with zipfile.ZipFile(tmp_path / "graphs.npz", "w") as archive:
        archive.writestr("x.npy", _member("<i8", "(1,)", bytes(8)))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("x.npy", _member("<i8", "(1,)", bytes(8)))
    with pytest.raises(ValueError, match="2 members of the name"):
        load_graphs(tmp_path / "graphs.npz")


@pytest.mark.parametrize(
    ("part", "text", "message"),
    [
        ("node_labels", "0\n1\n2\n3\n", r"Expected 3 lines.*got 4 in X_node_labels.*lines too many"),
        ("graph_labels", "0\n1\n", r"Expected 1 lines.*got 2 in X_graph_labels"),
        ("edge_labels", "0\n" * 5, r"Expected 4 lines.*got 5 in X_edge_labels"),
        ("A", "1, 2\n2, 1\n2, 9\n9, 2\n", r"from 1 to 3, .*got \(2, 9\)"),
        ("A", "1, 2\n2, 1\n2, 0\n0, 2\n", r"from 1 to 3, .*got \(2, 0\)"),
        ("graph_indicator", "1\n1\n1000000000000\n", r"at least one node \(got none of graph 2"),
        ("graph_indicator", "0\n0\n0\n", "from graph 1 on"),
        ("graph_labels", "inf\n", r"whole numbers in labels \(got inf"),
        ("graph_labels", "1e300\n", r"whole numbers in labels \(got 1e\+300"),
    ],
)
def test_tu_folders_that_contradict_themselves(part: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "X_A.txt").write_text("1, 2\n2, 1\n2, 3\n3, 2\n")
    (tmp_path / "X_graph_indicator.txt").write_text("1\n1\n1\n")
    assert len(load_graphs(tmp_path)) == 1
    (tmp_path / f"X_{part}.txt").write_text(text)
    with pytest.raises(ValueError, match=message):
        load_graphs(tmp_path)


def test_a_saved_list_with_a_changed_byte(tmp_path: Path) -> None:
    """torch compares no checksums."""
    graph = load_graphs(_save(tmp_path))[0]
    graph.x = torch.full((3,), 123456789)
    torch.save([graph], tmp_path / "a.pt")
    content = bytearray((tmp_path / "a.pt").read_bytes())
    content[content.index((123456789).to_bytes(8, "little"))] ^= 1
    (tmp_path / "a.pt").write_bytes(bytes(content))
    with pytest.raises(ValueError, match="Expected a list of PyG Data"):
        load_graphs(tmp_path / "a.pt")
