"""Whether the Triton kernels take some tensors."""

import os
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

from esan.ops.waiting import watch_triton

#: Lines of the largest table that messages are looked up in: the kernel of their gradients has a sum for each.
TABLE = 4
#: The widest layer that the kernels take at once, and the most columns that a program works on.
WIDEST = 128


@cache
def _triton_is_here() -> bool:
    if find_spec("triton") is None:
        return False
    watch_triton()
    return True


def on_gpu(*tensors: Tensor | None) -> bool:
    """Whether the Triton kernels take these tensors: single precision, on a GPU (or interpreted, for tests)."""
    lines = tensors[0]
    assert lines is not None
    return all(t is None or t.dtype == torch.float32 for t in tensors) and indices_on_gpu(lines)


def indices_on_gpu(index: Tensor) -> bool:
    """Whether the Triton kernels take these indices."""
    there = index.is_cuda or (index.device.type == "cpu" and os.environ.get("TRITON_INTERPRET") == "1")
    return there and _triton_is_here()
