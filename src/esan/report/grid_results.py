"""Stored results of grid searches over rows of the paper: their scores, and a table of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from esan.report.formatting import escape_markdown
from esan.report.paper_tables import method, paper_number
from esan.report.rows import empty_row, in_paper_units
from esan.train.campaigns.grid import read_scores
from esan.train.recipes.catalogue import named
from esan.train.runs.summary import MeanStd

#: The file with the scores of a grid, beside the records of its row.
GRID = "grid.csv"


@dataclass(frozen=True)
class GridResult:
    """The result of the grid search of a row.

    Attributes:
        recipe: the name of the row's recipe.
        scores: mean validation by configuration, the best first.
    """

    recipe: str
    scores: dict[str, float]


def load_grid_results(folder: Path) -> list[GridResult]:
    """The complete grid searches of a table's rows, by name."""
    paths = sorted(folder.glob(f"*/*/{GRID}"))
    return [GridResult(path.parent.relative_to(folder).as_posix(), read_scores(path)) for path in paths]


def grid_results_table(found: Sequence[GridResult]) -> str:
    """A table of the grid results with an introduction; empty if there are none."""
    if not found:
        return ""
    head = ["set", "method", "configurations", "worst", "median", "best", "which is", "paper"]
    lines = [head, ["---"] * 2 + ["--:"] * 4 + ["---", "--:"], *map(_cells, found)]
    return (
        "Grids that were run whole, as the paper tunes: mean validation of their configurations, beside the paper's "
        "number where it is one of validation. The best is kept with its records; "
        f"{GRID} beside those of the row has the others.\n\n"
        + "\n".join(f"| {' | '.join(line)} |" for line in lines)
        + "\n"
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
