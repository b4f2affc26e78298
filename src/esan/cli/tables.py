"""Tables that stay whole on a terminal of 80 columns: long names fold, numbers are never cut."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from esan.report.rows import Row


def plain_table(names: Sequence[str], numbers: Sequence[str], title: str = "", caption: str = "") -> Table:
    """An empty table.

    Args:
        names: the heads of the columns that hold text; they come first and fold where there is no space.
        numbers: the heads of the columns that hold numbers; `\\n` breaks a long head.
        title: above the table.
        caption: below it.
    """
    table = Table(title=title or None, caption=caption or None, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for head in names:
        table.add_column(head, overflow="fold")
    for head in numbers:
        table.add_column(head, justify="right", no_wrap=True)
    return table


def number(value: float | None) -> str:
    """A metric in at most ten characters; nothing for None."""
    if value is None:
        return ""
    return f"{value:.4f}" if abs(value) < 10_000 else f"{value:.5g}"


def spread(mean: float, std: float | None) -> str:
    """Mean ± standard deviation; a single run has none."""
    return number(mean) if std is None else f"{number(mean)} ± {number(std)}"


def rows_table(rows: Sequence[Row], title: str = "") -> Table:
    """One row per recipe: the paper's number, ours, and how far its runs have come."""
    table = plain_table(["recipe", "metric"], ["paper", "ours"], title)
    table.add_column("runs", overflow="fold")
    for row in rows:
        paper = "" if row.paper is None else str(row.paper)
        ours = "" if row.ours is None else str(row.ours)
        metric = f"{row.part} {row.metric}" if row.metric else ""
        table.add_row(Text(row.recipe), metric, paper, ours, row.state)
    return table
