"""Pictures of a bag: a graph and its subgraphs side by side, each node at the same position in all of them."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from esan.atomic_write import write_file
from esan.bags.node_positions import positions_by_hops
from esan.bags.subgraph import Subgraph
from esan.graphs import Graphs
from esan.plural import counted
from esan.policies import Policy, Selection

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, PALE, DELETED, ACCENT, PAPER = "#26323f", "#c5cdd8", "#eda18d", "#e4572e", "#ffffff"
#: Larger graphs are refused: a panel would be solid black.
MOST_NODES = 1000
_WIDTH, _TITLE, _CAPTION = 1.9, 0.26, 0.34  # inches: of a panel, above it, and below them all


def draw_bag(
    graphs: Graphs, selection: Selection, policy: Policy | str | None, graph: int, most: int, path: Path | None
) -> "Figure":
    """One graph and the first of its subgraphs: edges solid, deleted edges dashed, marked nodes filled.

    Subgraphs have the numbers that `bag.subgraph` takes. A node without edges in a subgraph is pale there.

    Args:
        graphs: the graphs of the bag.
        selection: its selection.
        policy: the policy that is named below the picture.
        graph: which graph is drawn.
        most: how many subgraphs are drawn at most.
        path: the file to save the picture to; None for none.
    """
    figure_class = _figure_class()
    if most < 1:
        raise ValueError(f"Expected at least 1 subgraph to draw (got most={most}). The default is 12.")
    count = len(graphs)
    if not -count <= graph < count:
        raise IndexError(f"Expected the number of a graph below {count} (got {graph}). len(bag) counts the graphs.")
    graph = graph % count
    n, m = int(graphs.num_nodes[graph]), int(selection.num_subgraphs[graph])
    if n > MOST_NODES:
        raise ValueError(f"Expected a graph of at most {MOST_NODES} nodes to draw (got {n}). Draw a smaller one.")
    edges = graphs.take(torch.tensor([graph], device=graphs.device)).edges.cpu().numpy()
    position = positions_by_hops(n, edges)
    shown = min(m, most)
    columns = _columns(shown + 1)
    rows = -(-(shown + 1) // columns)
    aspect = float(np.clip(np.ptp(position[:, 1]) / 2 + 0.16, 0.3, 1.16)) / 1.16
    height = rows * (_WIDTH * aspect + _TITLE) + _CAPTION
    figure = figure_class(figsize=(columns * _WIDTH, height), facecolor=PAPER)
    axes = figure.subplots(rows, columns, squeeze=False).reshape(-1)
    figure.subplots_adjust(
        left=0, right=1, top=1 - _TITLE / height, bottom=_CAPTION / height, wspace=0, hspace=_TITLE / (_WIDTH * aspect)
    )
    deleted = DELETED if selection.keeps_edges else PALE
    draw_panel(axes[0], position, edges, np.ones(edges.shape[1], dtype=bool), np.zeros(n, dtype=bool), "G")
    first = int(selection.subgraph_start[graph])
    for i in range(shown):
        one = Subgraph.of(graphs, selection, first + i)
        has_edge, marked = one.has_edge.cpu().numpy(), one.marked.cpu().numpy()
        draw_panel(axes[1 + i], position, edges, has_edge, marked, f"subgraph {first + i}", deleted)
    for unused in axes[1 + shown :]:
        unused.set_axis_off()
    figure.text(0.5, 0.1 / height, _caption(policy, m, m - shown), ha="center", va="bottom", fontsize=8.5, color=INK)
    if path is not None:
        # The format is that of the final name; the file is written under a temporary one.
        kind = path.suffix.removeprefix(".") or None
        write_file(path, lambda file: figure.savefig(file, dpi=160, format=kind))
    return figure


def draw_panel(
    axes: "Axes",
    position: NDArray[np.float64],
    edges: NDArray[np.int64],
    has_edge: NDArray[np.bool_],
    marked: NDArray[np.bool_],
    title: str,
    deleted: str = PALE,
) -> None:
    """One subgraph.

    Args:
        axes: where it is drawn.
        position: of each node, in [-1, 1]², `[n, 2]`.
        edges: both ends of each edge of the graph, `[2, E]`.
        has_edge: which of them the subgraph has, `[E]`.
        marked: which nodes it marks, `[n]`.
        title: above the panel.
        deleted: the colour of the other edges: bright where few are deleted, pale where few are left.
    """
    from matplotlib.collections import LineCollection

    size = _node_points(position)
    width = float(np.clip(size / 7, 0.6, 1.4))
    ends = position[edges].transpose(1, 0, 2)
    dashes = (0, (2.4, 1.8))
    solid = LineCollection(list(ends[has_edge]), colors=INK, linewidths=width, zorder=2)
    above = 2.5 if deleted == DELETED else 1
    dashed = LineCollection(list(ends[~has_edge]), colors=deleted, linewidths=width, linestyles=dashes, zorder=above)
    axes.add_collection(solid)
    axes.add_collection(dashed)
    for loop in np.flatnonzero(edges[0] == edges[1]):
        colour, style = (INK, "solid") if has_edge[loop] else (deleted, dashes)
        _draw_loop(axes, position[edges[0, loop]], colour, style, width)
    touched = np.zeros(n := len(position), dtype=bool)
    touched[edges[:, has_edge].reshape(-1)] = True
    outline = [ACCENT if marked[v] else INK if touched[v] else PALE for v in range(n)]
    fill = [ACCENT if marked[v] else PAPER for v in range(n)]
    axes.scatter(position[:, 0], position[:, 1], s=size**2, c=fill, edgecolors=outline, linewidths=width, zorder=3)
    axes.set_title(title, fontsize=9.5, color=INK, pad=2, fontweight="bold" if title == "G" else "normal")
    axes.set_xlim(-1.16, 1.16)
    half = max(float(np.abs(position[:, 1]).max()), 0.14) + 0.16
    axes.set_ylim(-half, half)
    axes.set_aspect("equal")
    axes.set_axis_off()


def _node_points(position: NDArray[np.float64]) -> float:
    """The diameter of a node in points: half the distance to the nearest neighbour, for most nodes."""
    distance = np.linalg.norm(position[:, None] - position, axis=-1)
    np.fill_diagonal(distance, np.inf)
    nearest = float(np.quantile(distance.min(1), 0.2)) if len(position) > 1 else 1.0
    return float(np.clip(0.5 * nearest * 72 * _WIDTH / 2.32, 2.0, 13.0))


def _columns(panels: int) -> int:
    """The number of columns, six at most, that leaves the fewest panels empty."""
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


def _caption(policy: Policy | str | None, subgraphs: int, more: int) -> str:
    count = ("" if policy is None else f"{policy}: ") + counted(subgraphs, "subgraph")
    return f"{count}, {more:,} more not drawn" if more else count


def _figure_class() -> type["Figure"]:
    try:
        # Not pyplot: it would set a backend and keep the figure until the process ends.
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("Expected matplotlib to draw a bag (got none). Run: pip install 'esan[plot]'.") from error
    return Figure
