"""The sets by name: their published counts, where they are found, and what is verified."""

import csv
import gzip
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from esan import data
from esan.data.sets.catalogue import ALIASES, CATALOGUE, known_name
from esan.data.sets.verify import check_dataset
from esan.graphs import ATOMS, BONDS, Categories, OneHot
from shared_sets import ROOT, needs

#: Folder, mean nodes and mean edges as the papers print them, members of each class, what x holds.
PUBLISHED: dict[str, tuple[str, float, float, list[int], Any]] = {
    "csl": ("CSL", 41.0, 82.0, [15] * 10, OneHot(5)),
    "exp": ("EXP", 44.45, 55.11, [600, 600], 1),
    "cexp": ("CEXP", 55.78, 69.78, [600, 600], 1),
    "mutag": ("TU/MUTAG", 17.93, 19.79, [63, 125], OneHot(7)),
    "ptc": ("TU/PTC", 25.56, 25.96, [192, 152], OneHot(19)),
    "ptc-mr": ("TU/PTC_MR", 14.29, 14.69, [192, 152], OneHot(18)),
    "proteins": ("TU/PROTEINS", 39.06, 72.82, [663, 450], OneHot(3)),
    "nci1": ("TU/NCI1", 29.87, 32.30, [2053, 2057], OneHot(37)),
    "nci109": ("TU/NCI109", 29.68, 32.13, [2048, 2079], OneHot(38)),
    "imdb-b": ("TU/IMDB-BINARY", 19.77, 96.53, [500, 500], OneHot(136)),
    "imdb-m": ("TU/IMDB-MULTI", 13.00, 65.94, [500, 500, 500], OneHot(89)),
    "rdt-b": ("TU/REDDIT-BINARY", 429.63, 497.75, [1000, 1000], None),
}


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESAN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ESAN_DATA", raising=False)


def _listing(folder: Path) -> list[tuple[str, int, int]]:
    found = ((path, path.stat()) for path in sorted(folder.rglob("*")))
    return [(str(path), stat.st_size, stat.st_mtime_ns) for path, stat in found]


@pytest.mark.parametrize("name", PUBLISHED)
def test_classifications_have_the_published_counts(name: str, tmp_path: Path) -> None:
    folder, nodes, edges, members, channels = PUBLISHED[name]
    if not (ROOT / folder).exists():
        pytest.skip(f"{folder} is not in {ROOT}: set $ESAN_DATA")
    before = _listing(ROOT / folder)
    dataset = data.load(name, ROOT)
    assert _listing(ROOT / folder) == before, "the root is only read"
    assert not (tmp_path / "cache").exists(), "nothing had to be fetched"
    graphs = dataset.graphs
    assert torch.bincount(dataset.y).tolist() == members
    assert dataset.y.dtype == torch.long
    assert graphs.num_nodes.double().mean().item() == pytest.approx(nodes, abs=0.0051)
    assert graphs.num_edges.double().mean().item() == pytest.approx(edges, abs=0.0051)
    assert dataset.in_channels == channels
    assert dataset.edge_channels is None
    assert graphs.edge_attr is None
    assert dataset.given is None
    assert dataset.task == data.Task("classification", len(members), "accuracy")
    if channels is None:
        assert graphs.x is None
    elif name in ("csl", "imdb-b", "imdb-m"):
        assert graphs.x is not None
        assert torch.equal(graphs.x[:, 0], graphs.degree)
        assert int(graphs.degree.max()) == channels.size - 1
    else:
        assert graphs.x is not None
        kinds = 2 if channels == 1 else channels.size  # EXP and CEXP give the label itself as a number
        assert graphs.x.unique().tolist() == list(range(kinds)), "every label occurs"


@needs("ZINC/zinc12k.npz")
def test_zinc_has_the_published_statistics() -> None:
    dataset = data.load("zinc", ROOT)
    split = data.given(dataset)
    assert dataset.task == data.Task("regression", 1, "mae")
    assert (dataset.in_channels, dataset.edge_channels) == (Categories(28), Categories(4))
    assert [part.numel() for part in (split.train, split.valid, split.test)] == [10_000, 1_000, 1_000]
    assert torch.cat([split.train, split.valid, split.test]).tolist() == list(range(12_000))
    sizes = dataset.graphs.num_nodes.double()
    assert sizes.mean().item() == pytest.approx(23.155333333333335, abs=1e-12)
    assert sizes.std(correction=0).item() == pytest.approx(4.481075565332749, abs=1e-9)
    train = dataset.y[split.train].double()
    assert train.shape == (10_000, 1)
    assert train.mean().item() == pytest.approx(0.0153, abs=1e-4)
    assert train.std().item() == pytest.approx(2.0109, abs=1e-4)
    assert dataset.graphs.edge_attr is not None
    assert dataset.graphs.edge_attr.unique().tolist() == [1, 2, 3]


@pytest.mark.exhaustive
@needs("OGB/ogbg_molhiv")
def test_molhiv_has_the_published_counts() -> None:
    dataset = data.load("ogbg-molhiv", ROOT)
    split = data.given(dataset)
    assert (dataset.in_channels, dataset.edge_channels) == (ATOMS, BONDS)
    assert dataset.task == data.Task("labels", 1, "rocauc")
    parts = [split.train, split.valid, split.test]
    assert [part.numel() for part in parts] == [32_901, 4_113, 4_113]
    assert [int(dataset.y[part].sum()) for part in parts] == [1_232, 81, 130]
    assert dataset.y.shape == (41_127, 1)


