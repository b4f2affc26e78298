"""`Row`: what the records of one recipe come to, and how far that is from the paper."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from esan.data.dataset import METRICS
from esan.data.sets.catalogue import CATALOGUE
from esan.report.paper import Cited, cited_for, method
from esan.train.recipes.recipe import Recipe
from esan.train.runs.job import protocol
from esan.train.runs.records import HIGHER_IS_BETTER, Record
from esan.train.runs.selection import Spread, summary


@dataclass(frozen=True)
class Number:
    """A mean over runs, in the units of the paper: per cent for accuracy and ROC-AUC.

    Attributes:
        mean: over the runs.
        spread: their standard deviation; None of a single run.
        digits: how many to print after the point.
    """

    mean: float
    spread: float | None
    digits: int

    def __str__(self) -> str:
        return f"{self.mean:.{self.digits}f}" + ("" if self.spread is None else f" ± {self.spread:.{self.digits}f}")


@dataclass(frozen=True)
class Row:
    """A line of a table.

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
        jobs: how many runs the protocol has.
        records: of those that are done.
        begun: how many more have been begun.
        part: what `ours` and `best` are measured on: "test", or "valid" where there is no test set.
        targets: of own data, the columns that are predicted, if the recipe names them.
    """

    name: str
    recipe: str
    data: str
    metric: str
    paper: Cited | None = None
    ours: Number | None = None
    best: Number | None = None
    rule: str = ""
    epoch: int | None = None
    jobs: int = 0
    records: tuple[Record, ...] = ()
    begun: int = 0
    part: str = "test"
    targets: str = ""

    @property
    def falls(self) -> bool:
        """Whether less is better."""
        return not HIGHER_IS_BETTER.get(self.metric, True)

    @property
    def merit(self) -> float:
        """Ours, turned so that more is better; less than any number if nothing was run."""
        if self.ours is None:
            return -math.inf
        return -self.ours.mean if self.falls else self.ours.mean

    @property
    def difference(self) -> float | None:
        """Ours less the paper's, in its units."""
        return None if self.ours is None or self.paper is None else self.ours.mean - self.paper.value

    @property
    def deviations(self) -> float | None:
        """The difference in standard deviations of the paper, positive if ours is better; None if it has none."""
        if self.difference is None or self.paper is None or not self.paper.spread:
            return None
        return (-self.difference if self.falls else self.difference) / self.paper.spread

    @property
    def whole(self) -> bool:
        """Whether all of its runs are done."""
        return len(self.records) >= self.jobs

    @property
    def state(self) -> str:
        """How far it has come: "not yet run", "4 of 10 runs, 2 begun", or "10 seeds"."""
        done, begun = len(self.records), f", {self.begun} begun" if self.begun else ""
        if not done:
            return f"not yet run{begun}"
        if done < self.jobs:
            return f"{done} of {self.jobs} runs{begun}"
        folds, seeds = len({r.fold for r in self.records}), len({r.seed for r in self.records})
        parts = [f"{folds} folds"] * (folds > 1) + [f"{seeds} seeds"] * (seeds > 1)
        return (" × ".join(parts) or "1 run") + begun

    @property
    def verdict(self) -> str:
        """ "good" if ours is the paper's up to two standard deviations, or better; "bad" if it is worse; else ""."""
        if self.difference is None or self.paper is None or self.ours is None:
            return ""
        worse = self.difference if self.falls else -self.difference
        # A number that is printed with so many digits is no nearer than half of the last.
        room = max(2 * (self.paper.spread or 0.0), 0.5 * 10.0**-self.paper.digits)
        return "good" if worse <= room else "bad"


def row_of(records: Sequence[Record], jobs: int | None = None, begun: int = 0) -> Row:
    """The line of one recipe's records.

    Args:
        records: of one recipe, each job once.
        jobs: how many runs there are to be; None for those of the recipe's protocol.
        begun: how many more have been begun.
    """
    first = records[0]
    recipe, cited = first.recipe, cited_for(first.recipe.name)
    # How many seeds a protocol has says nothing about one run, and may have grown since.
    found = summary([replace(record, recipe=recipe) for record in records])
    return Row(
        name=method(recipe.name),
        recipe=recipe.name,
        data=recipe.data,
        metric=first.metric,
        paper=cited,
        ours=number(found.value, found.runs, first.metric, cited),
        best=number(found.best, found.runs, first.metric, cited),
        rule=found.rule,
        epoch=found.epoch,
        jobs=max(len(protocol(recipe)) if jobs is None else jobs, len(records)),
        records=tuple(records),
        begun=begun,
        part=found.part,
        targets=recipe.targets,
    )


def unrun(recipe: Recipe, begun: int = 0) -> Row:
    """The line of a recipe of which nothing has ended."""
    known = CATALOGUE.get(recipe.data)
    return Row(
        method(recipe.name),
        recipe.name,
        recipe.data,
        known.task.metric if known else METRICS.get(recipe.task, ""),
        cited_for(recipe.name),
        jobs=len(protocol(recipe)),
        begun=begun,
        targets=recipe.targets,
    )


def number(found: Spread | None, runs: int, metric: str, cited: Cited | None) -> Number | None:
    """A mean over runs in the units of the paper, with as many digits as it has for the same."""
    if found is None:
        return None
    digits = max(cited.digits, 1) if cited else 4 if metric == "mae" else 2
    scale = 1.0 if metric == "mae" else 100.0
    return Number(found.mean * scale, found.std * scale if runs > 1 else None, digits)
