"""Published pickles, read without executing code: a few known names are allowed, and nothing else."""

import io
import pickle
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch


class PickledData:
    """Replaces an object of PyG's old `Data`: its attributes, without its code."""


@dataclass
class PickledStorage:
    """The bytes of a tensor's storage, read when they are needed."""

    content: bytes

    def __post_init__(self) -> None:
        if not isinstance(self.content, bytes):
            raise TypeError("bytes of a storage")


@dataclass
class PickledTensor:
    """A tensor in a pickle: the position of its numbers in a storage."""

    storage: PickledStorage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]

    def numpy(self) -> np.ndarray:
        storage = torch.load(io.BytesIO(self.storage.content), weights_only=True)
        # What a pickle names; it refuses numbers that lie outside the storage.
        rebuild = torch._utils._rebuild_tensor_v2
        return rebuild(storage, self.offset, self.size, self.stride, False, OrderedDict()).numpy()


def numbers(value: Any) -> np.ndarray:
    """The array of a tensor in the pickle."""
    try:
        return value.numpy() if isinstance(value, PickledTensor) else np.asarray(value)
    # torch raises whatever damaged bytes of a storage lead it to.
    except Exception as error:
        raise ValueError(f"a tensor that cannot be read, {type(error).__name__}") from None


def _rebuilt(
    storage: PickledStorage, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: Any
) -> PickledTensor:
    return PickledTensor(storage, offset, size, stride)


def _array(dtype: type) -> Callable[[list[Any]], np.ndarray]:
    def of(values: list[Any]) -> np.ndarray:
        # A bare number would be a size, and allocate memory.
        if not isinstance(values, list):
            raise TypeError("a list of numbers")
        return np.array(values, dtype=dtype)

    return of


#: The names that a pickle may use, and what replaces them here.
_ALLOWED: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch", "LongTensor"): _array(np.int64),
    ("torch", "FloatTensor"): _array(np.float32),
    ("torch._utils", "_rebuild_tensor_v2"): _rebuilt,
    ("torch.storage", "_load_from_bytes"): PickledStorage,
    ("torch_geometric.data.data", "Data"): PickledData,
}


class _Restricted(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise ValueError(f"it names {module}.{name}, which no data needs") from None


def unpickled(path: Path) -> Any:
    """The contents of a pickle: lists, dicts, `PickledTensor` or arrays, and `PickledData` for objects of PyG."""
    try:
        with path.open("rb") as file:
            return _Restricted(file).load()
    except FileNotFoundError:
        raise
    # A damaged pickle may fail in any way: a wrong opcode, an index past the end, a call with wrong arguments.
    except Exception as error:
        raise ValueError(
            f"Expected a pickle of plain tensors (got {path}: {str(error)[:200] or type(error).__name__}). "
            "It is cut short, damaged or not what it claims to be; fetch it again."
        ) from None
