"""Collections of graphs from files: graph6, TU folders, arrays in an .npz, and PyG data in a .pt."""

import zipfile
from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import GlobalStorage

from esan.graphs.graph6 import read_graph6


def load_graphs(path: str | Path) -> list[Data]:
    """The graphs of a file or folder.

    Args:
        path: one of

            - `*.g6`: a graph6 line a graph;
            - a folder with the text files of the TU collection, `NAME_A.txt` and its companions, or with a folder `raw`
              that has them; node and edge labels become `x` and `edge_attr`, graph labels `y`
              (real-valued attributes are not read);
            - `*.npz`: arrays `edge_index` `[2, arcs]` with nodes numbered in each graph from 0 and both directions of
              every edge, `edge_ptr` and `node_ptr` (where each graph's columns and nodes begin, and the end), or
              `num_nodes` instead of `node_ptr`; optionally `x`, `edge_attr` and `y`;
            - `*.pt`: a list of PyG `Data`, as `torch.save` wrote it.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"Expected a file or folder of graphs (got {str(path)!r}, which is not there).")
    if path.is_dir():
        return _from_tu(path)
    if path.suffix not in _READERS:
        raise ValueError(
            f"Expected {', '.join(_READERS)} or a TU folder (got {str(path)!r}). Write the graphs in one of these."
        )
    return _READERS[path.suffix](path)


def holds_graphs(path: Path) -> bool:
    """Whether `load_graphs` is to read it: a folder, or a name with one of the endings that it knows."""
    try:
        return path.suffix in _READERS or path.is_dir()
    except OSError:  # a long line of graph6 is too long for the name of a file
        return False


def _from_tu(folder: Path) -> list[Data]:
    stems = [found for place in (folder, folder / "raw") for found in sorted(place.glob("*_A.txt"))]
    if not stems:
        raise ValueError(f"Expected a file NAME_A.txt in {folder} or its folder raw (got none). Unpack the data there.")
    stem = str(stems[0]).removesuffix("A.txt")
    arcs = _table(stems[0])
    if arcs.shape[1] != 2:
        raise ValueError(f'Expected lines "u, v" (got {arcs.shape[1]} numbers a line in {stems[0]}). Unpack it anew.')
    graph = _column(stem, "graph_indicator")
    if graph is None:
        raise ValueError(f"Expected {stem}graph_indicator.txt beside {stems[0].name} (got none). Unpack all files.")
    graph = graph - 1
    node_ptr = np.append(0, np.cumsum(np.bincount(graph)))
    source, target = arcs.T - 1
    # Some sets list an edge twice, or a node as its own neighbour; simple graphs are meant.
    _, kept = np.unique(source * graph.size + target, return_index=True)
    kept = kept[source[kept] != target[kept]]
    source, target = source[kept], target[kept]
    shift = node_ptr[graph[source]]
    labels = {
        "x": _column(stem, "node_labels"),
        "edge_attr": _column(stem, "edge_labels"),
        "y": _column(stem, "graph_labels"),
    }
    if labels["edge_attr"] is not None:
        labels["edge_attr"] = labels["edge_attr"][kept]
    return _cut(
        {
            "edge_index": np.stack([source, target]) - shift,
            "edge_ptr": np.append(0, np.cumsum(np.bincount(graph[source], minlength=node_ptr.size - 1))),
            "node_ptr": node_ptr,
            **{name: value for name, value in labels.items() if value is not None},
        }
    )


def _column(stem: str, name: str) -> np.ndarray | None:
    path = Path(f"{stem}{name}.txt")
    if not path.is_file():
        return None
    found = _table(path)
    return found[:, 0] if found.shape[1] == 1 else found


def _table(path: Path) -> np.ndarray:
    try:
        found = np.loadtxt(path, delimiter=",", dtype=np.float64, ndmin=2, encoding="utf-8")
    except ValueError as error:
        raise ValueError(f"Expected lines of integers in {path} (got other text: {error}). Unpack it anew.") from None
    whole = found == np.round(found)
    if not whole.all():
        raise ValueError(f"Expected integers in {path} (got {found[~whole][0]:g}). Real labels go into y of a .npz.")
    return found.astype(np.int64)


def _from_arrays(path: Path) -> list[Data]:
    try:
        arrays = dict(np.load(path, allow_pickle=False))
    except (ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"Expected an .npz of plain arrays (got {path}: {error}). Use numpy.savez.") from None
    if "num_nodes" in arrays and "edge_ptr" in arrays:
        sizes = np.broadcast_to(arrays["num_nodes"], arrays["edge_ptr"].size - 1)
        arrays.setdefault("node_ptr", np.append(0, np.cumsum(sizes)))
    missing = [name for name in ("edge_index", "edge_ptr", "node_ptr") if name not in arrays]
    if missing:
        raise ValueError(
            f"Expected the arrays edge_index, edge_ptr and node_ptr or num_nodes (got no {missing[0]} in {path}, but "
            f"{', '.join(sorted(arrays))}). Save graphs laid end to end, with where each begins."
        )
    return _cut(arrays)


def _cut(arrays: dict[str, np.ndarray]) -> list[Data]:
    """Graphs laid end to end → a list of them."""
    held = {name: torch.from_numpy(value) for name, value in arrays.items()}
    node, arc = arrays["node_ptr"].tolist(), arrays["edge_ptr"].tolist()
    graphs = []
    for i in range(len(arc) - 1):
        columns, nodes = slice(arc[i], arc[i + 1]), slice(node[i], node[i + 1])
        data = Data(edge_index=held["edge_index"][:, columns].long(), num_nodes=node[i + 1] - node[i])
        for name, lines in (("x", nodes), ("edge_attr", columns), ("y", slice(i, i + 1))):
            if name in held:
                data[name] = held[name][lines]
        graphs.append(data)
    return graphs


def _from_pt(path: Path) -> list[Data]:
    try:
        # Only what is not admitted yet: at its end, the context would take back what PyG admitted for itself.
        admitted = torch.serialization.get_safe_globals()
        unknown = [kind for kind in (Data, DataEdgeAttr, DataTensorAttr, GlobalStorage) if kind not in admitted]
        with torch.serialization.safe_globals(unknown):
            found = torch.load(path, weights_only=True)
    except Exception as error:
        raise ValueError(
            f"Expected a list of PyG Data that torch.load reads with weights_only=True (got {path}: "
            f"{type(error).__name__}). Save a plain list: torch.save([data, ...], path)."
        ) from None
    if not isinstance(found, list) or not all(isinstance(graph, Data) for graph in found):
        raise ValueError(f"Expected a list of PyG Data (got {type(found).__name__} in {path}). Save a plain list.")
    return found


_READERS = {".g6": read_graph6, ".npz": _from_arrays, ".pt": _from_pt}
