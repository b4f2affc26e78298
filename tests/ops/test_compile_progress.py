"""Compiling that takes long is said on stderr, once; what was compiled before is not; a missing numba is said once."""

import io
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

import esan
from esan.ops import compile_progress
from esan.ops.compile_progress import CompileMessage
from esan.ops.numba import runtime

needs_numba = pytest.mark.skipif(find_spec("numba") is None, reason="needs the extra fast")


class Clock:
    """Time that passes only where a test says so, and timers that go off within it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.timers: list[Timer] = []
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(threading, "Timer", self.timer)

    def timer(self, seconds: float, action: Callable[[], None]) -> "Timer":
        return Timer(self, self.now + seconds, action)

    def wait(self, seconds: float) -> None:
        self.now += seconds
        for timer in [timer for timer in self.timers if timer.end <= self.now]:
            self.timers.remove(timer)
            timer.action()


@dataclass
class Timer:
    """`threading.Timer` for a `Clock`."""

    clock: Clock
    end: float
    action: Callable[[], None]
    daemon: bool = False

    def start(self) -> None:
        self.clock.timers.append(self)

    def cancel(self) -> None:
        self.clock.timers = [timer for timer in self.clock.timers if timer is not self]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def message_to_text(patience: float) -> tuple[CompileMessage, io.StringIO]:
    text = io.StringIO()
    return CompileMessage("compiling things", Console(file=text, width=80), patience), text


def test_long_compiling_is_said_once_and_while_it_goes_on(clock: Clock) -> None:
    message, text = message_to_text(2.0)
    message.begin()
    clock.wait(1.9)
    assert text.getvalue() == ""
    clock.wait(0.2)
    assert text.getvalue() == "compiling things\n"
    message.end()
    message.begin()
    clock.wait(3.0)
    message.end()
    assert text.getvalue() == "compiling things\n"


def test_short_compiling_adds_up_and_what_is_read_does_not_count(clock: Clock) -> None:
    message, text = message_to_text(2.0)
    for _ in range(3):
        message.begin()
        clock.wait(0.9)
        message.end(from_cache=True)
    for _ in range(2):
        message.begin()
        clock.wait(0.9)
        message.end()
    assert text.getvalue() == ""
    message.begin()
    clock.wait(0.3)
    assert text.getvalue() == "compiling things\n"


def test_what_is_compiled_within_is_part_of_it(clock: Clock) -> None:
    message, text = message_to_text(2.0)
    message.begin()
    for _ in range(3):
        message.begin()
        message.end(from_cache=True)
    clock.wait(2.5)
    assert text.getvalue() == "compiling things\n"
    message.end()
    message.end()  # a second end() is ignored
    message.begin()
    message.end()


def test_somebody_else_may_say_it(clock: Clock) -> None:
    message, text = message_to_text(0.0)
    with message.silenced():
        message.begin()
        clock.wait(5.0)
        message.end()
    assert text.getvalue() == ""


def test_real_time_counts() -> None:
    message, text = message_to_text(0.01)
    message.begin()
    while not text.getvalue():
        time.sleep(0.01)
    message.end()
    assert text.getvalue() == "compiling things\n"


def test_a_terminal_shows_it_while_it_lasts() -> None:
    text = io.StringIO()
    message = CompileMessage("compiling things", Console(file=text, force_terminal=True, width=80), 0.01)
    for _ in range(2):  # each time anew
        shown = len(text.getvalue())
        message.begin()
        while "compiling things" not in text.getvalue()[shown:]:
            time.sleep(0.01)
        message.end()
    shown = len(text.getvalue())
    time.sleep(0.3)  # several frames of a status line
    assert len(text.getvalue()) == shown


def run(code: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore", "-c", code, *arguments]
    return subprocess.run(command, env=os.environ | env, capture_output=True, text=True, check=True)


@needs_numba
@pytest.mark.exhaustive
def test_loops_say_that_they_are_compiled_and_are_kept(tmp_path: Path) -> None:
    code = """
