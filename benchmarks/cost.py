"""Cost against accuracy on ZINC12k: seconds a training epoch, here and the usual way, and the mean absolute error.

    python benchmarks/cost.py [--out benchmarks/figures/cost.png]

Nothing is measured: seconds are those of `figures/epoch.json` (written by `epoch.py`), errors those of the records in
`paper/results`. A method whose runs are not there yet is drawn hollow, at the paper's error.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from esan.report.paper import method
from esan.report.results import results_of, rows_of
from esan.report.rows import Row
from esan.train import named

HERE = Path(__file__).parent
COLOURS = {"gnn": "tab:gray", "ds": "tab:blue", "dss": "tab:red"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=HERE / "figures" / "cost.png")
    arguments = parser.parse_args()
    measured = json.loads((HERE / "figures" / "epoch.json").read_text())
    rows = rows_of("zinc", results_of(HERE.parent / "paper" / "results" / "zinc"))
    figure, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
    draw(axes, {line["recipe"]: line for line in measured["rows"]}, rows)
    machine = measured["machine"]
    axes.set_xlabel(f"seconds a training epoch, everything included ({machine['gpu']}, {machine['date']})")
    figure.savefig(arguments.out, dpi=150)
    print(f"Saved: {arguments.out}")


def draw(axes: Axes, seconds: dict[str, dict[str, Any]], rows: list[Row]) -> None:
    """Each method twice, if the usual way was measured too, with a line between."""
    placed: list[tuple[str, float]] = []
    for row in rows:
        error = row.ours.mean if row.ours is not None else row.paper.value if row.paper is not None else None
        if error is None or row.recipe not in seconds:
            continue
        line = seconds[row.recipe]
        colour = COLOURS[named(row.recipe).model]
        filled = colour if row.ours is not None else "white"
        here, usual = line["esan, s"], line["usual, s"]
        if usual is not None:
            axes.plot([here, usual], [error, error], color=colour, linewidth=0.8, alpha=0.5, zorder=1)
            axes.scatter([usual], [error], marker="X", s=45, color=colour, zorder=2)
        axes.scatter([here], [error], s=55, edgecolor=colour, facecolor=filled, linewidth=1.5, zorder=3)
        label = method(row.recipe).replace("-GNN (GIN)", "").replace("(", "").replace(")", "")
        # Left of the point where a line goes to the right; apart from a label that is there already.
        side = "right" if usual is not None else "left"
        lower = -9 * sum(where == side and abs(other - error) < 0.003 for where, other in placed)
        placed.append((side, error))
        offset = (-7 if side == "right" else 7, lower)
        axes.annotate(label, (here, error), offset, textcoords="offset points", ha=side, va="center", fontsize=8)
    axes.set_xscale("log")
    axes.set_xlim(0.02, 5)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_ylabel("ZINC12k: mean absolute error")
    axes.grid(alpha=0.25)
    kinds = {"o": "esan (hollow: the paper's error, not yet run here)", "X": "PyG, disjoint union of all subgraphs"}
    marks = [axes.scatter([], [], marker=mark, color="black", label=label) for mark, label in kinds.items()]
    axes.legend(handles=marks, loc="center", bbox_to_anchor=(0.7, 0.62), fontsize=8)


if __name__ == "__main__":
    main()
