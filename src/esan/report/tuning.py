"""Grids of rows, run whole as the paper tunes them: the best on validation is kept, with the scores of all."""

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from esan.report.paper import method
from esan.report.results import chosen_rows, is_kept, keep
from esan.report.rows import unrun
from esan.train.executors import Executor, Failure
from esan.train.grid import SCORES, search
from esan.train.job import Job
from esan.train.recipes import named

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


def tune(
    table: str,
    results: Path,
    runs: Path,
    executor: Executor | None = None,
    *,
    rows: Sequence[str] = (),
    seeds: int | None = None,
    say: Callable[[str], None],
    **settings: Any,
) -> dict[str, Failure]:
    """Run the grids of rows that have not been run whole, one row after another.

    Of each row the records of its best configuration are kept, and a file with the scores of all; the others stay in
    the folder of the runs. A row of which a run failed keeps nothing: the best of a part is not the best.

    Args:
        table: its name.
        results: the folder of the results, a folder a table.
        runs: the folder of the runs, with their checkpoints.
        executor: where they run.
        rows: which rows; empty for all that have a grid.
        seeds: how many seeds; None for those of the recipes.
        say: told how it goes on.
        settings: anything else for `run_campaign`: together, device, root, cache, bars.

    Returns:
        why some jobs have no record, by their names.
    """
    failures: dict[str, Failure] = {}
    for name in chosen_rows(table, rows):
        recipe, target = named(name), results / table / name / GRID
        if target.is_file() or not recipe.grid:
            say(f"{name}: {'its grid is there' if recipe.grid else 'the paper tunes nothing'}")
            continue
        found = search(recipe, runs, executor, seeds=None if seeds is None else range(seeds), **settings)
        failures |= found.failures
        if found.failures:
            continue
        for record in found.best.records:
            if not is_kept(Job(record.recipe, record.fold, record.seed), results / table):
                keep(record, results / table)
        found.to_csv(target)
        say(f"{name}: {found.best.recipe.name} is the best of {len(found.scored)}")
    return failures


def tuned_of(folder: Path) -> list[Tuned]:
    """The grids of a table's rows that were run whole, by name."""
    return [
        Tuned(path.parent.relative_to(folder).as_posix(), _scores(path)) for path in sorted(folder.glob(f"*/*/{GRID}"))
    ]


def tuned_text(found: Sequence[Tuned]) -> str:
    """A table of what the grids came to, with what it shows; empty if there is none."""
    if not found:
        return ""
    head = ["set", "method", "configurations", "worst", "median", "best", "which is"]
    lines = [head, ["---"] * 2 + ["--:"] * 4 + ["---"], *map(_cells, found)]
    return (
        "Grids that were run whole, as the paper tunes: means on validation of their configurations. The best is kept "
        f"with its records; {GRID} beside those of the row has the others.\n\n"
        + "\n".join(f"| {' | '.join(line)} |" for line in lines)
        + "\n"
    )


def _cells(one: Tuned) -> list[str]:
    (best, most), values = next(iter(one.scores.items())), list(one.scores.values())
    falls = unrun(named(one.recipe)).falls
    numbers = [f"{value:.4f}" if falls else f"{100 * value:.1f}" for value in (values[-1], median(values), most)]
    which = best.partition("~")[2].replace(",", ", ") or "the choice above"
    return [one.recipe.partition("/")[0], method(one.recipe), str(len(values)), *numbers, which]


def _scores(path: Path) -> dict[str, float]:
    with path.open(encoding="utf-8", newline="") as file:
        head, *lines = list(csv.reader(file)) or [[]]
    try:
        if tuple(head) != SCORES or not lines:
            raise ValueError
        return {name: float(valid) for name, valid, _, _ in lines}
    except ValueError:
        raise ValueError(
            f"Expected the scores of a grid in {path}, below {','.join(SCORES)} (got another file). Remove it, and run "
            "that row with --grid again."
        ) from None
