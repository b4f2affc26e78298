"""What files mean, read once more in the plainest way: pure Python, a number at a time, None for a contradiction."""

import csv
import gzip
import hashlib
import io
import json
import re
import zlib
from itertools import pairwise
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

Plain = list[Any]


def digest(value: Any) -> str:
    """As `files_readers` digests it."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _plain(sizes: list[int], columns: list[list[Any]], x: list[Any], y: list[Any]) -> Plain | None:
    """Graphs end to end, `columns` with (graph, u, v, features); None if a number lies outside."""
    result, first = [], 0
    for graph, size in enumerate(sizes):
        mine = [[u, v, *more] for owner, u, v, more in columns if owner == graph]
        if size < 1 or any(not 0 <= end < size for column in mine for end in column[:2]):
            return None
        result.append([size, sorted(mine), x[first : first + size], y[graph : graph + 1]])
        first += size
    return result if result else None


def _whole(values: Any) -> list[int] | None:
    flat = [values] if not isinstance(values, list) else values
    if any(isinstance(value, bool | str | complex) or value != value or value != int(value) for value in flat):
        return None
    return [int(value) for value in flat]


def _rows(values: np.ndarray | None, count: int) -> list[Any] | None:
    if values is None:
        return []
    if values.ndim == 0 or len(values) != count or values.dtype.kind not in "biuf":
        return None
    return [[float(number) for number in np.ravel(row).tolist()] for row in values]


def npz(arrays: dict[str, np.ndarray]) -> Plain | None:
    """What `load_graphs` says of an .npz."""
    known = {"edge_index", "edge_ptr", "node_ptr", "num_nodes", "x", "edge_attr", "y"}
    if (
        set(arrays) - known
        or not {"edge_index", "edge_ptr"} <= set(arrays)
        or not {"node_ptr", "num_nodes"} & {*arrays}
    ):
        return None
    try:
        edge_index, edge_ptr = arrays["edge_index"], _pointers(arrays["edge_ptr"])
        if edge_ptr is None or edge_index.ndim != 2 or edge_index.shape[0] != 2 or edge_index.shape[1] != edge_ptr[-1]:
            return None
        sizes = None
        if "num_nodes" in arrays:
            given = arrays["num_nodes"]
            sizes = _whole(given.tolist() if given.ndim else [given.item()] * (len(edge_ptr) - 1))
            if given.ndim > 1:
                return None
        if "node_ptr" in arrays:
            node_ptr = _pointers(arrays["node_ptr"])
            between = None if node_ptr is None else [b - a for a, b in pairwise(node_ptr)]
            if between is None or (sizes is not None and sizes != between):
                return None
            sizes = between
        ends = [_whole(row) for row in edge_index.tolist()]
        if sizes is None or len(sizes) != len(edge_ptr) - 1 or None in ends or sum(sizes) > 2**26:
            return None
        rows = [_rows(arrays.get(n), c) for n, c in (("x", sum(sizes)), ("edge_attr", edge_ptr[-1]), ("y", len(sizes)))]
    except (OverflowError, ValueError, TypeError):
        return None
    if any(some is None for some in rows):
        return None
    x, attributes, y = rows
    owner = [graph for graph in range(len(sizes)) for _ in range(edge_ptr[graph + 1] - edge_ptr[graph])]
    more = attributes or [[]] * len(owner)
    columns = [[g, u, v, m] for g, u, v, m in zip(owner, *ends, more, strict=True)]  # type: ignore[arg-type]
    return _plain(sizes, columns, x, y)  # type: ignore[arg-type]


def _pointers(value: np.ndarray) -> list[int] | None:
    found = _whole(value.tolist()) if value.ndim == 1 else None
    if not found or len(found) < 2 or found[0] != 0 or any(b < a for a, b in pairwise(found)):
        return None
    return found


def _table(path: Path) -> list[list[float]] | None:
    text = path.read_bytes().decode("latin-1")
    try:
        rows = [[float(cell) for cell in line.split(",")] for line in text.split("\n") if line.strip()]
    except ValueError:
        return None
    return rows if rows and len({len(row) for row in rows}) == 1 and "_" not in text else None


def tu(folder: Path, shifted: bool) -> Plain | None:
    """What a TU folder says, with labels as they are or counted from their least."""
    tables = {}
    for part in ("A", "graph_indicator", "graph_labels", "node_labels", "edge_labels"):
        path = folder / f"TOY_{part}.txt"
        if path.exists():
            tables[part] = _table(path)
            if tables[part] is None:
                return None
    edges, owner = tables.get("A"), tables.get("graph_indicator")
    if edges is None or owner is None or len(edges[0]) != 2 or len(owner[0]) != 1:
        return None
    try:
        ends = [[int(u), int(v)] for u, v in edges if u == int(u) and v == int(v)]
        graph = [int(row[0]) - 1 for row in owner if row[0] == int(row[0])]
    except (OverflowError, ValueError):
        return None
    steps = {b - a for a, b in pairwise(graph)}
    if len(ends) != len(edges) or len(graph) != len(owner) or graph[0] != 0 or not steps <= {0, 1}:
        return None
    sizes = [graph.count(g) for g in range(graph[-1] + 1)]
    features = {}
    for part, count in (("node_labels", len(graph)), ("edge_labels", len(edges)), ("graph_labels", len(sizes))):
        rows = tables.get(part)
        if rows is not None and len(rows) != count:
            return None
        if rows is not None and shifted and part != "graph_labels":
            least = [min(column) for column in zip(*rows, strict=True)]
            rows = [[cell - low for cell, low in zip(row, least, strict=True)] for row in rows]
        features[part] = rows
    seen, columns = set(), []
    first = [sum(sizes[:g]) for g in range(len(sizes))]
    for place, (u, v) in enumerate(ends):
        if not (1 <= u <= len(graph) and 1 <= v <= len(graph)) or graph[u - 1] != graph[v - 1]:
            return None
        if u != v and (u, v) not in seen:
            seen.add((u, v))
            more = features["edge_labels"][place] if features["edge_labels"] else []
            columns.append([graph[u - 1], u - 1 - first[graph[u - 1]], v - 1 - first[graph[u - 1]], more])
    return _plain(sizes, columns, features["node_labels"] or [], features["graph_labels"] or [])


def gin(path: Path) -> Plain | None:
    """What a file in the format of GIN says."""
    lines = path.read_bytes().decode("latin-1").rstrip().split("\n")
    try:
        rows = iter([[int(word) for word in line.split()] for line in lines])
        (count,) = next(rows)
        sizes, y, tags, columns = [], [], [], []
        for graph in range(count):
            size, label = next(rows)
            sizes.append(size)
            y.append([float(label)])
            for node in range(size):
                tag, degree, *near = next(rows)
                if len(near) != degree:
                    return None
                tags.append(tag)
                columns += [[graph, node, other, []] for other in near]
    except (ValueError, StopIteration):
        return None
    if next(rows, None) is not None or "_" in path.read_bytes().decode("latin-1"):
        return None
    order = {tag: place for place, tag in enumerate(sorted(set(tags)))}
    return _plain(sizes, columns, [[float(order[tag])] for tag in tags], y)


def graph6(path: Path) -> Plain | None:
    """What networkx reads, a line at a time."""
    result = []
    for line in path.read_bytes().split(b"\n"):
        if not line.strip() or line.strip() == b">>graph6<<":
            continue
        try:
            graph = nx.from_graph6_bytes(line.strip().removeprefix(b">>graph6<<"))
        except Exception:  # networkx says in many ways that it does not read a line
            return None
        both = sorted([[u, v] for u, v in graph.edges] + [[v, u] for u, v in graph.edges])
        result.append([len(graph), both, [], []])
    return result or None


def edges(path: Path) -> Plain | None:
    """A list of edges, a line each."""
    pairs = set()
    for line in path.read_bytes().decode("latin-1").split("\n"):
        words = line.split("#")[0].replace(",", " ").split()
        if not words:
            continue
        if len(words) != 2 or not all(re.fullmatch("[0-9]+", word) for word in words):
            return None
        u, v = map(int, words)
        pairs |= {(u, v), (v, u)}
    if not pairs or max(max(pair) for pair in pairs) >= 2**26:
        return None
    n = max(max(pair) for pair in pairs) + 1
    return [[n, sorted([u, v] for u, v in pairs), [], []]]


def labels(path: Path) -> list[list[float | None]] | None:
    """A file of labels; None in place of a missing one."""
    rows = []
    try:
        for line in path.read_bytes().decode("utf-8-sig").splitlines():
            if line.strip():
                words = re.split(r"[,\s]+", line.strip())
                missing = ("", "nan", "na", "none", "null")
                rows.append([None if word.lower() in missing else float(word) for word in words])
    except ValueError:
        return None
    infinite = any(abs(cell) == float("inf") for row in rows for cell in row if cell is not None)
    return rows if rows and len({len(row) for row in rows}) == 1 and not infinite else None


def table(path: Path) -> list[Any] | None:
    """A table of SMILES and targets, whatever RDKit says of the former."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
        rows = [row for row in csv.reader(io.StringIO(text, newline="")) if any(cell.strip() for cell in row)]
        head = [name.strip() for name in rows[0]]
        at = [name.lower() for name in head].index("smiles")
        missing = ("", "nan", "na", "none", "null")
        y = [
            [None if cell.strip().lower() in missing else float(cell) for i, cell in enumerate(row) if i != at]
            for row in rows[1:]
        ]
    except (ValueError, IndexError, csv.Error):
        return None
    if any(len(row) != len(head) for row in rows) or "_" in "".join(cell for row in rows[1:] for cell in row):
        return None
    return [[row[at].strip() for row in rows[1:]], y if len(head) > 1 else []]


