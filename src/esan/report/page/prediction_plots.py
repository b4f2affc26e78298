"""`load_predictions`: what runs have predicted, by job; `pictures`: how well that agrees with the targets."""

import csv
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from esan.plural import counted
from esan.report.page.plots import PlotAxis, short, span
from esan.report.page.svg import dot, drawing, line, polyline, rect, text
from esan.report.rows import Row
from esan.train.recipes.recipe import Recipe
from esan.train.runs.run_files import PREDICTIONS

#: A recipe's name, a fold and a seed.
JobKey = tuple[str, int, int]
#: Targets that have a picture of their own, and classes that a confusion matrix can show.
MOST_TARGETS, MOST_CLASSES = 4, 12
#: Points that are drawn one by one; more are counted on a grid of so many cells per side.
MOST_DOTS, CELLS = 400, 40
#: Bins of probability.
BINS = 10
_LARGEST = 1e30
_JOB = re.compile(r"(\d+)-(\d+)")
_SIZE, _LEFT, _TOP = 210.0, 42.0, 36.0


@dataclass(frozen=True)
class PredictionTable:
    """The columns of a file of predictions, for the part of the data that a report shows.

    Attributes:
        part: "test", or "valid" where there is no test set.
        columns: texts by the name of the column.
    """

    part: str
    columns: dict[str, list[str]]

    def matching(self, start: str) -> list[str]:
        """The columns whose name is a word or begins with it and a space, in order."""
        return [name for name in self.columns if name == start or name.startswith(f"{start} ")]

    @property
    def classes(self) -> list[str]:
        """The classes that have a probability."""
        return [name[2:-1] for name in self.columns if name.startswith("p(") and name.endswith(")")]


def load_predictions(folders: Sequence[str | Path]) -> tuple[dict[JobKey, PredictionTable], list[str]]:
    """The predictions in run directories under some folders, by job, and one line for each file that is no such table.

    Args:
        folders: searched with all their subfolders.
    """
    found: dict[JobKey, PredictionTable] = {}
    problems = []
    for path in sorted({path.resolve() for folder in folders for path in Path(folder).rglob(PREDICTIONS)}):
        job, recipe = _JOB.fullmatch(path.parent.name), path.with_name("recipe.toml")
        if job is None or not recipe.is_file():
            continue
        try:
            key = (Recipe.load(recipe).name, int(job[1]), int(job[2]))
            found.setdefault(key, _table(path))
        except (ValueError, TypeError, OSError, csv.Error) as error:
            problems.append(f"{path}: left out. {error}")
    return found, problems


def _table(path: Path) -> PredictionTable:
    with path.open(encoding="utf-8", newline="") as file:
        head, *lines = list(csv.reader(file, strict=True)) or [[]]
    if "part" not in head or len(set(head)) < len(head) or not lines or any(len(row) != len(head) for row in lines):
        raise ValueError(f"Expected the predictions of a run (got another table: {', '.join(head)[:60]}). Train again.")
    parts = [row[head.index("part")] for row in lines]
    part = "test" if "test" in parts else "valid"
    kept = [row for row in lines if row[head.index("part")] == part]
    table = PredictionTable(part, {name: [row[i] for row in kept] for i, name in enumerate(head)})
    for name in head:
        if name == "graph" or name == "part" or (table.classes and name in ("target", "prediction")):
            continue
        for cell in table.columns[name]:
            float(cell)  # its error names the cell
    if not table.matching("target") or len(table.matching("target")) != len(table.matching("prediction")):
        raise ValueError("Expected a prediction for every target (got another table). Train again.")
    return table


# -- pictures -------------------------------------------------------------------------------------------------------


