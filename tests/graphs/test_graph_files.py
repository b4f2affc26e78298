"""graph6 both ways against networkx, and collections from files."""

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

from esan.graphs import cycle, from_graph6, load_graphs, path, read, read_graph6, to_graph6


@given(st.integers(1, 70), st.floats(0, 1), st.integers(0, 1000))
def test_graph6_both_ways(n: int, chance: float, seed: int) -> None:
    graph = nx.gnp_random_graph(n, chance, seed=seed)
    line = nx.to_graph6_bytes(graph, header=False).decode().strip()
    data = from_graph6(line)
    assert data.num_nodes == n
    assert {(u, v) for u, v in data.edge_index.t().tolist() if u < v} == {(min(e), max(e)) for e in graph.edges}
    assert to_graph6(data) == line
    assert to_graph6(from_graph6(">>graph6<<" + line + "\n")) == line


def test_a_graph_of_many_nodes() -> None:
    assert from_graph6(nx.to_graph6_bytes(nx.path_graph(300), header=False).decode()).num_edges == 598


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "Expected a line of graph6"),
        ("C 1", "Expected a line of graph6"),
        (":Fa@x^", "Expected a line of graph6"),
        ("Cé", "Expected a line of graph6"),
        ("D?", "Expected 2 characters of edges for 5 nodes"),
        ("A~", "Expected zeros behind the last edge"),
        ("~?", "Expected 3 characters of size"),
    ],
)
def test_malformed_graph6(line: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        from_graph6(line)
    if line:
        file = tmp_path / "bad.g6"
        file.write_text(f"{to_graph6(cycle(4))}\n\n{line}\n", encoding="utf-8")
        with pytest.raises(ValueError, match=rf"bad.g6, line 3: {message}"):
            read_graph6(file)


def test_graph6_has_no_loops() -> None:
    with pytest.raises(ValueError, match="without self-loops"):
        to_graph6(Data(edge_index=torch.tensor([[0], [0]]), num_nodes=1))


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "none.g6").write_text(">>graph6<<\n")
    with pytest.raises(ValueError, match="at least one line"):
        read_graph6(tmp_path / "none.g6")


def test_a_tu_folder(tmp_path: Path) -> None:
    """A triangle, a single node without edges, and an edge listed twice with a loop beside it."""
    raw = tmp_path / "TOY" / "raw"
    raw.mkdir(parents=True)
    directed = [(1, 2), (2, 1), (2, 3), (3, 2), (1, 3), (3, 1), (5, 6), (6, 5), (5, 6), (5, 5)]
    (raw / "TOY_A.txt").write_text("\n".join(f"{u}, {v}" for u, v in directed))
    (raw / "TOY_graph_indicator.txt").write_text("1\n1\n1\n2\n3\n3")
    (raw / "TOY_node_labels.txt").write_text("0\n1\n1\n4\n2\n2")
    (raw / "TOY_edge_labels.txt").write_text("\n".join("7777778888"))
    (raw / "TOY_graph_labels.txt").write_text("1\n-1\n1")
    graphs = read(load_graphs(tmp_path / "TOY"))
    assert graphs.num_nodes.tolist() == [3, 1, 2]
    assert graphs.num_edges.tolist() == [3, 0, 1]
    assert graphs.x is not None
    assert graphs.x.tolist() == [0, 1, 1, 4, 2, 2]
    assert graphs.y is not None
    assert graphs.y.tolist() == [1, -1, 1]
    assert graphs.edge_attr is not None
    assert graphs.edge_attr.tolist() == [7] * 6 + [8] * 2


def test_arrays_and_saved_lists(tmp_path: Path) -> None:
    directed = [path(3).edge_index.numpy(), cycle(4).edge_index.numpy()]
    np.savez(
        tmp_path / "two.npz",
        edge_index=np.concatenate(directed, 1),
        edge_ptr=[0, 4, 12],
        node_ptr=[0, 3, 7],
        x=np.arange(7),
        y=[0.5, 1.5],
    )
    torch.save([path(3), cycle(4)], tmp_path / "two.pt")
    admitted = set(torch.serialization.get_safe_globals())
    for name in ("two.npz", "two.pt"):
        graphs = read(load_graphs(tmp_path / name))
        assert graphs.num_nodes.tolist() == [3, 4]
        assert graphs.num_edges.tolist() == [2, 4]
    assert set(torch.serialization.get_safe_globals()) == admitted, "PyG goes on to read its own files"


def test_files_that_are_something_else(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", a=[1])
    (tmp_path / "broken.npz").write_bytes(b"no zip")
    torch.save({"a": 1}, tmp_path / "other.pt")
    (tmp_path / "broken.pt").write_bytes(b"nothing")
    (tmp_path / "graphs.csv").write_text("0,1")
    for name, message in (
        ("other.npz", "got no edge_index"),
        ("broken.npz", "Expected an .npz"),
        ("other.pt", "Expected a list of PyG Data"),
        ("broken.pt", "Expected a list of PyG Data"),
        ("graphs.csv", "Expected .g6, .npz, .pt or a TU folder"),
        ("", "NAME_A.txt"),
    ):
        with pytest.raises(ValueError, match=message):
            load_graphs(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        load_graphs(tmp_path / "missing")
    (tmp_path / "X_A.txt").write_text("1, 2\n2, 1")
    with pytest.raises(FileNotFoundError, match="graph_indicator"):
        load_graphs(tmp_path)


def test_numbers_of_a_tu_folder_that_are_none(tmp_path: Path) -> None:
    """Whatever is wrong in a file, the error names it."""
    edges, owner, labels = (tmp_path / f"X_{name}.txt" for name in ("A", "graph_indicator", "graph_labels"))
    for file, content, message in (
        (edges, b"1, 2, 3", "got 3 numbers per line in X_A.txt"),
        (edges, b"1, x", "lines of integers in X_A.txt"),
        (owner, "1\né".encode("latin-1"), "lines of integers in X_graph_indicator.txt"),
        (labels, b"0.5", r"whole numbers .*got 0.5 in X_graph_labels.txt"),
    ):
        edges.write_text("1, 2\n2, 1")
        owner.write_text("1\n1")
        labels.write_text("1")
        assert len(load_graphs(tmp_path)) == 1
        file.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            load_graphs(tmp_path)
