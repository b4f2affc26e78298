"""What is available is read right, and what would need more is refused with both numbers."""

import os
import resource
from functools import partial
from pathlib import Path

import pytest
import torch

from esan import memory_limits
from esan.memory_limits import available_memory, in_words, is_out_of_memory, refuse_beyond_memory


def test_available_memory_is_no_more_than_the_machine_has() -> None:
    total = resource.getpagesize() * os.sysconf("SC_PHYS_PAGES")
    assert 0 < available_memory() <= total


def test_what_fits_passes_and_what_does_not_has_both_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limits, "available_memory", lambda device=None: 3 * 2**30)
    refuse_beyond_memory(3 * 2**30, "a bag", "Take a smaller one.")
    with pytest.raises(ValueError, match=r"^Expected a bag to fit into memory \(got 3.2 GiB needed, 3.0 GiB avail"):
        refuse_beyond_memory(int(3.25 * 2**30), "a bag", "Take a smaller one.")


def test_small_sizes_are_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limits, "available_memory", lambda device=None: 1 / 0)
    refuse_beyond_memory(memory_limits.SMALL, "a graph", "Take a smaller one.")
    with pytest.raises(ZeroDivisionError):
        refuse_beyond_memory(memory_limits.SMALL + 1, "a graph", "Take a smaller one.")


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (5 * 2**30, "5.0 GiB"),
        (2**63, "8,192.0 PiB"),
        (10**400, "10^400 bytes"),
    ],
)
def test_sizes_in_words(size: int, words: str) -> None:
    assert in_words(size) == words


def test_a_size_that_python_itself_does_not_print_has_words() -> None:
    assert in_words(10**9999) == "10^9999 bytes"


@pytest.mark.parametrize(
    ("line", "limit", "used", "stat"),
    [
        ("0::/job", "memory.max", "memory.current", "inactive_file 30"),
        ("4:memory:/job", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file 30"),
    ],
)
def test_the_limit_of_a_cgroup_counts(tmp_path: Path, line: str, limit: str, used: str, stat: str) -> None:
    """The group above has the tighter limit; what the system caches of files is free."""
    proc, groups = tmp_path / "proc", tmp_path / "cgroup"
    root = groups / "memory" if line.startswith("4") else groups
    (root / "job").mkdir(parents=True)
    (proc / "self").mkdir(parents=True)
    (proc / "self" / "cgroup").write_text(line + "\n")
    (proc / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:  8 kB\n")
    found = partial(available_memory, proc=proc, cgroups=groups)
    assert found() == 8 * 1024
    (root / "job" / limit).write_text("5000\n")
    (root / "job" / used).write_text("1000\n")
    assert found() == 4000
    (root / limit).write_text("3000\n")
    (root / used).write_text("2000\n")
    (root / "memory.stat").write_text(f"cache 50\n{stat}\n")
    assert found() == 1030
    (root / limit).write_text("max\n")
    assert found() == 4000


def test_a_limit_on_the_address_space_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = (used + 2**28, resource.RLIM_INFINITY)
    monkeypatch.setattr(resource, "getrlimit", lambda which: limit if which == resource.RLIMIT_AS else None)
    assert 0 < available_memory() <= 2**28 + 2**20


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory."), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)"), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
        (ValueError("Expected a smaller bag"), False),
    ],
)
def test_errors_that_say_that_memory_ran_out(error: Exception, expected: bool) -> None:
    assert is_out_of_memory(error) == expected


def test_what_torch_cannot_allocate_says_that_memory_ran_out() -> None:
    with pytest.raises(RuntimeError) as raised:
        torch.empty(2**50)
    assert is_out_of_memory(raised.value)
