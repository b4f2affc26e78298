"""The same set from every form it is published in, and as PyG and OGB themselves read it."""

import gzip
import pickle
import shutil
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.datasets import ZINC, TUDataset
from torch_geometric.utils import to_networkx

from esan import data
from esan.data.sets.expressivity import SKIPS
from esan.data.sets.folders import DataFolders
from esan.data.sets.ogb import _labels, ogb_set
from esan.data.sets.zinc import find_zinc
from esan.graphs import Graphs, csl, read
from shared_sets import ROOT, needs


def _same(one: Graphs, other: Graphs, but: tuple[str, ...] = ()) -> None:
    for name in {"num_nodes", "num_directed_edges", "edge_index", "edge_attr", "x", "y"} - set(but):
        a, b = getattr(one, name), getattr(other, name)
        assert (a is None) == (b is None), name
        assert a is None or torch.equal(a.reshape(len(a), -1), b.reshape(len(b), -1)), name


@pytest.mark.exhaustive
@needs("ZINC/raw/train.pickle", "ZINC/zinc12k.npz")
def test_zinc_is_the_same_from_its_pickles(tmp_path: Path) -> None:
    (tmp_path / "ZINC").mkdir()
    (tmp_path / "ZINC" / "raw").symlink_to(ROOT / "ZINC" / "raw")
    raw = data.load("zinc", tmp_path, download=False)
    assert raw.source.endswith("train.pickle")
    assert raw.fingerprint == data.load("zinc", ROOT).fingerprint


def _molecule(generator: np.random.Generator, size: int) -> dict[str, Any]:
    bonds = np.triu(generator.integers(0, 4, (size, size)), 1)
    return {
        "num_atom": size,
        "atom_type": torch.from_numpy(generator.integers(0, 28, size)),
        "bond_type": torch.from_numpy(bonds + bonds.T),
        "logP_SA_cycle_normalized": torch.from_numpy(generator.normal(size=1)).float(),
    }


def test_zinc_reads_what_pyg_reads(tmp_path: Path) -> None:
    """Tensors pickled as torch does it, and an index that picks some: the form of the published files."""
    generator = np.random.default_rng(0)
    raw = tmp_path / "ZINC" / "raw"
    raw.mkdir(parents=True)
    index = {"train": [5, 0, 3], "val": [1], "test": [2, 4]}
    for part, ids in index.items():
        (raw / f"{part}.pickle").write_bytes(pickle.dumps([_molecule(generator, size) for size in range(2, 8)]))
        (raw / f"{part}.index").write_text(",".join(map(str, ids)) + "\n")
    found = find_zinc(DataFolders(tmp_path, tmp_path / "cache", download=False))
    ours = found.arrays.to_graphs(found.source)
    theirs = [graph for part in index for graph in ZINC(str(tmp_path / "ZINC"), subset=True, split=part)]
    _same(ours, read(theirs))
    with pytest.raises(ValueError, match=r"Expected 12,000 graphs \(got 6 "):
        data.load("zinc", tmp_path, download=False)


@needs("EXP/raw/GRAPHSAT.pkl", "EXP/exp.npz")
def test_exp_is_the_same_from_its_pickle(tmp_path: Path) -> None:
    plain = data.load("exp", ROOT)
    shutil.copytree(ROOT / "EXP" / "raw", tmp_path / "EXP" / "raw")
    pickled = data.load("exp", tmp_path, download=False)
    assert pickled.source.endswith("GRAPHSAT.pkl")
    assert pickled.fingerprint == plain.fingerprint


class Data:
    """Stands for PyG's class of old, whose objects were plain attributes."""


@needs("CEXP/cexp.npz")
def test_cexp_is_the_same_from_a_file_of_old_pyg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = np.load(ROOT / "CEXP" / "cexp.npz", allow_pickle=False)
    held = Data()
    held.__dict__ |= {
        "x": torch.eye(2)[torch.from_numpy(plain["x"]).long()],
        "edge_index": torch.from_numpy(plain["edge_index"]).long(),
        "edge_attr": None,
        "y": torch.from_numpy(plain["y"]).long(),
    }
    slices = {"x": plain["node_ptr"], "edge_index": plain["edge_ptr"], "y": np.arange(1201)}
    path = tmp_path / "CEXP" / "processed" / "data.pt"
    path.parent.mkdir(parents=True)
    with monkeypatch.context() as patched:
        import torch_geometric.data.data as pyg

        patched.setattr(Data, "__module__", "torch_geometric.data.data")
        patched.setattr(pyg, "Data", Data)
        torch.save((held, {name: torch.from_numpy(ends) for name, ends in slices.items()}), path)
    admitted = set(torch.serialization.get_safe_globals())
    assert data.load("cexp", tmp_path, download=False).fingerprint == data.load("cexp", ROOT).fingerprint
    assert set(torch.serialization.get_safe_globals()) == admitted, "PyG goes on to read its own files"
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(ValueError, match="It is damaged; fetch it again"):
        data.load("cexp", tmp_path, download=False)


