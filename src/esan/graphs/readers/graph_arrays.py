"""`GraphArrays`: graphs as numpy arrays, read from an .npz and checked: dtypes, shapes, ranges and totals."""

import math
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Batch

from esan.graphs.collection import Graphs
from esan.graphs.readers.archives import opened_zip
from esan.graphs.readers.to_graphs import read

#: The most nodes of all graphs together if no array has one row per node.
MOST_NODES = 2**26
#: Whole numbers up to this are exact in a float64.
_EXACT = 2**53

_AGAIN = "The file is cut short or damaged; write or fetch it again."
_CHUNK = 2**20
#: Booleans, integers, and the floating-point numbers that torch has.
_NUMBERS = "biuf"


def arrays_in(path: Path, texts: Sequence[str] = ()) -> dict[str, np.ndarray]:
    """The arrays of an .npz, in native byte order; nothing is ever unpickled.

    The header of each array is compared with the size of its member before memory is allocated.

    Args:
        path: of the file.
        texts: names of arrays that may hold text; all others hold numbers.
    """
    with opened_zip(path, "an .npz of plain arrays", exact=True) as archive:
        return {info.filename.removesuffix(".npy"): _array(archive, info, path, texts) for info in archive.infolist()}


def whole(value: Any, name: str, where: str) -> np.ndarray:
    """The numbers as int64, if they are whole and fit; nothing is rounded and nothing overflows.

    Args:
        value: integers, or floating-point numbers without fractions.
        name: of the array, for errors.
        where: the file, for errors.
    """
    value = np.asarray(value)
    if value.dtype.kind not in "iuf":
        raise ValueError(f"Expected whole numbers in {name} (got {value.dtype} in {where}). Save integers.")
    if value.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            fine = (value == np.floor(value)) & (np.abs(value) <= _EXACT)
        if not fine.all():
            raise ValueError(
                f"Expected whole numbers in {name} (got {value[~fine].reshape(-1)[0]!s} in {where}). Save integers."
            )
    elif value.dtype.kind == "u" and value.size and int(value.max()) > np.iinfo(np.int64).max:
        raise ValueError(f"Expected numbers below 2^63 in {name} (got {int(value.max())} in {where}). {_AGAIN}")
    return value.astype(np.int64)


def counts(value: Any, name: str, where: str) -> np.ndarray:
    """One non-negative integer per graph."""
    found = whole(value, name, where)
    if found.ndim != 1:
        raise ValueError(
            f"Expected {name} with one number per graph (got shape {list(found.shape)} in {where}). {_AGAIN}"
        )
    if found.size and int(found.min()) < 0:
        bad = int(found.argmin())
        raise ValueError(f"Expected {name} from 0 on (got {found[bad]} for graph {bad} in {where}). {_AGAIN}")
    total(found, name, where)
    return found


def counts_between(pointers: Any, name: str, where: str) -> np.ndarray:
    """The counts per graph from a CSR pointer `[G + 1]`: where each graph begins, and the end."""
    found = whole(pointers, name, where)
    if found.ndim != 1 or found.size < 2:
        raise ValueError(
            f"Expected {name} with where each graph begins, and the end (got shape {list(found.shape)} in {where}). "
            "Save one number more than there are graphs."
        )
    if found[0] != 0:
        raise ValueError(f"Expected {name} to begin with 0 (got {found[0]} in {where}). {_AGAIN}")
    falls = found[1:] < found[:-1]
    if falls.any():
        bad = int(falls.argmax())
        raise ValueError(
            f"Expected {name} that does not fall (got {found[bad]}, then {found[bad + 1]}, at place {bad + 1} in "
            f"{where}). {_AGAIN}"
        )
    return np.diff(found)


def total(found: np.ndarray, name: str, where: str) -> int:
    """The sum of counts, which must fit 64 bits."""
    # In floating point: a sum of int64 would overflow silently.
    if found.size and float(found.sum(dtype=np.float64)) > _EXACT:
        raise ValueError(f"Expected {name} that add up to less than 2^53 (got more in {where}). {_AGAIN}")
    return int(found.sum())


