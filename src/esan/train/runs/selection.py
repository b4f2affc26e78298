"""Selection: from the curves of all folds and seeds of a recipe to the one number that is reported, by its rule."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import Any

from esan.counted import counted
from esan.train.runs.records import Record


@dataclass(frozen=True)
class Spread:
    """A mean, and the standard deviation of what it is the mean of (of these numbers, not of a larger population)."""

    mean: float
    std: float

    @staticmethod
    def of(values: Sequence[float]) -> "Spread":
        return Spread(fmean(values), pstdev(values))


@dataclass(frozen=True)
class Summary:
    """What the records of a recipe come to.

    Attributes:
        metric: what is measured.
        part: "test", or "valid" where there is no test set.
        runs: how many records there are.
        rule: how the epochs of `value` were chosen, in words.
        value: the number by the recipe's rule; None where nothing was measured.
        best: beside it, the number at the epoch of best validation of each run.
        epoch: the epoch of `value`, where all runs share one.
    """

    metric: str
    part: str
    runs: int
    rule: str
    value: Spread | None
    best: Spread | None
    epoch: int | None = None


def summary(records: Sequence[Record]) -> Summary:
    """The reported number of one recipe.

    On folds without a test set ("mean-valid") the epoch is chosen by the very numbers that are reported, as the
    protocol of the TU sets has it: such a number is optimistic, and so is `best` beside it, even more.

    Args:
        records: of all folds and seeds of one recipe.
    """
    if not records:
        raise ValueError("Expected at least one record (got none). Train first.")
    first = records[0]
    if any(record.recipe != first.recipe for record in records):
        names = sorted({record.recipe.name for record in records})
        raise ValueError(f"Expected records of one recipe (got {', '.join(names)}). Summarise each on its own.")
    part = "test" if all(record.best.test is not None for record in records) else "valid"
    best = _spread([getattr(record.best, part) for record in records])
    common: dict[str, Any] = {"metric": first.metric, "part": part, "runs": len(records), "best": best}
    if first.recipe.select == "last":
        value = _spread([getattr(record.final, part) for record in records])
        return Summary(**common, rule=f"{part} where training stopped", value=value)
    if first.recipe.select != "mean-valid":
        kind = "least validation loss" if first.recipe.select == "best-loss" else "best validation"
        return Summary(**common, rule=f"{part} at the {kind} of each run", value=best)
    epoch = _best_mean_epoch(records)
    value = None
    if epoch is not None:
        value = _spread([getattr(record.curve[epoch - 1], part) for record in records])
    rule = f"{part} at the epoch of best mean validation over {counted(len(records), 'run')}"
    return Summary(**common, rule=rule, value=value, epoch=epoch)


def _best_mean_epoch(records: Sequence[Record]) -> int | None:
    """The first epoch of best mean validation, among those that all runs have measured."""
    means: dict[int, float] = {}
    for lines in zip(*(record.curve for record in records), strict=False):
        values = [line.valid for line in lines]
        if all(value is not None for value in values):
            means[lines[0].epoch] = fmean(value for value in values if value is not None)
    sign = 1 if records[0].higher_is_better else -1
    return max(means, key=lambda epoch: (sign * means[epoch], -epoch)) if means else None


def _spread(values: Sequence[float | None]) -> Spread | None:
    there = [value for value in values if value is not None]
    return Spread.of(there) if there else None
