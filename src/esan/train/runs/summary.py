"""`summary`: from the records of all folds and seeds of a recipe to the one number that its protocol reports."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import Any

from esan.train.runs.records import Record

#: Equal means of accuracies differ by 1e-7 at most where curves are stored with seven digits. Unequal ones differ by
#: more: over ten folds of 411 and 412 graphs by at least 6e-7.
_ROUNDING = 2e-7


@dataclass(frozen=True)
class MeanStd:
    """A mean and standard deviation, over n and not n − 1; None for the deviation of a single value.

    `f"{value:.4f}"` formats both: "0.1234 ± 0.0056", or "0.1234" where there is no deviation.
    """

    mean: float
    std: float | None

    @staticmethod
    def of(values: Sequence[float]) -> "MeanStd":
        return MeanStd(fmean(values), pstdev(values) if len(values) > 1 else None)

    def __format__(self, spec: str) -> str:
        mean = format(self.mean, spec)
        return mean if self.std is None else f"{mean} ± {format(self.std, spec)}"


@dataclass(frozen=True)
class Summary:
    """The result of a recipe over its folds and seeds.

    Attributes:
        metric: what is measured.
        part: "test", or "valid" where there is no test set.
        runs: how many records there are.
        rule: how the epochs of `value` were chosen, in words.
        value: the number by the recipe's rule; None where nothing was measured.
        best: the number at the epoch of best validation of each run, for comparison.
        epoch: the epoch of `value`, where all runs share one.
    """

    metric: str
    part: str
    runs: int
    rule: str
    value: MeanStd | None
    best: MeanStd | None
    epoch: int | None = None


def summary(records: Sequence[Record]) -> Summary:
    """The reported number of one recipe.

    On folds without a test set ("mean-valid") the epoch is chosen by the numbers that are reported, as in the protocol
    of the TU datasets: such a number is optimistic, and `best` even more so.

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
    best = _mean_std([getattr(record.best, part) for record in records])
    common: dict[str, Any] = {"metric": first.metric, "part": part, "runs": len(records), "best": best}
    if first.recipe.select == "last":
        value = _mean_std([getattr(record.final, part) for record in records])
        return Summary(**common, rule=f"{part} where training stopped", value=value)
    if first.recipe.select != "mean-valid":
        kind = "least validation loss" if first.recipe.select == "best-loss" else "best validation"
        return Summary(**common, rule=f"{part} at the {kind} of each run", value=best)
    epoch = _best_mean_epoch(records)
    value = None
    if epoch is not None:
        value = _mean_std([getattr(record.curve[epoch - 1], part) for record in records])
    return Summary(**common, rule=f"{part} at the epoch of best mean validation", value=value, epoch=epoch)


def _best_mean_epoch(records: Sequence[Record]) -> int | None:
    """The first epoch of best mean validation, among those that all runs have measured.

    Accuracies whose means differ by rounding alone are equal: a record table stores seven digits of what a run's own
    record has in full, and both give the same epoch.
    """
    means: dict[int, float] = {}
    for lines in zip(*(record.curve for record in records), strict=False):
        values = [line.valid for line in lines]
        if all(value is not None for value in values):
            means[lines[0].epoch] = fmean(value for value in values if value is not None)
    sign = 1 if records[0].higher_is_better else -1
    enough = max((sign * mean for mean in means.values()), default=0.0) - (_ROUNDING if sign > 0 else 0.0)
    return next((epoch for epoch, mean in means.items() if sign * mean >= enough), None)


def _mean_std(values: Sequence[float | None]) -> MeanStd | None:
    measured = [value for value in values if value is not None]
    return MeanStd.of(measured) if measured else None
