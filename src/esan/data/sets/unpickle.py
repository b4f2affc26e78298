"""Pickles that come from elsewhere, read without running them: a handful of names is admitted, and nothing else."""

import io
import pickle
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch


class Held:
    """Stands for an object of PyG's old `Data`: its attributes, and none of its code."""


@dataclass
class Stored:
    """The bytes of a tensor's storage, read only when they are asked for."""

    content: bytes

    def __post_init__(self) -> None:
        if not isinstance(self.content, bytes):
            raise TypeError("bytes of a storage")


@dataclass
class Lines:
    """A tensor in a pickle: where in a storage its numbers are."""

    storage: Stored
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]

    def numpy(self) -> np.ndarray:
        storage = torch.load(io.BytesIO(self.storage.content), weights_only=True)
        # What a pickle names; it refuses numbers that lie outside the storage.
        rebuild = torch._utils._rebuild_tensor_v2
        return rebuild(storage, self.offset, self.size, self.stride, False, OrderedDict()).numpy()


def numbers(value: Any) -> np.ndarray:
    """The array that a tensor of the pickle stands for."""
    try:
        return value.numpy() if isinstance(value, Lines) else np.asarray(value)
    # torch raises whatever damaged bytes of a storage lead it to.
    except Exception as error:
        raise ValueError(f"a tensor that cannot be read, {type(error).__name__}") from None


def _rebuilt(storage: Stored, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: Any) -> Lines:
    return Lines(storage, offset, size, stride)


def _array(dtype: type) -> Callable[[list[Any]], np.ndarray]:
    def of(values: list[Any]) -> np.ndarray:
        # A bare number would be a size, and with it an order to allocate.
        if not isinstance(values, list):
            raise TypeError("a list of numbers")
        return np.array(values, dtype=dtype)

    return of


#: What a pickle may name, and what stands for it here.
_ADMITTED: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch", "LongTensor"): _array(np.int64),
    ("torch", "FloatTensor"): _array(np.float32),
    ("torch._utils", "_rebuild_tensor_v2"): _rebuilt,
    ("torch.storage", "_load_from_bytes"): Stored,
    ("torch_geometric.data.data", "Data"): Held,
}


class _Restricted(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ADMITTED[module, name]
        except KeyError:
            raise ValueError(f"it names {module}.{name}, which no data needs") from None


def unpickled(path: Path) -> Any:
    """What a pickle of tensors, lists and dicts holds; tensors are `Lines` or arrays, objects of PyG are `Held`."""
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
