"""The difference from the paper over all rows of a table: its mean, its standard error, and the rows that are worse."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from esan.plural import counted
from esan.report.formatting import escape_markdown, signed
from esan.report.rows import Row


@dataclass(frozen=True)
class Deviation:
    """A mean over rows and its standard error, s / √n with s² divided by n − 1; None for a single row."""

    mean: float
    error: float | None
    rows: int

    @staticmethod
    def of(values: Sequence[float]) -> "Deviation":
        error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
        return Deviation(fmean(values), error, len(values))

    def text(self, digits: int) -> str:
        return signed(self.mean, digits) + ("" if self.error is None else f" ± {self.error:.{digits}f}")


def deviation_line(rows: Sequence[Row]) -> str:
    """One line on complete rows that have a number of the paper; empty if there are none.

    The units of all rows must be the same, as they are within a table of the paper.
    """
    compared = [row for row in rows if row.is_complete and row.difference is not None and row.ours is not None]
    if not compared:
        return ""
    digits = max(row.ours.digits for row in compared if row.ours is not None)
    mean = Deviation.of([row.difference for row in compared if row.difference is not None])
    text = f"Mean difference from the paper over {counted(len(compared), 'row')}: **{mean.text(digits)}**"
    sds = [row.paper_stds for row in compared if row.paper_stds is not None]
    if sds:
        some = "" if len(sds) == len(compared) else f", over {counted(len(sds), 'row')}"
        text += f", and {Deviation.of(sds).text(2)} in standard deviations of the paper, where + is better for us{some}"
    bad = [row for row in compared if row.verdict == "bad"]
    text += ". ± is the standard error. " if len(compared) > 1 else ". "
    if not bad:
        return f"{text}No row is worse than the paper by more than two of its standard deviations.\n"
    names = "; ".join(escape_markdown(f"{row.data} {row.name}") for row in bad)
    exact = " or, where it has none, by more than its rounding" if any(row.paper_stds is None for row in bad) else ""
    found = f"{counted(len(bad), 'row')} ({names})"
    return f"{text}Worse by more than two of the paper's standard deviations{exact}: {found}.\n"
