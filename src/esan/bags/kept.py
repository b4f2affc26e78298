"""Where the numbers lie that batches are gathered from."""

import torch
from torch import Tensor

#: Bytes of the largest tensor that stays on the device, where it costs less than a wait for the bus.
_SMALL = 2**18


def kept(values: Tensor, device: torch.device) -> Tensor:
    """Numbers of the whole dataset, where a kernel of that device reads them.

    A GPU reads them from pinned memory of the host, so that what it holds does not grow with the dataset: each number
    is read once a batch. Small tables are there themselves. Who gives the address to a kernel must hold the tensor
    until that has read it: nobody else knows.
    """
    if device.type != "cuda" or values.numel() * values.element_size() <= _SMALL:
        return values.to(device)
    return values.pin_memory()
