"""`load_graphs`: the graphs of a file: graph6, a TU folder, arrays in an .npz, or PyG data in a .pt."""

from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import GlobalStorage

from esan.graphs.readers.archives import check_archive
from esan.graphs.readers.graph6 import read_graph6
from esan.graphs.readers.graph_arrays import GraphArrays, arrays_in, graph_arrays
from esan.graphs.readers.tu_files import TUFiles, TUGraphs

#: The arrays of an .npz that are read.
_KNOWN = {"edge_index", "edge_ptr", "node_ptr", "num_nodes", "x", "edge_attr", "y"}


def load_graphs(path: str | Path) -> list[Data]:
    """The graphs of a file or folder.

    Args:
        path: one of

            - `*.g6`: one line of graph6 per graph;
            - a folder with the text files of the TU collection, `NAME_A.txt` and its companions, or with a folder `raw`
              that has them; node and edge labels become `x` and `edge_attr`, graph labels `y`
              (real-valued attributes are not read);
            - `*.npz`: arrays `edge_index` `[2, edges]` with nodes numbered in each graph from 0 and both directions of
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
            f"Expected {', '.join(_READERS)} or a TU folder (got {str(path)!r}). Write the graphs in one of these; "
            "esan.data.own and esan.fit also read molecules from a .csv."
        )
    return _READERS[path.suffix](path)


def exists(path: str | Path) -> bool:
    """Whether there is such a file or folder; False for text that cannot be a path."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # a line of graph6 may be too long for a path, other text has a null character
        return False


def is_file(path: str | Path) -> bool:
    """Whether there is such a file; False for text that cannot be a path."""
    return exists(path) and Path(path).is_file()


def holds_graphs(path: Path) -> bool:
    """Whether `load_graphs` can read it: a folder, or a file with one of the known suffixes."""
    return path.suffix in _READERS or (exists(path) and path.is_dir())


def _from_tu(folder: Path) -> list[Data]:
    files = TUFiles.of(folder)
    tu_graphs = TUGraphs.of(files)
    arrays = tu_graphs.arrays
    nodes, graphs = int(arrays.num_nodes.sum()), arrays.num_nodes.size
    labels = {
        "x": files.labels("node_labels", nodes),
        "edge_attr": files.labels("edge_labels", tu_graphs.num_lines),
        "y": files.labels("graph_labels", graphs),
    }
    if labels["edge_attr"] is not None:
        labels["edge_attr"] = labels["edge_attr"][tu_graphs.line]
    for name, value in labels.items():
        if value is not None:
            setattr(arrays, name, value[:, 0] if value.shape[1] == 1 else value)
    return _split(arrays, str(folder))


def _from_arrays(path: Path) -> list[Data]:
    arrays = arrays_in(path)
    found = graph_arrays(arrays, str(path))
    unknown = sorted(set(arrays) - _KNOWN)
    if unknown:
        raise ValueError(
            f"Expected the arrays {', '.join(sorted(_KNOWN))} and no others (got {', '.join(unknown)[:99]} in {path}). "
            "Rename or leave out what is not read."
        )
    return _split(found, str(path))


def _split(arrays: GraphArrays, where: str) -> list[Data]:
    """Concatenated graphs → a list of graphs."""
    arrays.check(where)
    held = {
        name: torch.from_numpy(value)
        for name in ("edge_index", "x", "edge_attr", "y")
        if (value := getattr(arrays, name)) is not None
    }
    node, edge = (np.append(0, np.cumsum(counts)).tolist() for counts in (arrays.num_nodes, arrays.num_directed_edges))
    graphs = []
    for i in range(len(edge) - 1):
        columns, nodes = slice(edge[i], edge[i + 1]), slice(node[i], node[i + 1])
        data = Data(edge_index=held["edge_index"][:, columns], num_nodes=node[i + 1] - node[i])
        for name, rows in (("x", nodes), ("edge_attr", columns), ("y", slice(i, i + 1))):
            if name in held:
                data[name] = held[name][rows]
        graphs.append(data)
    return graphs


def _from_pt(path: Path) -> list[Data]:
    try:
        check_archive(path)
        # Only new classes: when it exits, the context would also remove those that PyG registered itself.
        admitted = torch.serialization.get_safe_globals()
        unknown = [kind for kind in (Data, DataEdgeAttr, DataTensorAttr, GlobalStorage) if kind not in admitted]
        with torch.serialization.safe_globals(unknown):
            found = torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:
        raise ValueError(
            f"Expected a list of PyG Data that torch.load reads with weights_only=True (got {path}: "
            f"{type(error).__name__}). Save a plain list: torch.save([data, ...], path)."
        ) from None
    if not isinstance(found, list) or not all(isinstance(graph, Data) for graph in found):
        raise ValueError(f"Expected a list of PyG Data (got {type(found).__name__} in {path}). Save a plain list.")
    return [_plain_data(graph, place, path) for place, graph in enumerate(found)]


def _plain_data(graph: Data, place: int, path: Path) -> Data:
    """The same attributes in a new PyG object: an object from a file need not be a valid one."""
    try:
        held = dict(graph.to_dict())
        tensors = [value for value in held.values() if isinstance(value, torch.Tensor)]
        if not all(isinstance(name, str) for name in held) or any(t.device.type != "cpu" for t in tensors):
            raise TypeError("attributes")
        return Data.from_dict(held)
    except Exception as error:
        raise ValueError(
            f"Expected PyG Data with tensors on the CPU (got {type(error).__name__} of graph {place} in {path}). "
            "Save a plain list: torch.save([data, ...], path)."
        ) from None


_READERS = {".g6": read_graph6, ".npz": _from_arrays, ".pt": _from_pt}
