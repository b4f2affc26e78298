"""Times, sizes and differences in a few words, alike on the page and in Markdown."""

import re
from statistics import fmean

from esan.report.rows import Row

NOT_RUN = "not yet run"
MINUS = "−"
#: Characters that Markdown reads as markup anywhere in a line.
_MARKUP = re.compile(r"[\\`*\[\]|!]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|~(?=~)|(?<=~)~|^#|^[-+](?= )")
#: Metrics with the unit in which reports tell them.
UNITS = {
    "accuracy": "accuracy, per cent",
    "rocauc": "ROC-AUC, per cent",
    "mae": "mean absolute error, in the unit of the target",
}


def in_markdown(text: str) -> str:
    """A text that Markdown shows as it is, on one line: names and labels are a user's own."""
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
    """+0.3, −0.3, 0.0: with the sign of what is printed, and a minus as long as the plus."""
    text = f"{abs(value):.{digits}f}"
    if float(text) == 0:
        return text
    return f"{'+' if value > 0 else MINUS}{text}"


def difference(row: Row) -> str:
    """Ours less the paper's, and how many of the paper's standard deviations that is better or worse."""
    if row.difference is None or row.ours is None:
        return ""
    text, sds = signed(row.difference, row.ours.digits), row.deviations
    if sds is None:
        return text
    amount = f"{abs(sds):.1f}"
    return f"{text} (equal)" if amount == "0.0" else f"{text} ({amount} sd {'better' if sds > 0 else 'worse'})"


def votes(row: Row) -> str:
    """Of sampled bags, how much the votes on a prediction differ, on average over runs; empty for whole bags."""
    spreads = [record.spread for record in row.records if record.spread is not None]
    return f"{fmean(spreads):.3f}" if spreads else ""


def cost(row: Row) -> dict[str, str]:
    """Epochs, time and memory of a run on average, and the parameters of the network; empty if nothing was run."""
    if not row.records:
        return dict.fromkeys(("epochs", "time", "memory", "parameters"), "")
    return {
        "epochs": f"{fmean(record.epochs for record in row.records):.0f}",
        "time": duration(fmean(record.seconds for record in row.records)),
        "memory": size(max(record.peak_bytes for record in row.records)),
        "parameters": f"{max(record.parameters for record in row.records):,}",
    }
