"""Executors: where the tasks of a campaign run: `Serial` in this process, `Processes` in several of this machine."""

import gc
import os
import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Protocol, TypeVar

import torch

from esan.checks import whole_number
from esan.memory_limits import is_out_of_memory

Item = TypeVar("Item")

#: The most processes, and threads of each: each loads torch, and no machine has more processors.
MOST_WORKERS = 4096


@dataclass(frozen=True)
class Failure:
    """Why a task failed.

    Attributes:
        reason: one line.
        trace: the traceback; empty if the process died.
        out_of_memory: whether memory ran out, which others may have taken.
    """

    reason: str
    trace: str = ""
    out_of_memory: bool = False


@dataclass(frozen=True)
class TaskResult:
    """The end of a task.

    Attributes:
        index: of its item.
        failure: None if it succeeded.
    """

    index: int
    failure: Failure | None = None


class Executor(Protocol):
    """Calls `work` on every item, in any place and order, and reports the end of each.

    The results of work are the files that it writes; nothing else is returned. Work must be safe to start again: an
    executor may repeat an item when its process or machine is gone, but never runs an item twice at the same time.
    """

    def map(self, work: Callable[[Item], object], items: Sequence[Item]) -> Iterator[TaskResult]:
        """One `TaskResult` per item, in the order in which they end."""
        ...


def run_task(work: Callable[[Item], object], item: Item) -> Failure | None:
    """Run a task; an exception is returned as `Failure`, so that one failed item does not stop the others."""
    try:
        work(item)
    except Exception as error:
        message = str(error) or "no message"
        if is_out_of_memory(error):
            return Failure(_beyond_memory(message), out_of_memory=True)  # no trace: nothing is wrong with the input
        reason = message if isinstance(error, ValueError | OSError) else f"{type(error).__name__}: {message}"
        return Failure(reason, traceback.format_exc())
    return None


def _beyond_memory(message: str) -> str:
    """What to do where memory ran out; of torch's message, which lists all processes, the first two sentences."""
    said = ". ".join(message.splitlines()[0].split(". ")[:2]).removesuffix(".")
    return (
        f"Expected the runs to fit into memory (got {said}). Train fewer of a recipe together, as with --together 5, "
        "or use fewer workers."
    )


class Serial:
    """One item after another, in this process."""

    def map(self, work: Callable[[Item], object], items: Sequence[Item]) -> Iterator[TaskResult]:
        for index, item in enumerate(items):
            yield TaskResult(index, run_task(work, item))

    def __repr__(self) -> str:
        return "Serial()"


class Processes:
    """Items in spawned processes of this machine, which are reused for the next items.

    The item of a process that dies is given to a new process, at most `retries` times. The workers end with this
    process, however it ends, so that a campaign that is started again never meets them. Stopped early, a worker first
    writes the checkpoints of its runs. A script needs `if __name__ == "__main__":`, as always with spawned processes.

    Args:
        workers: how many; None for one per processor, or one per GPU of `gpus`.
        threads: CPU threads per worker.
        retries: how often an item is repeated when its process has died.
        gpus: values of CUDA_VISIBLE_DEVICES for the workers in turn; empty to leave it unset.
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

    def map(self, work: Callable[[Item], object], items: Sequence[Item]) -> Iterator[TaskResult]:
        waiting, tries = deque(range(len(items))), [0] * len(items)
        workers = [_Worker(self, number) for number in range(min(self.workers, len(items)))]
        idle, busy = workers.copy(), dict[Connection, tuple[_Worker, int]]()
        try:
            while waiting or busy:
                while waiting and idle:
                    worker, index = idle.pop(), waiting.popleft()
                    tries[index] += 1
                    busy[worker.submit(work, items[index])] = (worker, index)
                for pipe in wait(list(busy)):
                    assert isinstance(pipe, Connection)
                    worker, index = busy.pop(pipe)
                    idle.append(worker)
                    try:
                        failure = pipe.recv()
                    except (EOFError, ConnectionResetError):
                        code = worker.close()
                        if tries[index] <= self.retries:
                            waiting.append(index)
                            continue
                        crashes = "1 crash" if tries[index] == 1 else f"{tries[index]} crashes"
                        failure = Failure(
                            f"Expected the worker to finish (got {crashes}, last exit code {code}). If memory ran out, "
                            "use fewer workers."
                        )
                    yield TaskResult(index, failure)
        finally:
            for worker in workers:
                worker.stop()

    def __repr__(self) -> str:
        return f"Processes(workers={self.workers}, threads={self.threads})"


class _Worker:
    """One process, started with its first item, and again after its death."""

    def __init__(self, owner: Processes, number: int) -> None:
        self.threads, self.name = owner.threads, f"esan-worker-{number}"
        self.gpu = owner.gpus[number % len(owner.gpus)] if owner.gpus else None
        self.process: SpawnProcess | None = None
        self.pipe: Connection | None = None

    def submit(self, work: Callable[[Any], object], item: Any) -> Connection:
        if self.process is not None and not self.process.is_alive():
            self.close()
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
        # Libraries read these when they are imported, which in the worker happens before its first line.
        with _environment(OMP_NUM_THREADS=threads, NUMBA_NUM_THREADS=threads, CUDA_VISIBLE_DEVICES=self.gpu):
            self.process.start()
        theirs.close()  # otherwise the death of the worker would not close the pipe

    def close(self) -> int | None:
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
        self.close()


def _serve(pipe: Connection, threads: int) -> None:
    """The main loop of a worker: run items until the pipe is closed."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # Ctrl-C reaches all processes of a terminal; the campaign ends its workers itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # `_Worker.stop` ends a training like an interrupt, which writes checkpoints first.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    torch.set_num_threads(threads)
    try:
        while True:
            work, item = pipe.recv()
            failure = run_task(work, item)
            _release_memory()
            pipe.send(failure)
    except (EOFError, KeyboardInterrupt):
        return


def _release_memory() -> None:
    """Give back what torch keeps of a GPU's memory for its next tensors: other workers may need it first."""
    if torch.cuda.is_initialized():
        with suppress(Exception):  # a device that has failed says so to the next run
            gc.collect()
            torch.cuda.empty_cache()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        # Not sys.exit, which ends only this thread: the task must stop, or it would run beside a restarted campaign.
        os._exit(1)


@contextmanager
def _environment(**values: str | None) -> Iterator[None]:
    """Environment variables for processes that are started inside; None leaves one unchanged."""
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
