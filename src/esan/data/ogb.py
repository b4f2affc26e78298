"""OGB's molecules: the csv files of `ogbg-molhiv` and `ogbg-moltox21`, read as they are, with their scaffold split."""

import gzip
import io
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch

from esan.data.dataset import Split
from esan.data.downloads import fetch_ogb_files
from esan.data.found import Found
from esan.data.laid import Laid
from esan.data.places import Places

_AGAIN = "It is cut short or damaged; fetch the set again."


def ogb_set(name: str) -> Callable[[Places], Found]:
    """A finder of the set `name`, e.g. "ogbg-molhiv"."""
    folder = name.replace("-", "_")

    def find(places: Places) -> Found:
        names = tuple(f"{place}raw/edge.csv.gz" for place in (f"OGB/{folder}/", f"{folder}/"))
        raw = places.find_or_fetch(names, partial(_fetch, name), f"OGB/{folder}").parent
        parts = [raw.parent / "split" / "scaffold" / f"{part}.csv.gz" for part in ("train", "valid", "test")]
        ids = [torch.from_numpy(_table(path, np.int64)[:, 0]) for path in parts]
        return Found(_read(raw), str(raw.parent), Split(*ids))

    return find


def _read(raw: Path) -> Laid:
    edges = _table(raw / "edge.csv.gz", np.int64)
    bonds = _table(raw / "edge-feat.csv.gz", np.int64)
    if edges.shape[1] != 2 or len(bonds) != len(edges):
        raise ValueError(
            f"Expected two ends and a line of features for each of {len(edges):,} bonds (got {edges.shape[1]} ends and "
            f"{len(bonds):,} lines in {raw}). {_AGAIN}"
        )
    # Each bond is listed once; like OGB, its two directions follow one another.
    return Laid(
        num_nodes=_table(raw / "num-node-list.csv.gz", np.int64)[:, 0],
        num_arcs=2 * _table(raw / "num-edge-list.csv.gz", np.int64)[:, 0],
        edge_index=np.stack([edges, edges[:, ::-1]], 1).reshape(-1, 2).T,
        x=_table(raw / "node-feat.csv.gz", np.int64),
        edge_attr=np.repeat(bonds, 2, axis=0),
        y=_labels(raw / "graph-label.csv.gz"),
    )


def _text(path: Path) -> bytes:
    if not path.is_file():
        raise FileNotFoundError(f"Expected {path.name} in {path.parent} (got no such file). Fetch the set again.")
    try:
        return gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"Expected a whole gzip file (got {path}: {error}). {_AGAIN}") from None


def _table(path: Path, dtype: type) -> np.ndarray:
    text = _text(path)
    try:
        found: np.ndarray = np.loadtxt(io.BytesIO(text), delimiter=",", dtype=dtype, ndmin=2, comments=None)
    except ValueError as error:
        raise ValueError(f"Expected lines of integers (got other text in {path}: {error}). {_AGAIN}") from None
    if not found.size:
        raise ValueError(f"Expected lines of integers (got an empty file, {path}). {_AGAIN}")
    return found


def _labels(path: Path) -> np.ndarray:
    """0, 1 or, where nothing or nan is written, NaN."""
    rows = [line.split(",") for line in _text(path).decode("ascii", "replace").splitlines()]
    try:
        return np.array([[float(cell or "nan") for cell in row] for row in rows], dtype=np.float32)
    except ValueError as error:
        raise ValueError(f"Expected lines of numbers (got other text in {path}: {error}). {_AGAIN}") from None


def _fetch(name: str, folder: Path) -> None:
    fetch_ogb_files(folder, name)
