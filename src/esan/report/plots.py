"""The drawings of a report: learning curves, and the paper's numbers beside ours."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

from esan.report.axes import Axis, short, span
from esan.report.svg import area, dot, drawing, line, polyline, text

#: What a line of a curve holds, in this order.
EPOCH, LR, LOSS, VALID, TEST = range(5)
#: Points that a drawn line has at most, and letters that fit above it.
MOST, LETTERS = 400, 44

Curve = Sequence[Sequence[float | None]]


@dataclass(frozen=True)
class Band:
    """One column of many curves, epoch by epoch: mean and standard deviation over the runs that got there."""

    epochs: list[float]
    mean: list[float]
    spread: list[float]

    @property
    def low(self) -> list[float]:
        return [m - s for m, s in zip(self.mean, self.spread, strict=True)]

    @property
    def high(self) -> list[float]:
        return [m + s for m, s in zip(self.mean, self.spread, strict=True)]


def band(curves: Sequence[Curve], column: int) -> Band:
    """Many runs as one band; epochs are merged where there are more than can be drawn."""
    last = max((int(curve[-1][EPOCH] or 0) for curve in curves if curve), default=0)
    width = max(1, math.ceil(last / MOST))
    cells: dict[int, list[float]] = {}
    for curve in curves:
        for row in curve:
            value = row[column]
            if value is not None and math.isfinite(value):
                cells.setdefault(int(row[EPOCH] or 0) // width, []).append(value)
    keys = sorted(cells)
    return Band(
        [min((key + 0.5) * width, last) if width > 1 else float(key) for key in keys],
        [fmean(cells[key]) for key in keys],
        [pstdev(cells[key]) for key in keys],
    )


def learning_curves(
    title: str,
    note: str,
    curves: Sequence[Curve],
    *,
    falls: bool,
    paper: float | None = None,
    chosen: tuple[int, float] | None = None,
    alone: bool = False,
) -> str:
    """Validation and test value above, training loss below, against the epoch: mean over runs, and their deviation.

    Args:
        title: in bold, above.
        note: below it.
        curves: one a run; a line is (epoch, rate, loss, validation, test).
        falls: whether less is better; such values are drawn on a logarithmic axis.
        paper: the paper's number, if it has one, as a dotted line.
        chosen: the epoch that all runs report, if they share one, and its value, as a dot.
        alone: whether the picture is to be a file of its own.
    """
    width, left, right = 320.0, 42.0, 310.0
    valid, test, loss = (band(curves, column) for column in (VALID, TEST, LOSS))
    last = max([1.0, *valid.epochs, *loss.epochs])
    across = Axis(0.0, last, left, right)
    # The first tenth of a training would else press everything that matters into the border.
    late = [(b, i) for b in (valid, test) for i, e in enumerate(b.epochs) if falls or e >= last / 10]
    ends = [v for b, i in late for v in (b.mean[i], *(() if falls else (b.low[i], b.high[i])))]
    low, high = span([*ends, *([] if paper is None else [paper])], log=falls)
    up = Axis(low, high, 168.0, 36.0, log=falls)
    words = title if len(title) <= LETTERS else f"{title[: LETTERS - 1]}…"
    shapes = [text(left, 12, words, size=11.5, bold=True), text(left, 25, note, "soft", 9.5)]
    shapes += _frame(across, up, ticks=4, below=False)
    shapes += _drawn(valid, across, up, "ours")
    shapes += _drawn(test, across, up, "test", dash="5 2")
    if paper is not None:
        y = up(paper)
        beside = y - 3 if y > up.end + 14 else y + 10
        shapes += [line(left, y, right, y, "paper", 1, "2 3"), text(left + 3, beside, f"paper {paper:g}", "paper", 9)]
    if chosen is not None:
        shapes.append(dot(across(chosen[0]), up(chosen[1]), "ours", 3.4))
    if len(loss.epochs) > 1:
        down = Axis(*span(loss.mean, log=True), 222.0, 182.0, log=True)
        shapes += _frame(across, down, ticks=2, below=True)
        shapes += _drawn(loss, across, down, "soft")
        shapes.append(text(right - 2, 191, "loss", "soft", 9, "end"))
    return drawing(width, 240, shapes, f"{title}: learning curves", alone)


def _frame(across: Axis, up: Axis, *, ticks: int, below: bool) -> list[str]:
    shapes = []
    for tick in up.ticks(ticks):
        y = up(tick)
        shapes += [
            line(across.start, y, across.end, y, "line"),
            text(across.start - 5, y + 3, short(tick), "soft", 9, "end"),
        ]
    if below:
        for tick in across.ticks(6):
            words = f"epoch {short(tick)}" if tick == 0 else short(tick)
            shapes.append(text(across(tick), up.start + 13, words, "soft", 9, "middle"))
    return shapes


def _drawn(some: Band, across: Axis, up: Axis, tone: str, dash: str = "") -> list[str]:
    if not some.epochs:
        return []
    xs = [across(e) for e in some.epochs]
    above = [(x, up(v)) for x, v in zip(xs, some.high, strict=True)]
    under = [(x, up(v)) for x, v in zip(xs, some.low, strict=True)]
    middle = [(x, up(v)) for x, v in zip(xs, some.mean, strict=True)]
    around = [area([*above, *reversed(under)], tone)] if any(some.spread) else []
    return [*around, polyline(middle, tone, dash=dash)]


@dataclass(frozen=True)
class Pair:
    """A line of `comparison`: means and spreads, None where there is none."""

    name: str
    paper: float | None
    paper_spread: float | None
    ours: float | None
    ours_spread: float | None
    words: str


def comparison(title: str, pairs: Sequence[Pair], *, falls: bool, alone: bool = False) -> str:
    """The paper's mean and spread (hollow, grey) above ours (full, blue), a line a row of the table."""
    label = max((len(pair.name) for pair in pairs), default=0) * 6.4 + 14
    words = max((len(pair.words) for pair in pairs), default=0) * 5.6 + 18
    width, step = label + 330 + words, 26.0
    ends = [v for pair in pairs for m, s in _means(pair) for v in (m - (s or 0), m + (s or 0))]
    across = Axis(*span(ends), label, label + 330)
    bottom = 30 + step * len(pairs)
    better = "less is better" if falls else "more is better"
    shapes = [text(0, 14, title, size=11.5, bold=True), text(label + 330, 14, better, "soft", 9.5, "end")]
    shapes += [dot(label + 4, 10.5, "paper", 3.6, hollow=True), text(label + 12, 14, "paper", "soft", 9.5)]
    shapes += [dot(label + 52, 10.5, "ours", 3.6), text(label + 60, 14, "ours, ± standard deviation", "soft", 9.5)]
    for tick in across.ticks(7):
        x = across(tick)
        shapes += [line(x, 24, x, bottom, "line"), text(x, bottom + 13, short(tick), "soft", 9, "middle")]
    for i, pair in enumerate(pairs):
        y = 30 + step * (i + 0.5)
        run = pair.ours is not None
        shapes.append(text(0, y + 4, pair.name, "ink" if run else "soft"))
        shapes += _whisker(across, y - 5, pair.paper, pair.paper_spread, "paper", hollow=True)
        shapes += _whisker(across, y + 5, pair.ours, pair.ours_spread, "ours", hollow=False)
        shapes.append(text(label + 342, y + 4, pair.words, "ink" if run else "soft", 10))
    return drawing(width, bottom + 20, shapes, f"{title}: the paper's numbers and ours", alone)


def _means(pair: Pair) -> list[tuple[float, float | None]]:
    both = ((pair.paper, pair.paper_spread), (pair.ours, pair.ours_spread))
    return [(mean, spread) for mean, spread in both if mean is not None]


def _whisker(across: Axis, y: float, mean: float | None, spread: float | None, tone: str, hollow: bool) -> list[str]:
    if mean is None:
        return []
    whisker = [line(across(mean - spread), y, across(mean + spread), y, tone, 1.6)] if spread else []
    return [*whisker, dot(across(mean), y, tone, 3.6, hollow)]
