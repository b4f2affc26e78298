"""How compiled loops run on a CPU: whether they can, and on torch's own threads."""

import atexit
import ctypes
import os
import tempfile
import warnings
from array import array
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from esan.ops.waiting import watch_numba

#: Lines that are one piece of work. Sums are taken piece by piece and then added up in order, so they do not depend on
#: how many threads there were; 128 lines of width 64 stay in the nearest cache.
PIECE = 128


@cache
def available() -> bool:
    """Whether the compiled loops can be used here: numba is installed (the extra `fast`), and works.

    Where Triton's kernels are interpreted, for tests, they have the rows.
    """
    if find_spec("numba") is None or os.environ.get("TRITON_INTERPRET") == "1":
        return False
    try:
        import numba
    except Exception as error:
        warnings.warn(
            f"Expected a numba that can be imported (got: {error}). Everything works without it, but more slowly; "
            "install versions of numba and numpy that fit each other.",
            stacklevel=2,
        )
        return False
    watch_numba()
    _find_cache(numba)
    return True


def _find_cache(numba: Any) -> None:
    """Let numba keep loops for this process alone where it can write neither here nor in the user's cache."""
    try:
        numba.njit(cache=True)(_find_cache)  # nothing is compiled: it looks for a folder
    except RuntimeError:
        folder = tempfile.TemporaryDirectory(prefix="esan-loops-")
        atexit.register(folder.cleanup)
        numba.config.CACHE_DIR = folder.name
        warnings.warn(
            "Expected a folder to keep compiled loops in (got none that can be written), so that each process compiles "
            "them anew. Set NUMBA_CACHE_DIR to a folder that can be written.",
            stacklevel=3,
        )


@cache
def say_if_missing() -> None:
    """A warning, once, that networks on a CPU run without compiled loops since numba is not installed."""
    if find_spec("numba") is None and os.environ.get("TRITON_INTERPRET") != "1":
        warnings.warn(
            "esan runs without numba, and networks on a CPU are slower: install it with pip install 'esan[fast]'.",
            stacklevel=7,  # past this function, `say_if_slow`, the model and torch, to who called the model
        )


def pieces(lines: int, size: int = PIECE) -> int:
    """How many pieces of work so many lines are."""
    return -(-lines // size)


def run(loops: tuple[Any, Any], like: Tensor, count: int, *arguments: Tensor | int | None) -> None:
    """Do the pieces 0, ..., count - 1 of a compiled loop, on torch's threads.

    Args:
        loops: the loop for single and for double precision.
        like: a tensor of the precision that is meant.
        count: how many pieces there are.
        arguments: tensors (contiguous; the loop gets their addresses), numbers, or None for an absent tensor.
    """
    if count == 0:
        return
    values = [0, count]
    values += [_address(x) if isinstance(x, Tensor) else 0 if x is None else x for x in arguments]
    block = array("q", values)
    at, loop, threads = block.buffer_info()[0], loops[like.dtype == torch.float64], torch.get_num_threads()
    team = _team() if min(threads, count) > 1 else None
    if team is None:
        loop.ctypes(at)
    else:
        team(loop.address, at, threads, 0)


def _address(table: Tensor) -> int:
    if not table.is_contiguous():
        raise ValueError(f"Expected a contiguous tensor (got strides {table.stride()}). Call contiguous() on it first.")
    return table.data_ptr()


@cache
def blas(kind: torch.dtype) -> int:
    """The address of the matrix product that torch itself uses, 0 if it cannot be found.

    Only those that stay on the thread of a team that calls them, and whose counts are of 32 bits: MKL's, and that of an
    OpenBLAS which shares torch's OpenMP, as it comes with torch for Arm.
    """
    name = "sgemm_" if kind == torch.float32 else "dgemm_"
    mkl = torch.backends.mkl.is_available()
    for path in _libraries("libtorch_cpu.*" if mkl else "libopenblas*"):
        try:
            library = ctypes.CDLL(str(path))
            if mkl or _stays_on_a_thread(library):
                return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
        except (OSError, AttributeError):
            continue
    return 0


def _stays_on_a_thread(openblas: ctypes.CDLL) -> bool:
    openblas.openblas_get_config.restype = ctypes.c_char_p
    choices = openblas.openblas_get_config().split()
    return b"USE_OPENMP" in choices and b"USE64BITINT" not in choices


def _libraries(names: str) -> list[Path]:
    return sorted((Path(torch.__file__).parent / "lib").glob(names))


@cache
def _team() -> Any:
    """The entry into the OpenMP runtime that torch itself uses, None if it cannot be found.

    Threads of another pool would wait for a core until torch's, which spin for a while after each operation, give up.
    """
    for path in _libraries("libtorch_cpu.*"):
        try:
            team = ctypes.CDLL(str(path)).GOMP_parallel
        except (OSError, AttributeError):
            continue
        team.restype = None
        team.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
        return team
    return None
