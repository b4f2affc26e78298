"""Sets of the TU collection: their text files as arrays, and the sets that the paper reports on."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from esan.data.infer_features import MOST_CATEGORIES
from esan.data.sets.downloads import fetch_gin_file, fetch_tu_files
from esan.data.sets.folders import DataFolders
from esan.data.sets.gin_text_format import read_gin
from esan.data.sets.set_arrays import SetArrays, category_column
from esan.graphs.readers.graph_arrays import GraphArrays, whole
from esan.graphs.readers.tu_files import TUFiles as TUFiles
from esan.graphs.readers.tu_files import TUGraphs


def read_tu(files: TUFiles, *, attributes: bool, edge_labels: bool, numbers: int | None = None) -> GraphArrays:
    """The graphs, with node labels as `x` (integers from 0) and graph labels, else graph attributes, as `y`.

    A repeated column and a self-loop are dropped, as PyG does.

    Args:
        files: of the set.
        attributes: whether `x` has the real-valued node attributes, followed by the labels as one-hot columns.
        edge_labels: whether `edge_attr` has the labels of edges, if there are any.
        numbers: for regression, the number of targets per graph, 0 if unknown: graph attributes of so many columns are
            then the targets even if there are graph labels; None for other tasks.
    """
    graphs = TUGraphs.of(files)
    arrays = graphs.arrays
    n = int(arrays.num_nodes.sum())
    label = _labels(files, "edge_labels", graphs.num_lines) if edge_labels else None
    return GraphArrays(
        num_nodes=arrays.num_nodes,
        num_directed_edges=arrays.num_directed_edges,
        edge_index=arrays.edge_index,
        x=_node_features(files, n) if attributes else _labels(files, "node_labels", n),
        edge_attr=None if label is None else label[graphs.line],
        y=_targets(files, arrays.num_nodes.size, numbers),
    )


def _labels(files: TUFiles, part: str, lines: int) -> np.ndarray | None:
    """Integer labels from 0, one column per label."""
    labels = files.labels(part, lines)
    return None if labels is None else labels - labels.min(0)


def _node_features(files: TUFiles, nodes: int) -> np.ndarray | None:
    labels = _labels(files, "node_labels", nodes)
    attributes = files.table("node_attributes", np.float64)
    if attributes is None:
        return labels
    files.check_lines("node_attributes", attributes, nodes)
    if labels is not None and int(labels.max()) >= MOST_CATEGORIES:
        raise ValueError(
            f"Expected node labels that span fewer than {MOST_CATEGORIES:,} numbers, to be shown as 0/1 (got "
            f"{int(labels.max()) + 1:,} in {files.where('node_labels')}). Number them 0, 1, 2, ..."
        )
    shown = [] if labels is None else [np.eye(int(c.max()) + 1)[c] for c in labels.T]
    return np.concatenate([attributes, *shown], 1).astype(np.float32)


def _targets(files: TUFiles, graphs: int, numbers: int | None) -> np.ndarray | None:
    part = "graph_labels" if files.text("graph_labels") is not None else "graph_attributes"
    if numbers is not None and (attributes := files.table("graph_attributes", np.float64)) is not None:
        part = "graph_attributes" if numbers in (0, attributes.shape[1]) else part
    # Class numbers are written as 1 or 1.0; real targets have fractions.
    found = files.table(part, np.float64)
    if found is None:
        return None
    files.check_lines(part, found, graphs)
    found = found[:, 0] if found.shape[1] == 1 else found
    if part == "graph_labels" and bool((found == np.round(found)).all()):
        return whole(found, "graph labels", files.where(part))
    return found


def tu_set(title: str, *, degree: bool = False) -> Callable[[DataFolders], SetArrays]:
    """A finder of one set.

    Args:
        title: its name in the collection, e.g. "IMDB-BINARY".
        degree: whether `x` is the degree of each node.
    """

    def find(folders: DataFolders) -> SetArrays:
        path = folders.find_or_fetch(_names(title), partial(_fetch, title), f"TU/{title}")
        if path.name.startswith(f"{title}.txt"):
            arrays = read_gin(path)
        else:
            folder = path.parent.parent if path.parent.name == "raw" else path.parent
            arrays = read_tu(TUFiles(folder, title), attributes=False, edge_labels=False)
        if degree:
            arrays.x = category_column(arrays.degree())
        if arrays.y is not None:
            arrays.y = np.unique(arrays.y, return_inverse=True)[1].astype(np.int64)
        return SetArrays(arrays, str(path))

    return find


def _names(title: str) -> tuple[str, ...]:
    inside = [f"raw/{title}_A.txt", f"{title}_A.txt", "raw.zip"]
    # The PTC that is reported on is not one of the collection's; it is published in GIN's format.
    inside += ["PTC.txt", "PTC.txt.gz"] if title == "PTC" else []
    return tuple(f"{folder}/{name}" for folder in (f"TU/{title}", title) for name in inside)


def _fetch(title: str, folder: Path) -> None:
    if title == "PTC":
        fetch_gin_file(folder, title)
    else:
        fetch_tu_files(folder, title)
