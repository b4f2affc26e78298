"""How compiled loops run: whether numba works here, its cache, torch's threads and torch's BLAS."""

import atexit
import contextlib
import ctypes
import hashlib
import os
import tempfile
import warnings
from array import array
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from operator import itemgetter
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from esan.ops.compile_progress import report_numba

#: Rows of one chunk of work. Sums are taken chunk by chunk and then added up in order, so they do not depend on the
#: number of threads; 128 rows of width 64 stay in the nearest cache.
CHUNK = 128


@cache
def available() -> bool:
    """Whether the compiled loops can be used here: numba is installed (the extra `fast`), and works.

    Not where Triton's kernels are interpreted, for tests: those are used on the CPU then.
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
    report_numba()
    _find_cache(numba)
    return True


def _find_cache(numba: Any) -> None:
    """Let numba cache loops for this process alone where it can write neither here nor in the user's cache."""
    try:
        numba.njit(cache=True)(_find_cache)  # nothing is compiled: numba only looks for a folder
    except RuntimeError:
        folder = tempfile.TemporaryDirectory(prefix="esan-loops-")
        atexit.register(folder.cleanup)
        numba.config.CACHE_DIR = folder.name
        warnings.warn(
            "Expected a writable folder for compiled loops (got none), so each process compiles them again. Set "
            "NUMBA_CACHE_DIR to a writable folder.",
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


def num_chunks(rows: int, size: int = CHUNK) -> int:
    """The number of chunks of that size."""
    return -(-rows // size)


def run(loop: Any, like: Tensor, count: int, **arguments: Tensor | int | None) -> None:
    """Run the chunks 0, ..., count - 1 of a compiled loop, on torch's threads.

    Args:
        loop: a `Loop`.
        like: a tensor of the precision to compute in.
        count: the number of chunks.
        arguments: the fields of its argument record: tensors (contiguous; the loop gets their addresses), integers, or
            None for an absent tensor.
    """
    if count == 0:
        return
    size, in_order = _fields(id(loop.arguments), loop)
    if len(arguments) != size:
        names = sorted(loop.arguments.names[2:])
        raise TypeError(f"Expected the arguments {names} (got {sorted(arguments)}). Pass each of them by name.")
    values = [0, count]
    values += [_address(x) if isinstance(x, Tensor) else 0 if x is None else x for x in in_order(arguments)]
    block = array("q", values)
    at, threads = block.buffer_info()[0], torch.get_num_threads()
    compiled = loop.double if like.dtype == torch.float64 else loop.single
    parallel = _parallel() if min(threads, count) > 1 else None
    if parallel is None:
        compiled.ctypes(at)
    else:
        parallel(compiled.address, at, threads, 0)


_FIELDS: dict[int, tuple[int, Callable[[Any], tuple[Any, ...]]]] = {}


def _fields(key: int, loop: Any) -> tuple[int, Callable[[Any], tuple[Any, ...]]]:
    """How many arguments a loop takes, and what puts them in order; found once, since it takes as long as a call."""
    if key not in _FIELDS:
        names = loop.arguments.names[2:]
        _FIELDS[key] = len(names), itemgetter(*names)
    return _FIELDS[key]


def _address(tensor: Tensor) -> int:
    if not tensor.is_contiguous():
        raise ValueError(
            f"Expected a contiguous tensor (got strides {tensor.stride()}). Call contiguous() on it first."
        )
    return tensor.data_ptr()


@cache
def blas(dtype: torch.dtype) -> int:
    """The address of the matrix product that torch itself uses, 0 if it cannot be found.

    Only those that run on the calling thread within a parallel region, and take 32-bit sizes: MKL's, and that of an
    OpenBLAS built with OpenMP, as it comes with torch for Arm.
    """
    name = "sgemm_" if dtype == torch.float32 else "dgemm_"
    mkl = torch.backends.mkl.is_available()
    for path in _libraries("libtorch_cpu.*" if mkl else "libopenblas*"):
        try:
            library = ctypes.CDLL(str(path))
            if mkl or _runs_on_calling_thread(library):
                return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
        except (OSError, AttributeError):
            continue
    return 0


def _runs_on_calling_thread(openblas: ctypes.CDLL) -> bool:
    openblas.openblas_get_config.restype = ctypes.c_char_p
    choices = openblas.openblas_get_config().split()
    return b"USE_OPENMP" in choices and b"USE64BITINT" not in choices


def _libraries(names: str) -> list[Path]:
    return sorted((Path(torch.__file__).parent / "lib").glob(names))


@cache
def _parallel() -> Any:
    """The function of torch's own OpenMP runtime that runs a function on all threads; None if it cannot be found.

    Threads of another pool would compete with torch's, which spin for a while after each operation.
    """
    for path in _libraries("libtorch_cpu.*"):
        try:
            parallel = ctypes.CDLL(str(path)).GOMP_parallel
        except (OSError, AttributeError):
            continue
        parallel.restype = None
        parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
        return parallel
    return None


_LOOPS = Path(__file__).parent / "loops"


def drop_stale_cache(folder: Path = _LOOPS) -> None:
    """Remove numba's cache of the loops in a folder if any of their files has changed since.

    Numba checks the file of a loop, not those of the functions that it calls: after an update, a loop whose own file
    is unchanged would still run the old code of others.
    """
    sources = sorted(folder.glob("*.py"))
    digest = hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in sources)).hexdigest()
    cache_dir = folder / "__pycache__"
    stored = cache_dir / "loops.sha256"
    # Where nothing can be written here, or NUMBA_CACHE_DIR is set, the cache is elsewhere and is not checked: such
    # installations replace all files at once.
    with contextlib.suppress(OSError):
        if stored.is_file() and stored.read_text() == digest:
            return
        for path in cache_dir.glob("*.nbi"):
            path.unlink(missing_ok=True)
        cache_dir.mkdir(exist_ok=True)
        temporary = cache_dir / f"loops.sha256.{os.getpid()}"
        temporary.write_text(digest)
        temporary.replace(stored)
