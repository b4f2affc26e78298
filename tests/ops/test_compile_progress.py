"""Compiling that takes long is said on stderr, once; what was compiled before is not; a missing numba is said once."""

import io
import os
import subprocess
import sys
import time
import warnings
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


def wait_of(patience: float, terminal: bool = False) -> tuple[CompileMessage, io.StringIO]:
    text = io.StringIO()
    return CompileMessage("compiling things", Console(file=text, force_terminal=terminal, width=80), patience), text


def test_long_compiling_is_said_once_and_while_it_goes_on() -> None:
    wait, text = wait_of(0.05)
    wait.begin()
    time.sleep(0.5)
    assert text.getvalue() == "compiling things\n"
    wait.end()
    wait.begin()
    time.sleep(0.2)
    wait.end()
    assert text.getvalue() == "compiling things\n"


def test_short_compiling_adds_up_and_what_is_read_does_not_count() -> None:
    wait, text = wait_of(1.0)
    for _ in range(4):
        wait.begin()
        time.sleep(0.3)
        wait.end(from_cache=True)
    assert text.getvalue() == ""
    for _ in range(5):
        wait.begin()
        time.sleep(0.3)
        wait.end()
    assert text.getvalue() == "compiling things\n"


def test_what_is_compiled_within_is_part_of_it() -> None:
    wait, text = wait_of(0.4)
    wait.begin()
    for _ in range(3):
        wait.begin()
        wait.end(from_cache=True)
    time.sleep(1.0)
    assert text.getvalue() == "compiling things\n"
    wait.end()
    wait.end()  # a second end() is ignored
    wait.begin()
    wait.end()


def test_somebody_else_may_say_it() -> None:
    wait, text = wait_of(0.0)
    with wait.silenced():
        wait.begin()
        time.sleep(0.2)
        wait.end()
    assert text.getvalue() == ""


def test_a_terminal_shows_it_while_it_lasts() -> None:
    wait, text = wait_of(0.05, terminal=True)
    wait.begin()
    time.sleep(0.5)
    wait.end()
    assert "compiling things" in text.getvalue()
    shown = len(text.getvalue())
    time.sleep(0.3)
    assert len(text.getvalue()) == shown
    wait.begin()
    time.sleep(0.3)
    wait.end()
    assert len(text.getvalue()) > shown


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


def test_kernels_say_that_they_are_compiled() -> None:
    """The hooks as Triton calls them: before a kernel is compiled, when it is there, and where it came from."""
    wait, text = wait_of(0.4)
    asked: list[str] = []
    names = ("jit_cache_hook", "jit_post_compile_hook")
    hooks = {name: lambda name=name, **given: asked.append(name) for name in names}
    knobs = SimpleNamespace(runtime=SimpleNamespace(**hooks), compilation=SimpleNamespace(listener=None))
    compile_progress.report_triton(wait, knobs)

    def compiled(seconds: float, cache_hit: bool, fails: bool = False) -> None:
        assert not knobs.runtime.jit_cache_hook(key="k", repr="r", fn=None, compile={}, is_manual_warmup=False)
        time.sleep(seconds)
        if not fails:
            knobs.compilation.listener(src=None, metadata={}, metadata_group={}, times=None, cache_hit=cache_hit)
            knobs.runtime.jit_post_compile_hook(key="k", repr="r", fn=None, compile={}, is_manual_warmup=False)

    for _ in range(3):
        compiled(0.2, cache_hit=True)
    assert text.getvalue() == ""
    compiled(0.05, cache_hit=False, fails=True)
    for _ in range(3):
        compiled(0.2, cache_hit=False)
    assert text.getvalue() == "compiling things\n"
    assert asked.count("jit_cache_hook") == 7  # a hook that was there before is still called
    assert asked.count("jit_post_compile_hook") == 6
