"""Executors: every item ends once, errors are reported, and a process that dies costs a try, not the campaign."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from esan.train.campaigns.executors import Executor, Processes, Serial, TaskResult


class Note:
    """Work that writes one line per try to a file, and fails or dies on request."""

    def __init__(self, folder: Path, bad: str = "", deaths: dict[str, int] | None = None) -> None:
        self.folder, self.bad, self.deaths = folder, bad, deaths or {}

    def __call__(self, item: str) -> None:
        with (self.folder / item).open("a") as file:
            file.write(f"{os.getpid()}\n")
        if item == self.bad:
            raise ValueError("Expected something else (got this).")
        if len(tries(self.folder, item)) <= self.deaths.get(item, 0):
            os.kill(os.getpid(), signal.SIGKILL)


def tries(folder: Path, item: str) -> list[str]:
    return (folder / item).read_text().split()


def outcomes(executor: Executor, work: Callable[[str], None], items: list[str]) -> dict[int, TaskResult]:
    ended = list(executor.map(work, items))
    assert sorted(done.index for done in ended) == list(range(len(items)))
    return {done.index: done for done in ended}


def test_here_every_item_ends_once_and_a_failure_does_not_end_the_others(tmp_path: Path) -> None:
    items = ["a", "b", "c"]
    ended = outcomes(Serial(), Note(tmp_path, bad="b"), items)
    assert [tries(tmp_path, item) for item in items] == [[str(os.getpid())]] * 3
    assert [ended[i].failure is None for i in range(3)] == [True, False, True]
    failure = ended[1].failure
    assert failure is not None
    assert failure.reason == "Expected something else (got this)."
    assert "Traceback" in failure.trace


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", [torch.OutOfMemoryError, RuntimeError, MemoryError])
def test_where_memory_ran_out_the_reason_is_one_line(kind: type[Exception]) -> None:
    """Torch's own message goes on with the memory of all processes."""
    words = "CUDA out of memory. Tried to allocate 1022.00 MiB. GPU 0 has 139.80 GiB. Process 1886 has 66.00 MiB.\nMore"

    def work(_: str) -> None:
        raise kind(words)

    (done,) = Serial().map(work, ["one"])
    assert done.failure is not None
    assert done.failure.reason == (
        "Expected the runs to fit into memory (got CUDA out of memory. Tried to allocate 1022.00 MiB). Train fewer of "
        "a recipe together, as with --together 5, or use fewer workers."
    )


def test_processes_end_every_item_once_though_one_dies(tmp_path: Path) -> None:
    """One item kills its process and may not try again, one fails, and the others share a process."""
    items = ["deadly", "bad", "a", "b"]
    work = Note(tmp_path, bad="bad", deaths={"deadly": 9})
    ended = outcomes(Processes(workers=1, retries=0), work, items)
    assert [len(tries(tmp_path, item)) for item in items] == [1, 1, 1, 1]
    reasons = ["" if done.failure is None else done.failure.reason for _, done in sorted(ended.items())]
    assert "got 1 crash, last exit code -9" in reasons[0]
    assert reasons[1:] == ["Expected something else (got this).", "", ""]
    used = [tries(tmp_path, item)[0] for item in items]
    assert str(os.getpid()) not in used
    assert len(set(used)) == 2
    assert len(set(used[1:])) == 1


def test_what_cannot_be_sent_is_reported_at_once_and_no_process_is_left(tmp_path: Path) -> None:
    with pytest.raises((AttributeError, TypeError), match="pickle"):
        list(Processes(workers=1).map(lambda item: None, ["a"]))
    assert not multiprocessing.active_children()


SCRIPT = """
import sys, time
from pathlib import Path
sys.path.insert(0, {here!r})
from test_executors import sleep_and_write
from esan.train.campaigns.executors import Processes

if __name__ == "__main__":
    list(Processes(workers=1).map(sleep_and_write, [{folder!r}]))
"""


def sleep_and_write(folder: str) -> None:
    (Path(folder) / "pid").write_text(str(os.getpid()))
    time.sleep(300)
    (Path(folder) / "too late").touch()


@pytest.mark.exhaustive
def test_workers_end_when_their_campaign_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(here=str(Path(__file__).parent), folder=str(tmp_path)))
    campaign = subprocess.Popen([sys.executable, str(script)])
    pid = tmp_path / "pid"
    try:
        assert _within(300, lambda: pid.exists() and bool(pid.read_text()))
        campaign.kill()
        assert _within(60, lambda: not _alive(int(pid.read_text()))), "the worker lives on beside a new campaign"
    finally:
        campaign.kill()
        campaign.wait()


def _within(seconds: float, true: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def _alive(pid: int) -> bool:
    try:
        # A zombie has ended; it only waits for somebody to ask.
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("wrong", [{"workers": 0}, {"threads": 0}, {"retries": -1}])
def test_impossible_numbers_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="of at least"):
        Processes(**wrong)  # type: ignore[arg-type]