def features(value: Any, name: str, rows: int, where: str) -> np.ndarray:
    """Numbers with one row per node, edge or graph, of a dtype that torch has, in native byte order."""
    value = np.asarray(value)
    if value.dtype.kind not in _NUMBERS or value.dtype.itemsize > 8:
        raise ValueError(f"Expected numbers in {name} (got {value.dtype} in {where}). Save integers or floats.")
    if value.ndim == 0 or value.shape[0] != rows:
        got = "one number" if value.ndim == 0 else f"{value.shape[0]}"
        raise ValueError(f"Expected {rows} rows of {name} (got {got} in {where}). {_AGAIN}")
    if value.dtype.kind == "u" and value.dtype.itemsize > 1:
        # torch computes with one unsigned dtype, uint8.
        return whole(value, name, where)
    return np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("="))


@dataclass
class GraphArrays:
    """Graphs, concatenated: nodes numbered from 0 in each graph, both directions of every edge.

    Attributes:
        num_nodes: nodes of each graph, `[G]`.
        num_directed_edges: columns of `edge_index` of each graph, `[G]`.
        edge_index: sources and targets, `[2, A]`.
        x: node features, `[N, ...]`.
        edge_attr: features of the columns, `[A, ...]`.
        y: targets, one entry per graph.
    """

    num_nodes: np.ndarray
    num_directed_edges: np.ndarray
    edge_index: np.ndarray
    x: np.ndarray | None = None
    edge_attr: np.ndarray | None = None
    y: np.ndarray | None = None

    def check(self, where: str) -> None:
        """Convert all arrays to the dtypes above, or raise one error that says which of them disagree.

        Args:
            where: names the source in errors.
        """
        nodes = counts(self.num_nodes, "num_nodes", where)
        columns = counts(self.num_directed_edges, "num_directed_edges", where)
        if nodes.size == 0 or int(nodes.min()) < 1:
            raise ValueError(f"Expected graphs with at least one node (got none in {where}). Leave such graphs out.")
        n, a, g = total(nodes, "num_nodes", where), total(columns, "num_directed_edges", where), nodes.size
        edge_index = whole(self.edge_index, "edge_index", where)
        if edge_index.ndim != 2 or edge_index.shape[0] != 2:
            raise ValueError(
                f"Expected edge_index of shape [2, edges] (got {list(edge_index.shape)} in {where}). Transpose it."
            )
        for name, rows, expected in (("num_directed_edges", columns.size, g), ("edge_index", edge_index.shape[1], a)):
            if rows != expected:
                raise ValueError(f"Expected {expected} rows of {name} (got {rows} in {where}). {_AGAIN}")
        for name, expected in (("x", n), ("edge_attr", a), ("y", g)):
            value = getattr(self, name)
            if value is not None:
                setattr(self, name, features(value, name, expected, where))
        if (self.x is None or not self.x.size) and n > MOST_NODES:
            raise ValueError(
                f"Expected at most {MOST_NODES:,} nodes where there is no x (got {n:,} in {where}). "
                "Is num_nodes right? Give every node its features."
            )
        of_column = np.repeat(np.arange(g), columns)
        outside = ((edge_index < 0) | (edge_index >= nodes[of_column])).any(0)
        if outside.any():
            bad = int(outside.argmax())
            raise ValueError(
                f"Expected node numbers from 0 to {nodes[of_column[bad]] - 1} in graph {of_column[bad]} "
                f"(got the edge {tuple(edge_index[:, bad].tolist())} in {where}). The file is damaged; fetch it again."
            )
        self.num_nodes, self.num_directed_edges, self.edge_index = nodes, columns, edge_index

    def degree(self) -> np.ndarray:
        """The out-degree of each node, `[N]`."""
        start = np.cumsum(self.num_nodes) - self.num_nodes
        source = self.edge_index[0] + np.repeat(start, self.num_directed_edges)
        return np.bincount(source, minlength=int(self.num_nodes.sum()))

    def to_graphs(self, where: str) -> Graphs:
        """The checked collection; `where` names the source in errors."""
        self.check(where)
        nodes, edge_index = self.num_nodes, self.edge_index
        of_column = np.repeat(np.arange(nodes.size), self.num_directed_edges)
        ptr = np.append(0, np.cumsum(nodes))
        batch = Batch(edge_index=torch.from_numpy(edge_index + ptr[of_column]), ptr=torch.from_numpy(ptr))
        batch.num_nodes = int(nodes.sum())
        for name in ("x", "edge_attr", "y"):
            value = getattr(self, name)
            if value is not None:
                batch[name] = torch.from_numpy(value)
        try:
            return read(batch)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{where}: {error}") from None


