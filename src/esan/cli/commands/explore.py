"""`esan explore [G [H]]`: bags, subgraphs and refinement in the browser, from this machine or as one file."""

import webbrowser
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer
from rich.text import Text

from esan import wl
from esan.cli.console import console, plainly
from esan.explore import Choice, Server, save_page
from esan.explore.page import html_file
from esan.graphs.readers.files import is_file
from esan.wl.registry import test_named


@plainly
def run(
    first: Annotated[
        str | None, typer.Argument(metavar="[G]", help='A name ("rook", "petersen"), graph6, "smiles:CCO", or a file.')
    ] = None,
    second: Annotated[str | None, typer.Argument(metavar="[H]", help="Another graph to compare it with.")] = None,
    policy: Annotated[
        str | None, typer.Option(metavar="NAME", help='ND, ED, NM, SE, "EGO(2)", "EGO+(2)" (default: ED).')
    ] = None,
    test: Annotated[str, typer.Option(metavar="NAME", help=f"The test: {', '.join(wl.TESTS)}.")] = "dss",
    export: Annotated[
        Path | None, typer.Option(metavar="HTML", help="Write one self-contained file instead of serving the page.")
    ] = None,
    file: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A file the page may read graphs from; repeat for more."),
    ] = None,
    port: Annotated[int, typer.Option(metavar="N", help="The port on this machine; 0 for any free one.")] = 0,
    link: Annotated[
        str | None, typer.Option(metavar="LINK", help="Open the view of a link copied from the page.")
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
) -> None:
    """Explore bags, subgraphs and Weisfeiler-Leman refinement in the browser.

    Without a graph the page opens with its first story. The server listens on this machine only; Ctrl-C ends it.
    """
    if export is not None:
        html_file(export)
        if link is not None:
            raise ValueError("Expected --link without --export (got both). Name the graphs instead.")
    files = [str(one) for one in file or []]
    for one in files:
        if not Path(one).is_file():
            raise FileNotFoundError(f"Expected a file (got {one!r}, which is not there). Check the path.")
    choice = _choice(first, second, test, policy)
    if export is not None:
        console.print(Text(f"Page: {save_page(export, choice)}"), soft_wrap=True)
        return
    named = [text for text in (first, second) if text is not None]
    files += [path for text in named if (path := _file_of(text)) is not None and path not in files]
    server = Server(choice, files, port)
    url = server.url + (f"#{urlsplit(link).fragment}" if link else "")
    console.print(Text(f"Explorer: {url}"), soft_wrap=True)
    console.print("Ctrl-C ends it.")
    if browser:
        webbrowser.open(url)
    try:
        server.serve()
    except KeyboardInterrupt:
        console.print("Ended.")


def _choice(first: str | None, second: str | None, test: str, policy: str | None) -> Choice | None:
    if first is None:
        return None
    chosen = ("ED" if test_named(test).subgraphs else None) if policy is None else policy
    return Choice.of([first] if second is None else [first, second], test, chosen)


def _file_of(text: str) -> str | None:
    """The file that a text names, with or without a line behind it."""
    whole, (file, _, line) = text, text.rpartition(":")
    for path in (whole, file if line.isdecimal() else ""):
        if path and is_file(path):
            return path
    return None
