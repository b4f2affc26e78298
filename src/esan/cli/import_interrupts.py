"""Ctrl-C while modules are imported ends the process with one line."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

#: The exit code after Ctrl-C, as shells have it.
INTERRUPTED = 130


@contextmanager
def interruptible() -> Iterator[None]:
    """End the process at once if it is interrupted in this block, with one line and no traceback.

    An exception would not do: a module that is interrupted half-way may catch it, or report it as an import error.
    Nothing is lost, since a process that is still loading has not started any work. A handler set by somebody
    else, or an interrupt that is ignored, stays.
    """
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not usual or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def stoppable() -> Iterator[None]:
    """Inside `interruptible`, raise KeyboardInterrupt again: a command that works may have something to save."""
    if signal.getsignal(signal.SIGINT) is not _stop:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, _stop)


def _stop(_signal: int, _frame: object) -> None:
    sys.stdout.flush()
    sys.stderr.write("Interrupted.\n")
    sys.stderr.flush()
    os._exit(INTERRUPTED)
