"""Grids of rows that were run whole, as the paper tunes them: the scores that are kept, and how they are told."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from esan.report.paper import cited_for, method
from esan.report.rows import number, unrun
from esan.report.words import in_markdown
from esan.train.campaigns.grid import read_scores
from esan.train.recipes.catalogue import named
from esan.train.runs.selection import Spread

#: Beside the records of a row: the scores of its grid.
GRID = "grid.csv"


@dataclass(frozen=True)
class Tuned:
    """What the grid of a row came to.

    Attributes:
        recipe: the name of the row's recipe.
        scores: mean validation by configuration, the best first.
    """

    recipe: str
    scores: dict[str, float]


def tuned_of(folder: Path) -> list[Tuned]:
    """The grids of a table's rows that were run whole, by name."""
    paths = sorted(folder.glob(f"*/*/{GRID}"))
    return [Tuned(path.parent.relative_to(folder).as_posix(), read_scores(path)) for path in paths]


def tuned_text(found: Sequence[Tuned]) -> str:
    """A table of what the grids came to, with what it shows; empty if there is none."""
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


def _cells(one: Tuned) -> list[str]:
    recipe, cited = named(one.recipe), cited_for(one.recipe)
    values, best = list(one.scores.values()), next(iter(one.scores))
    metric = unrun(recipe).metric
    told = [str(number(Spread(value, 0.0), 1, metric, cited)) for value in (values[-1], median(values), values[0])]
    paper = str(cited) if cited and recipe.select == "mean-valid" else ""
    which = best.partition("~")[2].replace(",", ", ") or "the recipe as it is"
    names = [in_markdown(name) for name in (recipe.data, method(one.recipe), which)]
    return [*names[:2], str(len(values)), *told, names[2], paper]
