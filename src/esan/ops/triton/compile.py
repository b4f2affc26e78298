"""Triton: the kernels of some work compiled side by side, before the first of them is launched."""

import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Executor, Future
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import Any
from warnings import catch_warnings, simplefilter

import torch
from triton.runtime.jit import JITFunction

from esan.ops.numba.compiling import processors
from esan.ops.waiting import KERNELS

#: Seconds in which a kernel that was compiled before is read from disk.
_KEPT = 0.05
#: Seconds after which processes that compile are given up; what they leave undone is done here.
_PATIENCE = 120.0
#: Whether kernels are compiled and not launched, in this thread.
_unlaunched: ContextVar[bool] = ContextVar("unlaunched", default=False)
#: Held by the thread whose kernels are not launched.
_alone = threading.Lock()


@contextmanager
def compiled_together() -> Iterator[None]:
    """Within, kernels are noted and not launched; in the end all of them are compiled, on all processors.

    What they would have written holds whatever its memory held, and so does what is made of that. One that cannot be
    compiled is told when it is launched. Where Triton cannot put off compiling (or interprets), kernels are compiled
    one by one, and launched.
    """
    try:
        from triton.runtime._async_compile import AsyncCompileMode
    except ImportError:
        yield
        return
    compiler = Beside()
    # Gradients are found in this thread, where the mode holds.
    here = torch.autograd.set_multithreading_enabled(False)
    with _alone, _not_launched(), here, AsyncCompileMode(compiler, ignore_errors=True):
        try:
            yield
        finally:
            compiler.shutdown()


class Beside(Executor):
    """Does what is submitted when it is shut down: in this process, once others have left the results on disk.

    Triton's compiler holds Python's lock, so that threads would wait for one another. Processes do not; they are forks
    of this one, that never touch the GPU, and what they compile is found in Triton's cache.
    """

    def __init__(self) -> None:
        self._asked: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self._asked.append((Future(), partial(fn, *args, **kwargs)))
        return self._asked[-1][0]

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002
        asked, self._asked = self._asked, []
        try:
            _compile(asked)
        finally:
            # Whoever waits for them must not wait for ever.
            for future, _ in asked:
                if not future.done():
                    future.set_exception(CancelledError())


def _compile(asked: list[tuple[Future[Any], Callable[[], Any]]]) -> None:
    alone = True
    with ExitStack() as waiting:
        for place, (future, compile_kernel) in enumerate(asked):
            since = time.perf_counter()
            try:
                future.set_result(compile_kernel())
            except Exception as error:
                future.set_exception(error)
            if alone and time.perf_counter() - since > _KEPT:
                alone = False
                KERNELS.begin()
                waiting.callback(KERNELS.end)
                in_forks([partial(_leave_on_disk, job) for _, job in asked[place + 1 :]])


def in_forks(jobs: Sequence[Callable[[], Any]]) -> None:
    """Do these in forks of this process, one a processor, for what they leave on disk; failures are not told."""
    forks = min(len(jobs), _processors())
    if forks < 2:
        return
    # A byte a job: whoever reads it does that job.
    taken, given = os.pipe()
    os.write(given, bytes(range(min(len(jobs), 256))))
    os.close(given)
    running: list[int] = []
    try:
        with catch_warnings(), suppress(OSError):  # with fewer forks, or none, if there is no room for more
            simplefilter("ignore", DeprecationWarning)  # that threads are not forked is meant
            while len(running) < forks:
                running.append(_fork(jobs, taken))
        end = time.monotonic() + _PATIENCE
        while running and time.monotonic() < end:
            time.sleep(0.005)
            running = [child for child in running if not _ended(child)]
    finally:
        os.close(taken)
        for child in running:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _processors() -> int:
    """How many this process may fork for: none where it cannot fork."""
    return processors() if hasattr(os, "fork") else 0


def _ended(child: int) -> bool:
    try:
        return os.waitpid(child, os.WNOHANG)[0] == child
    except ChildProcessError:  # somebody else was told
        return True


def _fork(jobs: Sequence[Callable[[], Any]], taken: int) -> int:
    child = os.fork()
    if child:
        return child
    # Nothing may be collected that lies on the GPU.
    gc.disable()
    try:
        while number := os.read(taken, 1):
            with suppress(Exception):
                jobs[number[0]]()
    finally:
        os._exit(0)


def _leave_on_disk(compile_kernel: Callable[[], Any]) -> None:
    from triton.runtime import driver

    kernel = compile_kernel()
    # What launches it may be compiled too, for every list of arguments.
    driver.active.launcher_cls(kernel.src, kernel.metadata)


@contextmanager
def _not_launched() -> Iterator[None]:
    run = JITFunction.run

    def compiled(kernel: Any, *args: Any, warmup: bool, **choices: Any) -> Any:
        return run(kernel, *args, warmup=warmup or _unlaunched.get(), **choices)

    before = _unlaunched.set(True)
    JITFunction.run = compiled
    try:
        yield
    finally:
        JITFunction.run = run
        _unlaunched.reset(before)
