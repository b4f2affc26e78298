"""How commands speak: one console, and an error in one line instead of a traceback."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.text import Text

P = ParamSpec("P")
R = TypeVar("R")

console = Console()


def plainly(command: Callable[P, R]) -> Callable[P, R]:
    """The same command; what the user got wrong is told in one line, with exit code 2."""

    @functools.wraps(command)
    def told(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except (ValueError, TypeError, FileNotFoundError) as error:
            # Text, not markup: an error may quote square brackets.
            Console(stderr=True).print(Text(str(error)), style="red", soft_wrap=True)
            raise typer.Exit(2) from None

    return told