import sys
from esan.ops.compile_progress import NUMBA
NUMBA.patience = float(sys.argv[1])
from esan.ops.numba import runtime
assert runtime.available()
from esan.ops.numba.loops import indices as indices_loops
from esan.ops.numba.loops import norm as norm_loops
norm_loops._merge_double.address
import numpy as np
first = NUMBA._spent
indices_loops.sort_range(np.arange(9)[::-1].copy(), 0, 9)
print(first > 0, NUMBA._spent > first)
"""
    # A busy machine may take its time to read what was kept.
    first, again = (run(code, patience, NUMBA_CACHE_DIR=str(tmp_path)) for patience in ("0.2", "60"))
    assert first.stderr == compile_progress.NUMBA.message + "\n"
    assert first.stdout == "True True\n"  # those that are called by their types count too
    assert again.stderr == ""
    assert again.stdout == "False False\n"


@pytest.mark.filterwarnings("default")
def test_loops_work_where_nothing_can_be_cached() -> None:
    """Numba refuses to cache loops where it finds no folder; they are cached for the process then."""

    def refuses(cache: bool) -> None:
        raise RuntimeError("cannot cache function: no locator available")

    numba = SimpleNamespace(njit=refuses, config=SimpleNamespace(CACHE_DIR=""))
    with pytest.warns(UserWarning, match="Set NUMBA_CACHE_DIR to a writable folder"):
        runtime._find_cache(numba)
    assert Path(numba.config.CACHE_DIR).is_dir()


def test_a_missing_numba_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "find_spec", lambda name: None)
    runtime.say_if_missing.cache_clear()
    model, bag = esan.dss_gnn(None, 8, 2, 2), esan.Bag.of([esan.graphs.cycle(4)], esan.NodeDeletion(), 2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            model(bag)
    assert len(caught) == 1
    assert "esan runs without numba" in str(caught[0].message)
    assert caught[0].filename == __file__  # blamed on who called the model
    assert "pip install 'esan[fast]'" in str(caught[0].message)


def test_the_hooks_are_where_triton_has_them() -> None:
    knobs = pytest.importorskip("triton.knobs")
    if not hasattr(knobs.runtime, "jit_post_compile_hook"):
        pytest.skip("this Triton has no hooks")
    assert hasattr(knobs.runtime, "jit_cache_hook")
    assert hasattr(knobs.compilation, "listener")


def test_kernels_say_that_they_are_compiled(clock: Clock) -> None:
    """The hooks as Triton calls them: before a kernel is compiled, when it is there, and where it came from."""
    message, text = message_to_text(2.0)
    asked: list[str] = []
    names = ("jit_cache_hook", "jit_post_compile_hook")
    hooks = {name: lambda name=name, **given: asked.append(name) for name in names}
    knobs = SimpleNamespace(runtime=SimpleNamespace(**hooks), compilation=SimpleNamespace(listener=None))
    compile_progress.report_triton(message, knobs)

    def compiled(seconds: float, cache_hit: bool, fails: bool = False) -> None:
        assert not knobs.runtime.jit_cache_hook(key="k", repr="r", fn=None, compile={}, is_manual_warmup=False)
        clock.wait(seconds)
        if not fails:
            knobs.compilation.listener(src=None, metadata={}, metadata_group={}, times=None, cache_hit=cache_hit)
            knobs.runtime.jit_post_compile_hook(key="k", repr="r", fn=None, compile={}, is_manual_warmup=False)

    for _ in range(3):
        compiled(0.9, cache_hit=True)
    assert text.getvalue() == ""
    compiled(0.9, cache_hit=False, fails=True)
    for _ in range(2):
        compiled(0.9, cache_hit=False)
    assert text.getvalue() == ""  # the one that failed does not count
    compiled(0.9, cache_hit=False)
    assert text.getvalue() == "compiling things\n"
    assert asked.count("jit_cache_hook") == 7  # a hook that was there before is still called
    assert asked.count("jit_post_compile_hook") == 6
