"""Plots of a report as SVG: learning curves, and the paper's numbers beside ours; with their axes and ticks."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from esan.report.page.svg import area, dot, drawing, line, polyline, text

#: The columns of a curve.
EPOCH, LR, LOSS, VALID, TEST = range(5)
#: Points that a drawn line has at most, and letters that fit above it.
MOST, LETTERS = 60, 44

Curve = Sequence[Sequence[float | None]]


# -- axes -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlotAxis:
    """Values from `low` to `high`, drawn from `start` to `end` (which may be the smaller: y grows downwards in SVG).

    With `log`, equal ratios have equal lengths.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The coordinate of a value; values outside are drawn at the border."""
        low, high, value = (self._scaled(v) for v in (self.low, self.high, value))
        share = 0.5 if high == low else (value - low) / (high - low)
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)

    def _scaled(self, value: float) -> float:
        return math.log(max(value, 1e-30)) if self.log else value

    def ticks(self, most: int = 4) -> list[float]:
        """Round numbers within the axis: as many as there can be, `most` at most."""
        # Within a factor of three, round steps read better than round ratios.
        if self.log and self.high > 3 * self.low:
            return _log_ticks(self.low, self.high, most)
        steps = (base * 10.0**power for power in range(-12, 13) for base in (1, 2, 2.5, 5))
        for step in steps:
            first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
            if last - first + 1 <= most:
                return [round(k * step, 12) for k in range(first, last + 1)]
        return []


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    # From the finest set of digits to the coarsest, the first that is not too many.
    for digits in ((1, 1.5, 2, 3, 4, 5, 6, 8), (1, 2, 3, 5), (1, 2, 5), (1, 3), (1,)):
        powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
        ticks = [round(d * 10.0**p, 12) for p in powers for d in digits if low <= d * 10.0**p <= high]
        if len(ticks) <= most:
            return ticks
    return ticks[:: math.ceil(len(ticks) / most)]


def span(values: Iterable[float], log: bool = False, margin: float = 0.06) -> tuple[float, float]:
    """The least and greatest of the finite values, with a margin; (0, 1) if there is none."""
    found = [v for v in values if math.isfinite(v) and (v > 0 or not log)]
    if not found:
        return (0.1, 1.0) if log else (0.0, 1.0)
    low, high = min(found), max(found)
    if log:
        factor = (high / low) ** margin if high > low else 1.1
        return low / factor, high * factor
    padding = (high - low) * margin or abs(high) * margin or 0.5
    return low - padding, high + padding


def short(value: float) -> str:
    """The shortest label of a tick."""
    if value != 0 and (abs(value) < 1e-3 or abs(value) >= 1e5):
        mantissa, power = f"{value:.1e}".split("e")
        return f"{float(mantissa):g}e{int(power)}"
    return f"{value:g}"


# -- plots ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Band:
    """One column of many curves, epoch by epoch: mean and standard deviation over the runs that got there."""

    epochs: list[float]
    mean: list[float]
    std: list[float]

    @property
    def low(self) -> list[float]:
        return [m - s for m, s in zip(self.mean, self.std, strict=True)]

    @property
    def high(self) -> list[float]:
        return [m + s for m, s in zip(self.mean, self.std, strict=True)]


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
        [_deviation(cells[key]) for key in keys],
    )


def _deviation(values: Sequence[float]) -> float:
    """The standard deviation; that of the statistics module computes with fractions, which takes long."""
    mean = fmean(values)
    return math.sqrt(fmean((value - mean) ** 2 for value in values))


def learning_curves(
    title: str,
    note: str,
    curves: Sequence[Curve],
    *,
    lower_is_better: bool,
    paper: float | None = None,
    chosen: tuple[int, float] | None = None,
) -> str:
    """Validation and test value above, training loss below, against the epoch: mean over runs, and their deviation.

    Args:
        title: in bold, above.
        note: below it.
        curves: one per run; an entry is (epoch, lr, loss, validation, test).
        lower_is_better: whether less is better; such values are drawn on a logarithmic axis.
        paper: the paper's number, if it has one, as a dotted line.
        chosen: the epoch that all runs report, if they share one, and its value, as a dot.
    """
    width, left, right = 320.0, 42.0, 310.0
    valid, test, loss = (band(curves, column) for column in (VALID, TEST, LOSS))
    last = max([1.0, *valid.epochs, *loss.epochs])
    across = PlotAxis(0.0, last, left, right)
    # The first tenth of a training would else press everything that matters into the border.
    late = [(b, i) for b in (valid, test) for i, e in enumerate(b.epochs) if lower_is_better or e >= last / 10]
    ends = [v for b, i in late for v in (b.mean[i], *(() if lower_is_better else (b.low[i], b.high[i])))]
    low, high = span([*ends, *([] if paper is None else [paper])], log=lower_is_better)
    up = PlotAxis(low, high, 168.0, 36.0, log=lower_is_better)
    words = title if len(title) <= LETTERS else f"{title[: LETTERS - 1]}…"
    shapes = [text(left, 12, words, size=11.5, bold=True), text(left, 25, note, "soft", 9.5)]
    shapes += _frame(across, up, ticks=4, below=False)
    shapes += _drawn(valid, across, up, "ours")
    shapes += _drawn(test, across, up, "test", dash="5 2")
    if paper is not None:
        y = up(paper)
        label_y = y - 3 if y > up.end + 14 else y + 10
        shapes += [line(left, y, right, y, "paper", 1, "2 3"), text(left + 3, label_y, f"paper {paper:g}", "paper", 9)]
    if chosen is not None:
        shapes.append(dot(across(chosen[0]), up(chosen[1]), "ours", 3.4))
    if len(loss.epochs) > 1:
        down = PlotAxis(*span(loss.mean, log=True), 222.0, 182.0, log=True)
        shapes += _frame(across, down, ticks=2, below=True)
        shapes += _drawn(loss, across, down, "soft")
        shapes.append(text(right - 2, 191, "loss", "soft", 9, "end"))
    return drawing(width, 240, shapes, f"{title}: learning curves")


def _frame(across: PlotAxis, up: PlotAxis, *, ticks: int, below: bool) -> list[str]:
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


def _drawn(some: Band, across: PlotAxis, up: PlotAxis, tone: str, dash: str = "") -> list[str]:
    if not some.epochs:
        return []
    xs = [across(e) for e in some.epochs]
    above = [(x, up(v)) for x, v in zip(xs, some.high, strict=True)]
    under = [(x, up(v)) for x, v in zip(xs, some.low, strict=True)]
    middle = [(x, up(v)) for x, v in zip(xs, some.mean, strict=True)]
    around = [area([*above, *reversed(under)], tone)] if any(some.std) else []
    return [*around, polyline(middle, tone, dash=dash)]


@dataclass(frozen=True)
class ComparisonRow:
    """One line of `comparison`: means and standard deviations; None where there is none."""

    name: str
    paper: float | None
    paper_std: float | None
    ours: float | None
    ours_std: float | None
    words: str


def comparison(title: str, pairs: Sequence[ComparisonRow], *, lower_is_better: bool) -> str:
    """The paper's mean and standard deviation (hollow, grey) above ours (filled, blue), one line per row."""
    label = max((len(pair.name) for pair in pairs), default=0) * 6.4 + 14
    words = max((len(pair.words) for pair in pairs), default=0) * 5.6 + 18
    width, step = max(label + 330 + words, len(title) * 6.6), 26.0
    ends = [v for pair in pairs for m, s in _means(pair) for v in (m - (s or 0), m + (s or 0))]
    across = PlotAxis(*span(ends), label, label + 330)
    top = 44.0
    bottom = top + step * len(pairs)
    better = "less is better" if lower_is_better else "more is better"
    shapes = [text(0, 14, title, size=11.5, bold=True), text(label + 330, 30, better, "soft", 9.5, "end")]
    shapes += [dot(label + 4, 26.5, "paper", 3.6, hollow=True), text(label + 12, 30, "paper", "soft", 9.5)]
    shapes += [dot(label + 52, 26.5, "ours", 3.6), text(label + 60, 30, "ours, ± standard deviation", "soft", 9.5)]
    for tick in across.ticks(7):
        x = across(tick)
        shapes += [line(x, top - 6, x, bottom, "line"), text(x, bottom + 13, short(tick), "soft", 9, "middle")]
    for i, pair in enumerate(pairs):
        y = top + step * (i + 0.5)
        run = pair.ours is not None
        shapes.append(text(0, y + 4, pair.name, "ink" if run else "soft"))
        shapes += _whisker(across, y - 5, pair.paper, pair.paper_std, "paper", hollow=True)
        shapes += _whisker(across, y + 5, pair.ours, pair.ours_std, "ours", hollow=False)
        shapes.append(text(label + 342, y + 4, pair.words, "ink" if run else "soft", 10))
    return drawing(width, bottom + 20, shapes, f"{title}: the paper's numbers and ours")


def _means(pair: ComparisonRow) -> list[tuple[float, float | None]]:
    both = ((pair.paper, pair.paper_std), (pair.ours, pair.ours_std))
    return [(mean, std) for mean, std in both if mean is not None]


def _whisker(across: PlotAxis, y: float, mean: float | None, std: float | None, tone: str, hollow: bool) -> list[str]:
    if mean is None:
        return []
    whisker = [line(across(mean - std), y, across(mean + std), y, tone, 1.6)] if std else []
    return [*whisker, dot(across(mean), y, tone, 3.6, hollow)]
