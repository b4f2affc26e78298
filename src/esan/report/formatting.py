"""Formatting of times, sizes, differences and units, for the HTML page and Markdown."""

import re
from statistics import fmean

from esan.report.rows import Row

NOT_RUN = "not yet run"
MINUS = "−"
#: Characters that Markdown reads as markup anywhere in a line.
_MARKUP = re.compile(r"[\\`*\[\]|!]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|~(?=~)|(?<=~)~|^#|^[-+](?= )")
#: Metrics with the unit that reports use.
UNITS = {
    "accuracy": "accuracy, per cent",
    "rocauc": "ROC-AUC, per cent",
    "mae": "mean absolute error, in the unit of the target",
}


def escape_markdown(text: str) -> str:
    """Text that Markdown shows literally, on one line; names and labels may contain markup."""
    plain = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKUP.sub(r"\\\g<0>", plain)


def duration(seconds: float) -> str:
    """1.4 s, 3 min 20 s, 2 h 5 min."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def size(count: float) -> str:
    """512 MiB, 3.2 GiB."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def signed(value: float, digits: int) -> str:
    """+0.3, −0.3, 0.0: with the sign of the rounded value, and a typographic minus."""
    text = f"{abs(value):.{digits}f}"
    if float(text) == 0:
        return text
    return f"{'+' if value > 0 else MINUS}{text}"


def difference(row: Row) -> str:
    """Ours minus the paper's, and how many of the paper's standard deviations that is better or worse."""
    if row.difference is None or row.ours is None:
        return ""
    text, sds = signed(row.difference, row.ours.digits), row.paper_stds
    if sds is None:
        return text
    amount = f"{abs(sds):.1f}"
    return f"{text} (equal)" if amount == "0.0" else f"{text} ({amount} sd {'better' if sds > 0 else 'worse'})"


def sample_spread(row: Row) -> str:
    """For sampled bags, how much predictions differ between samples, averaged over runs; empty for whole bags."""
    spreads = [record.spread for record in row.records if record.spread is not None]
    return f"{fmean(spreads):.3f}" if spreads else ""


def cost(row: Row) -> dict[str, str]:
    """Mean epochs and time of a run, peak memory, and the parameters of the network; empty if nothing was run."""
    if not row.records:
        return dict.fromkeys(("epochs", "time", "memory", "parameters"), "")
    return {
        "epochs": f"{fmean(record.epochs for record in row.records):.0f}",
        "time": duration(fmean(record.seconds for record in row.records)),
        "memory": size(max(record.peak_bytes for record in row.records)),
        "parameters": f"{max(record.parameters for record in row.records):,}",
    }