@pytest.mark.exhaustive
@needs("OGB/ogbg_moltox21")
def test_moltox21_has_the_published_counts_and_scaffolds() -> None:
    """RDKit of today refuses eight molecules for their aluminium, whose hydrogens no scaffold has.

    OGB's scaffolds of this set keep chirality, those of molhiv do not.
    """
    pytest.importorskip("rdkit")
    dataset = data.load("ogbg-moltox21", ROOT)
    given = data.given(dataset)
    assert dataset.y.shape == (7_831, 12)
    assert int((~dataset.y.isnan()).sum()) == 77_946
    with gzip.open(ROOT / "OGB" / "ogbg_moltox21" / "mapping" / "mol.csv.gz", "rt") as file:
        smiles = [row["smiles"].replace("[AlH3]", "[Al]") for row in csv.DictReader(file)]
    split = data.scaffold(smiles, chirality=True)
    for part in ("train", "valid", "test"):
        assert torch.equal(getattr(split, part), getattr(given, part)), part


def test_the_page_on_data_lists_the_catalogue() -> None:
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    rows = [[cell.strip(" `") for cell in line.split("|")[1:6]] for line in page.splitlines() if line.startswith("| `")]
    listed = {row[0]: row[1:4] for row in rows if row[0] in CATALOGUE}
    assert listed == {name: [f"{c:,}" for c in (e.graphs, e.nodes, e.edges)] for name, e in CATALOGUE.items()}


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"got 'cora'\). Known: csl, exp, .*ogbg-moltox21"):
        data.load("cora")
    assert data.names() == tuple(CATALOGUE)
    with pytest.raises(ValueError, match=r"got 'mutagg'\). Near: mutag. Known: csl"):
        data.load("mutagg")
    with pytest.raises(ValueError, match=r"got 'zink'\). Near: zinc. Known"):
        data.load("zink")


def test_sets_are_known_by_their_other_names() -> None:
    names = ("ZINC12k", "IMDB-BINARY", "IMDB_MULTI", "REDDIT-BINARY", "molhiv", "moltox21", "ogbg_molhiv", "PTC_MR")
    known = ["zinc", "imdb-b", "imdb-m", "rdt-b", "ogbg-molhiv", "ogbg-moltox21", "ogbg-molhiv", "ptc-mr"]
    assert [known_name(name) for name in names] == known
    assert known_name("cora") is None
    assert set(ALIASES.values()) <= set(CATALOGUE)


def test_the_root_comes_from_the_option_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert data.data_root() == tmp_path / "cache"
    monkeypatch.setenv("ESAN_DATA", str(tmp_path))
    assert data.data_root() == tmp_path
    (tmp_path / "other").mkdir()
    assert data.data_root(tmp_path / "other") == tmp_path / "other"
    with pytest.raises(FileNotFoundError, match=r"Expected a folder of data \(got .*nowhere"):
        data.load("csl", tmp_path / "nowhere")
    monkeypatch.delenv("ESAN_CACHE")
    assert data.cache_folder() == Path.home() / ".cache" / "esan"


@needs("TU/MUTAG")
def test_a_set_loads_from_a_root_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "TU" / "MUTAG", tmp_path / "MUTAG")
    for path in [tmp_path / "MUTAG", *(tmp_path / "MUTAG").rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        monkeypatch.setenv("ESAN_DATA", str(tmp_path))
        assert len(data.load("MUTAG")) == 188
    finally:
        for path in [tmp_path / "MUTAG", *(tmp_path / "MUTAG").rglob("*")]:
            os.chmod(path, 0o755)  # noqa: PTH101


def test_counts_kinds_and_targets_are_verified(tmp_path: Path) -> None:
    from dataclasses import replace

    dataset = data.load("csl", tmp_path)
    graphs = dataset.graphs
    assert check_dataset(dataset, graphs=150, nodes=6_150, edges=12_300) is dataset
    with pytest.raises(ValueError, match=r"Expected 12,301 edges \(got 12,300 in csl"):
        check_dataset(dataset, edges=12_301)
    with pytest.raises(ValueError, match=r"from 0 to below \(4,\) \(got \[4\] to \[4\]"):
        check_dataset(replace(dataset, in_channels=OneHot(4)))
    with pytest.raises(ValueError, match="Expected x with 2 columns"):
        check_dataset(replace(dataset, in_channels=Categories(5, 5)))
    with pytest.raises(ValueError, match="Expected edge_attr of Categories"):
        check_dataset(replace(dataset, edge_channels=Categories(4)))
    with pytest.raises(ValueError, match="Expected the classes 0 to 10"):
        check_dataset(replace(dataset, task=data.Task("classification", 11)))
    with pytest.raises(ValueError, match="Expected 1 targets per graph"):
        check_dataset(replace(dataset, task=data.Task("regression", 1)))
    y = torch.ones(150, 1)
    y[3] = torch.nan
    floats = replace(dataset, graphs=replace(graphs, y=y), task=data.Task("regression", 1))
    with pytest.raises(ValueError, match=r"Expected finite targets \(got \[nan\] for graph 3"):
        check_dataset(floats)
    assert check_dataset(replace(floats, task=data.Task("labels", 1)))
    with pytest.raises(ValueError, match="Expected a target of every graph"):
        check_dataset(replace(dataset, graphs=replace(graphs, y=None)))
