"""The console of all commands: errors, warnings and interrupts are one line, without a traceback."""

import dataclasses
import functools
import inspect
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.markup import escape
from rich.text import Text
from typer.core import TyperGroup

from esan.cli.error_text import OptionNames
from esan.cli.import_interrupts import INTERRUPTED, stoppable

P = ParamSpec("P")
R = TypeVar("R")

console = Console()

#: Exit codes: the input is wrong, esan is.
INPUT, BUG = 2, 1
#: The environment variable that asks for the traceback of every error.
TRACEBACK = "ESAN_TRACEBACK"
#: The extra of esan that brings each optional package.
EXTRAS = {
    "matplotlib": "plot",
    "numba": "fast",
    "rdkit": "molecules",
    "ogb": "molecules",
    "ray": "cluster",
    "lightning": "fabric",
    "tensorboard": "log",
    "wandb": "wandb",
}
#: What reading a user's input may raise besides the errors of this package; all else is a bug.
_OF_INPUT = (ValueError, TypeError, OSError, OverflowError, LookupError, RuntimeError, EOFError, ImportError)
#: What the parser of the command line raises: typer has it from click, or has a copy of its own.
_Usage: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


class Commands(TyperGroup):
    """The commands as one program; a command line that cannot be parsed gives one line too."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs.pop("standalone_mode", True):
            return super().main(*args, **kwargs | {"standalone_mode": False})
        try:
            code = super().main(*args, **kwargs | {"standalone_mode": False})
        except _Usage as error:
            code = _tell_usage(error)
        except (typer.Abort, KeyboardInterrupt):
            code = _tell("Interrupted.", "bold", INTERRUPTED)
        sys.exit(code if isinstance(code, int) else 0)


def plainly(command: Callable[P, R]) -> Callable[P, R]:
    """The same command; wrong input gives one line in the words of its options, with exit code 2."""
    options = OptionNames.of(command)

    @functools.wraps(command)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with stoppable(), warnings.catch_warnings():
                warnings.showwarning = functools.partial(_show, options=options)
                return command(*args, **kwargs)
        except (typer.Exit, typer.Abort, _Usage):
            raise
        except KeyboardInterrupt:
            raise typer.Exit(_tell("Interrupted.", "bold", INTERRUPTED)) from None
        except Exception as error:
            if os.environ.get(TRACEBACK):
                raise
            words = words_of(error)
            if words is not None:
                raise typer.Exit(_tell(options.worded(words), "red", INPUT)) from None
            sys.stderr.write(traceback.format_exc())
            words = f"This is a bug in esan ({type(error).__name__}): please report it with the lines above."
            raise typer.Exit(_tell(words, "red", BUG)) from None

    # A line break inside a paragraph of a docstring is none of the help. Square brackets are text, not markup.
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    wrapper.__doc__ = escape("\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs))
    return wrapper


def resumable(command: Callable[P, R]) -> Callable[P, R]:
    """The same command; when it is interrupted, it says how to continue."""

    @functools.wraps(command)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except KeyboardInterrupt as interrupt:
            # The training loop says where it stopped.
            words = str(interrupt) or (
                "Interrupted. Run the same command to continue: finished runs are stored, others have checkpoints."
            )
            raise typer.Exit(_tell(words, "bold", INTERRUPTED)) from None

    return wrapper


def words_of(error: Exception) -> str | None:
    """An error of the input in one line; None for one that can only be a bug."""
    # Here, because both load torch, which a start without errors need not wait for.
    from esan.checks import shown
    from esan.memory_limits import available_memory, in_words, is_out_of_memory

    # The words of a KeyError are the key as Python writes it.
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    text = " ".join(text.split())
    # Some begin with the file and line of what is wrong.
    if re.search(r"(^|: )Expected ", text):
        return text
    if isinstance(error, OSError) and error.errno is not None:
        # One of the system says neither what was expected nor what to do.
        place = "" if error.filename is None else f": {shown(str(error.filename))}"
        return (
            f"Expected a path that can be read or written (got {error.strerror}{place}). Check it and its permissions."
        )
    if is_out_of_memory(error):
        return (
            f"Expected the work to fit into memory (got {text[:120] or 'no more of it'}; "
            f"{in_words(available_memory())} of main memory available). Take fewer graphs, a smaller batch or a "
            "policy with fewer subgraphs."
        )
    if isinstance(error, RecursionError):
        return "Expected input that is nested less deeply (got more levels than Python follows). Flatten it."
    if isinstance(error, ImportError):
        return _missing(error, text)
    if isinstance(error, UnicodeDecodeError):
        return f"Expected text in {error.encoding} (got byte {error.start}, which is not). Is it the right file?"
    if isinstance(error, _OF_INPUT):
        return (
            f"Expected input that esan can work with (got {type(error).__name__}: {text[:200]}). Check what was given; "
            f"if it is right, this is a bug: {TRACEBACK}=1 shows where, please report it."
        )
    return None


def _missing(error: ImportError, text: str) -> str:
    """A package that is not installed, and the extra of esan that brings it."""
    package = (error.name or "").partition(".")[0]
    if package in EXTRAS:
        return f"Expected {package} (got none installed). Run: pip install 'esan[{EXTRAS[package]}]'."
    return f"Expected the package {package or 'that was asked for'} (got: {text[:200]}). Install it with pip."


def _tell(words: str, style: str, code: int) -> int:
    # Text, not markup: an error may quote square brackets.
    Console(stderr=True).print(Text(words), style=style, soft_wrap=True)
    return code


def _tell_usage(error: Any) -> int:
    """What is wrong with a command line, and where its options are listed; without one, that list itself."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return int(error.exit_code)
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "esan"
    text = " ".join(str(error.format_message()).split()).rstrip(".")
    advice = _setting(error) or f"Run {path} --help."
    return _tell(f"Expected a command line that esan knows (got: {text}). {advice}", "red", INPUT)


def _setting(error: Any) -> str:
    """How to change a field of a recipe that was given as an option, as in --epochs 5; empty for anything else."""
    asked = (getattr(error, "option_name", None) or "").removeprefix("--").replace("-", "_")
    parameters = error.ctx.command.params if asked and getattr(error, "ctx", None) is not None else []
    if not any("--set" in parameter.opts for parameter in parameters):
        return ""
    from esan.train.recipes.recipe import Recipe  # loads torch

    known = asked in {field.name for field in dataclasses.fields(Recipe)}
    return f"Fields of a recipe are changed with --set: --set {asked}=VALUE." if known else ""


def _show(message: Warning | str, *_: object, options: OptionNames, **__: object) -> None:
    """A warning in one line, without the place in the source that it comes from."""
    Console(stderr=True).print(Text(options.worded(str(message))), style="yellow", soft_wrap=True)