def pictures(row: Row, found: Mapping[JobKey, PredictionTable]) -> list[str]:
    """Calibration of a row's predictions, and the confusion of its classes; empty where no run has saved any.

    The runs of a row are pooled: of ten seeds, every graph counts ten times.
    """
    tables = [found[key] for r in row.records if (key := (r.recipe.name, r.fold, r.seed)) in found]
    tables = [table for table in tables if table.columns.keys() == tables[0].columns.keys()]
    if not tables:
        return []
    pooled = {name: [cell for table in tables for cell in table.columns[name]] for name in tables[0].columns}
    table = PredictionTable(tables[0].part, pooled)
    note = f"{table.part} graphs of {counted(len(tables), 'run')}, at best validation"
    if table.classes:
        return _of_classes(row.name, note, table)
    if row.records[0].task == "labels":
        return _of_labels(row.name, note, table)
    pairs = list(zip(table.matching("target"), table.matching("prediction"), strict=True))
    return [
        scatter(row.name, f"{note}; {name}" if len(pairs) > 1 else note, _numbers(table, name), _numbers(table, other))
        for name, other in pairs[:MOST_TARGETS]
    ]


def _numbers(table: PredictionTable, name: str) -> list[float]:
    return [float(cell) for cell in table.columns[name]]


def _of_classes(title: str, note: str, table: PredictionTable) -> list[str]:
    classes, true, told = table.classes, table.columns["target"], table.columns["prediction"]
    columns = {name: _numbers(table, f"p({name})") for name in classes}
    if len(classes) == 2:
        drawn = [reliability(title, note, columns[classes[1]], [t == classes[1] for t in true], f"p({classes[1]})")]
    else:
        sure = [columns[name][i] if name in columns else 0.0 for i, name in enumerate(told)]
        right = [a == b for a, b in zip(true, told, strict=True)]
        drawn = [reliability(title, note, sure, right, "probability of the predicted class")]
    return [*drawn, confusion(title, note, classes, true, told)] if len(classes) <= MOST_CLASSES else drawn


def _of_labels(title: str, note: str, table: PredictionTable) -> list[str]:
    pairs = [
        (p, t == 1.0)
        for name, other in zip(table.matching("target"), table.matching("prediction"), strict=True)
        for t, p in zip(_numbers(table, name), _numbers(table, other), strict=True)
        if math.isfinite(t)
    ]
    return [reliability(title, note, [p for p, _ in pairs], [t for _, t in pairs], "probability of a label")]


def scatter(title: str, note: str, true: Sequence[float], predicted: Sequence[float]) -> str:
    """Predicted against true numbers, with the diagonal, the mean absolute error and R²."""
    # Neither missing targets nor what a diverged network predicts can be drawn.
    pairs = [(t, p) for t, p in zip(true, predicted, strict=True) if abs(t) < _LARGEST and abs(p) < _LARGEST]
    low, high = span([value for pair in pairs for value in pair])
    across, up = _axes(low, high)
    shapes = [*_titled(title, note), *_square(across, up, "target", "prediction")]
    if len(pairs) <= MOST_DOTS:
        shapes += [dot(across(t), up(p), "ours", 2) for t, p in pairs]
    else:
        step = _SIZE / CELLS
        counts: dict[tuple[int, int], int] = {}
        for t, p in pairs:
            cell = tuple(min(int((v - low) / (high - low) * CELLS), CELLS - 1) for v in (t, p))
            counts[cell[0], cell[1]] = counts.get((cell[0], cell[1]), 0) + 1
        most = max(counts.values())
        for (i, j), count in sorted(counts.items()):
            shade = 0.15 + 0.85 * math.log1p(count) / math.log1p(most)
            shapes.append(rect(_LEFT + i * step, _TOP + _SIZE - (j + 1) * step, step, step, "ours", shade))
    shapes.append(line(across(low), up(low), across(high), up(high), "paper", 1, "4 3"))
    if pairs:
        mean = sum(t for t, _ in pairs) / len(pairs)
        total = sum((t - mean) ** 2 for t, _ in pairs)
        error = sum(abs(t - p) for t, p in pairs) / len(pairs)
        fit = f", R² {1 - sum((t - p) ** 2 for t, p in pairs) / total:.3f}" if total else ""
        shapes.append(text(_LEFT + 6, _TOP + 14, f"MAE {error:.3g}{fit}", "soft", 9.5))
    return drawing(320, _TOP + _SIZE + 34, shapes, f"{title}: predicted against true values")


