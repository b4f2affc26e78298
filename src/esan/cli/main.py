"""The command line: `esan COMMAND`. A command is a file in `esan.cli`; here it gets its name."""

from typing import Annotated

import typer

from esan.cli import (
    advise,
    bag,
    bench,
    campaign,
    compiling,
    explore,
    predict,
    report,
    reproduce,
    search,
    train,
    wl,
)
from esan.cli.plainly import Commands
from esan.version import __version__

app = typer.Typer(
    name="esan",
    cls=Commands,
    help="Subgraph graph neural networks: bags, models, and the tests that say what they can tell apart.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

app.command("bag")(bag.run)
app.command("wl")(wl.run)
app.command("explore")(explore.run)
app.command("advise")(advise.run)
app.command("train")(train.run)
app.command("predict")(predict.run)
app.command("campaign")(campaign.run)
app.command("search")(search.run)
app.command("report")(report.run)
app.command("reproduce")(reproduce.run)
app.command("bench")(bench.run)
app.command("compile")(compiling.run)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"esan {__version__}")
        raise typer.Exit


@app.callback()
def main(
    show: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which version this is, and stop.")
    ] = False,
) -> None:
    """Subgraph graph neural networks: bags, models, and the tests that say what they can tell apart."""
