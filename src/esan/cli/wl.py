"""`esan wl G H`: a Weisfeiler-Leman test of two graphs, with the colours of every round."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from esan import wl
from esan.cli.plainly import console, plainly
from esan.explore import Choice, save_page
from esan.explore.page import html_file
from esan.wl.kinds import test_named
from esan.wl.pictures import picture_file


@plainly
def run(
    first: Annotated[str, typer.Argument(metavar="G", help='A name ("rook", "csl(12,3)"), graph6, or a file.')],
    second: Annotated[str, typer.Argument(metavar="H", help="The other graph.")],
    policy: Annotated[
        str | None,
        typer.Option(help='"ND", "ED", "EGO(2)", "EGO+(2)", "SE", "NM"; "^" adds the graph. ED if not given.'),
    ] = None,
    test: Annotated[str, typer.Option(help=f"One of {', '.join(wl.TESTS)}.")] = "dss",
    draw: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Save a picture of the refinement, or with .html a page to step through it."),
    ] = None,
    most: Annotated[int, typer.Option(help="Different subgraphs of each graph in the picture, at most.")] = 3,
) -> None:
    """Test whether two graphs are told apart, and show how the colours part.

    Exit code 0 either way: an inconclusive test is an answer too.
    """
    kind = test_named(test)
    if most < 1:
        raise ValueError(f"Expected --most of 1 or more (got {most}). Leave it out for 3.")
    stepping = draw is not None and draw.suffix.lower() in (".html", ".htm")
    if draw is not None:
        html_file(draw) if stepping else picture_file(draw)
    chosen = ("ED" if kind.subgraphs else None) if policy is None else policy
    verdict = wl.separates(first, second, test, chosen)
    if verdict.colours:
        console.print(_table(first, second, test, chosen, verdict))
    console.print(Text(verdict.explanation), style="bold green" if verdict else "bold yellow")
    if verdict.witness is not None:
        console.print(Text(verdict.witness.text))
    if draw is not None and stepping:
        console.print(f"Page: {save_page(draw, Choice.of([first, second], test, chosen))}")
    elif draw is not None:
        wl.draw_refinement(first, second, test, chosen, path=draw, most=most, titles=(first, second))
        console.print(f"Picture: {draw}")


def _table(first: str, second: str, test: str, policy: str | None, verdict: wl.Verdict) -> Table:
    """A line a round: how many colours each graph has, and how many of them the other has as well."""
    found = wl.colourings([first, second], test, policy)
    name = f"{test} test" + (f", policy {policy}" if policy else "")
    table = Table("round", f"colours in {first}", f"in {second}", "in both", "histograms", title=name)
    last = verdict.iteration if verdict.iteration is not None else found[0].stable_after
    for number in range(last + 1):
        one, other = (set(graph.rounds[number].reshape(-1).tolist()) for graph in found)
        alike = found[0].graphs[number] == found[1].graphs[number]
        same = "equal" if alike else "[bold]different[/bold]"
        table.add_row(str(number), str(len(one)), str(len(other)), str(len(one & other)), same)
    return table
