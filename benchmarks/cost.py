"""Cost against accuracy on ZINC12k: seconds a training epoch, here and the usual way, and the mean absolute error.

    python benchmarks/cost.py [--out benchmarks/figures/cost.png]

Nothing is measured: seconds are those of `figures/epoch.json` (written by `epoch.py`), errors those of the records in
`paper/results`. A method whose runs are not there yet is left out.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from esan.report.reproduced_tables import method
from esan.report.reproduction.stored_results import load_results, result_rows
from esan.report.rows import Row
from esan.train import named

HERE = Path(__file__).parent
COLOURS = {"gnn": "tab:gray", "ds": "tab:blue", "dss": "tab:red"}
#: Where names stand, in seconds, and how far they are apart, in units of the error.
_NAMES, _APART = 0.0095, 0.007


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=HERE / "figures" / "cost.png")
    arguments = parser.parse_args()
    measured = json.loads((HERE / "figures" / "epoch.json").read_text())
    rows = result_rows("zinc", load_results(HERE.parent / "paper" / "results" / "zinc"))
    figure, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
    draw(axes, {line["recipe"]: line for line in measured["rows"]}, rows)
    machine = measured["machine"]
    axes.set_xlabel(f"seconds a training epoch, everything included ({machine['gpu']}, {machine['date']})")
    figure.savefig(arguments.out, dpi=150)
    print(f"Saved: {arguments.out}")


def draw(axes: Axes, seconds: dict[str, dict[str, Any]], rows: list[Row]) -> None:
    """Each method twice, if the usual way was measured too, with a line between; names in a column at the left."""
    points: list[tuple[float, float, str, str]] = []
    for row in rows:
        if row.ours is None or row.recipe not in seconds:
            continue
        error, colour = row.ours.mean, COLOURS[named(row.recipe).model]
        here, usual = seconds[row.recipe]["esan, s"], seconds[row.recipe]["usual, s"]
        if usual is not None:
            axes.plot([here, usual], [error, error], color=colour, linewidth=0.8, alpha=0.5, zorder=1)
            axes.scatter([usual], [error], marker="X", s=45, color=colour, zorder=2)
        axes.scatter([here], [error], s=45, color=colour, zorder=3)
        label = method(row.recipe).replace("-GNN (GIN)", "").replace("(", "").replace(")", "")
        points.append((error, here, label, colour))
    lowest = float("-inf")
    for error, here, label, colour in sorted(points):
        # Each name at its error, or above the one below.
        lowest = max(error, lowest + _APART)
        leader = {"arrowstyle": "-", "color": colour, "linewidth": 0.6, "alpha": 0.6, "shrinkA": 1, "shrinkB": 3}
        axes.annotate(label, (here, error), (_NAMES, lowest), ha="left", va="center", fontsize=8, arrowprops=leader)
    axes.set_xscale("log")
    axes.set_xlim(0.008, 4)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_ylabel("ZINC12k: mean absolute error")
    axes.grid(alpha=0.25)
    kinds = {"o": "esan", "X": "PyG, disjoint union of all subgraphs"}
    marks = [axes.scatter([], [], marker=mark, color="black", label=label) for mark, label in kinds.items()]
    axes.legend(handles=marks, loc="center", bbox_to_anchor=(0.62, 0.4), fontsize=8)


if __name__ == "__main__":
    main()
