"""Progress messages on stderr while numba or Triton compile for more than two seconds."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from rich.console import Console
from rich.status import Status

#: Seconds of compiling without a message.
PATIENCE = 2.0


class CompileMessage:
    """The message for one kind of compiling, printed once its total time exceeds `patience`.

    On a terminal it is a status line that disappears; elsewhere one line per process.

    Args:
        message: one line.
        console: where it is printed; None for stderr.
        patience: seconds without a message.
    """

    def __init__(self, message: str, console: Console | None = None, patience: float = PATIENCE) -> None:
        self.message, self.patience = message, patience
        self._console = Console(stderr=True) if console is None else console
        self._lock = threading.RLock()
        self._depth, self._spent, self._since, self._printed = 0, 0.0, 0.0, False
        self._timer: threading.Timer | None = None
        self._status: Status | None = None

    def begin(self, silent: bool = False) -> None:
        """Compiling begins; nested calls count as part of it.

        Args:
            silent: whether no message is printed, since the caller prints its own.
        """
        with self._lock:
            self._depth += 1
            if self._depth > 1:
                return
            self._since = time.monotonic()
            if not silent and (not self._printed or self._console.is_terminal):
                self._timer = threading.Timer(max(self.patience - self._spent, 0.0), self._print)
                self._timer.daemon = True
                self._timer.start()

    def end(self, from_cache: bool = False) -> None:
        """Compiling ends.

        Args:
            from_cache: whether it was only read from disk, which does not count.
        """
        with self._lock:
            if not self._depth:
                return
            self._depth -= 1
            if self._depth:
                return
            self._spent += 0.0 if from_cache else time.monotonic() - self._since
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._status is not None:
                self._status.stop()
                self._status = None

    def _print(self) -> None:
        with self._lock:
            if not self._depth or self._status is not None:
                return
            if self._console.is_terminal:
                self._status = self._console.status(self.message)
                self._status.start()
            elif not self._printed:
                self._console.print(self.message, soft_wrap=True, highlight=False)
            self._printed = True

    @contextmanager
    def silenced(self) -> Iterator[None]:
        """Within, no message is printed: the caller prints its own."""
        self.begin(silent=True)
        try:
            yield
        finally:
            self.end()


NUMBA = CompileMessage("esan: compiling for this CPU, once per machine (ahead of use: esan compile)")
TRITON = CompileMessage("esan: compiling GPU kernels, once per machine and kind of network")


def report_numba() -> None:
    """Print a message while numba compiles functions of esan on their first call; `CompiledLoop` does so for loops."""
    try:
        from numba.core import event
    except ImportError:  # not public: another version may not have it
        return

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            if _is_ours(event):
                NUMBA.begin()

        def on_end(self, event: Any) -> None:
            if _is_ours(event):
                NUMBA.end()

    event.register("numba:compile", Listener())


def _is_ours(event: Any) -> bool:
    function = getattr(event.data.get("dispatcher"), "py_func", None)
    return getattr(function, "__module__", "").startswith("esan.")


def report_triton(message: CompileMessage | None = None, knobs: Any = None) -> None:
    """Print a message while Triton compiles kernels on their first launch; older versions without hooks print none.

    Args:
        message: the message; `TRITON` by default.
        knobs: where the hooks are set; `triton.knobs` by default.
    """
    message = TRITON if message is None else message
    try:
        knobs = import_module("triton.knobs") if knobs is None else knobs
        before, after = knobs.runtime.jit_cache_hook, knobs.runtime.jit_post_compile_hook
        listener = knobs.compilation.listener
    except (ImportError, AttributeError):
        return
    was_cached = False

    def started(**details: Any) -> Any:
        nonlocal was_cached
        was_cached = False
        if not _is_deferred():
            message.end(from_cache=True)  # of a kernel that failed to compile, the end was not reported
            message.begin()
        return None if before is None else before(**details)

    def ended(**details: Any) -> Any:
        if not _is_deferred():
            message.end(from_cache=was_cached)
        return None if after is None else after(**details)

    def compiled(**details: Any) -> None:
        nonlocal was_cached
        was_cached = bool(details.get("cache_hit"))
        if listener is not None:
            listener(**details)

    knobs.runtime.jit_cache_hook, knobs.runtime.jit_post_compile_hook = started, ended
    knobs.compilation.listener = compiled


def _is_deferred() -> bool:
    """Whether Triton compiles kernels later (its `AsyncCompileMode`), so that nothing waits here."""
    with suppress(ImportError, AttributeError):
        from triton.runtime import _async_compile

        return _async_compile.active_mode.get() is not None
    return False
