"""Operations that would wait for a GPU, refused on a CPU as `torch.cuda.set_sync_debug_mode("error")` refuses them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from esan.nn import feature_encoders
from esan.ops import norm

#: Operators whose result has a size that depends on values, or is a number of the host.
_WAITING = {
    "_local_scalar_dense",
    "_unique2",
    "bincount",
    "equal",
    "masked_select",
    "nonzero",
    "unique_consecutive",
    "unique_dim",
}
_INDEXING = {"index", "index_put", "index_put_", "_unsafe_index"}


class RefusingToWait(TorchDispatchMode):
    """Within, operations that wait for a device are an error, in the words that torch has for it."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        refuse_waiting(func, args, kwargs)
        return func(*args, **(kwargs or {}))


def refuse_waiting(func: Any, args: Any, kwargs: Any) -> None:
    """An error where an operation waits for a device."""
    name = func.overloadpacket.__name__
    by_mask = name in _INDEXING and any(isinstance(i, Tensor) and i.dtype == torch.bool for i in args[1])
    repeats = name == "repeat_interleave" and "output_size" not in (kwargs or {})
    if name in _WAITING or by_mask or repeats:
        raise RuntimeError(f"called a synchronizing CUDA operation ({func})")


@contextmanager
def refusing_to_wait(device: torch.device) -> Iterator[list[str]]:
    """In place of `esan.ops.device.refusing_to_wait`."""
    refused: list[str] = []
    try:
        with RefusingToWait():
            yield refused
    except RuntimeError as error:
        if "synchronizing" not in str(error):
            raise
        refused.append(str(error.with_traceback(None)))


def leave_out_checks_of_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values are not checked, since that would wait for a GPU."""
    for module in (feature_encoders, norm):
        monkeypatch.setattr(module, "is_gpu", lambda device: True)
