"""Dropout of rows, also of several networks that each draw from a seed of their own."""

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from esan.ops.dispatch import implementation
from esan.ops.real import Real


def dropout(h: Tensor, p: float, training: bool, seeds: Tensor | None, layer: int, real: Real | None) -> Tensor:
    """Each number is 0 with probability p, else 1 / (1 − p) times itself.

    Args:
        h: rows.
        p: the probability.
        training: whether anything is dropped.
        seeds: of each network that the rows are of, `[S]`; None to draw from torch's own generator.
        layer: which layer it is behind; another one drops others.
        real: which rows are not padding.
    """
    fast: Any = None if seeds is None or not p or not training else implementation("dropout", h)
    return F.dropout(h, p, training) if fast is None else fast.Dropout.apply(h, p, seeds, layer, real)
