"""Pictures of a bag: the graph and its subgraphs side by side, every node in the same place in all of them."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from esan.atomic import write_file
from esan.bags.node_positions import layout
from esan.bags.parts import BagParts
from esan.bags.subgraph import Subgraph
from esan.counted import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, PALE, DELETED, ACCENT, PAPER = "#26323f", "#c5cdd8", "#eda18d", "#e4572e", "#ffffff"
#: Above this many nodes a panel shows nothing but ink.
MOST_NODES = 1000
_WIDTH, _TITLE, _CAPTION = 1.9, 0.26, 0.34  # inches: of a panel, above it, and below them all


def draw_bag(bag: BagParts, graph: int, most: int, path: Path | None) -> "Figure":
    """One graph and the first of its subgraphs: kept edges solid, deleted ones dashed, marked nodes filled.

    Subgraphs carry the numbers that `bag.subgraph` takes. A node that has no edge in a subgraph is pale there.

    Args:
        bag: the bag.
        graph: which of its graphs.
        most: how many subgraphs are drawn at most.
        path: where the picture is saved, None for nowhere.
    """
    figure_class = _figure_class()
    if most < 1:
        raise ValueError(f"Expected at least 1 subgraph to draw (got most={most}). The default is 12.")
    if not -len(bag) <= graph < len(bag):
        raise IndexError(f"Expected the number of a graph below {len(bag)} (got {graph}). len(bag) counts the graphs.")
    graph = graph % len(bag)
    n, m = int(bag.graphs.num_nodes[graph]), int(bag.selection.num_subgraphs[graph])
    if n > MOST_NODES:
        raise ValueError(f"Expected a graph of at most {MOST_NODES} nodes to draw (got {n}). Draw a smaller one.")
    edges = bag.graphs.take(torch.tensor([graph], device=bag.device)).edges.cpu().numpy()
    place = layout(n, edges)
    shown = min(m, most)
    columns = _columns(shown + 1)
    lines = -(-(shown + 1) // columns)
    tall = float(np.clip(np.ptp(place[:, 1]) / 2 + 0.16, 0.3, 1.16)) / 1.16
    height = lines * (_WIDTH * tall + _TITLE) + _CAPTION
    figure = figure_class(figsize=(columns * _WIDTH, height), facecolor=PAPER)
    axes = figure.subplots(lines, columns, squeeze=False).reshape(-1)
    figure.subplots_adjust(
        left=0, right=1, top=1 - _TITLE / height, bottom=_CAPTION / height, wspace=0, hspace=_TITLE / (_WIDTH * tall)
    )
    gone = DELETED if bag.selection.keeps_edges else PALE
    draw_panel(axes[0], place, edges, np.ones(edges.shape[1], dtype=bool), np.zeros(n, dtype=bool), "G")
    first = int(bag.selection.subgraph_start[graph])
    for i in range(shown):
        one = Subgraph.of(bag.graphs, bag.selection, first + i)
        kept, marked = one.kept.cpu().numpy(), one.marked.cpu().numpy()
        draw_panel(axes[1 + i], place, edges, kept, marked, f"subgraph {first + i}", gone)
    for unused in axes[1 + shown :]:
        unused.set_axis_off()
    figure.text(0.5, 0.1 / height, _caption(bag, m, m - shown), ha="center", va="bottom", fontsize=8.5, color=INK)
    if path is not None:
        # The format is told by the name, which is not yet that of the file being written.
        kind = path.suffix.removeprefix(".") or None
        write_file(path, lambda file: figure.savefig(file, dpi=160, format=kind))
    return figure


def draw_panel(
    axes: "Axes",
    place: NDArray[np.float64],
    edges: NDArray[np.int64],
    kept: NDArray[np.bool_],
    marked: NDArray[np.bool_],
    title: str,
    gone: str = PALE,
) -> None:
    """One subgraph.

    Args:
        axes: where it is drawn.
        place: of each node, in [-1, 1]², `[n, 2]`.
        edges: both ends of each edge of the graph, `[2, E]`.
        kept: which of them the subgraph has, `[E]`.
        marked: which nodes it marks, `[n]`.
        title: above the panel.
        gone: the colour of the other edges: few deletions are what one looks for, many are what is left behind.
    """
    from matplotlib.collections import LineCollection

    size = _node_points(place)
    width = float(np.clip(size / 7, 0.6, 1.4))
    ends = place[edges].transpose(1, 0, 2)
    dashes = (0, (2.4, 1.8))
    solid = LineCollection(list(ends[kept]), colors=INK, linewidths=width, zorder=2)
    above = 2.5 if gone == DELETED else 1
    dashed = LineCollection(list(ends[~kept]), colors=gone, linewidths=width, linestyles=dashes, zorder=above)
    axes.add_collection(solid)
    axes.add_collection(dashed)
    for loop in np.flatnonzero(edges[0] == edges[1]):
        _draw_loop(axes, place[edges[0, loop]], INK if kept[loop] else gone, "solid" if kept[loop] else dashes, width)
    touched = np.zeros(n := len(place), dtype=bool)
    touched[edges[:, kept].reshape(-1)] = True
    outline = [ACCENT if marked[v] else INK if touched[v] else PALE for v in range(n)]
    fill = [ACCENT if marked[v] else PAPER for v in range(n)]
    axes.scatter(place[:, 0], place[:, 1], s=size**2, c=fill, edgecolors=outline, linewidths=width, zorder=3)
    axes.set_title(title, fontsize=9.5, color=INK, pad=2, fontweight="bold" if title == "G" else "normal")
    axes.set_xlim(-1.16, 1.16)
    half = max(float(np.abs(place[:, 1]).max()), 0.14) + 0.16
    axes.set_ylim(-half, half)
    axes.set_aspect("equal")
    axes.set_axis_off()


def _node_points(place: NDArray[np.float64]) -> float:
    """The diameter of a node: half of what separates the nearest two of most nodes, in points."""
    apart = np.linalg.norm(place[:, None] - place, axis=-1)
    np.fill_diagonal(apart, np.inf)
    nearest = float(np.quantile(apart.min(1), 0.2)) if len(place) > 1 else 1.0
    return float(np.clip(0.5 * nearest * 72 * _WIDTH / 2.32, 2.0, 13.0))


def _columns(panels: int) -> int:
    """The number of columns, six at most, that leaves the fewest places empty."""
    return panels if panels <= 6 else min((6, 5, 4), key=lambda columns: -panels % columns)


def _draw_loop(
    axes: "Axes", at: NDArray[np.float64], colour: str, style: str | tuple[int, tuple[float, float]], width: float
) -> None:
    from matplotlib.patches import Circle

    far = float(np.linalg.norm(at))
    centre = at + 0.11 * (at / far if far > 1e-9 else np.array([0.0, 1.0]))
    loop = Circle(tuple(centre), 0.11, fill=False, edgecolor=colour, linestyle=style, linewidth=width, zorder=1)
    loop.set_clip_on(False)
    axes.add_patch(loop)


def _caption(bag: BagParts, subgraphs: int, more: int) -> str:
    policy = "" if bag.policy is None else f"{bag.policy}: "
    count = policy + counted(subgraphs, "subgraph")
    return f"{count}, {more:,} more not drawn" if more else count


def _figure_class() -> type["Figure"]:
    try:
        # Not pyplot: it would set a backend and keep the figure for the whole process.
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("Expected matplotlib to draw a bag (got none). Run: pip install 'esan[plot]'.") from error
    return Figure
