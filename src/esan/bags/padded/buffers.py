"""`Batches`: many tensors per batch in two buffers, so that a batch is loaded with two copies."""

from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

#: Fields begin at multiples of so many numbers, so that vector loads are aligned.
_ALIGNED = 16


@dataclass(frozen=True)
class Place:
    """Where a field lies in its buffer: int64 or float32 says in which."""

    begin: int
    shape: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True, eq=False)
class Batches:
    """Padded batches: a buffer of whole numbers and one of floats each, and where the fields lie in them.

    Whole numbers may be int32, so that batches which wait take less memory; work on a batch takes int64.
    """

    ints: Tensor
    floats: Tensor
    fields: dict[str, Place]

    def __len__(self) -> int:
        return self.ints.size(0)

    def views(self, ints: Tensor, floats: Tensor) -> dict[str, Tensor]:
        """The fields of one batch, as views of its two buffers, or of others like them."""
        return {name: self.view(name, ints, floats) for name in self.fields}

    def view(self, name: str, ints: Tensor, floats: Tensor) -> Tensor:
        """One field of a batch."""
        place = self.fields[name]
        buffer = ints if place.dtype == torch.int64 else floats
        return buffer.narrow(0, place.begin, prod(place.shape)).view(place.shape)


class Places:
    """Where fields lie in the two buffers, one after another."""

    def __init__(self) -> None:
        self.fields: dict[str, Place] = {}
        self.ends = {torch.int64: 0, torch.float32: 0}

    def add(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Place:
        place = self.fields[name] = Place(self.ends[dtype], shape, dtype)
        size = prod(shape)
        self.ends[dtype] += size + -size % _ALIGNED
        return place
