"""Heads: the vector of a graph, node or edge → its predictions."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from esan.nn.execution.capabilities import stackable
from esan.nn.linear import Linear


def _mlp(width: int, out_channels: int) -> nn.Module:
    return nn.Sequential(Linear(width, 2 * width), nn.ReLU(), Linear(2 * width, out_channels))


def _narrowing(width: int, out_channels: int) -> nn.Module:
    # A vector of one number has no half.
    half = max(width // 2, 1)
    return nn.Sequential(Linear(width, width), nn.ELU(), Linear(width, half), nn.ELU(), Linear(half, out_channels))


#: How each name makes a head of (width, out_channels): "mlp" is d → 2d → out with ReLU, the paper's for DS-GNN and
#: DSS-GNN; "linear" is d → out, its for plain GIN; "narrowing" is d → d → d/2 → out with ELU, its for plain GraphConv.
HEADS: dict[str, Callable[[int, int], nn.Module]] = {"mlp": _mlp, "linear": Linear, "narrowing": _narrowing}


@stackable
class TwoScores(nn.Module):
    r"""One logit z → the scores (0, z) of two classes.

    Their cross entropy is the binary cross entropy of z, since :math:`\mathrm{softmax}(0, z)_1 = \sigma(z)`, and the
    higher score says whether z is above 0.
    """

    def forward(self, z: Tensor) -> Tensor:
        return torch.cat([torch.zeros_like(z), z], 1)
