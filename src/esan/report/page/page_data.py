"""`page_data`: the rows of a report and the learning curves of their runs as one compressed text for its page."""

import base64
import json
import math
import zlib
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from esan.report.page.plots import LOSS, TEST, VALID
from esan.report.rows import Measured, Row
from esan.train.runs.records import Record

#: Values of curves that a page holds, about: a page of thousands of runs has about a megabyte.
MOST_VALUES = 150_000
#: Points of one curve, at most and at least.
MOST_POINTS, LEAST_POINTS = 400, 24
#: Values are stored as whole numbers from 0 to this, from the least to the greatest of their curve.
LEVELS = 1023
#: A curve whose values span more than this factor is stored on a logarithmic scale.
_WIDE = 5.0
_COLUMNS = {"valid": VALID, "test": TEST, "loss": LOSS}


def page_data(sections: Sequence[Sequence[Row]]) -> str:
    """The data as base64 of deflated JSON; the page's script decodes it when it is needed.

    Rows are numbered in the order of the sections.

    Args:
        sections: the rows of each section of the page.
    """
    records = [record for rows in sections for row in rows for record in row.records]
    curves = sum(2 + (record.final.test is not None) for record in records)
    points = min(max(MOST_VALUES // max(curves, 1), LEAST_POINTS), MOST_POINTS)
    found = [_row(row, section, points) for section, rows in enumerate(sections) for row in rows]
    text = json.dumps({"levels": LEVELS, "rows": found}, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode("utf-8"), 9)).decode("ascii")


def _row(row: Row, section: int, points: int) -> dict[str, Any]:
    last = max((len(record.curve) for record in row.records), default=0)
    # All runs of a row have the same bins, so that their mean is one of the same epochs.
    width = max(1, math.ceil(last / points))
    return {
        "section": section,
        "method": row.name,
        "recipe": row.recipe,
        "data": row.data,
        "targets": row.targets,
        "metric": row.metric,
        "lower": row.lower_is_better,
        "part": row.part,
        "rule": row.rule,
        "state": row.state,
        "paper": None if row.paper is None else row.paper.value,
        "paperStd": None if row.paper is None else row.paper.std,
        **_pair("ours", row.ours),
        **_pair("best", row.best),
        "width": width,
        "runs": [_run(record, width, 1.0 if row.lower_is_better else 100.0) for record in row.records],
    }


def _pair(name: str, measured: Measured | None) -> dict[str, float | None]:
    mean, std = (None, None) if measured is None else (measured.mean, measured.std)
    return {name: _short(mean), f"{name}Std": _short(std)}


def _run(record: Record, width: int, scale: float) -> dict[str, Any]:
    curves = {}
    for name, column in _COLUMNS.items():
        values = binned([line[column] for line in record.curve], width)
        if any(value is not None for value in values):
            factor = 1.0 if name == "loss" else scale
            curves[name] = packed([None if value is None else value * factor for value in values])
    return {
        "fold": record.fold,
        "seed": record.seed,
        "epochs": record.epochs,
        "seconds": _short(record.seconds),
        "bytes": record.peak_bytes,
        "parameters": record.parameters,
        "curves": curves,
    }


def binned(values: Sequence[float | None], width: int) -> list[float | None]:
    """The mean of every `width` values in turn; None where there is none."""
    bins = [values[start : start + width] for start in range(0, len(values), width)]
    finite = [[value for value in one if value is not None and math.isfinite(value)] for one in bins]
    return [fmean(one) if one else None for one in finite]


def packed(values: Sequence[float | None]) -> list[Any]:
    """Values as [least, greatest, whether logarithmic, differences of whole numbers from 0 to `LEVELS`].

    None stays None, and the next difference is from the value before it.
    """
    known = [value for value in values if value is not None]
    low, high = min(known), max(known)
    log = low > 0 and high / low > _WIDE
    first, last = (math.log(low), math.log(high)) if log else (low, high)
    steps: list[int | None] = []
    before = 0
    for value in values:
        if value is None:
            steps.append(None)
            continue
        place = math.log(value) if log else value
        number = round((place - first) / (last - first) * LEVELS) if last > first else 0
        steps.append(number - before)
        before = number
    return [_short(low), _short(high), int(log), steps]


def _short(value: float | None) -> float | None:
    """Seven digits: more than a page shows."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.7g}")
