"""Tables in Markdown: the paper's number beside ours, a line a recipe."""

from collections.abc import Sequence

from esan.report.rows import Row
from esan.report.words import NOT_RUN, cost, difference, votes

#: The columns of a table, and where they are aligned.
HEAD = {
    "method": "---",
    "paper": "--:",
    "ours": "--:",
    "difference": ":--",
    "best validation": "--:",
    "votes differ": "--:",
    "runs": ":--",
    "epochs": "--:",
    "time a run": "--:",
    "memory": "--:",
    "parameters": "--:",
}


def cells(row: Row) -> dict[str, str]:
    """What stands in each column of `HEAD` for a row."""
    spent = cost(row)
    return {
        "method": row.name,
        "paper": "" if row.paper is None else str(row.paper),
        "ours": NOT_RUN if row.ours is None else str(row.ours),
        "difference": difference(row),
        "best validation": "" if row.best is None else str(row.best),
        "votes differ": votes(row),
        "runs": row.state if row.records or row.begun else "",
        "epochs": spent["epochs"],
        "time a run": spent["time"],
        "memory": spent["memory"],
        "parameters": spent["parameters"],
    }


def markdown(rows: Sequence[Row]) -> str:
    """A table of rows; columns of which nothing is known are left out."""
    lines = [cells(row) for row in rows]
    shown = [name for name in HEAD if any(line[name] for line in lines) or name in ("method", "ours")]
    table = [shown, [HEAD[name] for name in shown], *([line[name] for name in shown] for line in lines)]
    return "\n".join(f"| {' | '.join(_plain(cell) for cell in line)} |" for line in table) + "\n"


def rules(rows: Sequence[Row]) -> list[str]:
    """What the numbers of these rows are, each rule once."""
    found = dict.fromkeys(row.rule for row in rows if row.rule)
    return [f"ours: {rule}" for rule in found]


def by_data(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each dataset, in the order in which they come."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.data, []).append(row)
    return found


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
