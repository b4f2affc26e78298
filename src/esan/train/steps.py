"""The graphs of each step of an epoch, for several networks side by side."""

import numpy as np
from torch import Tensor


def batched(ids: Tensor, size: int) -> np.ndarray:
    """Ids as `[batches, size]`, −1 behind the last graph."""
    flat = ids.cpu().numpy()
    return np.pad(flat, (0, -len(flat) % size), constant_values=-1).reshape(-1, size)


def aligned(orders: list[np.ndarray]) -> np.ndarray:
    """The batches of all networks, `[batches, networks, size]`; a network with fewer has empty ones at the end."""
    most = max(len(order) for order in orders)
    return np.stack([np.pad(o, ((0, most - len(o)), (0, 0)), constant_values=-1) for o in orders], 1)
