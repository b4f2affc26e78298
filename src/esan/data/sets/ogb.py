"""OGB's `ogbg-molhiv` and `ogbg-moltox21`: their csv files as arrays, with their scaffold split."""

import io
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch

from esan.data.dataset import Split
from esan.data.sets.downloads import fetch_ogb_files
from esan.data.sets.folders import DataFolders
from esan.data.sets.set_arrays import SetArrays
from esan.graphs.readers.archives import gunzipped
from esan.graphs.readers.graph_arrays import GraphArrays, counts

_AGAIN = "It is cut short or damaged; fetch the set again."


def ogb_set(name: str) -> Callable[[DataFolders], SetArrays]:
    """A finder of the set `name`, e.g. "ogbg-molhiv"."""
    folder = name.replace("-", "_")

    def find(folders: DataFolders) -> SetArrays:
        names = tuple(f"{place}raw/edge.csv.gz" for place in (f"OGB/{folder}/", f"{folder}/"))
        raw = folders.find_or_fetch(names, partial(_fetch, name), f"OGB/{folder}").parent
        parts = [raw.parent / "split" / "scaffold" / f"{part}.csv.gz" for part in ("train", "valid", "test")]
        ids = [torch.from_numpy(_column(path)) for path in parts]
        return SetArrays(_read(raw), str(raw.parent), Split(*ids))

    return find


def _read(raw: Path) -> GraphArrays:
    edges = _table(raw / "edge.csv.gz", np.int64)
    bonds = _table(raw / "edge-feat.csv.gz", np.int64)
    if edges.shape[1] != 2 or len(bonds) != len(edges):
        raise ValueError(
            f"Expected two ends and one row of features for each of {len(edges):,} bonds (got {edges.shape[1]} ends "
            f"and {len(bonds):,} rows in {raw}). {_AGAIN}"
        )
    # Each bond is listed once; like OGB, its two directions follow one another.
    return GraphArrays(
        num_nodes=_column(raw / "num-node-list.csv.gz"),
        num_directed_edges=2 * counts(_column(raw / "num-edge-list.csv.gz"), "num-edge-list", str(raw)),
        edge_index=np.stack([edges, edges[:, ::-1]], 1).reshape(-1, 2).T,
        x=_table(raw / "node-feat.csv.gz", np.int64),
        edge_attr=np.repeat(bonds, 2, axis=0),
        y=_labels(raw / "graph-label.csv.gz"),
    )


def _text(path: Path) -> bytes:
    if not path.is_file():
        raise FileNotFoundError(f"Expected {path.name} in {path.parent} (got no such file). Fetch the set again.")
    return gunzipped(path)


def _table(path: Path, dtype: type) -> np.ndarray:
    text = _text(path)
    if not text.strip():
        raise ValueError(f"Expected lines of integers (got an empty file, {path}). {_AGAIN}")
    try:
        found: np.ndarray = np.loadtxt(io.BytesIO(text), delimiter=",", dtype=dtype, ndmin=2, comments=None)
    except ValueError as error:
        raise ValueError(f"Expected lines of integers (got other text in {path}: {error!s:.100}). {_AGAIN}") from None
    return found


def _column(path: Path) -> np.ndarray:
    found = _table(path, np.int64)
    if found.shape[1] != 1:
        raise ValueError(f"Expected one integer per line (got {found.shape[1]} in {path}). {_AGAIN}")
    return found[:, 0]


def _labels(path: Path) -> np.ndarray:
    """0, 1 or, where nothing or nan is written, NaN."""
    rows = [line.split(",") for line in _text(path).decode("ascii", "replace").splitlines()]
    try:
        return np.array([[_label(cell) for cell in row] for row in rows], dtype=np.float32)
    except ValueError as error:
        raise ValueError(f"Expected lines of numbers (got other text in {path}: {error!s:.100}). {_AGAIN}") from None


def _label(cell: str) -> float:
    value = float(cell or "nan")
    # Also of what Python takes for a number and nobody writes: 1_0, inf.
    if value not in (0, 1) and cell not in ("", "nan"):
        raise ValueError(f"{cell[:20]!r}, which is not 0, 1 or nothing")
    return value


def _fetch(name: str, folder: Path) -> None:
    fetch_ogb_files(folder, name)
