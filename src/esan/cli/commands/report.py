"""`esan report RUNS`: the results of a folder of runs, as one HTML page and a Markdown table."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from esan.cli.console import console, plainly
from esan.cli.tables import rows_table
from esan.plural import counted
from esan.report import gather, html, load_predictions, markdown
from esan.report.formatting import escape_markdown
from esan.train.runs.run_files import write_text


@plainly
def run(
    runs: Annotated[list[Path], typer.Argument(metavar="RUNS", help="Folders of runs, or of stored results.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="The HTML page to write (default: report.html in the first folder)."
        ),
    ] = None,
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="The heading of the page.")] = "Runs",
) -> None:
    """Write a page with tables, learning curves and the paper's numbers beside yours.

    The page is one HTML file without links to others, whose tables sort and filter and whose curves can be overlaid.
    Runs that have saved predictions get pictures of how well these agree with the targets. The tables are also written
    as Markdown beside the page. Files that cannot be read are named, and the others are used.
    """
    found = gather(runs)
    rows = found.rows()
    if not rows:
        raise ValueError(
            f"Expected records under {', '.join(map(str, runs))} (got none"
            + (f", and {counted(len(found.problems), 'file')} that cannot be read" if found.problems else "")
            + "). Train first: esan train RECIPE."
        )
    errors = Console(stderr=True)
    predictions, unread = load_predictions([folder for folder in runs if folder.is_dir()])
    problems = [*found.problems, *unread]
    for problem in problems:
        errors.print(Text(problem), style="yellow", soft_wrap=True)
    target = out or (runs[0] if runs[0].is_dir() else runs[0].parent) / "report.html"
    write_text(target, html(title, rows, problems, predictions))
    write_text(target.with_suffix(".md"), f"# {escape_markdown(title)}\n\n" + markdown(rows))
    own = [row for row in rows if "~" not in row.recipe] or rows
    console.print(rows_table([row for row in own if row.records or row.unfinished]))
    done, runs_done = sum(bool(row.records) for row in own), sum(len(row.records) for row in own)
    console.print(Text(f"{done} of {counted(len(own), 'row')} run, {counted(runs_done, 'run')}."))
    if other := len(rows) - len(own):
        console.print(Text(f"On the page: {counted(other, 'more row')} with other settings than the recipe's."))
    console.print(Text(f"Saved: {target}, {target.with_suffix('.md')}"), soft_wrap=True)
