"""Draws overview.png from the library itself: a graph, its bag, the rows that are stored, and the network."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

import esan
from esan.bags.draw import ACCENT, DELETED, INK, PALE, draw_panel
from esan.bags.node_positions import layout

LAYERS = 2
SHADES = ("#f6c1b1", "#ee8a6d", ACCENT)  # by level: the layer at which a pair first differs
GREY = "#6b7785"


def graph() -> torch.Tensor:
    """Two hexagons that share a side, and a tail of four: ends of each edge."""
    rings = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (4, 6), (6, 7), (7, 8), (8, 9), (9, 5)]
    return torch.tensor([*rings, (8, 10), (10, 11), (11, 12), (12, 13)])


def draw_bag(figure: Figure, bag: esan.Bag, shown: tuple[int, ...]) -> None:
    edges = bag.graphs.edges.numpy()
    n = int(bag.graphs.num_nodes)
    place = layout(n, edges)
    nothing, every = np.zeros(n, dtype=bool), np.ones(edges.shape[1], dtype=bool)
    draw_panel(figure.add_axes((0.0, 0.34, 0.185, 0.34)), place, edges, every, nothing, "G")
    for i, s in enumerate(shown):
        deleted = bag.selection.entry_edge[bag.selection.entry_subgraph == s].numpy()
        kept = every.copy()
        kept[deleted] = False
        axes = figure.add_axes((0.225, 0.655 - 0.285 * i, 0.165, 0.235))
        draw_panel(axes, place, edges, kept, nothing, f"subgraph {s}", DELETED)
    figure.text(0.3075, 0.045, "⋮", ha="center", fontsize=15, color=INK)


def draw_rows(axes: Axes, bag: esan.Bag) -> None:
    """Nodes by subgraphs: a cell is a pair, and coloured if it is stored."""
    n, m = int(bag.graphs.num_nodes), bag.num_subgraphs
    level = torch.repeat_interleave(torch.arange(bag.rows.num_rows.size(0) - 1), bag.rows.num_rows[1:, 0])
    for v in range(n):
        axes.add_patch(Rectangle((-2.3, n - 1 - v), 0.86, 0.86, facecolor=INK))
        for s in range(m):
            axes.add_patch(Rectangle((s, n - 1 - v), 0.86, 0.86, facecolor="#edf0f4"))
    for v, s, t in zip(bag.rows.node.tolist(), bag.rows.subgraph.tolist(), level.tolist(), strict=True):
        axes.add_patch(Rectangle((s, n - 1 - v), 0.86, 0.86, facecolor=SHADES[-t]))
    small: dict[str, Any] = {"fontsize": 8.5, "color": GREY, "ha": "center"}
    axes.text(-1.87, n + 0.35, "background", **small)
    axes.text(m / 2, n + 0.35, f"{m} subgraphs", **small)
    axes.text(-3.0, n / 2, f"{n} nodes", rotation=90, va="center", **small)
    axes.set(xlim=(-3.6, m + 0.3), ylim=(-3.6, n + 1.6))
    legend = [(INK, "one row per node"), (SHADES[-1], "differs from layer 1 on"), (SHADES[-2], "from layer 2 on")]
    legend = [legend[0], *legend[1:], ("#edf0f4", "equal to the background: not stored")]
    for i, (colour, words) in enumerate(legend):
        x, y = (-2.3, 5.8)[i % 2], -1.5 - 1.3 * (i // 2)
        axes.add_patch(Rectangle((x, y), 0.7, 0.7, facecolor=colour))
        axes.text(x + 1.0, y + 0.33, words, fontsize=7.6, color=GREY, va="center")
    axes.set_aspect("equal")
    axes.set_axis_off()


def box(axes: Axes, y: float, words: str, below: str, colour: str) -> None:
    axes.add_patch(FancyBboxPatch((0.04, y), 0.92, 0.105, boxstyle="round,pad=0.012", facecolor=colour, edgecolor=INK))
    axes.text(0.5, y + 0.068, words, ha="center", va="center", fontsize=9.2, color=INK, fontweight="bold")
    axes.text(0.5, y + 0.024, below, ha="center", va="center", fontsize=7.6, color=GREY)


def draw_network(axes: Axes) -> None:
    steps = [
        (0.80, "layer 1", "inside each subgraph + shared by all", "#fdf0ec"),
        (0.62, "layer 2", "inside each subgraph + shared by all", "#fdf0ec"),
        (0.44, "readout", "over nodes: one vector per subgraph", "#eef2f7"),
        (0.26, "set encoder", "over subgraphs: one vector per graph", "#eef2f7"),
        (0.08, "prediction", "the same for both bags", "#ffffff"),
    ]
    for y, words, below, colour in steps:
        box(axes, y, words, below, colour)
    for y, *_ in steps[:-1]:
        axes.add_patch(
            FancyArrowPatch((0.5, y - 0.012), (0.5, y - 0.063), arrowstyle="-|>", mutation_scale=9, color=INK)
        )
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.set_axis_off()


def main() -> None:
    bag = esan.Bag.of(esan.graphs.undirected(14, graph()), esan.NodeDeletion(), num_layers=LAYERS)
    figure = Figure(figsize=(12, 4.5), facecolor="#ffffff")
    draw_bag(figure, bag, shown=(0, 4, 12))
    draw_rows(figure.add_axes((0.415, 0.0, 0.34, 0.93)), bag)
    draw_network(figure.add_axes((0.785, 0.02, 0.2, 0.9)))
    rows = f"rows: {bag.num_rows} in place of {bag.num_pairs} pairs"
    headings = ((0.0925, "graph"), (0.3075, "bag: node deletion"), (0.5875, rows), (0.885, "network"))
    for x, words in headings:
        figure.text(x, 0.945, words, ha="center", fontsize=11.5, color=INK, fontweight="bold")
    for x in (0.2, 0.402, 0.765):
        arrow = FancyArrowPatch((x - 0.009, 0.52), (x + 0.012, 0.52), arrowstyle="-|>", mutation_scale=14, color=PALE)
        figure.add_artist(arrow)
    figure.savefig(Path(__file__).parent / "overview.png", dpi=150)


if __name__ == "__main__":
    main()
