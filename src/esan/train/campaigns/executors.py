"""Executors: where the pieces of a campaign run. Here, one after another, or in processes of this machine."""

import os
import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Protocol, TypeVar

import torch

from esan.checks import whole_number

Item = TypeVar("Item")

#: Processes, and threads of each, at most: each has torch loaded, and no machine has more processors.
MOST_WORKERS = 4096


@dataclass(frozen=True)
class Failure:
    """Why a piece of work did not end well.

    Attributes:
        reason: one line.
        trace: where it happened, for who wants to know more; empty if the process is gone.
    """

    reason: str
    trace: str = ""


@dataclass(frozen=True)
class Done:
    """A piece of work that has ended.

    Attributes:
        index: which of the items.
        failure: None if it ended well.
    """

    index: int
    failure: Failure | None = None


class Executor(Protocol):
    """Runs `work` on every item, wherever it likes, and says of each when it has ended.

    What work gives is what it has written to its run folder; nothing else comes back. So work must be safe to start
    again: an executor may run an item anew when the process or machine that had it is gone, and never runs an item
    in two places knowingly.
    """

    def map(self, work: Callable[[Item], object], items: Sequence[Item]) -> Iterator[Done]:
        """A `Done` for each item exactly once, in the order in which they end."""
        ...


def tried(work: Callable[[Item], object], item: Item) -> Failure | None:
    """Do the work; what goes wrong is given back, so that one failed item does not end the others."""
    try:
        work(item)
    except Exception as error:
        words = str(error) or "no message"
        reason = words if isinstance(error, ValueError | OSError) else f"{type(error).__name__}: {words}"
        return Failure(reason, traceback.format_exc())
    return None


class Serial:
    """One item after another, in this process."""

    def map(self, work: Callable[[Item], object], items: Sequence[Item]) -> Iterator[Done]:
        for index, item in enumerate(items):
            yield Done(index, tried(work, item))

    def __repr__(self) -> str:
        return "Serial()"


class Processes:
    """Items in processes of this machine, each started afresh (spawn) and kept for the next item.

    A process that dies takes one item with it: that item is given to a new process, `retries` times at most. When this
    process ends in whatever way, its workers end too, so that a campaign started again never meets an older self.
    A script that uses it needs `if __name__ == "__main__":`, as always with spawned processes.

    Args:
        workers: how many at a time; None for one a processor, or one a GPU of `gpus`.
        threads: how many threads of a processor each may use.
        retries: how often an item is given to another process when its process has died.
        gpus: names for CUDA_VISIBLE_DEVICES, dealt out to the workers in turn; empty to leave that alone.
    """

    def __init__(
        self, workers: int | None = None, threads: int = 1, retries: int = 2, gpus: Sequence[str | int] = ()
    ) -> None:
        if workers is None:
            workers = len(gpus) or os.cpu_count() or 1
        self.workers = whole_number("workers", workers, 1, "Pass e.g. workers=2.", MOST_WORKERS)
        self.threads = whole_number("threads", threads, 1, "Leave it out for 1.", MOST_WORKERS)
        self.retries = whole_number("retries", retries, 0, "Leave it out for 2.", 1000)
        self.gpus = tuple(str(gpu) for gpu in gpus)

    def map(self, work: Callable[[Item], object], items: Sequence[Item]) -> Iterator[Done]:
        waiting, tries = deque(range(len(items))), [0] * len(items)
        workers = [_Worker(self, number) for number in range(min(self.workers, len(items)))]
        idle, busy = workers.copy(), dict[Connection, tuple[_Worker, int]]()
        try:
            while waiting or busy:
                while waiting and idle:
                    worker, index = idle.pop(), waiting.popleft()
                    tries[index] += 1
                    busy[worker.ask(work, items[index])] = (worker, index)
                for pipe in wait(list(busy)):
                    assert isinstance(pipe, Connection)
                    worker, index = busy.pop(pipe)
                    idle.append(worker)
                    try:
                        failure = pipe.recv()
                    except (EOFError, ConnectionResetError):
                        code = worker.bury()
                        if tries[index] <= self.retries:
                            waiting.append(index)
                            continue
                        failure = Failure(
                            f"Expected a process that lives to its end (got {tries[index]} that died, the last with "
                            f"exit code {code}). Where memory ran out, use fewer workers."
                        )
                    yield Done(index, failure)
        finally:
            for worker in workers:
                worker.stop()

    def __repr__(self) -> str:
        return f"Processes(workers={self.workers}, threads={self.threads})"


class _Worker:
    """One process, started when it is first asked, and again when it is asked after its death."""

    def __init__(self, owner: Processes, number: int) -> None:
        self.threads, self.name = owner.threads, f"esan-worker-{number}"
        self.gpu = owner.gpus[number % len(owner.gpus)] if owner.gpus else None
        self.process: SpawnProcess | None = None
        self.pipe: Connection | None = None

    def ask(self, work: Callable[[Any], object], item: Any) -> Connection:
        if self.process is not None and not self.process.is_alive():
            self.bury()
        if self.process is None:
            self._start()
        assert self.pipe is not None
        self.pipe.send((work, item))
        return self.pipe

    def _start(self) -> None:
        spawn = get_context("spawn")
        self.pipe, theirs = spawn.Pipe()
        self.process = spawn.Process(target=_serve, args=(theirs, self.threads), name=self.name, daemon=True)
        threads = str(self.threads)
        # Libraries read these when they are loaded, which in the worker happens before its first line.
        with _environment(OMP_NUM_THREADS=threads, NUMBA_NUM_THREADS=threads, CUDA_VISIBLE_DEVICES=self.gpu):
            self.process.start()
        theirs.close()  # or the death of the worker would not close the pipe

    def bury(self) -> int | None:
        assert self.process is not None
        assert self.pipe is not None
        self.process.join()
        self.pipe.close()
        code, self.process, self.pipe = self.process.exitcode, None, None
        return code

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.terminate()
        self.process.join(5)
        if self.process.is_alive():
            self.process.kill()
        self.bury()


def _serve(pipe: Connection, threads: int) -> None:
    """What a worker does: items, until nobody asks any more."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # Ctrl-C reaches all processes of a terminal; the campaign ends its workers itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)
    while True:
        try:
            work, item = pipe.recv()
        except EOFError:
            return
        pipe.send(tried(work, item))


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        # Not sys.exit, which ends this thread alone: the work must stop, or it would go on beside a campaign that is
        # started again.
        os._exit(1)


@contextmanager
def _environment(**values: str | None) -> Iterator[None]:
    """Variables of the environment for processes that are started within; None leaves one alone."""
    before = {name: os.environ.get(name) for name, value in values.items() if value is not None}
    os.environ.update({name: value for name, value in values.items() if value is not None})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
