"""Compile all loops ahead of use, in several processes; otherwise each is compiled on its first call."""

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from esan.ops.compile_progress import NUMBA
from esan.ops.numba import runtime


class LoopName(NamedTuple):
    """The module and the name of a compiled loop."""

    module: str
    name: str

    def compile(self) -> "LoopName":
        """Compile it, unless it is cached already."""
        with NUMBA.silenced():  # `esan compile` shows its own progress
            _ = getattr(import_module(self.module), self.name).address
        return self


def loops() -> list[LoopName]:
    """All loops, in both precisions."""
    if not runtime.available():
        raise ValueError("Expected numba to compile loops (got none that works). Install the extra: esan[fast].")
    from esan.ops.numba.loops.entry import CompiledLoop

    folder = Path(__file__).parent / "loops"
    modules = [f"{__package__}.loops.{path.stem}" for path in sorted(folder.glob("*.py")) if path.stem != "__init__"]
    return [
        LoopName(module, name)
        for module in modules
        for name, value in vars(import_module(module)).items()
        if isinstance(value, CompiledLoop)
    ]


def processors() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def compile_all(some: list[LoopName]) -> Iterator[LoopName]:
    """Compile loops, as many at once as there are processors; yields each when it is done."""
    with ProcessPoolExecutor(min(processors(), len(some)), mp_context=get_context("spawn")) as pool:
        yield from pool.map(LoopName.compile, some)
