"""Tables that stay whole on a terminal of 80 columns: long names fold, numbers are never cut."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from esan.report.reproduced_tables import paper_number
from esan.report.rows import Row, in_paper_units
from esan.train.runs.records import DISPLAY_SCALE
from esan.train.runs.summary import MeanStd


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


def with_unit(metric: str) -> str:
    """A metric as the head of a column: accuracy and ROC-AUC are in per cent."""
    return metric if DISPLAY_SCALE.get(metric, 1.0) == 1 else f"{metric}, %"


def figure(value: MeanStd | float | None, metric: str, recipe: str) -> str:
    """A number of records in the unit and with the digits that reports have for this recipe; nothing for None.

    A mean or deviation takes at most ten characters.
    """
    found = MeanStd(value, None) if isinstance(value, float | int) else value
    ours = in_paper_units(found, metric, paper_number(recipe))
    if found is None or ours is None:
        return ""
    return f"{found:.5g}" if abs(ours.mean) >= 10_000 else str(ours)


def rows_table(rows: Sequence[Row], title: str = "") -> Table:
    """One row per recipe: the paper's number, ours, and how far its runs have come."""
    table = plain_table(["recipe", "metric"], ["paper", "ours"], title)
    table.add_column("runs", overflow="fold")
    for row in rows:
        paper = "" if row.paper is None else str(row.paper)
        ours = "" if row.ours is None else str(row.ours)
        metric = f"{row.part} {with_unit(row.metric)}" if row.metric else ""
        table.add_row(Text(row.recipe), metric, paper, ours, row.state)
    return table
