"""`esan wl G H`: a Weisfeiler-Leman test of two graphs, with the colours of every round."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from esan import wl
from esan.cli import options
from esan.cli.console import console, plainly
from esan.cli.graph_arguments import one_graph
from esan.cli.tables import plain_table
from esan.explore import Choice, save_page
from esan.explore.page import html_file
from esan.graphs.readers.one_graph import GraphLike
from esan.wl.drawing.picture_file import picture_file
from esan.wl.registry import test_named

#: Graphs with longer names, such as graph6 text, are called G and H.
_LONGEST = 16


@plainly
def run(
    first: Annotated[str, typer.Argument(metavar="G", help=f"{options.ONE_GRAPH[0].upper()}{options.ONE_GRAPH[1:]}.")],
    second: Annotated[str, typer.Argument(metavar="H", help="The other graph.")],
    policy: options.Policy = None,
    test: Annotated[str, typer.Option("--test", metavar="NAME", help=f"The test: {', '.join(wl.TESTS)}.")] = "dss",
    draw: Annotated[
        Path | None,
        typer.Option(
            "--draw", metavar="FILE", help="Save a picture of the refinement; with .html, a page to step through."
        ),
    ] = None,
    most: Annotated[
        int, typer.Option("--most", metavar="N", help="Draw at most this many different subgraphs of each graph.")
    ] = 3,
    root: options.Root = None,
    cache: options.Cache = None,
) -> None:
    """Test whether two graphs are separated, and show the colours of each round.

    The exit code is 0 whether or not the graphs are separated.
    """
    kind = test_named(test)
    if most < 1:
        raise ValueError(f"Expected --most of 1 or more (got {most}). Leave it out for 3.")
    stepping = draw is not None and draw.suffix.lower() in (".html", ".htm")
    if draw is not None:
        html_file(draw) if stepping else picture_file(draw)
    chosen = ("ED" if kind.subgraphs else None) if policy is None else policy
    pair = one_graph(first, root, cache), one_graph(second, root, cache)
    one, other = (name if len(name) <= _LONGEST else letter for name, letter in ((first, "G"), (second, "H")))
    verdict = wl.separates(*pair, test, chosen, names=(one, other))
    if verdict.colours:
        console.print(_table((one, other), pair, test, chosen, verdict))
    console.print(Text(verdict.explanation), style="bold green" if verdict else "bold yellow")
    if verdict.witness is not None:
        console.print(Text(verdict.witness.text))
    if draw is not None and stepping:
        choice = Choice.of([first, second], test, chosen, reader=lambda source: one_graph(str(source), root, cache))
        console.print(Text(f"Page: {save_page(draw, choice)}"), soft_wrap=True)
    elif draw is not None:
        wl.draw_refinement(*pair, test, chosen, path=draw, most=most, titles=(first, second))
        console.print(Text(f"Picture: {draw}"), soft_wrap=True)


def _table(
    names: tuple[str, str], pair: tuple[GraphLike, GraphLike], test: str, policy: str | None, verdict: wl.Verdict
) -> Table:
    """One row per round: how many colours each graph has, and how many of them both have."""
    found = wl.colourings(list(pair), test, policy)
    title = f"{test} test" + (f", policy {policy}" if policy else "")
    columns = ["round", *(f"colours in\n{name}" for name in names), "in both", "histograms"]
    table = plain_table([], columns, title)
    last = verdict.iteration if verdict.iteration is not None else found[0].stable_after
    for number in range(last + 1):
        mine, its = (set(graph.rounds[number].reshape(-1).tolist()) for graph in found)
        alike = found[0].graphs[number] == found[1].graphs[number]
        same = "equal" if alike else "[bold]different[/bold]"
        table.add_row(str(number), str(len(mine)), str(len(its)), str(len(mine & its)), same)
    return table
