"""ZINC12k: 12,000 molecules with 28 kinds of atoms and 3 kinds of bonds, and the split they come with."""

import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from esan.data.dataset import Split
from esan.data.sets.downloads import fetch_zinc_files
from esan.data.sets.folders import DataFolders
from esan.data.sets.safe_unpickle import numbers, unpickled
from esan.data.sets.set_arrays import SetArrays, arrays_in, category_column, checked_arrays, concatenate, write_arrays
from esan.graphs.readers.graph_arrays import GraphArrays, whole

_PARTS = ("train", "val", "test")
_PLAIN = "zinc12k.npz"
_INDEX = re.compile(r"[0-9]{1,9}")


def find_zinc(folders: DataFolders) -> SetArrays:
    """From `zinc12k.npz` (plain arrays) if it is there, else from the raw files of PyG's `ZINC`."""
    path = folders.find_or_fetch((f"ZINC/{_PLAIN}", "ZINC/raw/train.pickle"), _fetch, "ZINC")
    if path.suffix == ".npz":
        arrays = arrays_in(path)
        parts = [checked_arrays(arrays, f"{part}_", path, needs=("x", "edge_attr", "y")) for part in _PARTS]
    else:
        parts = [read_zinc_part(path.parent, part) for part in _PARTS]
    graphs = concatenate(parts)
    graphs.x = category_column(np.asarray(graphs.x), str(path))
    graphs.edge_attr = category_column(np.asarray(graphs.edge_attr), str(path))
    graphs.y = np.asarray(graphs.y, dtype=np.float32).reshape(-1, 1)
    sizes = [part.num_nodes.size for part in parts]
    return SetArrays(graphs, str(path), Split(*torch.arange(sum(sizes)).split(sizes)))


def read_zinc_part(raw: Path, part: str) -> GraphArrays:
    """The molecules that `part.index` lists, out of a pickle of dicts: types of atoms, a matrix of bonds, a target."""
    path = raw / f"{part}.pickle"
    molecules = unpickled(path)
    listed = _index(raw / f"{part}.index")
    if not isinstance(molecules, list) or not listed.size or listed.min() < 0 or listed.max() >= len(molecules):
        raise ValueError(
            f"Expected a list of more than {listed.max()} molecules, the largest number in {part}.index (got "
            f"{len(molecules) if isinstance(molecules, list) else type(molecules).__name__} in {path}). Fetch it again."
        )
    x, edges, bonds, y = [], [], [], []
    for place in listed.tolist():
        atoms, matrix, target = _molecule(molecules[place], place, path)
        at = np.stack(matrix.nonzero())
        x.append(atoms)
        edges.append(at)
        bonds.append(matrix[at[0], at[1]])
        y.append(target)
    return GraphArrays(
        num_nodes=np.array([len(atoms) for atoms in x]),
        num_directed_edges=np.array([at.shape[1] for at in edges]),
        edge_index=np.concatenate(edges, 1),
        x=np.concatenate(x),
        edge_attr=np.concatenate(bonds),
        y=np.array(y, dtype=np.float32),
    )


def _molecule(found: Any, place: int, path: Path) -> tuple[np.ndarray, np.ndarray, float]:
    try:
        atoms, bonds = numbers(found["atom_type"]).reshape(-1), numbers(found["bond_type"])
        target = numbers(found["logP_SA_cycle_normalized"]).reshape(-1)
        atoms, bonds = (whole(value, name, f"molecule {place}") for value, name in ((atoms, "atoms"), (bonds, "bonds")))
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise ValueError(
            f"Expected atom_type, bond_type and logP_SA_cycle_normalized (got {error!r} in molecule {place} of "
            f"{path}). Is it the right file?"
        ) from None
    if bonds.shape != (atoms.size, atoms.size) or target.size != 1:
        raise ValueError(
            f"Expected a bond for each pair of {atoms.size} atoms and one target (got shape {bonds.shape} and "
            f"{target.size} in molecule {place} of {path}). Fetch it again."
        )
    if not np.array_equal(bonds, bonds.T) or not np.isfinite(target).all():
        raise ValueError(
            f"Expected bonds alike in both directions and a finite target (got others in molecule {place} of {path}). "
            "Fetch it again."
        )
    return atoms, bonds, float(target[0])


def _index(path: Path) -> np.ndarray:
    try:
        words = path.read_text(encoding="ascii").strip().strip(",").split(",")
        if not all(_INDEX.fullmatch(word.strip()) for word in words):
            raise ValueError("other text")
        return np.array(words, dtype=np.int64)
    except FileNotFoundError:
        raise FileNotFoundError(f"Expected {path.name} next to the pickles (got none in {path.parent}).") from None
    except ValueError as error:
        raise ValueError(f"Expected numbers with commas between them (got {path}: {error}). Fetch it again.") from None


def _fetch(folder: Path) -> None:
    """PyG's download, of which only the 12,000 molecules are kept, as plain arrays."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        raw = fetch_zinc_files(Path(scratch))
        parts = {part: read_zinc_part(raw, part) for part in _PARTS}
    write_arrays(folder / _PLAIN, parts)
