"""`Row`: the result of one recipe from its records, and its difference from the paper."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from esan.data.dataset import METRICS
from esan.data.sets.catalogue import CATALOGUE
from esan.report.reproduced_tables import PaperNumber, method, paper_number
from esan.train.recipes.recipe import Recipe
from esan.train.runs.job import protocol
from esan.train.runs.records import DISPLAY_SCALE, HIGHER_IS_BETTER, Record
from esan.train.runs.summary import MeanStd, summary


@dataclass(frozen=True)
class Measured:
    """A mean over runs, in the units of the paper: per cent for accuracy and ROC-AUC.

    Attributes:
        mean: over the runs.
        std: their standard deviation; None for a single run.
        digits: how many to print after the point.
    """

    mean: float
    std: float | None
    digits: int

    def __str__(self) -> str:
        return f"{self.mean:.{self.digits}f}" + ("" if self.std is None else f" ± {self.std:.{self.digits}f}")


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Attributes:
        name: how the paper calls it, or the name of its recipe.
        recipe: the name of its recipe.
        data: the dataset.
        metric: "accuracy", "rocauc" or "mae"; "" of own data on which nothing has ended.
        paper: the paper's number.
        ours: the number of the recipe's own protocol; None if nothing was run.
        best: the number at each run's epoch of best validation, beside it.
        rule: what `ours` is, in words.
        epoch: the epoch of `ours`, where all runs share one.
        jobs: how many runs there should be: of every fold, with as many seeds as the protocol has, or were begun.
        records: of those that are done.
        unfinished: how many more runs were started and have no record.
        part: what `ours` and `best` are measured on: "test", or "valid" where there is no test set.
        targets: of own data, the columns that are predicted, if the recipe names them.
    """

    name: str
    recipe: str
    data: str
    metric: str
    paper: PaperNumber | None = None
    ours: Measured | None = None
    best: Measured | None = None
    rule: str = ""
    epoch: int | None = None
    jobs: int = 0
    records: tuple[Record, ...] = ()
    unfinished: int = 0
    part: str = "test"
    targets: str = ""

    @property
    def lower_is_better(self) -> bool:
        """Whether lower values are better."""
        return not HIGHER_IS_BETTER.get(self.metric, True)

    @property
    def merit(self) -> float:
        """Ours, turned so that more is better; less than any number if nothing was run."""
        if self.ours is None:
            return -math.inf
        return -self.ours.mean if self.lower_is_better else self.ours.mean

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's, in its units."""
        return None if self.ours is None or self.paper is None else self.ours.mean - self.paper.value

    @property
    def paper_stds(self) -> float | None:
        """The difference in standard deviations of the paper, positive if ours is better; None if it has none."""
        if self.difference is None or self.paper is None or not self.paper.std:
            return None
        return (-self.difference if self.lower_is_better else self.difference) / self.paper.std

    @property
    def is_complete(self) -> bool:
        """Whether all of its runs are done."""
        return len(self.records) >= self.jobs

    @property
    def state(self) -> str:
        """Its progress: "not yet run", "4 of 10 runs, 2 unfinished", or "10 seeds"."""
        done, unfinished = len(self.records), f", {self.unfinished} unfinished" if self.unfinished else ""
        if not done:
            return f"not yet run{unfinished}"
        if done < self.jobs:
            return f"{done} of {self.jobs} runs{unfinished}"
        folds, seeds = len({r.fold for r in self.records}), len({r.seed for r in self.records})
        parts = [f"{folds} folds"] * (folds > 1) + [f"{seeds} seeds"] * (seeds > 1)
        return (" × ".join(parts) or "1 run") + unfinished

    @property
    def verdict(self) -> str:
        """ "good" if ours is the paper's or better; "bad" if worse by more than two standard deviations; else ""."""
        if self.difference is None or self.paper is None or self.ours is None:
            return ""
        worse = self.difference if self.lower_is_better else -self.difference
        # A number that is printed with so many digits is no nearer than half of the last.
        tolerance = max(2 * (self.paper.std or 0.0), 0.5 * 10.0**-self.paper.digits)
        return "good" if worse <= 1e-9 else "" if worse <= tolerance else "bad"


def row_of(records: Sequence[Record], unfinished: int = 0) -> Row:
    """The row of one recipe's records.

    Args:
        records: of one recipe, each job once.
        unfinished: how many more runs were started and have no record.
    """
    first = records[0]
    recipe, cited = first.recipe, paper_number(first.recipe.name)
    # The number of seeds of a protocol does not change one run, and may have grown since.
    found = summary([replace(record, recipe=recipe) for record in records])
    return Row(
        name=method(recipe.name),
        recipe=recipe.name,
        data=recipe.data,
        metric=first.metric,
        paper=cited,
        ours=in_paper_units(found.value, first.metric, cited),
        best=in_paper_units(found.best, first.metric, cited),
        rule=found.rule,
        epoch=found.epoch,
        jobs=_num_jobs(recipe, records),
        records=tuple(records),
        unfinished=unfinished,
        part=found.part,
        targets=recipe.targets,
    )


def _num_jobs(recipe: Recipe, records: Sequence[Record]) -> int:
    """How many runs a row needs: a mean over some folds of a further seed would count these folds twice."""
    asked = protocol(recipe)
    folds = {run.fold for some in (asked, records) for run in some}
    return len(folds) * max(len({run.seed for run in some}) for some in (asked, records))


def empty_row(recipe: Recipe, unfinished: int = 0) -> Row:
    """The row of a recipe without records."""
    known = CATALOGUE.get(recipe.data)
    return Row(
        method(recipe.name),
        recipe.name,
        recipe.data,
        known.task.metric if known else METRICS.get(recipe.task, ""),
        paper_number(recipe.name),
        jobs=len(protocol(recipe)),
        unfinished=unfinished,
        targets=recipe.targets,
    )


def in_paper_units(found: MeanStd | None, metric: str, cited: PaperNumber | None) -> Measured | None:
    """A mean over runs in the units of the paper, with as many digits as it has for the same."""
    if found is None:
        return None
    digits = max(cited.digits, 1) if cited else 4 if metric == "mae" else 2
    scale = DISPLAY_SCALE[metric]
    return Measured(found.mean * scale, None if found.std is None else found.std * scale, digits)
