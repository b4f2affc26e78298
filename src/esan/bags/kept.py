"""Where the numbers lie that batches are gathered from."""

import torch
from torch import Tensor

#: Bytes of the largest tensor that is on the device in any case, where it costs less than a wait for the bus.
_SMALL = 2**18
#: Bytes that the others may take there for each network and size of batch: less than a step of DS or DSS takes.
_A_NETWORK = 2**24


class Keeper:
    """Keeps numbers of the whole dataset where a kernel of a device reads them.

    On a GPU they stay as long as there is room for them. The rest lies in pinned memory of the host, which kernels read
    over the bus: what the GPU holds does not grow with the dataset, and each number is read once a batch. Many networks
    read as many batches a step: for them there is more room.

    Args:
        device: the device.
        networks: how many networks the batches are for.
    """

    def __init__(self, device: torch.device, networks: int) -> None:
        self._device, self._room = device, networks * _A_NETWORK

    def keep(self, values: Tensor) -> Tensor:
        """The numbers; who gives their address to a kernel must hold them until that has read: nobody else knows."""
        if self._device.type != "cuda":
            return values.to(self._device)
        size = values.numel() * values.element_size()
        if size > _SMALL:
            if size > self._room:
                return values.pin_memory()
            self._room -= size
        return values.to(self._device)
