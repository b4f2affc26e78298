"""The command line: `esan COMMAND`. Each command is a module of `esan.cli.commands`, imported when it is run."""

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.main import get_command

from esan.cli.console import Commands
from esan.cli.import_interrupts import interruptible

#: The commands, each a module of its name, with the first sentence of its help, which the list of commands shows.
COMMANDS = {
    "bag": "Show what a bag holds: subgraphs, (node, subgraph) pairs, and the rows that each layer computes.",
    "wl": "Test whether two graphs are separated, and show the colours of each round.",
    "explore": "Explore bags, subgraphs and Weisfeiler-Leman refinement in the browser.",
    "advise": "Find out whether your graphs need more than 1-WL, and the cheapest policy that suffices.",
    "train": "Train a recipe on its folds and seeds.",
    "predict": "Predict for every graph of DATA, and write a CSV file with one row per graph.",
    "campaign": "Train several recipes, each with all its folds and seeds.",
    "search": "Train every configuration of a recipe's grid, and choose the best on validation.",
    "report": "Write a page with tables, learning curves and the paper's numbers beside yours.",
    "reproduce": "Run the rows of a table of the paper, and write the table with the paper's numbers and yours.",
    "bench": "Time training epochs as esan train runs them: batches, forward, backward, optimiser and loss.",
    "compile": "Compile the CPU kernels now; otherwise each is compiled when it is first used.",
}


class LoadedCommands(Commands):
    """The commands as one program; the module of a command is imported when it is run, or asked for its help."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        name, _, rest = super().resolve_command(ctx, args)
        return name, load(str(name)), rest


def load(name: str) -> Any:
    """A command by its name, with its options."""
    with interruptible():
        run = import_module(f"esan.cli.commands.{name}").run
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(name)(run)
    return get_command(alone)


app = typer.Typer(
    name="esan",
    cls=LoadedCommands,
    help="Subgraph graph neural networks: bags, models, and the tests that say what they can tell apart.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # the list of commands is plain text: rich's Markdown takes a third of the start-up
)


def _listed() -> None:
    """Stands for a command in the list of them; `LoadedCommands` runs the command itself."""


for _name, _help in COMMANDS.items():
    app.command(_name, short_help=_help)(_listed)


def _version(asked: bool) -> None:
    if asked:
        from esan.version import __version__

        typer.echo(f"esan {__version__}")
        raise typer.Exit


@app.callback()
def main(
    show: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version, and exit.")
    ] = False,
) -> None:
    """Subgraph graph neural networks: bags, models, and the tests that say what they can tell apart."""
