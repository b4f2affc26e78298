"""What a run runs on: versions, hardware, memory, the time of day."""

import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

import torch

from esan.version import __version__


def versions() -> dict[str, str]:
    """Of esan and what its numbers depend on."""
    names = ("torch", "torch-geometric", "numpy", "torchmetrics", "scikit-learn")
    return {"python": platform.python_version(), "esan": __version__} | {name: _version(name) for name in names}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def hardware(device: torch.device) -> str:
    """The device in words."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    kind = platform.processor() or platform.machine()
    return f"{kind} with {torch.backends.cpu.get_cpu_capability()}, {torch.get_num_threads()} threads"


def peak_bytes(device: torch.device) -> int:
    """The most memory that was in use: on a GPU what torch held there, else what the process had; 0 where unknown."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if sys.platform == "win32":
        return 0
    import resource

    # The unit of the system: kilobytes on Linux, bytes on macOS.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def now() -> str:
    """The time of day, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")
