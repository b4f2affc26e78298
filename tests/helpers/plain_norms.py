"""Lines, weights and parameters that norms are checked with, and plain norms in double precision."""

import torch
from torch import Tensor

from esan.ops.triton.kernels.moments import RunningStatistics

#: Lines of a network: two tiles, the second not full; no width is a power of 2.
LINES, INNER, OUTER, EPS = 70, 6, 9, 1e-5


def drawn_weight(networks: int, weighted: bool) -> Tensor | None:
    """Whole numbers, 0 for some rows: padding."""
    return torch.randint(0, 4, (networks * LINES,)).float() if weighted else None


def split_up(x: Tensor, networks: int) -> Tensor:
    return x.reshape(networks, -1, x.size(-1))


class Plain:
    """Mean, variance and N of the lines of each network, in double precision, with gradients."""

    def __init__(self, x: Tensor, weight: Tensor | None, networks: int) -> None:
        self.x = split_up(x, networks)
        w = torch.ones(self.x.shape[:2]) if weight is None else weight.reshape(networks, -1)
        self.w = w.double()[:, :, None]
        self.n = self.w.sum(1).clamp(min=1)
        self.mean = (self.w * self.x).sum(1) / self.n
        self.var = (self.w * (self.x - self.mean[:, None]).square()).sum(1) / self.n

    def normed(self, gamma: Tensor, beta: Tensor) -> Tensor:
        gamma, beta = (p.reshape(-1, 1, p.size(-1)) for p in (gamma, beta))
        standard = (self.x - self.mean[:, None]) * torch.rsqrt(self.var[:, None] + EPS)
        return (standard * gamma + beta).reshape(-1, self.x.size(2))


def drawn_parameters(networks: int, width: int) -> tuple[Tensor, Tensor]:
    shape = (networks, width) if networks > 1 else (width,)
    return torch.rand(shape) + 0.5, torch.randn(shape)


def fresh_buffers(networks: int, width: int) -> RunningStatistics:
    shape = (networks, width) if networks > 1 else (width,)
    batches = torch.zeros(networks, dtype=torch.long) if networks > 1 else torch.tensor(0)
    return RunningStatistics(torch.zeros(shape), torch.ones(shape), batches, 0.1)
