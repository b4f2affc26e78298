"""`TensorRecord`: a frozen dataclass of tensors that moves, measures and digests itself as one thing."""

import hashlib
from dataclasses import dataclass, fields, replace
from typing import Self

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False, repr=False)
class TensorRecord:
    """Base of the records that a bag is made of; fields are tensors, None or plain values."""

    def tensors(self) -> dict[str, Tensor]:
        """The fields that hold a tensor, by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}

    def to(self, device: torch.device | str) -> Self:
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
            digest.update(field.name.encode())
            if isinstance(value, Tensor):
                digest.update(f"{value.dtype}{tuple(value.shape)}".encode())
                digest.update(value.detach().cpu().contiguous().numpy().tobytes())
            else:
                digest.update(repr(value).encode())
        return digest.hexdigest()
