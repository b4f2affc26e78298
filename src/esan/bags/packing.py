"""Many tensors of a batch as two lines of numbers, so that a batch is loaded with two copies."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

#: Starts of fields are multiples of this many numbers, so that vector loads are aligned.
_ALIGNED = 16


@dataclass(frozen=True, eq=False)
class Field:
    """Where a field lies in a line of numbers."""

    begin: int
    shape: tuple[int, ...]
    dtype: torch.dtype

    @cached_property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class Batches:
    """Padded batches: a line of whole numbers and a line of fractions each, and where the fields lie in them.

    Whole numbers may be of 32 bits, so that batches which wait take less memory; those that are worked on are of 64.
    """

    ints: Tensor
    floats: Tensor
    fields: dict[str, Field]

    def __len__(self) -> int:
        return self.ints.size(0)

    def views(self, ints: Tensor, floats: Tensor) -> dict[str, Tensor]:
        """The fields of one batch, as views of its two lines, or of others like them."""
        return {name: self.view(name, ints, floats) for name in self.fields}

    def view(self, name: str, ints: Tensor, floats: Tensor) -> Tensor:
        """One field of a batch."""
        field = self.fields[name]
        return (ints if field.dtype == torch.int64 else floats).narrow(0, field.begin, field.size).view(field.shape)


class Places:
    """Where fields lie in the two lines, one after another."""

    def __init__(self) -> None:
        self.fields: dict[str, Field] = {}
        self.ends = {torch.int64: 0, torch.float32: 0}

    def add(self, name: str, shape: tuple[int, ...], kind: torch.dtype) -> Field:
        """The place of one more field."""
        field = self.fields[name] = Field(self.ends[kind], shape, kind)
        self.ends[kind] += field.size + -field.size % _ALIGNED
        return field


class Fields:
    """The fields of K steps of S networks, each a tensor `[K · S, ...]`; what nobody asks for is never computed.

    Args:
        given: how many networks the tensors are of: S, or 1 if all networks get the same.
        networks: S.
    """

    def __init__(self, given: int, networks: int) -> None:
        self._given, self._networks = given, networks
        self._made: dict[str, Tensor] = {}
        self._makers: dict[str, Callable[[], Tensor]] = {}
        self._steps: dict[str, int] = {}

    def add(self, name: str, make: Callable[[], Tensor], step: int = 0) -> None:
        """Add a field; where it holds numbers of lines, `step` is how many lines a network has of that kind."""
        self._makers[name], self._steps[name] = make, step

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def packed(self, only: Collection[str] | None = None) -> Batches:
        """The fields of each step in two lines of numbers, numbered through all networks; some of them, or all."""
        places = Places()
        parts: dict[torch.dtype, list[Tensor]] = {torch.int64: [], torch.float32: []}
        for name in self._makers:
            if only is not None and name not in only:
                continue
            tensor = self[name]
            kind = torch.float32 if tensor.is_floating_point() else torch.int64
            line = self._numbered(tensor.to(kind), self._steps[name])
            places.add(name, (self._networks * tensor.size(1), *tensor.shape[2:]), kind)
            gap = places.ends[kind] - sum(part.size(1) for part in parts[kind]) - line.size(1)
            parts[kind] += [line, line.new_empty(line.size(0), gap)] if gap else [line]
        return Batches(torch.cat(parts[torch.int64], 1), torch.cat(parts[torch.float32], 1), places.fields)

    def _numbered(self, tensor: Tensor, step: int) -> Tensor:
        """The lines of all networks one after another, `[K, ...]`; references count through all of them."""
        networks = self._networks
        split = tensor.reshape(tensor.size(0) // self._given, self._given, tensor[0].numel())
        if networks > 1:
            split = split.expand(-1, networks, -1)
            if step:
                split = split + torch.arange(networks, device=tensor.device)[:, None] * step
        return split.reshape(split.size(0), split.size(1) * split.size(2))