@needs("CSL/csl.npz")
def test_csl_that_is_made_is_the_published_one_up_to_numbering(tmp_path: Path) -> None:
    made, published = data.load("csl", tmp_path), data.load("csl", ROOT)
    assert made.source == "the definition of CSL"
    assert torch.equal(made.y, published.y)
    for dataset in (made, published):
        for label, skip in enumerate(SKIPS):
            one = dataset.graphs.take(torch.tensor([15 * label + 7]))
            graph = nx.Graph(one.edges.t().tolist())
            assert nx.is_isomorphic(graph, to_networkx(csl(41, skip), to_undirected=True))
    assert made.fingerprint == data.load("csl", tmp_path).fingerprint, "the same numbering every time"


@needs("TU/MUTAG", "TU/PROTEINS")
@pytest.mark.parametrize(("name", "title"), [("mutag", "MUTAG"), ("proteins", "PROTEINS")])
def test_tu_sets_are_what_pyg_reads(name: str, title: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "TU" / title / "raw", tmp_path / title / "raw")
    ours, theirs = data.load(name, ROOT).graphs, TUDataset(str(tmp_path), title)
    wanted = read([graph.__class__(x=graph.x, edge_index=graph.edge_index, y=graph.y) for graph in theirs])
    _same(ours, wanted, but=("x",))
    assert ours.x is not None
    assert wanted.x is not None
    assert torch.equal(ours.x[:, 0], wanted.x.argmax(1))


@needs("TU/PTC/PTC.txt.gz", "TU/PTC/raw")
def test_ptc_is_the_same_in_the_format_of_gin(tmp_path: Path) -> None:
    (tmp_path / "TU" / "PTC").mkdir(parents=True)
    shutil.copy(ROOT / "TU" / "PTC" / "PTC.txt.gz", tmp_path / "TU" / "PTC")
    _same(data.load("ptc", tmp_path, download=False).graphs, data.load("ptc", ROOT).graphs)


@pytest.fixture
def tox(tmp_path: Path) -> Path:
    """The first molecules of moltox21 as a set of its own."""
    count = 40
    source, target = ROOT / "OGB" / "ogbg_moltox21", tmp_path / "OGB" / "ogbg_moltox21"
    rows = {path.name: gzip.decompress(path.read_bytes()).splitlines() for path in (source / "raw").iterdir()}
    nodes, edges = (sum(map(int, rows[f"num-{kind}-list.csv.gz"][:count])) for kind in ("node", "edge"))
    kept = {"node-feat.csv.gz": nodes, "edge.csv.gz": edges, "edge-feat.csv.gz": edges}
    (target / "raw").mkdir(parents=True)
    for name, lines in rows.items():
        (target / "raw" / name).write_bytes(gzip.compress(b"\n".join(lines[: kept.get(name, count)]) + b"\n"))
    (target / "split" / "scaffold").mkdir(parents=True)
    for part, ids in (("train", range(30)), ("valid", range(30, 35)), ("test", range(35, 40))):
        text = "".join(f"{i}\n" for i in ids)
        (target / "split" / "scaffold" / f"{part}.csv.gz").write_bytes(gzip.compress(text.encode()))
    return target


@needs("OGB/ogbg_moltox21")
def test_ogb_is_read_as_ogb_reads_it(tox: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw_reader = pytest.importorskip("ogb.io.read_graph_raw")
    found = ogb_set("ogbg-moltox21")(DataFolders(tox.parent.parent, tox / "cache", download=False))
    theirs = raw_reader.read_csv_graph_raw(str(tox / "raw"), add_inverse_edge=True)
    arrays = found.arrays
    assert arrays.x is not None
    assert arrays.edge_attr is not None
    assert np.array_equal(arrays.num_nodes, [graph["num_nodes"] for graph in theirs])
    assert np.array_equal(arrays.edge_index, np.concatenate([graph["edge_index"] for graph in theirs], 1))
    assert np.array_equal(arrays.x, np.concatenate([graph["node_feat"] for graph in theirs]))
    assert np.array_equal(arrays.edge_attr, np.concatenate([graph["edge_feat"] for graph in theirs]))
    with pytest.raises(ValueError, match=r"Expected 7,831 graphs \(got 40 "):
        data.load("ogbg-moltox21", tox.parent.parent, download=False)


@needs("OGB/ogbg_moltox21")
def test_a_cut_file_of_ogb_is_named(tox: Path) -> None:
    def load() -> None:
        data.load("ogbg-moltox21", tox.parent.parent, download=False)

    path = tox / "raw" / "node-feat.csv.gz"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"Expected a whole gzip file \(got .*node-feat.csv.gz"):
        load()
    path.write_bytes(gzip.compress(gzip.decompress(whole)[:-200]))
    with pytest.raises(ValueError, match=r"rows of x|Expected lines of integers"):
        load()
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"node-feat\.csv\.gz"):
        load()


def test_labels_of_ogb_may_be_left_blank(tmp_path: Path) -> None:
    path = tmp_path / "graph-label.csv.gz"
    path.write_bytes(gzip.compress(b"0.0,,1.0\n,nan,0\n"))
    assert np.array_equal(_labels(path), [[0, np.nan, 1], [np.nan, np.nan, 0]], equal_nan=True)