def ogb(raw: Path) -> Plain | None:
    """The csv files of OGB."""
    try:
        return _ogb(raw)
    except (ValueError, OverflowError):  # of what is no whole number
        return None


def _ogb(raw: Path) -> Plain | None:
    try:
        texts = {
            path.name.split(".")[0]: gzip.decompress(path.read_bytes()).decode("latin-1") for path in raw.iterdir()
        }
        tables = {
            name: [[float(cell or "nan") for cell in line.split(",")] for line in text.split("\n") if line.strip()]
            for name, text in texts.items()
        }
    except (ValueError, OSError, EOFError, zlib.error):
        return None
    listed = [[row[0] for row in tables[f"num-{what}-list"]] for what in ("node", "edge")]
    if any(abs(number) > 1e9 or number != int(number) for some in listed for number in some):
        return None
    sizes, bonds = ([int(number) for number in some] for some in listed)
    pairs, features = tables["edge"], tables["edge-feat"]
    y = tables["graph-label"]
    if len(sizes) != len(bonds) or sum(bonds) != len(pairs) or len(features) != len(pairs) or len(y) != len(sizes):
        return None
    owner = [graph for graph, count in enumerate(bonds) for _ in range(count)]
    columns = []
    for graph, ends, more in zip(owner, pairs, features, strict=True):
        if len(ends) != 2 or any(end != int(end) for end in ends):
            return None
        u, v = map(int, ends)
        columns += [[graph, u, v, more], [graph, v, u, more]]
    return _plain(sizes, columns, tables["node-feat"], y) if sum(sizes) == len(tables["node-feat"]) else None
