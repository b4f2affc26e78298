"""Trials of the readers: whole files, what is done to them, and what may come of it."""

import gzip
import json
import pickle
import random
import shutil
import tomllib
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import files_damage as damage
import files_oracles as oracles
import networkx as nx
import numpy as np
import torch
from torch_geometric.data import Data

import esan
from esan.bags import io as bag_files
from esan.graphs import cycle, disjoint_union, path, star
from esan.train import Predictor, Recipe
from esan.train.engines.objective import Objective
from esan.train.model_spec import ModelSpec
from esan.train.recipes.catalogue import named
from esan.train.runs.checkpoints import CheckpointHeader
from esan.train.runs.records import Epoch, Point, Record

READERS = "files_readers"


@dataclass(frozen=True)
class Trial:
    """One call of a reader, and what may come of it besides a clear error.

    Attributes:
        function: of `files_readers`.
        arguments: its arguments.
        right: whether a value is what the file says; None if no value is.
        must: "value" if an error would be wrong, "either" otherwise.
    """

    function: str
    arguments: tuple[Any, ...]
    right: Callable[[Any], bool] | None
    must: str = "either"


@dataclass(frozen=True)
class Group:
    """Trials of one kind.

    Attributes:
        make: from a folder with whole files in it and a seed to a trial; what it damages it writes elsewhere.
        write: the whole files.
        count: how many seeds there are.
        sample: how many of them are tried by default.
    """

    make: Callable[[Path, Path, int], Trial]
    write: Callable[[Path], None]
    count: int
    sample: int


def same(expected: Any) -> Callable[[Any], bool]:
    return lambda value: value == expected


def digest_is(plain: Any) -> Callable[[Any], bool] | None:
    """The trial's value is the digest of these graphs; None if they contradict themselves."""
    return None if plain is None else same(oracles.digest(plain))


# -- bags --------------------------------------------------------------------------------------------------------


def toys() -> list[Data]:
    """Small graphs with categories on nodes and edges, a single node and an isolated one among them."""
    made = [path(3), cycle(4), star(3), disjoint_union(cycle(3), path(1)), path(1)]
    for place, graph in enumerate(made):
        graph.x = (torch.arange(graph.num_nodes) + place)[:, None] % 5
        graph.edge_attr = (torch.arange(graph.edge_index.size(1)) % 4)[:, None]
        graph.y = torch.tensor([place / 2])
    return made


BAGS: dict[str, tuple[esan.Policy, bool | None]] = {
    "nd": (esan.NodeDeletion(), None),
    "ego": (esan.EgoNets(1, marked=True), None),
    "ed-literal": (esan.EdgeDeletion(), True),
    "sampled": (esan.Sampled(esan.NodeDeletion(), 0.5), None),
    "nm": (esan.NodeMarking(), None),
}


def write_bags(folder: Path) -> None:
    for name, (policy, literal) in BAGS.items():
        bag = esan.Bag.of(toys(), policy, 2, literal=literal, generator=torch.Generator().manual_seed(0))
        bag.save(folder / f"{name}.npz")
        _before(folder / f"{name}.npz", folder / f"{name}.before.npz")


def _before(new: Path, old: Path) -> None:
    """The file as the version before wrote it: without a digest."""
    header, arrays = _parts(new)
    header |= {"format": "esan bag 1"}
    without = {name: value for name, value in header.items() if name not in ("sha256", "esan")}
    damage.write_npz(old, _whole(without, arrays))


