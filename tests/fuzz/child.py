"""A process that lives through many trials, so that a crash, a hang or a hunger for memory is seen and not suffered."""

import faulthandler
import importlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Any

#: What a trial may take: seconds, and bytes of memory above what the process has before its first one.
SECONDS, MEMORY = 20, 3 * 2**29


@dataclass(frozen=True)
class Outcome:
    """What a trial came to.

    Attributes:
        kind: "value", "error", "crash" (a signal, or the end of the process) or "hang".
        value: what the function gave, as JSON has it.
        error: the classes of the exception, from its own to Exception.
        words: the message, the signal, or where it hung.
        seconds: how long it took.
    """

    kind: str
    value: Any = None
    error: tuple[str, ...] = ()
    words: str = ""
    seconds: float = 0.0


class Child:
    """Runs functions by name in one process, which is started again after a crash.

    Args:
        path: folders that modules are imported from, besides those of this process.
        seconds: a trial may take.
        memory: bytes it may take.
    """

    def __init__(self, path: list[str] | None = None, seconds: float = SECONDS, memory: int = MEMORY) -> None:
        self._path, self._seconds, self._memory = path or [], seconds, memory
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def ask(self, module: str, function: str, *arguments: Any) -> Outcome:
        """Call `module.function(*arguments)` there; arguments and answer are what JSON can hold."""
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps([module, function, arguments]) + "\n")
            process.stdin.flush()
            answer = self._answer(process.stdout)
        except BrokenPipeError:
            answer = ""
        if answer is None:
            self._stop()
            return Outcome("hang", words=f"no answer after {self._seconds + 10:.0f} s, and killed")
        if not answer:
            code = process.wait()
            words = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            self._process = None
            return Outcome("crash", words=words)
        result = json.loads(answer)
        return Outcome(**result | {"error": tuple(result["error"])})

    def _answer(self, stdout: IO[str]) -> str | None:
        # The process watches its own time; this is for one that cannot, in a loop of compiled code. The first answer
        # also waits for imports.
        ready, _, _ = select.select([stdout], [], [], self._seconds + 40)
        return stdout.readline() if ready else None

    def _start(self) -> "subprocess.Popen[str]":
        here = [*self._path, str(Path(__file__).parent), *(place for place in sys.path if place)]
        settings = os.environ | {"PYTHONPATH": os.pathsep.join(here), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, __file__, str(self._seconds), str(self._memory)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=settings
        )
        return self._process

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def told_clearly(outcome: Outcome, kinds: tuple[str, ...] = ("ValueError", "OSError")) -> bool:
    """Whether an error is one of ours: of these classes, one line, with what was expected and what was there."""
    words = outcome.words
    return (
        outcome.kind == "error"
        and any(kind in outcome.error for kind in kinds)
        and words.count("Expected ") >= 1
        and "(got " in words
        and "\n" not in words
        and len(words) < 1500
    )


class _OverTimeError(BaseException):
    """Not an Exception: what reads a file may catch those."""


def _over_time(number: int, frame: FrameType | None) -> None:
    raise _OverTimeError("".join(traceback.format_stack(frame)[-3:]))


def _serve(seconds: float, memory: int) -> None:
    answers = os.fdopen(os.dup(1), "w")
    # What a function prints must not be taken for an answer.
    os.dup2(2, 1)
    faulthandler.disable()
    signal.signal(signal.SIGALRM, _over_time)
    limited = False
    for line in sys.stdin:
        module, function, arguments = json.loads(line)
        call = getattr(importlib.import_module(module), function)
        if not limited:
            limited = True
            held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (held + memory, held + memory))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        started = time.perf_counter()
        outcome = Outcome("value")
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            outcome = Outcome("value", value=call(*arguments))
        except _OverTimeError as error:
            outcome = Outcome("hang", words=str(error))
        except Exception as error:
            classes = [kind.__name__ for kind in type(error).__mro__[:-2]]
            outcome = Outcome("error", error=tuple(classes), words=str(error))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        result = vars(outcome) | {"seconds": time.perf_counter() - started}
        answers.write(json.dumps(result) + "\n")
        answers.flush()


if __name__ == "__main__":
    _serve(float(sys.argv[1]), int(sys.argv[2]))
