"""Triton: Adam for the parameters of several networks in one kernel, each network with a learning rate of its own."""

import math
from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

from esan.ops.triton.kernels.tiles import cdiv

_BLOCK = 1024
#: Parameters begin at multiples of so many numbers (128 bytes): a library's products read aligned memory faster.
_ALIGNED = 32


@triton.jit
def _adam_kernel(
    theta,
    grad,
    mean,
    square,
    network,
    lr,
    step,
    live,
    count,
    log_beta1,
    log_beta2,
    beta1,
    beta2,
    eps,
    BLOCK: tl.constexpr,
):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    which = tl.load(network + at, mask=at < count, other=0)
    inside = (at < count) & (tl.load(live + which) > 0)
    t = tl.load(step + which, mask=inside, other=1.0)
    g = tl.load(grad + at, mask=inside, other=0.0)
    m = tl.load(mean + at, mask=inside, other=0.0)
    v = tl.load(square + at, mask=inside, other=0.0)
    m += (1 - beta1) * (g - m)
    v = beta2 * v + (1 - beta2) * g * g
    corrected = 1 - tl.exp(t * log_beta1)
    root = tl.sqrt(v) / tl.sqrt(1 - tl.exp(t * log_beta2)) + eps
    rate = tl.load(lr + which, mask=inside, other=0.0) / corrected
    tl.store(mean + at, m, mask=inside)
    tl.store(square + at, v, mask=inside)
    p = tl.load(theta + at, mask=inside, other=0.0)
    tl.store(theta + at, p - rate * (m / root), mask=inside)


class FlatAdam:
    """Adam as `torch.optim.Adam` has it, over parameters that are stored in one flat vector.

    Args:
        parameters: each with a leading dimension, one entry per network; they become views of the vector.
        networks: how many networks.
        lr: the learning rate of each network, `[S]`; read in every step.
        betas: as Adam's.
        eps: as Adam's.
    """

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        networks: int,
        lr: Tensor,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        self.parameters, self.lr, self._betas, self._eps = list(parameters), lr, betas, eps
        device = lr.device
        count = sum(map(_length, self.parameters))
        self._theta, self._grad, self._mean, self._square = (torch.zeros(count, device=device) for _ in range(4))
        self._network = torch.zeros(count, device=device, dtype=torch.int32)
        self.step_count = torch.zeros(networks, device=device)
        number = torch.arange(networks, device=device, dtype=torch.int32)
        for p, part, own in zip(self.parameters, self._views(self._theta), self._views(self._network), strict=True):
            own.copy_(number.view(-1, *[1] * (p.dim() - 1)))
            p.data = part.copy_(p.detach())
        self._grads = self._views(self._grad)
        #: The running means of gradients and of their squares, one tensor like each parameter.
        self.means, self.squares = self._views(self._mean), self._views(self._square)

    def _views(self, flat: Tensor) -> list[Tensor]:
        """The entries of each parameter, in its shape; between two there may be unused entries."""
        parts = flat.split([_length(p) for p in self.parameters])
        return [part[: p.numel()].view(p.shape) for p, part in zip(self.parameters, parts, strict=True)]

    def zero_grad(self) -> None:
        for p in self.parameters:
            p.grad = None

    def step(self, live: Tensor) -> None:
        """One step with the gradients that the parameters hold; one that has none counts as zero.

        Args:
            live: `[S]`, 0 for a network that has no step to take, which then does not change.
        """
        pairs = [(mine, p.grad) for mine, p in zip(self._grads, self.parameters, strict=True)]
        held = [(mine, grad) for mine, grad in pairs if grad is not None]
        torch._foreach_copy_([mine for mine, _ in held], [grad for _, grad in held])
        for mine in [mine for mine, grad in pairs if grad is None]:
            mine.zero_()  # else it would be that of an earlier step
        self.step_count += live
        beta1, beta2 = self._betas
        _adam_kernel[(cdiv(self._theta.numel(), _BLOCK),)](
            self._theta, self._grad, self._mean, self._square, self._network, self.lr, self.step_count,
            live, self._theta.numel(), math.log(beta1), math.log(beta2), beta1, beta2, self._eps, BLOCK=_BLOCK,
        )  # fmt: skip


def _length(parameter: Tensor) -> int:
    return -(-parameter.numel() // _ALIGNED) * _ALIGNED
