"""Memory for tables that compiled loops write, kept for the next of about that size.

A training step writes as many tables as the step before. Given back to the system in between, each comes as new pages,
and getting those takes as long as some of the loops do.
"""

from bisect import bisect_left, insort
from collections import deque
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

#: Bytes of tables that are kept: smaller ones cost little, larger ones are seldom met again.
_LEAST, _LARGEST = 2**16, 2**28
#: Bytes that wait for their next use, at most; and how many times too large a piece of memory may be.
_WAITING, _LOOSE = 2**30, 1.5

_KINDS = {torch.float32: np.float32, torch.float64: np.float64, torch.int64: np.int64}


class _Shelf:
    """Memory that nobody uses, by its size.

    A table is let go whenever the collector comes, which may be in the middle of a call here. So giving back is one
    append, and memory is put in order by whoever has the lock: nobody waits for it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._back: deque[NDArray[np.uint8]] = deque()
        #: Bytes, a number that grows with every piece, and the piece; sorted.
        self._pieces: list[tuple[int, int, NDArray[np.uint8]]] = []
        self._count = 0
        #: Bytes of all pieces.
        self.waiting = 0

    def take(self, size: int) -> NDArray[np.uint8]:
        """Memory for so many bytes, or somewhat more; what is in it is anybody's guess."""
        if self._lock.acquire(blocking=False):
            try:
                self._put_in_order()
                at = bisect_left(self._pieces, (size,))
                if at < len(self._pieces) and self._pieces[at][0] <= _LOOSE * size:
                    return self._pop(at)
            finally:
                self._lock.release()
        # Some more than is asked for, so that the next batch, which is a little larger, finds room.
        return np.empty(size + size // 8, np.uint8)

    def give_back(self, memory: NDArray[np.uint8]) -> None:
        self._back.append(memory)
        if self._lock.acquire(blocking=False):
            try:
                self._put_in_order()
            finally:
                self._lock.release()

    def _put_in_order(self) -> None:
        """Sort in what has come back; the longest unused goes where there is too much."""
        while self._back:
            memory = self._back.popleft()
            insort(self._pieces, (memory.nbytes, self._count, memory))
            self._count += 1
            self.waiting += memory.nbytes
        while self._pieces and self.waiting > _WAITING:
            self._pop(min(range(len(self._pieces)), key=lambda at: self._pieces[at][1]))

    def _pop(self, at: int) -> NDArray[np.uint8]:
        size, _, memory = self._pieces.pop(at)
        self.waiting -= size
        return memory


_shelf = _Shelf()


class _Lent:
    """Memory on loan to a tensor: it goes back on the shelf when nothing reads the tensor any more."""

    def __init__(self, memory: NDArray[np.uint8], count: int, kind: Any) -> None:
        self._memory = memory
        place = memory.__array_interface__["data"]
        self.__array_interface__ = {"data": place, "shape": (count,), "typestr": np.dtype(kind).str, "version": 3}

    def __del__(self, shelf: _Shelf = _shelf) -> None:
        shelf.give_back(self._memory)


def empty_table(like: Tensor, lines: int, width: int) -> Tensor:
    """A table of the precision of `like`, on the CPU, with whatever numbers in it."""
    return _empty(lines * width, like.dtype).view(lines, width)


def empty_numbers(count: int) -> Tensor:
    """So many whole numbers, whatever they are."""
    return _empty(count, torch.int64)


def _empty(count: int, dtype: torch.dtype) -> Tensor:
    size = count * dtype.itemsize
    if not _LEAST <= size <= _LARGEST:
        return torch.empty(count, dtype=dtype)
    lent = _Lent(_shelf.take(size), count, _KINDS[dtype])
    # The array holds what was lent, and the tensor the array.
    return torch.from_numpy(np.asarray(lent))
