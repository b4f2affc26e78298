"""Available memory, and the error for what would not fit, raised before anything is allocated."""

import os
import sys
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

#: Smaller sizes are never checked: reading the available memory would cost more.
SMALL = 2**26
#: Above this a cgroup says "no limit".
_UNLIMITED = 2**60
_CGROUPS = Path("/sys/fs/cgroup")
_PROC = Path("/proc")


#: How allocators say that there is no memory left.
_NO_MEMORY = ("not enough memory", "out of memory", "can't allocate", "cannot allocate", "unable to allocate")
#: How NVIDIA's libraries do.
_NO_MEMORY_OF_LIBRARIES = ("cublas_status_alloc_failed", "cudnn_status_alloc_failed")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    text = str(error).lower()
    return any(words in text for words in (*_NO_MEMORY, *_NO_MEMORY_OF_LIBRARIES))


def available_memory(device: torch.device | None = None, *, proc: Path = _PROC, cgroups: Path = _CGROUPS) -> int:
    """Bytes that this process can still allocate: free memory of the machine, its cgroup and its address space.

    Memory that the system uses as a cache counts as free. If the system does not say, it is all memory of the machine.

    Args:
        device: where they are to be allocated; None for the main memory.
        proc: where the system speaks of its processes.
        cgroups: where it speaks of their groups.
    """
    if device is not None and device.type == "cuda":
        held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + held
    return max(0, min([_of_machine(proc), *_of_cgroups(proc, cgroups), *_of_address_space(proc)]))


def refuse_beyond_memory(needed: int, what: str, instead: str, device: torch.device | None = None) -> None:
    """An error if `needed` bytes are more than there are; nothing is allocated.

    Args:
        needed: how many bytes at the peak; where they can only be estimated, not more, so that nothing possible is
            refused.
        what: what needs them, with its size, as in "a complete graph of 100,000 nodes".
        instead: what to do, a complete sentence.
        device: where they are to be allocated; None for the main memory.
    """
    if needed <= SMALL:
        return
    available = available_memory(device)
    if needed > available:
        raise ValueError(
            f"Expected {what} to fit into memory (got {in_words(needed)} needed, {in_words(available)} available). "
            f"{instead}"
        )


class SampledSize(NamedTuple):
    """The size of many things, estimated by the sizes of a few of them.

    Attributes:
        least: what half of them take if these have the median size of the few.
        about: what all of them take.
    """

    least: int
    about: int

    @staticmethod
    def of(sizes: Tensor, count: int) -> "SampledSize":
        """From the sizes of a few of `count` things."""
        median = int(sizes.median())
        # One hub among the few must not decide for all.
        mean = min(float(sizes.double().mean()), 4.0 * median)
        return SampledSize(median * (count // 2), int(mean * count))


def in_words(size: int) -> str:
    """A number of bytes with its unit: 3.2 GiB."""
    units = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
    power = min(max(size.bit_length() - 1, 0) // 10, len(units) - 1)
    if power == 0:
        return f"{size} bytes"
    # In integers: an impossible size may be too large for a float.
    tenths = size * 10 // 1024**power
    if tenths >= 10**8:
        return f"10^{round(size.bit_length() * 0.30103)} bytes"
    return f"{tenths // 10:,}.{tenths % 10} {units[power]}"


def _of_machine(proc: Path) -> int:
    for line in _lines(proc / "meminfo"):
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return sys.maxsize


def _of_cgroups(proc: Path, cgroups: Path) -> list[int]:
    """The memory left in each cgroup of this process, from its own up to the root, of version 1 and 2."""
    left = []
    for line in _lines(proc / "self" / "cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, limit, used, cache = cgroups, "memory.max", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            root, limit, used = cgroups / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
            cache = "total_inactive_file"
        else:
            continue
        folder = root / path.lstrip("/")
        # Seen from inside a container, its own group is the root.
        for one in (folder, *folder.parents):
            most, now = _number(one / limit), _number(one / used)
            if most is not None and now is not None and most < _UNLIMITED:
                stats = dict(line.split(maxsplit=1) for line in _lines(one / "memory.stat") if " " in line)
                left.append(most - now + int(stats.get(cache, 0)))
            if one == root:
                break
    return left


def _of_address_space(proc: Path) -> list[int]:
    """The address space left by a limit (ulimit -v)."""
    if sys.platform == "win32":
        return []
    import resource

    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    pages = _lines(proc / "self" / "statm")
    if most == resource.RLIM_INFINITY or not pages:
        return []
    return [most - int(pages[0].split()[0]) * resource.getpagesize()]


def _number(path: Path) -> int | None:
    lines = _lines(path)
    return int(lines[0]) if lines and lines[0].isdecimal() else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
