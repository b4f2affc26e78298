"""`search`: grid search: train every configuration of a recipe's grid, and choose the best on validation."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from esan.train.campaigns.campaign import run_campaign
from esan.train.campaigns.executors import Executor, Failure
from esan.train.recipes.recipe import Recipe
from esan.train.runs.job import Job, protocol
from esan.train.runs.records import Record
from esan.train.runs.run_files import write_text
from esan.train.runs.summary import MeanStd, summary

#: The columns of the CSV file of a search.
SCORES = ("configuration", "valid", "std", "runs")


@dataclass(frozen=True)
class ConfigurationScore:
    """A configuration and its validation result.

    Attributes:
        recipe: the configuration.
        valid: mean and standard deviation of validation over the runs, at the epochs that the recipe's rule selects;
            None where nothing was measured.
        records: of its runs.
    """

    recipe: Recipe
    valid: MeanStd | None
    records: tuple[Record, ...]


@dataclass(frozen=True)
class Search:
    """The result of a grid search.

    Attributes:
        scored: the configurations, the best first; equal ones in the order of the grid.
        failures: by name of job; a configuration with a failure is not scored.
    """

    scored: tuple[ConfigurationScore, ...]
    failures: dict[str, Failure]

    @property
    def best(self) -> ConfigurationScore:
        if not self.scored:
            reasons = "; ".join(sorted({failure.reason for failure in self.failures.values()})[:3])
            raise ValueError(f"Expected a configuration that could be trained (got none: {reasons}).")
        return self.scored[0]

    def to_csv(self, path: str | Path) -> None:
        """Write one line per configuration: its name, mean and standard deviation of validation, and number of runs."""
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow(SCORES)
        for one in self.scored:
            mean, std = (None, None) if one.valid is None else (one.valid.mean, one.valid.std)
            numbers = ["" if number is None else f"{number:.7g}" for number in (mean, std)]
            lines.writerow([one.recipe.name, *numbers, len(one.records)])
        write_text(Path(path), text.getvalue())


def search(
    recipe: Recipe,
    runs: str | Path,
    executor: Executor | None = None,
    *,
    folds: Sequence[int] | None = None,
    seeds: Sequence[int] | None = None,
    known: Sequence[Record] = (),
    **settings: Any,
) -> Search:
    """Train every configuration of a recipe's grid as one resumable campaign, and order them by validation.

    Args:
        recipe: with a grid.
        runs: the folder of the runs.
        executor: where they run.
        folds: which folds; None for all of the recipe's.
        seeds: which seeds; None for all of the recipe's.
        known: existing records of some runs, which are scored with the others and not run again.
        settings: anything else for `run_campaign`: together, device, root, cache, dataset, bars, progress.
    """
    if not recipe.grid:
        raise ValueError(
            f"Expected a recipe with a grid (got {recipe.name}, which has none). Add e.g. [[grid]] lr = [0.01, 0.001]."
        )
    configurations = recipe.configurations()
    jobs = [job for one in configurations for job in select_jobs(one, folds, seeds)]
    there = {Job(record.recipe, record.fold, record.seed).name for record in known}
    # The test metric is hidden, so that nobody chooses by it.
    outcome = run_campaign([job for job in jobs if job.name not in there], runs, executor, show_test=False, **settings)
    whole = [
        one for one in configurations if not any(job.name in outcome.failures for job in jobs if job.recipe == one)
    ]
    records = {one.name: [r for r in (*known, *outcome.records) if r.recipe.name == one.name] for one in whole}
    return Search(rank_by_validation([record for some in records.values() for record in some]), outcome.failures)


def read_scores(path: Path) -> dict[str, float]:
    """Read what `Search.to_csv` wrote: mean validation by configuration, the best first; unmeasured ones left out."""
    head: Sequence[str] = ()
    try:
        with path.open(encoding="utf-8", newline="") as file:
            head, *lines = list(csv.reader(file, strict=True)) or [[]]
        found = {name: float(mean) for name, mean, _, _ in lines if mean}
    except (ValueError, csv.Error):
        found = {}
    if tuple(head) != SCORES or not found or not all(map(math.isfinite, found.values())):
        raise ValueError(
            f"Expected the scores of a grid in {path}, below {','.join(SCORES)} (got another file). Remove it, and run "
            "the grid again."
        )
    return found


def select_jobs(recipe: Recipe, folds: Sequence[int] | None, seeds: Sequence[int] | None) -> list[Job]:
    """Jobs of some folds and seeds; None for all of the recipe's protocol."""
    whole = protocol(recipe)
    folds = sorted({job.fold for job in whole}) if folds is None else folds
    seeds = sorted({job.seed for job in whole}) if seeds is None else seeds
    return [Job(recipe, fold, seed) for seed in seeds for fold in folds]


def rank_by_validation(records: Sequence[Record]) -> tuple[ConfigurationScore, ...]:
    """Configurations by validation, the best first; test metrics are removed before the comparison."""
    by_name: dict[str, list[Record]] = {}
    for record in records:
        by_name.setdefault(record.recipe.name, []).append(record)
    scored = [
        ConfigurationScore(some[0].recipe, summary([_without_test(record) for record in some]).value, tuple(some))
        for some in by_name.values()
    ]

    def rank(one: ConfigurationScore) -> float:
        if one.valid is None:
            return -float("inf")
        # Rounded: curves of record tables have seven digits, and equal results must stay equal.
        mean = round(one.valid.mean, 6)
        return mean if one.records[0].higher_is_better else -mean

    return tuple(sorted(scored, key=rank, reverse=True))


def _without_test(record: Record) -> Record:
    return replace(
        record,
        best=record.best._replace(test=None),
        final=record.final._replace(test=None),
        curve=tuple(line._replace(test=None) for line in record.curve),
    )