def reliability(title: str, note: str, probability: Sequence[float], right: Sequence[bool], what: str) -> str:
    r"""How often what is predicted with some probability is so: :math:`\mathrm{ECE} = \sum_b n_b |f_b - p_b| / n`."""
    bins: dict[int, list[tuple[float, bool]]] = {}
    for p, truth in zip(probability, right, strict=True):
        if math.isfinite(p):
            bins.setdefault(min(max(int(p * BINS), 0), BINS - 1), []).append((p, truth))
    points = [
        (sum(p for p, _ in some) / len(some), sum(t for _, t in some) / len(some), len(some))
        for _, some in sorted(bins.items())
    ]
    n = sum(count for *_, count in points)
    across, up = _axes(0.0, 1.0)
    shapes = [*_titled(title, note), *_square(across, up, what, "observed")]
    shapes.append(line(across(0), up(0), across(1), up(1), "paper", 1, "4 3"))
    most = max((count for *_, count in points), default=1)
    for number, some in sorted(bins.items()):
        tall = 26 * len(some) / most
        shapes.append(rect(across(number / BINS) + 1, up(0) - tall, _SIZE / BINS - 2, tall, "soft", 0.25))
    shapes.append(polyline([(across(p), up(f)) for p, f, _ in points], "ours"))
    shapes += [dot(across(p), up(f), "ours", 3) for p, f, _ in points]
    if n:
        error = sum(count * abs(f - p) for p, f, count in points) / n
        shapes.append(text(_LEFT + 6, _TOP + 14, f"calibration error {error:.3f}", "soft", 9.5))
    return drawing(320, _TOP + _SIZE + 34, shapes, f"{title}: reliability of probabilities")


def confusion(title: str, note: str, classes: Sequence[str], true: Sequence[str], told: Sequence[str]) -> str:
    """How many graphs of each class (rows) are predicted as which (columns); shaded by the fraction of the class."""
    step = _SIZE / len(classes)
    shapes = _titled(title, note)
    counts: dict[tuple[str, str], int] = {}
    for pair in zip(true, told, strict=True):
        counts[pair] = counts.get(pair, 0) + 1
    for i, one in enumerate(classes):
        y, total = _TOP + i * step, sum(counts.get((one, other), 0) for other in classes)
        shapes.append(text(_LEFT - 5, y + step / 2 + 3, _cut(one), "soft", 9, "end"))
        shapes.append(text(_LEFT + (i + 0.5) * step, _TOP + _SIZE + 12, _cut(one), "soft", 9, "middle"))
        for j, other in enumerate(classes):
            count = counts.get((one, other), 0)
            x, tone = _LEFT + j * step, "good" if i == j else "bad"
            shapes.append(rect(x + 0.5, y + 0.5, step - 1, step - 1, "line", 0.35))
            if count:
                shapes.append(rect(x + 0.5, y + 0.5, step - 1, step - 1, tone, 0.45 * count / total))
            shapes.append(text(x + step / 2, y + step / 2 + 3, str(count), "ink", 9.5, "middle"))
    shapes.append(text(_LEFT + _SIZE / 2, _TOP + _SIZE + 27, "predicted (columns), true (rows)", "soft", 9, "middle"))
    return drawing(320, _TOP + _SIZE + 34, shapes, f"{title}: confusion of classes")


def _cut(words: str, most: int = 7) -> str:
    return words if len(words) <= most else f"{words[: most - 1]}…"


def _axes(low: float, high: float) -> tuple[PlotAxis, PlotAxis]:
    return PlotAxis(low, high, _LEFT, _LEFT + _SIZE), PlotAxis(low, high, _TOP + _SIZE, _TOP)


def _titled(title: str, note: str) -> list[str]:
    return [text(_LEFT, 12, _cut(title, 44), size=11.5, bold=True), text(_LEFT, 25, _cut(note, 52), "soft", 9.5)]


def _square(across: PlotAxis, up: PlotAxis, below: str, beside: str) -> list[str]:
    shapes = []
    for tick in up.ticks(5):
        shapes += [
            line(across.start, up(tick), across.end, up(tick), "line"),
            text(across.start - 5, up(tick) + 3, short(tick), "soft", 9, "end"),
            text(across(tick), up.start + 13, short(tick), "soft", 9, "middle"),
        ]
    shapes.append(text((across.start + across.end) / 2, up.start + 27, below, "soft", 9, "middle"))
    return [*shapes, text(across.end + 6, up.end + 9, beside, "soft", 9)]
