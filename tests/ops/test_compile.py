"""Work that forks of this process do for what they leave on disk."""

import os
import threading
import time
from concurrent.futures import CancelledError
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("triton")

from triton.runtime._async_compile import active_mode
from triton.runtime.jit import JITFunction

from esan.ops.triton import compile as gpu_compile
from esan.ops.triton.compile import Beside, compiled_together, in_forks

MANY = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")


def note(folder: Path, number: int) -> int:
    """Leave the number of the process on disk, once; what is there already is read."""
    path = folder / str(number)
    if not path.exists():
        time.sleep(0.06)
        path.write_text(str(os.getpid()))
    return int(path.read_text())


def fail() -> None:
    raise RuntimeError("no kernel")


@MANY
def test_forks_share_the_work(tmp_path: Path) -> None:
    in_forks([partial(note, tmp_path, number) for number in range(8)])
    found = {int((tmp_path / str(number)).read_text()) for number in range(8)}
    assert len(found) > 1
    assert os.getpid() not in found


@MANY
def test_a_fork_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_compile, "_PATIENCE", 0.2)
    since = time.monotonic()
    in_forks([partial(time.sleep, 60)] * 2)
    assert time.monotonic() - since < 30


def test_results_are_those_of_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is slow, so that forks do the others; one fails here as it did there."""
    monkeypatch.setattr(gpu_compile, "_leave_on_disk", lambda job: job())
    compiler = Beside()
    asked = [compiler.submit(note, tmp_path, number) for number in range(4)]
    failed = compiler.submit(fail)
    compiler.shutdown()
    found = [future.result(0) for future in asked]
    assert found == [int((tmp_path / str(number)).read_text()) for number in range(4)]
    assert found[0] == os.getpid()
    if len(os.sched_getaffinity(0)) > 1:
        assert os.getpid() not in found[1:]
    with pytest.raises(RuntimeError, match="no kernel"):
        failed.result(0)


def test_what_is_on_disk_is_not_forked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        note(tmp_path, number)
    monkeypatch.setattr(gpu_compile, "_KEPT", 5.0)
    monkeypatch.setattr(gpu_compile, "in_forks", lambda jobs: pytest.fail("nothing is to be compiled"))
    compiler = Beside()
    asked = [compiler.submit(note, tmp_path, number) for number in range(3)]
    compiler.shutdown()
    assert [future.result(0) for future in asked] == [os.getpid()] * 3


def test_no_room_for_forks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they would have done is done here."""

    def no_room() -> int:
        raise BlockingIOError("no room for another process")

    monkeypatch.setattr(os, "fork", no_room)
    compiler = Beside()
    asked = [compiler.submit(note, tmp_path, number) for number in range(3)]
    compiler.shutdown()
    assert [future.result(0) for future in asked] == [os.getpid()] * 3


def test_nobody_waits_for_what_was_broken_off() -> None:
    """Ctrl-C while kernels are compiled: those behind are never done, and say so."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    compiler = Beside()
    asked = [compiler.submit(interrupted), compiler.submit(os.getpid)]
    with pytest.raises(KeyboardInterrupt):
        compiler.shutdown()
    for future in asked:
        with pytest.raises(CancelledError):
            future.result(0)


def test_a_kernel_that_cannot_be_compiled_leaves_no_trace() -> None:
    """Not in the mode that puts compiling off, nor in how kernels are launched."""
    launched = JITFunction.run
    for _ in range(2):
        with compiled_together():
            mode = active_mode.get()
            assert mode is not None
            assert JITFunction.run is not launched
            mode.executor.submit(fail)
        assert active_mode.get() is None
        assert JITFunction.run is launched


def test_one_thread_at_a_time() -> None:
    inside: list[bool] = []

    def enter() -> None:
        with compiled_together():
            inside.append(True)

    with compiled_together():
        other = threading.Thread(target=enter)
        other.start()
        other.join(0.1)
        assert not inside
    other.join(10)
    assert inside