def _parts(file: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    with np.load(file, allow_pickle=False) as held:
        arrays = {name: held[name] for name in held.files}
    return json.loads(str(arrays.pop("header"))), arrays


def _whole(header: Any, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"header": np.array(json.dumps(header)), **arrays}


def bag_bytes(base: Path, folder: Path, seed: int) -> Trial:
    file = sorted(base.glob("*.npz"))[seed // 8 % (2 * len(BAGS))]
    (folder / "bag.npz").write_bytes(damage.bytes_of(file.read_bytes(), seed))
    return _bag_trial(file, folder)


def bag_arrays(base: Path, folder: Path, seed: int) -> Trial:
    """One array edited, with checksums of the archive that fit; half of the files are of the version before."""
    file = sorted(base.glob("*.npz"))[seed // 12 % (2 * len(BAGS))]
    header, arrays = _parts(file)
    damage.write_npz(folder / "bag.npz", _whole(header, damage.arrays_of(arrays, seed)))
    return _bag_trial(file, folder)


def bag_headers(base: Path, folder: Path, seed: int) -> Trial:
    file = sorted(base.glob("*.npz"))[seed // 3 % (2 * len(BAGS))]
    header, arrays = _parts(file)
    damage.write_npz(folder / "bag.npz", _whole(damage.plain_of(header, seed), arrays))
    return replace(_bag_trial(file, folder), must="either")


def bag_lies(base: Path, folder: Path, seed: int) -> Trial:
    file = base / "nd.npz"
    header, arrays = _parts(file)
    (folder / "bag.npz").write_bytes(damage.lying_npz(_whole(header, arrays), seed))
    return Trial("bag", (str(folder / "bag.npz"), ""), None)


def bag_forged(base: Path, folder: Path, seed: int) -> Trial:
    """One array edited and the digest recomputed: structure alone must keep compiled loops inside their arrays."""
    file = base / f"{[*BAGS][seed // 12 % len(BAGS)]}.npz"
    header, arrays = _parts(file)
    arrays = damage.arrays_of(arrays, seed)
    damage.write_npz(folder / "bag.npz", _whole(header | {"sha256": _digest(header, arrays)}, arrays))
    return Trial("forged_bag", (str(folder / "bag.npz"),), lambda value: isinstance(value, str))


def _digest(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> str:
    # As they will be read: in native byte order.
    return bag_files._digest(header, {name: a.astype(a.dtype.newbyteorder("=")) for name, a in arrays.items()})


def _bag_trial(file: Path, folder: Path) -> Trial:
    policy, _ = BAGS[file.name.split(".")[0]]
    known = _answers(file, repr(policy))
    return Trial("bag", (str(folder / "bag.npz"), ""), same(known))


_KNOWN: dict[Path, Any] = {}


def _answers(file: Path, policy: str) -> Any:
    if file not in _KNOWN:
        import files_readers

        _KNOWN[file] = files_readers.bag(str(file), policy)
    return _KNOWN[file]


# -- graphs ------------------------------------------------------------------------------------------------------


def _arrays(seed: int) -> dict[str, np.ndarray]:
    graphs = toys()
    sizes = [int(graph.num_nodes or 0) for graph in graphs]
    arrays = {
        "edge_index": np.concatenate([graph.edge_index.numpy() for graph in graphs], 1),
        "edge_ptr": np.append(0, np.cumsum([graph.edge_index.size(1) for graph in graphs])),
        "x": np.concatenate([graph.x.numpy() for graph in graphs]),
        "edge_attr": np.concatenate([graph.edge_attr.numpy() for graph in graphs]),
        "y": np.array([float(graph.y) for graph in graphs]),
    }
    arrays |= {"num_nodes": np.array(sizes)} if seed % 2 else {"node_ptr": np.append(0, np.cumsum(sizes))}
    return arrays


def nothing(folder: Path) -> None:
    """The whole file is written again for every trial."""


def npz_arrays(base: Path, folder: Path, seed: int) -> Trial:
    arrays = damage.arrays_of(_arrays(seed), seed // 2)
    damage.write_npz(folder / "graphs.npz", arrays)
    return Trial("graphs", (str(folder / "graphs.npz"),), digest_is(oracles.npz(arrays)))


def npz_harmless(base: Path, folder: Path, seed: int) -> Trial:
    """Other kinds of numbers, the other byte order and Fortran order are fine."""
    whole = _arrays(seed)
    kinds = [">i8", ">i4", "<i2", "<u2", ">u8", "<f8", ">f8", "<u4", "<i8"]
    arrays = {name: array.astype(kinds[(seed + place) % 9]) for place, (name, array) in enumerate(whole.items())}
    arrays |= {"x": np.asfortranarray(arrays["x"]), "y": whole["y"].astype(">f8")}
    damage.write_npz(folder / "graphs.npz", arrays)
    return Trial("graphs", (str(folder / "graphs.npz"),), digest_is(oracles.npz(whole)), must="value")


def npz_bytes(base: Path, folder: Path, seed: int) -> Trial:
    arrays = _arrays(seed)
    damage.write_npz(folder / "whole.npz", arrays)
    (folder / "graphs.npz").write_bytes(damage.bytes_of((folder / "whole.npz").read_bytes(), seed))
    return Trial("graphs", (str(folder / "graphs.npz"),), digest_is(oracles.npz(arrays)))


def npz_lies(base: Path, folder: Path, seed: int) -> Trial:
    (folder / "graphs.npz").write_bytes(damage.lying_npz(_arrays(seed), seed))
    return Trial("graphs", (str(folder / "graphs.npz"),), None)


def write_tu(folder: Path) -> None:
    """A triangle, an edge listed twice with a self-loop, and a single node."""
    edges = [(1, 2), (2, 1), (2, 3), (3, 2), (1, 3), (3, 1), (4, 5), (5, 4), (4, 5), (4, 4)]
    texts = {
        "A": "\n".join(f"{u}, {v}" for u, v in edges),
        "graph_indicator": "1\n1\n1\n2\n2\n3",
        "graph_labels": "1\n-1\n1",
        "node_labels": "0\n1\n1\n4\n2\n2",
        "edge_labels": "7\n7\n8\n8\n7\n7\n9\n9\n9\n7",
    }
    for part, text in texts.items():
        (folder / f"TOY_{part}.txt").write_text(text + "\n")


def tu(base: Path, folder: Path, seed: int) -> Trial:
    place = folder / "TOY"
    shutil.copytree(base, place)
    damage.in_one_file(place, seed // 2, _text_or_bytes)
    reader = "graphs" if seed % 2 else "tu"
    return Trial(reader, (str(place),), digest_is(oracles.tu(place, shifted=reader == "tu")))


def tu_zip(base: Path, folder: Path, seed: int) -> Trial:
    """The same in raw.zip, whose bytes are damaged."""
    place = folder / "TOY"
    place.mkdir()
    with zipfile.ZipFile(place / "raw.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(base.iterdir()):
            archive.write(file, f"raw/{file.name}")
    (place / "raw.zip").write_bytes(damage.bytes_of((place / "raw.zip").read_bytes(), seed))
    right = digest_is(oracles.tu(base, shifted=True))
    fewer = [digest_is(_tu_without(base, part)) for part in ("graph_labels", "node_labels", "edge_labels")]
    # A name that is damaged is the name of no file of the set.
    return Trial("tu", (str(place),), lambda value: any(one is not None and one(value) for one in (right, *fewer)))


def _tu_without(base: Path, part: str) -> Any:
    hidden = base / f"TOY_{part}.txt"
    away = base / f"{part}.away"
    hidden.rename(away)
    try:
        return oracles.tu(base, shifted=True)
    finally:
        away.rename(hidden)


def _text_or_bytes(file: Path, seed: int) -> None:
    if seed % 3 == 0:
        file.write_bytes(damage.bytes_of(file.read_bytes(), seed))
    else:
        file.write_bytes(damage.text_of(file.read_text(), seed).encode("utf-8"))


def write_texts(folder: Path) -> None:
    (folder / "toy.txt").write_text("3\n3 1\n4 1 1\n9 2 0 2\n4 1 1\n1 0\n7 0\n2 1\n4 1 1\n5 1 0\n")
    lines = [nx.to_graph6_bytes(graph, header=False).decode() for graph in (nx.petersen_graph(), nx.path_graph(70))]
    (folder / "toy.g6").write_text("".join(lines) + "A_\n@\n")
    (folder / "toy.edges").write_text("# a triangle and more\n0 1\n1,2\n2 0\n\n3 4 # apart\n4 4\n")
    (folder / "toy.labels").write_text("0, 1.5\n1, nan\n0, -2\n1, 7e2\n")


def texts(base: Path, folder: Path, seed: int) -> Trial:
    name, reader, oracle = (
        ("toy.txt", "gin", oracles.gin),
        ("toy.g6", "graphs", oracles.graph6),
        ("toy.edges", "edges", oracles.edges),
        ("toy.labels", "labels", oracles.labels),
    )[seed % 4]
    file = folder / name
    shutil.copy(base / name, file)
    _text_or_bytes(file, seed // 4)
    plain = oracle(file)
    right = digest_is(plain) if reader != "labels" else None if plain is None else same(plain)
    return Trial(reader, (str(file),), right)


def write_table(folder: Path) -> None:
    rows = ["smiles,logp,active", "CCO,0.5,1", "c1ccccc1,2,0", '"C(=O)O",-1.25,', "CN,3,1"]
    (folder / "toy.csv").write_text("\n".join(rows) + "\n")


def tables(base: Path, folder: Path, seed: int) -> Trial:
    file = folder / "toy.csv"
    shutil.copy(base / "toy.csv", file)
    _text_or_bytes(file, seed)
    plain = oracles.table(file)
    return Trial("table", (str(file),), None if plain is None else same(plain))


def write_ogb(folder: Path) -> None:
    texts_of = {
        "edge": "0,1\n1,2\n0,1\n",
        "edge-feat": "0,1,0\n1,0,1\n2,0,0\n",
        "node-feat": "5,0\n6,1\n5,0\n7,0\n6,0\n6,1\n",
        "num-node-list": "3\n2\n1\n",
        "num-edge-list": "2\n1\n0\n",
        "graph-label": "0.0\n1.0\n1\n",
    }
    for name, text in texts_of.items():
        (folder / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def ogb(base: Path, folder: Path, seed: int) -> Trial:
    place = folder / "raw"
    shutil.copytree(base, place)

    def spoil(file: Path, number: int) -> None:
        if number % 3 == 0:
            file.write_bytes(damage.bytes_of(file.read_bytes(), number))
        else:
            text = damage.text_of(gzip.decompress(file.read_bytes()).decode(), number)
            file.write_bytes(gzip.compress(text.encode()))

    damage.in_one_file(place, seed, spoil)
    return Trial("ogb", (str(place),), digest_is(oracles.ogb(place)))


def gzip_bomb(base: Path, folder: Path, seed: int) -> Trial:
    place = folder / "raw"
    shutil.copytree(base, place)
    files = sorted(place.iterdir())
    files[seed % len(files)].write_bytes(gzip.compress(b"1\n" * 136 * 2**20, 1))
    return Trial("ogb", (str(place),), None)


def write_pickles(folder: Path) -> None:
    molecules = []
    for size in (2, 3, 4):
        bonds = torch.ones(size, size, dtype=torch.long).triu(1)
        atoms, y = torch.arange(size), torch.tensor([size / 2])
        molecules.append({"atom_type": atoms, "bond_type": bonds + bonds.T, "logP_SA_cycle_normalized": y})
    (folder / "train.pickle").write_bytes(pickle.dumps(molecules))
    (folder / "train.index").write_text("2,0,1\n")


def pickles(base: Path, folder: Path, seed: int) -> Trial:
    """A pickle has no checksum: what it says after damage is what it says, but it is read in peace or refused."""
    place = folder / "raw"
    shutil.copytree(base, place)
    damage.in_one_file(place, seed, lambda file, number: _write(file, damage.bytes_of(file.read_bytes(), number)))
    reader = ("zinc_pickle", (str(place),)) if seed % 3 else ("exp_pickle", (str(place / "train.pickle"),))
    return Trial(*reader, lambda value: isinstance(value, str))


def _write(file: Path, content: bytes) -> None:
    file.write_bytes(content)


def write_pt(folder: Path) -> None:
    torch.save(toys(), folder / "toys.pt")


def pt(base: Path, folder: Path, seed: int) -> Trial:
    content = (base / "toys.pt").read_bytes()
    (folder / "toys.pt").write_bytes(damage.bytes_of(content, seed))
    return Trial("graphs", (str(folder / "toys.pt"),), digest_is(oracles.npz(_arrays(0))))


# -- runs --------------------------------------------------------------------------------------------------------


def recipe() -> Recipe:
    small = {"num_layers": 2, "hidden_channels": 4, "set_channels": 4, "epochs": 3, "seeds": 2}
    grid = ({"lr": (0.01, 0.1), "batch_size": (8, 16)},)
    return Recipe(data="zinc", name="toy/dss", policy="ND", grid=grid, **small)  # type: ignore[arg-type]


def record(seed: int = 0) -> Record:
    curve = tuple(Epoch(e, 0.01, 1 / e, 0.5 / e, 0.6 / e) for e in (1, 2, 3))
    return Record(
        recipe=replace(named("zinc/gin"), grid=()),
        fold=0,
        seed=seed,
        task="regression",
        metric="mae",
        epochs=3,
        best=Point(3, None, 0.2, 0.2),
        final=Point(3, 0.1, 0.2, 0.2),
        curve=curve,
        parameters=10,
        versions={"esan": "0.1.0"},
        hardware="a machine",
        seconds=1.5,
        peak_bytes=100,
    )


def write_runs(folder: Path) -> None:
    recipe().save(folder / "recipe.toml")
    record().save(folder / "record.json")
    (folder / "scores.csv").write_text("configuration,valid,std,runs\ntoy~lr=0.1,0.5,0.1,2\ntoy~lr=0.2,0.4,0.1,2\n")
    task = esan.data.Task("regression", 1)
    model_spec = ModelSpec(replace(recipe(), grid=()), task, esan.Categories(5), None)
    torch.manual_seed(0)
    fitted = Predictor(model_spec.build().eval(), CheckpointHeader(model_spec, 0, 0, "abc"), Objective("regression"))
    fitted.save(folder / "fitted.pt")


def recipes(base: Path, folder: Path, seed: int) -> Trial:
    file = folder / "recipe.toml"
    text = (base / "recipe.toml").read_text()
    file.write_bytes(damage.bytes_of(text.encode(), seed) if seed % 2 else damage.text_of(text, seed // 2).encode())
    try:
        values = tomllib.loads(file.read_bytes().decode("utf-8"))
    except (ValueError, RecursionError):
        values = None
    return Trial("recipe", (str(file),), None if values is None else lambda value: _agrees(value, values))


def _agrees(value: dict[str, Any], said: dict[str, Any]) -> bool:
    """Whether what was read is what the file said, field by field, as far as it said anything."""
    for name, v in said.items():
        if name in ("grid", "targets"):
            continue
        if name not in value or value[name] != v or isinstance(v, bool) != isinstance(value[name], bool):
            return False
    return True


def records(base: Path, folder: Path, seed: int) -> Trial:
    file = folder / "record.json"
    text = (base / "record.json").read_text()
    if seed % 4 == 0:
        file.write_bytes(damage.bytes_of(text.encode(), seed // 4))
    else:
        file.write_text(json.dumps(damage.plain_of(json.loads(text), seed)))
    try:
        said = json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        return Trial("record", (str(file),), None)
    mine = {name: v for name, v in said.items() if name != "recipe"}
    inner = said.get("recipe") if isinstance(said.get("recipe"), dict) else {}
    return Trial("record", (str(file),), lambda v: _agrees(v, mine) and _agrees(v["recipe"], inner or {}))


def reports(base: Path, folder: Path, seed: int) -> Trial:
    """Of three records one is damaged: the other two are shown, and it is too, or it is named."""
    for number in range(3):
        record(number).save(folder / "runs" / f"0-{number}" / "record.json")
    file = folder / "runs" / f"0-{seed % 3}" / "record.json"
    file.write_text(json.dumps(damage.plain_of(json.loads(file.read_text()), seed)))
    return Trial("report", (str(folder / "runs"),), lambda value: value in ([3, 0], [2, 1]), must="value")


def checkpoints(base: Path, folder: Path, seed: int) -> Trial:
    content = (base / "fitted.pt").read_bytes()
    (folder / "fitted.pt").write_bytes(damage.bytes_of(content, seed))
    if "fitted" not in _FITTED:
        import files_readers

        _FITTED["fitted"] = files_readers.fitted(str(base / "fitted.pt"))
    return Trial("fitted", (str(folder / "fitted.pt"),), same(_FITTED["fitted"]))


_FITTED: dict[str, str] = {}


def checkpoint_headers(base: Path, folder: Path, seed: int) -> Trial:
    """Another header with checksums that fit, such as a width of 2**70: refused before it takes memory, or read."""
    state = torch.load(base / "fitted.pt", weights_only=True)
    header = json.loads(state["header"])
    dice = random.Random(seed)
    if seed % 4 == 0:
        header["model_spec"]["recipe"]["hidden_channels"] = dice.choice([2**20, 2**40, 5])
    else:
        header = damage.plain_of(header, seed)
    torch.save(state | {"header": json.dumps(header)}, folder / "fitted.pt")
    return Trial("fitted", (str(folder / "fitted.pt"),), lambda value: isinstance(value, str))


def scores(base: Path, folder: Path, seed: int) -> Trial:
    file = folder / "scores.csv"
    shutil.copy(base / "scores.csv", file)
    _text_or_bytes(file, seed)
    return Trial("scores", (str(file),), lambda value: isinstance(value, dict) and len(value) > 0)


GROUPS: dict[str, Group] = {
    "bag-bytes": Group(bag_bytes, write_bags, 160, 4),
    "bag-arrays": Group(bag_arrays, write_bags, 360, 4),
    "bag-headers": Group(bag_headers, write_bags, 60, 3),
    "bag-lies": Group(bag_lies, write_bags, 24, 3),
    "bag-forged": Group(bag_forged, write_bags, 300, 4),
    "npz-arrays": Group(npz_arrays, nothing, 300, 15),
    "npz-harmless": Group(npz_harmless, nothing, 18, 3),
    "npz-bytes": Group(npz_bytes, nothing, 80, 4),
    "npz-lies": Group(npz_lies, nothing, 36, 3),
    "tu": Group(tu, write_tu, 240, 12),
    "tu-zip": Group(tu_zip, write_tu, 60, 3),
    "texts": Group(texts, write_texts, 320, 16),
    "ogb": Group(ogb, write_ogb, 90, 4),
    "tables": Group(tables, write_table, 90 if find_spec("rdkit") else 0, 9 if find_spec("rdkit") else 0),
    "gzip-bomb": Group(gzip_bomb, write_ogb, 3, 0),
    "pickles": Group(pickles, write_pickles, 90, 4),
    "pt": Group(pt, write_pt, 80, 4),
    "recipes": Group(recipes, write_runs, 120, 6),
    "records": Group(records, write_runs, 160, 8),
    "reports": Group(reports, nothing, 60, 3),
    "checkpoints": Group(checkpoints, write_runs, 80, 4),
    "checkpoint-headers": Group(checkpoint_headers, write_runs, 60, 3),
    "scores": Group(scores, write_runs, 30, 3),
}
