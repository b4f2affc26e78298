"""The input of a test → `Graphs` and their initial colours."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from esan.checks import shown, truth_value
from esan.graphs import Graphs, Source, graph_of, read
from esan.graphs.readers.one_graph import GraphLike
from esan.wl.palette import Colours, Palette
from esan.wl.refinement import Labels, numpy


def collection(things: "Source | list[GraphLike]") -> Graphs:
    """The graphs of a list of things, or of a dataset, as one collection on the CPU."""
    if isinstance(things, Graphs):
        return things.to("cpu")
    if isinstance(things, str | Path):
        # One name or file for several graphs: a file may hold them.
        raise TypeError(
            f"Expected graphs in a list or a dataset (got {shown(things)}). Pass [graph, ...], or read a file with "
            "esan.graphs.load_graphs."
        )
    if isinstance(things, list | tuple):
        things = [graph_of(thing) for thing in things]
    return read(things).to("cpu")


def labels_of(graphs: Graphs, palette: Palette, node_labels: bool, edge_labels: bool) -> Labels:
    """The initial colours: lines of `x` and `edge_attr` as integers, or one constant colour.

    Args:
        graphs: the collection.
        palette: what turns lines into colours.
        node_labels: whether the lines of `x`, if there are any, are initial colours.
        edge_labels: whether the lines of `edge_attr`, if there are any, are labels of the edges.
    """
    truth_value("node_labels", node_labels, "Leave it out to use the labels that are there.")
    truth_value("edge_labels", edge_labels, "Leave it out to use the labels that are there.")
    x = graphs.x if node_labels else None
    edge_attr = graphs.edge_attr if edge_labels else None
    return Labels(
        node=_colours(x, graphs.node_graph.numel(), palette, "x", "node_labels"),
        edge=_colours(edge_attr, graphs.edge_index.size(1), palette, "edge_attr", "edge_labels"),
    )


def _colours(lines: Tensor | None, count: int, palette: Palette, name: str, option: str) -> Colours:
    if lines is None or count == 0:
        return Colours(np.zeros(count, dtype=np.int64), 1)
    if lines.is_floating_point():
        whole = lines == lines.round()
        if not bool(whole.all()):
            bad = float(lines[~whole][0])
            raise ValueError(
                f"Expected integers in {name} (got {bad:g}): labels are equal or not, and rounding decides that for "
                f"real numbers. Make them integers first, or pass {option}=False."
            )
    elif lines.dtype == torch.bool:
        lines = lines.to(torch.uint8)
    return palette.lines(numpy(lines.reshape(count, -1).long()))