def graph_arrays(arrays: dict[str, np.ndarray], where: str, prefix: str = "", needs: Sequence[str] = ()) -> GraphArrays:
    """The graphs in the arrays `prefix + name`, not yet checked against one another.

    Args:
        arrays: edge_index, edge_ptr, and node_ptr or num_nodes (one number for graphs of one size); x, edge_attr, y.
        where: names the source in errors.
        prefix: of the names.
        needs: which of x, edge_attr and y must be there.
    """
    there = {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
    for name in ("edge_index", "edge_ptr", "num_nodes", *needs):
        if name not in there and not (name == "num_nodes" and "node_ptr" in there):
            wanted = ", ".join(["edge_index", "edge_ptr", *needs])
            raise ValueError(
                f"Expected the arrays {wanted} and node_ptr or num_nodes (got no {prefix}{name} in {where}, but "
                f"{', '.join(sorted(arrays))[:200]}). Save graphs end to end, with where each begins."
            )
    num_directed_edges = counts_between(there["edge_ptr"], f"{prefix}edge_ptr", where)
    num_nodes = None
    if "num_nodes" in there:
        given = there["num_nodes"]
        num_nodes = counts(
            np.full(num_directed_edges.size, given[()]) if given.ndim == 0 else given, "num_nodes", where
        )
    if "node_ptr" in there:
        between = counts_between(there["node_ptr"], f"{prefix}node_ptr", where)
        if num_nodes is not None and not np.array_equal(num_nodes, between):
            raise ValueError(f"Expected num_nodes and node_ptr that agree (got others in {where}). Leave one out.")
        num_nodes = between
    assert num_nodes is not None  # one of the two is there
    if num_nodes.size != num_directed_edges.size:
        raise ValueError(
            f"Expected as many graphs in edge_ptr as in node_ptr or num_nodes (got {num_directed_edges.size} and "
            f"{num_nodes.size} in {where}). {_AGAIN}"
        )
    more = {name: there.get(name) for name in ("x", "edge_attr", "y")}
    return GraphArrays(num_nodes, num_directed_edges, there["edge_index"], **more)


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path, texts: Sequence[str]) -> np.ndarray:
    name = info.filename.removesuffix(".npy")
    if name == info.filename:
        raise _no_array(path, f"the member {name[:40]!r} is none")
    with archive.open(info) as file:
        try:
            version = np.lib.format.read_magic(file)
            read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
            shape, fortran, dtype = read(file)
            begins = file.tell()
        # numpy evaluates the header as a literal, which fails in many ways on other text.
        except Exception as error:
            raise _no_array(path, f"{name[:40]} has a damaged header, {type(error).__name__}") from None
        plain = dtype.kind in _NUMBERS and dtype.itemsize <= 8
        if dtype.hasobject or not (plain or (dtype.kind == "U" and name in texts)):
            raise _no_array(path, f"{name[:40]} holds {'objects' if dtype.hasobject else str(dtype)[:40]}")
        size, there = math.prod(shape) * dtype.itemsize, info.file_size - begins
        if min(shape, default=0) < 0 or size != there or len(shape) > 8 or max(shape, default=0) > 2**40:
            raise _no_array(path, f"{name[:40]} promises {size:,} bytes, shape {list(shape)!s:.60}, and has {there:,}")
        flat = np.empty(size // dtype.itemsize if dtype.itemsize else 0, dtype)
        if size:
            buffer = flat.view(np.uint8).data
            filled = 0
            while filled < size and (chunk := file.read(min(_CHUNK, size - filled))):
                buffer[filled : filled + len(chunk)] = chunk
                filled += len(chunk)
            if filled < size:
                raise _no_array(path, f"{name[:40]} is cut short")
        file.read(1)  # at its end, zipfile compares the checksum
    found = flat.reshape(shape, order="F" if fortran else "C")
    return found.astype(dtype.newbyteorder("="), order="C", copy=False) if plain else found


def _no_array(path: Path, why: str) -> ValueError:
    return ValueError(f"Expected an .npz of plain arrays (got {path}: {why}). Write it with numpy.savez.")
