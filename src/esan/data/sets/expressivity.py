"""The sets that measure expressive power: EXP, CEXP and CSL."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data

from esan.data.sets.downloads import CEXP_FILE, EXP_FILE, fetch_file
from esan.data.sets.folders import DataFolders
from esan.data.sets.safe_unpickle import numbers, unpickled
from esan.data.sets.set_arrays import SetArrays, arrays_in, category_column, checked_arrays
from esan.graphs import csl
from esan.graphs.readers.archives import check_archive
from esan.graphs.readers.graph_arrays import GraphArrays, counts_between, whole

#: The skips of the ten classes of CSL, graphs of 41 nodes.
SKIPS = (2, 3, 4, 5, 6, 9, 11, 12, 13, 16)
_NODES, _COPIES = 41, 15


def find_exp(folders: DataFolders) -> SetArrays:
    """From `exp.npz` (plain arrays) if it exists, else from the published pickle."""
    names = ("EXP/exp.npz", "EXP/raw/GRAPHSAT.pkl")
    path = folders.find_or_fetch(names, lambda folder: fetch_file(EXP_FILE, folder / "raw" / "GRAPHSAT.pkl"), "EXP")
    return _pairs(path, _from_list)


def find_cexp(folders: DataFolders) -> SetArrays:
    """From `cexp.npz` (plain arrays) if it exists, else from the published file of PyG."""
    names = ("CEXP/cexp.npz", "CEXP/processed/data.pt")
    path = folders.find_or_fetch(names, lambda folder: fetch_file(CEXP_FILE, folder / "processed" / "data.pt"), "CEXP")
    return _pairs(path, _from_collated)


def _pairs(path: Path, other: Callable[[Path], GraphArrays]) -> SetArrays:
    arrays = checked_arrays(arrays_in(path), "", path, needs=("x", "y")) if path.suffix == ".npz" else other(path)
    where = str(path)
    arrays.x, arrays.y = (
        category_column(_node_type(np.asarray(arrays.x), where), where),
        whole(arrays.y, "y", where).reshape(-1),
    )
    return SetArrays(arrays, str(path))


def _node_type(x: np.ndarray, where: str) -> np.ndarray:
    """Published as one column of 0/1 or as a one-hot of width 2; the same either way."""
    if x.ndim != 2 or x.shape[1] != 2:
        return x.reshape(-1)
    if not (np.isin(x, (0, 1)).all() and (x.sum(1) == 1).all()):
        raise ValueError(f"Expected rows 0 1 or 1 0 in x of width 2 (got others in {where}). Fetch it again.")
    return x.argmax(1)


def _from_list(path: Path) -> GraphArrays:
    found = unpickled(path)
    try:
        parts = [(numbers(held.x), numbers(held.edge_index), numbers(held.y)) for held in found]
        x, edges, y = zip(*parts, strict=True)
        return GraphArrays(
            num_nodes=np.array([len(lines) for lines in x]),
            num_directed_edges=np.array([ends.shape[1] for ends in edges]),
            edge_index=np.concatenate(edges, 1),
            x=np.concatenate(x),
            y=np.concatenate(y),
        )
    except (AttributeError, TypeError, ValueError, IndexError, RuntimeError) as error:
        raise ValueError(f"Expected a list of graphs with x, edge_index and y (got {path}: {error}).") from None


def _from_collated(path: Path) -> GraphArrays:
    """A dataset in PyG's old format: concatenated graphs as plain attributes, and the slices of each."""
    try:
        check_archive(path)
        # Only what is not admitted yet: at its end, the context would take back what PyG admitted for itself.
        unknown = [Data] if Data not in torch.serialization.get_safe_globals() else []
        with torch.serialization.safe_globals(unknown):
            held, slices = torch.load(path, weights_only=True, map_location="cpu")
        fields = vars(held)
        return GraphArrays(
            num_nodes=counts_between(slices["x"].numpy(), "slices of x", str(path)),
            num_directed_edges=counts_between(slices["edge_index"].numpy(), "slices of edge_index", str(path)),
            edge_index=fields["edge_index"].numpy(),
            x=fields["x"].numpy(),
            y=fields["y"].numpy(),
        )
    # torch raises whatever a damaged file leads it to.
    except Exception as error:
        raise ValueError(
            f"Expected a dataset that PyG saved (got {path}: {type(error).__name__}). It is damaged; fetch it again."
        ) from None


def find_csl(folders: DataFolders) -> SetArrays:
    """From `csl.npz` if it exists, else generated: ten circulant graphs, each with fifteen random node orders.

    The published set was made in the same way; a network that does not depend on the numbering sees the same graphs.
    """
    path = folders.find("CSL/csl.npz")
    arrays = _generated() if path is None else checked_arrays(arrays_in(path), "", path, needs=("y",))
    arrays.x, arrays.y = category_column(arrays.degree()), whole(arrays.y, "y", "csl" if path is None else str(path))
    return SetArrays(arrays, "the definition of CSL" if path is None else str(path))


def _generated() -> GraphArrays:
    generator = np.random.default_rng(0)
    edges = []
    for skip in SKIPS:
        ends = csl(_NODES, skip).edge_index.numpy()
        edges += [generator.permutation(_NODES)[ends] for _ in range(_COPIES)]
    return GraphArrays(
        num_nodes=np.full(len(edges), _NODES),
        num_directed_edges=np.array([ends.shape[1] for ends in edges]),
        edge_index=np.concatenate(edges, 1),
        y=np.repeat(np.arange(len(SKIPS)), _COPIES),
    )
