"""Tables of results, one row per recipe with the paper's number beside ours: their columns, and as Markdown."""

from collections.abc import Sequence

from esan.report.formatting import NOT_RUN, UNITS, cost, difference, escape_markdown, sample_spread
from esan.report.rows import Row

#: The columns of a table, and their alignment.
HEAD = {
    "method": "---",
    "paper": "--:",
    "ours": "--:",
    "ours is": "---",
    "difference": ":--",
    "best validation": "--:",
    "spread of votes": "--:",
    "runs": ":--",
    "epochs": "--:",
    "time per run": "--:",
    "memory": "--:",
    "parameters": "--:",
}


def cells(row: Row) -> dict[str, str]:
    """The text of each column of `HEAD` for a row."""
    spent = cost(row)
    return {
        "method": row.name,
        "paper": "" if row.paper is None else str(row.paper),
        "ours": NOT_RUN if row.ours is None else str(row.ours),
        "ours is": row.rule,
        "difference": difference(row),
        "best validation": "" if row.best is None else str(row.best),
        "spread of votes": sample_spread(row),
        "runs": row.state if row.records or row.unfinished else "",
        "epochs": spent["epochs"],
        "time per run": spent["time"],
        "memory": spent["memory"],
        "parameters": spent["parameters"],
    }


def table(rows: Sequence[Row]) -> str:
    """One table of rows; empty columns are left out."""
    shown, lines = columns(rows)
    drawn = [list(shown.values()), [HEAD[name] for name in shown], *([line[name] for name in shown] for line in lines)]
    head, rule, *body = drawn
    body = [[escape_markdown(cell) for cell in line] for line in body]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *body)) + "\n"


def columns(rows: Sequence[Row]) -> tuple[dict[str, str], list[dict[str, str]]]:
    """The columns of `HEAD` that these rows need, with their headings, and the cells of each row.

    What differs between rows has a column; what all rows share is said once, in a heading or above the table.
    """
    lines = [cells(row) for row in rows]
    parts, chosen = {row.part for row in rows if row.best}, {row.rule for row in rows if row.rule}
    for row, line in zip(rows, lines, strict=True):
        line["ours is"] = row.rule if len(chosen) > 1 else ""
        if row.best and len(parts) > 1:
            line["best validation"] += f" ({row.part})"
    names = [name for name in HEAD if any(line[name] for line in lines) or name in ("method", "ours")]
    words = {"best validation": f"{parts.pop() if len(parts) == 1 else 'value'} at best validation"}
    return {name: words.get(name, name) for name in names}, lines


def markdown(rows: Sequence[Row], level: int = 2) -> str:
    """One table per dataset and metric, below a heading that names both.

    Args:
        rows: of any number of datasets.
        level: of the headings.
    """
    parts = [
        f"{'#' * level} {escape_markdown(title)}\n\n{rule_line(some)}{table(some)}"
        for title, some in by_metric(rows).items()
    ]
    return "\n".join(parts)


def rule_line(rows: Sequence[Row]) -> str:
    """The line that says how epochs were chosen, if all rows share that rule; else it has a column."""
    found = rule_of(rows)
    return f"Ours: {escape_markdown(found)}.\n\n" if found else ""


def rule_of(rows: Sequence[Row]) -> str:
    """The rule that all of these rows share; empty if there is none, or more than one."""
    found = {row.rule for row in rows if row.rule}
    return found.pop() if len(found) == 1 else ""


def by_metric(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows that can be compared, below a title: those of one dataset, its targets and their metric, with its unit.

    Of own data on which nothing has ended, the metric is not known: its rows join the others of that data, if all of
    those have one metric.
    """
    known: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        known.setdefault((row.data, row.targets), set()).update({row.metric} - {""})
    found: dict[str, list[Row]] = {}
    for row in rows:
        metrics = known[row.data, row.targets]
        metric = row.metric or (next(iter(metrics)) if len(metrics) == 1 else "")
        data = f"{row.data}, {row.targets}" if row.targets else row.data
        found.setdefault(f"{data}: {UNITS[metric]}" if metric else data, []).append(row)
    return found


def by_data(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each dataset, in the order in which they come."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.data, []).append(row)
    return found
