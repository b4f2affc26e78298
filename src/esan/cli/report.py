"""`esan report RUNS`: what a folder of runs has come to, as one HTML page and a Markdown table."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from esan.cli.plainly import console, plainly
from esan.report import gather, html, markdown
from esan.report.formatting import escape_markdown
from esan.train.runs.directory import write_text


@plainly
def run(
    runs: Annotated[list[Path], typer.Argument(metavar="RUNS...", help="Folders of runs, or of kept results.")],
    out: Annotated[Path | None, typer.Option(help="The page; report.html in the first folder if not given.")] = None,
    title: Annotated[str, typer.Option(help="The heading of the page.")] = "Runs",
) -> None:
    """Write a page with tables, learning curves and the paper's numbers beside ours, and the tables as Markdown.

    The page is one file that needs nothing else. Files that cannot be read are named, and all others used.
    """
    found = gather(runs)
    rows = found.rows()
    if not rows:
        raise ValueError(
            f"Expected records under {', '.join(map(str, runs))} (got none"
            + (f", and {len(found.problems)} files that cannot be read" if found.problems else "")
            + "). Train first: esan train RECIPE."
        )
    errors = Console(stderr=True)
    for problem in found.problems:
        errors.print(Text(problem), style="yellow", soft_wrap=True)
    target = out or (runs[0] if runs[0].is_dir() else runs[0].parent) / "report.html"
    write_text(target, html(title, rows, found.problems))
    write_text(target.with_suffix(".md"), f"# {escape_markdown(title)}\n\n" + markdown(rows))
    done = sum(bool(row.records) for row in rows)
    console.print(Text(f"{done} of {len(rows)} rows run, {len(found.records)} runs."))
    console.print(Text(f"Saved: {target}, {target.with_suffix('.md')}"))
