"""All loops for a CPU compiled at once, in several processes; otherwise each is compiled when it is first entered."""

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from esan.ops.numba import runtime as cpu
from esan.ops.waiting import LOOPS


class Loop(NamedTuple):
    """Where a loop is entered: a module, and its name there."""

    module: str
    name: str

    def compile(self) -> "Loop":
        """Compile it, or see that it is kept already."""
        with LOOPS.unsaid():  # `esan compile` shows how far it is
            _ = getattr(import_module(self.module), self.name).address
        return self


def loops() -> list[Loop]:
    """All loops, in both precisions."""
    if not cpu.available():
        raise ValueError("Expected numba, which compiles loops (got none that works). Install the extra: esan[fast].")
    from esan.ops.numba.loops.entry import Entry

    folder = Path(__file__).parent / "loops"
    modules = [f"{__package__}.loops.{path.stem}" for path in sorted(folder.glob("*.py")) if path.stem != "__init__"]
    return [Loop(at, name) for at in modules for name, x in vars(import_module(at)).items() if isinstance(x, Entry)]


def processors() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def compile_all(some: list[Loop]) -> Iterator[Loop]:
    """Compile loops, as many at once as there are processors; each is given when it is there."""
    with ProcessPoolExecutor(min(processors(), len(some)), mp_context=get_context("spawn")) as pool:
        yield from pool.map(Loop.compile, some)
