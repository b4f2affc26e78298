"""The graphs of each step of an epoch, for several networks side by side."""

import numpy as np
from torch import Tensor


def steps_of(orders: list[Tensor], size: int) -> np.ndarray:
    """The batches of all networks, `[batches, networks, size]`, −1 behind the last graph of each network."""
    most = -(-max(len(ids) for ids in orders) // size)
    steps = np.full((len(orders), most * size), -1, dtype=np.int64)
    for line, ids in zip(steps, orders, strict=True):
        line[: len(ids)] = ids.cpu().numpy()
    return np.ascontiguousarray(steps.reshape(len(orders), most, size).swapaxes(0, 1))
