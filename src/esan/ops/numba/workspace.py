"""A pool of memory for the results of compiled loops, reused by the next result of about that size.

A training step allocates as many buffers as the step before. Returned to the system in between, each comes as new
pages, and faulting those in takes as long as some of the loops do.
"""

from bisect import bisect_left, insort
from collections import deque
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

#: Bytes of the buffers that are pooled: smaller ones cost little, larger ones are seldom needed again.
_SMALLEST, _LARGEST = 2**16, 2**28
#: Bytes of unused buffers, at most; and how many times too large a buffer may be.
_MAX_UNUSED, _MAX_EXCESS = 2**30, 1.5

_DTYPES = {torch.float32: np.float32, torch.float64: np.float64, torch.int64: np.int64}


class _BufferPool:
    """Unused buffers by their size.

    A tensor may be freed whenever the garbage collector runs, also in the middle of a call here. So returning a buffer
    is one append, and buffers are sorted in by whoever has the lock: nothing blocks on it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._returned: deque[NDArray[np.uint8]] = deque()
        #: Bytes, a number that grows with every buffer, and the buffer; sorted.
        self._buffers: list[tuple[int, int, NDArray[np.uint8]]] = []
        self._count = 0
        #: Bytes of all unused buffers.
        self.unused = 0

    def take(self, size: int) -> NDArray[np.uint8]:
        """A buffer of so many bytes, or somewhat more, uninitialised."""
        if self._lock.acquire(blocking=False):
            try:
                self._sort_in()
                at = bisect_left(self._buffers, (size,))
                if at < len(self._buffers) and self._buffers[at][0] <= _MAX_EXCESS * size:
                    return self._pop(at)
            finally:
                self._lock.release()
        # Somewhat more than asked for, so that it also fits the next batch, which may be a little larger.
        return np.empty(size + size // 8, np.uint8)

    def give_back(self, buffer: NDArray[np.uint8]) -> None:
        self._returned.append(buffer)
        if self._lock.acquire(blocking=False):
            try:
                self._sort_in()
            finally:
                self._lock.release()

    def _sort_in(self) -> None:
        """Sort in the returned buffers; frees those that were unused longest if there are too many."""
        while self._returned:
            buffer = self._returned.popleft()
            insort(self._buffers, (buffer.nbytes, self._count, buffer))
            self._count += 1
            self.unused += buffer.nbytes
        while self._buffers and self.unused > _MAX_UNUSED:
            self._pop(min(range(len(self._buffers)), key=lambda at: self._buffers[at][1]))

    def _pop(self, at: int) -> NDArray[np.uint8]:
        size, _, buffer = self._buffers.pop(at)
        self.unused -= size
        return buffer


_pool = _BufferPool()


class _PooledArray:
    """A buffer in use by a tensor: it goes back to the pool when the tensor is freed."""

    def __init__(self, buffer: NDArray[np.uint8], count: int, dtype: Any) -> None:
        self._buffer = buffer
        data = buffer.__array_interface__["data"]
        self.__array_interface__ = {"data": data, "shape": (count,), "typestr": np.dtype(dtype).str, "version": 3}

    def __del__(self, pool: _BufferPool = _pool) -> None:
        pool.give_back(self._buffer)


def empty_matrix(like: Tensor, rows: int, width: int) -> Tensor:
    """An uninitialised matrix of the precision of `like`, on the CPU."""
    return _empty(rows * width, like.dtype).view(rows, width)


def empty_ints(count: int) -> Tensor:
    """An uninitialised int64 vector."""
    return _empty(count, torch.int64)


def _empty(count: int, dtype: torch.dtype) -> Tensor:
    size = count * dtype.itemsize
    if not _SMALLEST <= size <= _LARGEST:
        return torch.empty(count, dtype=dtype)
    pooled = _PooledArray(_pool.take(size), count, _DTYPES[dtype])
    # The array holds a reference to `pooled`, and the tensor one to the array.
    return torch.from_numpy(np.asarray(pooled))
