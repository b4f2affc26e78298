"""`TensorDataclass`: a frozen dataclass of tensors with `to`, `nbytes` and a fingerprint of its contents."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from esan.ops.caching import plain_tensors


@dataclass(frozen=True, eq=False, repr=False)
class TensorDataclass:
    """Base of the records that a bag consists of; fields are tensors, None or plain values."""

    #: Fields that do not count in the fingerprint where they hold nothing.
    optional: ClassVar[tuple[str, ...]] = ()
    #: The names of fields in files and fingerprints, where they are not those of the attributes.
    stored_names: ClassVar[Mapping[str, str]] = {}

    def tensors(self) -> dict[str, Tensor]:
        """The fields that hold a tensor, by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}

    def to(self, device: torch.device | str) -> Self:
        with plain_tensors():
            return replace(self, **{name: tensor.to(device) for name, tensor in self.tensors().items()})

    @property
    def nbytes(self) -> int:
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors().values())

    @property
    def fingerprint(self) -> str:
        """A digest of every field; equal fingerprints mean equal contents."""
        digest = hashlib.sha256()
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in self.optional and (value is None or (isinstance(value, Mapping) and not value)):
                continue
            digest.update(self.stored_names.get(field.name, field.name).encode())
            for chunk in _chunks(value):
                digest.update(chunk)
        return digest.hexdigest()


def _chunks(value: Any) -> Iterator[bytes]:
    """The bytes of a field: of a tensor its numbers, of a mapping or list those of its entries."""
    if isinstance(value, Tensor):
        yield f"{value.dtype}{tuple(value.shape)}".encode()
        # As bytes, since numpy lacks some dtypes; copied, so that the bytes are contiguous.
        flat = value.detach().cpu().reshape(-1)
        yield torch.empty(flat.shape, dtype=flat.dtype).copy_(flat).view(torch.uint8).numpy().tobytes()
    elif isinstance(value, Mapping):
        for name in sorted(value):
            yield name.encode()
            yield from _chunks(value[name])
    elif isinstance(value, list):
        for entry in value:
            yield from _chunks(entry)
    else:
        yield repr(value).encode()
