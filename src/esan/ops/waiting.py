"""Compiling that takes more than two seconds says so on stderr: once per process, or while it lasts on a terminal."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console
from rich.status import Status

#: Seconds of compiling that nothing is said about.
PATIENCE = 2.0


class Wait:
    """Compiling of one kind. What it takes is added up, and said once that is too long to wait in silence.

    Args:
        message: one line.
        console: where it is said; None for stderr.
        patience: seconds that nothing is said about.
    """

    def __init__(self, message: str, console: Console | None = None, patience: float = PATIENCE) -> None:
        self.message, self.patience = message, patience
        self._console = Console(stderr=True) if console is None else console
        self._lock = threading.RLock()
        self._depth, self._spent, self._since, self._said = 0, 0.0, 0.0, False
        self._timer: threading.Timer | None = None
        self._status: Status | None = None

    def begin(self, said: bool = True) -> None:
        """Something is compiled from now on; what is compiled within it is part of it.

        Args:
            said: whether it may be said; not where somebody else says it.
        """
        with self._lock:
            self._depth += 1
            if self._depth > 1:
                return
            self._since = time.monotonic()
            if said and (not self._said or self._console.is_terminal):
                self._timer = threading.Timer(max(self.patience - self._spent, 0.0), self._say)
                self._timer.daemon = True
                self._timer.start()

    def end(self, read: bool = False) -> None:
        """It is there.

        Args:
            read: whether it was compiled before, and only read from disk: that does not count.
        """
        with self._lock:
            if not self._depth:
                return
            self._depth -= 1
            if self._depth:
                return
            self._spent += 0.0 if read else time.monotonic() - self._since
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._status is not None:
                self._status.stop()
                self._status = None

    def _say(self) -> None:
        with self._lock:
            if not self._depth or self._status is not None:
                return
            if self._console.is_terminal:
                self._status = self._console.status(self.message)
                self._status.start()
            elif not self._said:
                self._console.print(self.message, soft_wrap=True, highlight=False)
            self._said = True

    @contextmanager
    def unsaid(self) -> Iterator[None]:
        """Within, nothing is said: somebody else says it."""
        self.begin(said=False)
        try:
            yield
        finally:
            self.end()


LOOPS = Wait("esan: compiling for this CPU, once per machine (ahead of use: esan compile)")
KERNELS = Wait("esan: compiling GPU kernels, once per machine and kind of network")


def watch_numba() -> None:
    """Say it when numba compiles functions of esan that it calls by their types; `Entry` says it for the others."""
    try:
        from numba.core import event
    except ImportError:  # of no public module: another version may not have it
        return

    class Compiled(event.Listener):
        def on_start(self, event: Any) -> None:
            if _is_ours(event):
                LOOPS.begin()

        def on_end(self, event: Any) -> None:
            if _is_ours(event):
                LOOPS.end()

    event.register("numba:compile", Compiled())


def _is_ours(event: Any) -> bool:
    function = getattr(event.data.get("dispatcher"), "py_func", None)
    return getattr(function, "__module__", "").startswith("esan.")


def watch_triton() -> None:
    """Say it when Triton compiles kernels as they are launched; older versions without the hooks say nothing."""
    try:
        from triton import knobs

        before, after = knobs.runtime.jit_cache_hook, knobs.runtime.jit_post_compile_hook
        listener = knobs.compilation.listener
    except (ImportError, AttributeError):
        return
    was_read = False

    def begins(**given: Any) -> Any:
        nonlocal was_read
        was_read = False
        if not _put_off():
            KERNELS.end(read=True)  # of one that failed, nobody has told the end
            KERNELS.begin()
        return None if before is None else before(**given)

    def ended(**given: Any) -> Any:
        if not _put_off():
            KERNELS.end(read=was_read)
        return None if after is None else after(**given)

    def heard(**given: Any) -> None:
        nonlocal was_read
        was_read = bool(given.get("cache_hit"))
        if listener is not None:
            listener(**given)

    knobs.runtime.jit_cache_hook, knobs.runtime.jit_post_compile_hook = begins, ended
    knobs.compilation.listener = heard


def _put_off() -> bool:
    """Whether Triton notes kernels and compiles them later (its `AsyncCompileMode`), so that nobody waits here."""
    with suppress(ImportError, AttributeError):
        from triton.runtime import _async_compile

        return _async_compile.active_mode.get() is not None
    return False
