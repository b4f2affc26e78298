"""How commands speak: one console, and errors and warnings in one line, without a traceback."""

import functools
import warnings
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
            with warnings.catch_warnings():
                warnings.showwarning = _show
                return command(*args, **kwargs)
        except (ValueError, TypeError, OSError) as error:
            # Text, not markup: an error may quote square brackets.
            Console(stderr=True).print(Text(_words(error)), style="red", soft_wrap=True)
            raise typer.Exit(2) from None

    return told


def resumable(command: Callable[P, R]) -> Callable[P, R]:
    """The same command; whoever interrupts it is told that nothing is lost."""

    @functools.wraps(command)
    def told(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except KeyboardInterrupt:
            words = "Interrupted. The same command goes on: what has ended is kept, the rest has checkpoints."
            Console(stderr=True).print(Text(words), style="bold", soft_wrap=True)
            raise typer.Exit(130) from None

    return told


def _show(message: Warning | str, *_: object, **__: object) -> None:
    """A warning in one line, without the place in the source that it comes from."""
    Console(stderr=True).print(Text(str(message)), style="yellow", soft_wrap=True)


def _words(error: Exception) -> str:
    # An OSError of the system says neither what was expected nor what to do; one of this package does.
    if isinstance(error, OSError) and error.errno is not None:
        place = "" if error.filename is None else f": {str(error.filename)!r}"
        return (
            f"Expected a path that can be read or written (got {error.strerror}{place}). Check it and its permissions."
        )
    return str(error)
