"""Sets of the TU collection → arrays, with the labels and attributes that a task asks for."""

import numpy as np

from esan.data.features import MOST_CATEGORIES
from esan.data.sets.from_arrays import Laid
from esan.graphs.readers.arrays import whole
from esan.graphs.readers.tu import TUFiles as TUFiles
from esan.graphs.readers.tu import TUGraphs


def read_tu(files: TUFiles, *, attributes: bool, edge_labels: bool, numbers: int | None = None) -> Laid:
    """The graphs, with node labels as `x` (integers from 0) and graph labels, else graph attributes, as `y`.

    A repeated column and a self-loop are dropped, as PyG does.

    Args:
        files: of the set.
        attributes: whether real-valued attributes of nodes stand in `x`, in front of the labels shown as 0/1.
        edge_labels: whether `edge_attr` holds the labels of edges, if there are any.
        numbers: of a regression, how many targets a graph has, 0 if that is not known: graph attributes of so many
            columns are then the targets even where there are graph labels; None for other tasks.
    """
    found = TUGraphs.of(files)
    arrays = found.arrays
    n = int(arrays.num_nodes.sum())
    label = _labels(files, "edge_labels", found.lines) if edge_labels else None
    return Laid(
        num_nodes=arrays.num_nodes,
        num_arcs=arrays.num_arcs,
        edge_index=arrays.edge_index,
        x=_node_features(files, n) if attributes else _labels(files, "node_labels", n),
        edge_attr=None if label is None else label[found.kept],
        y=_targets(files, arrays.num_nodes.size, numbers),
    )


def _labels(files: TUFiles, part: str, lines: int) -> np.ndarray | None:
    """Integer labels from 0, a column a label."""
    found = files.labels(part, lines)
    return None if found is None else found - found.min(0)


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
