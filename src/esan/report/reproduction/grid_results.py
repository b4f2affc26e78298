"""Stored results of grid searches over rows of the paper: their scores, and a table of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from esan.plural import counted
from esan.report.formatting import escape_markdown
from esan.report.reproduced_tables import method, paper_number
from esan.report.reproduction.deviation import Deviation
from esan.report.rows import empty_row, in_paper_units
from esan.train.campaigns.grid import Search, read_scores
from esan.train.recipes.catalogue import named
from esan.train.runs.record_table import append_json_line
from esan.train.runs.run_files import read_json_lines
from esan.train.runs.summary import MeanStd

#: The scores of the grids of a table, one line per row, beside its records.
GRIDS = "grids.jsonl"
#: The scores of one grid, as version 0.1 wrote them next to the records of the row.
_GRID = "grid.csv"


@dataclass(frozen=True)
class GridResult:
    """The result of the grid search of a row.

    Attributes:
        recipe: the name of the row's recipe.
        scores: mean validation by configuration, the best first.
    """

    recipe: str
    scores: dict[str, float]

    @property
    def others(self) -> list[str]:
        """All configurations but the best and the row itself: they are stored, and not shown as variants."""
        return [name for name in list(self.scores)[1:] if name != self.recipe]


def load_grid_results(folder: Path) -> list[GridResult]:
    """The complete grid searches of a table's rows, by name."""
    paths = folder.glob(f"*/*/{_GRID}")
    found = {name: read_scores(path) for path in paths for name in [path.parent.relative_to(folder).as_posix()]}
    if (folder / GRIDS).is_file():
        found |= dict(read_json_lines(folder / GRIDS, _scores))
    return [GridResult(name, scores) for name, scores in sorted(found.items())]


def save_grid_result(recipe: str, found: Search, folder: Path) -> None:
    """Add the scores of a row's grid to those of its table."""
    numbers = [
        {"name": one.recipe.name, "valid": mean, "std": std, "runs": len(one.records)}
        for one in found.scored
        for mean, std in [(None, None) if one.valid is None else (one.valid.mean, one.valid.std)]
    ]
    append_json_line(folder / GRIDS, {"recipe": recipe, "configurations": numbers})


def _scores(values: Any) -> tuple[str, dict[str, float]]:
    scores = {one["name"]: float(one["valid"]) for one in values["configurations"] if one["valid"] is not None}
    if not scores or not all(map(math.isfinite, scores.values())):
        raise ValueError(f"no finite scores of {values['recipe']}")
    return str(values["recipe"]), scores


def grid_results_table(found: Sequence[GridResult]) -> str:
    """A table of the grid results with an introduction; empty if there are none."""
    if not found:
        return ""
    head = ["set", "method", "configurations", "worst", "median", "best", "which is", "paper"]
    lines = [head, ["---"] * 2 + ["--:"] * 4 + ["---", "--:"], *map(_cells, found)]
    return (
        "Grids that were run whole, as the paper tunes: mean validation of their configurations, beside the paper's "
        "number where it is one of validation. All runs are stored; "
        f"{GRIDS} has every score.\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n" + _gain(found)
    )


def _gain(found: Sequence[GridResult]) -> str:
    """What the best of a grid gains over the recipe, and how far it is from the paper; empty where neither is known."""
    gains, differences, digits = [], [], 0
    for one in found:
        recipe, cited = named(one.recipe), paper_number(one.recipe)
        if cited is None or recipe.select != "mean-valid" or one.recipe not in one.scores:
            continue
        metric, best = empty_row(recipe).metric, next(iter(one.scores.values()))
        ours, mine = (in_paper_units(MeanStd(value, None), metric, cited) for value in (best, one.scores[one.recipe]))
        assert ours is not None
        assert mine is not None
        gains.append(ours.mean - mine.mean)
        differences.append(ours.mean - cited.value)
        digits = max(digits, ours.digits)
    if not gains:
        return ""
    gain, difference = Deviation.of(gains).text(digits), Deviation.of(differences).text(digits)
    return (
        f"\nOver {counted(len(gains), 'row')}, the best configuration is **{gain}** above the recipe as it is, and "
        f"differs from the paper by **{difference}**" + (" (mean ± its standard error).\n" if len(gains) > 1 else ".\n")
    )


def _cells(one: GridResult) -> list[str]:
    recipe, cited = named(one.recipe), paper_number(one.recipe)
    values, best = list(one.scores.values()), next(iter(one.scores))
    metric = empty_row(recipe).metric
    chosen = (values[-1], median(values), values[0])
    scores = [str(in_paper_units(MeanStd(value, None), metric, cited)) for value in chosen]
    paper = str(cited) if cited and recipe.select == "mean-valid" else ""
    which = best.partition("~")[2].replace(",", ", ") or "the recipe as it is"
    names = [escape_markdown(name) for name in (recipe.data, method(one.recipe), which)]
    return [*names[:2], str(len(values)), *scores, names[2], paper]
