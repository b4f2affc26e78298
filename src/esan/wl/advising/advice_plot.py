"""The picture of an advice: a bar per option, the pairs of graphs that it leaves confused, labelled with its rows."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from esan.wl.advising.advice import Advice, Option
from esan.wl.drawing.picture_file import picture_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BEST = "#2f7a4d"


def plot_advice(advice: Advice, path: str | Path | None = None) -> "Figure":
    """Bars of the pairs that each option leaves confused, labelled with its rows; the best is green. Needs matplotlib.

    Args:
        advice: what `esan.wl.advise` found.
        path: where the picture is saved, if anywhere.
    """
    from matplotlib.figure import Figure

    if path is not None:
        path = picture_file(path)
    options = advice.options
    labelled = options[0].confused_labels is not None
    left = [option.left for option in options]
    figure = Figure(figsize=(8.5, 0.42 * len(options) + 1.9), layout="constrained")
    axis = figure.subplots()
    place = range(len(options))
    tones = [_BEST if option is advice.best else "#c9d7e8" for option in options]
    axis.barh(place, left, color=tones, edgecolor="#444444", linewidth=0.6)
    for i, option in enumerate(options):
        axis.annotate(
            f" {left[i]:,} left; {option.rows:,} rows ({option.rows / options[0].rows:.1f}×)",
            (left[i], i),
            va="center",
            fontsize=8,
            # The best often has no bar at all, so its words are green too.
            **_style(option, advice),
        )
    axis.set_yticks(place, [option.name for option in options], fontsize=9)
    for label, option in zip(axis.get_yticklabels(), options, strict=True):
        label.set(**_style(option, advice))
    axis.invert_yaxis()
    axis.set_xlim(0, max(1, *left) * 1.6)
    kind = "pairs of graphs with different labels" if labelled else "pairs of graphs"
    axis.set_xlabel(f"{kind} that the test cannot tell apart", fontsize=9)
    axis.set_title(f"{advice.graphs:,} graphs; green: the cheapest that suffices", fontsize=10)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    if path is not None:
        figure.savefig(path, dpi=130)
    return figure


def _style(option: Option, advice: Advice) -> dict[str, Any]:
    return {"color": _BEST, "fontweight": "bold"} if option is advice.best else {}
