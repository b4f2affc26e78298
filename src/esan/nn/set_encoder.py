"""Set encoders: the vectors of the subgraphs of a graph → one vector of the graph."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from esan.bags import Bag
from esan.nn.execution.capabilities import stackable
from esan.nn.linear import Linear


class SetEncoder(nn.Module):
    r""":math:`E_{\text{sets}}`: one row per subgraph → one row per graph, invariant to the order of the subgraphs."""

    out_channels: int

    def __init__(self, out_channels: int) -> None:
        super().__init__()
        self.out_channels = out_channels

    def forward(self, x: Tensor, bag: Bag) -> Tensor:
        raise NotImplementedError


@stackable
class SetMean(SetEncoder):
    """The mean over the bag."""

    def forward(self, x: Tensor, bag: Bag) -> Tensor:
        return _mean(x, bag)


@stackable
class SetMax(SetEncoder):
    """The entrywise maximum over the bag (PointNet)."""

    def forward(self, x: Tensor, bag: Bag) -> Tensor:
        return bag.by_graph.max(x)


@stackable
class DeepSets(SetEncoder):
    r"""Equivariant layers :math:`x_i \leftarrow \mathrm{ELU}(W_1 x_i + b_1 + W_2 \operatorname{mean}_j x_j + b_2)`,
    and a mean.

    Args:
        in_channels: width of the vectors.
        channels: width of each layer.
        num_layers: how many layers.
    """

    def __init__(self, in_channels: int, channels: int, num_layers: int = 2) -> None:
        super().__init__(channels)
        widths = [in_channels] + [channels] * num_layers
        self.own = nn.ModuleList(Linear(i, o) for i, o in pairwise(widths))
        self.bag = nn.ModuleList(Linear(i, o) for i, o in pairwise(widths))

    def forward(self, x: Tensor, bag: Bag) -> Tensor:
        for own, pooled in zip(self.own, self.bag, strict=True):
            x = F.elu(own(x) + bag.by_graph.broadcast(pooled(_mean(x, bag))))
        return _mean(x, bag)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        # Weights saved before there was a second bias load as the same function: it was 0.
        for place, pooled in enumerate(self.bag):
            if type(pooled) is Linear and pooled._parameters.get("bias") is not None:
                state_dict.setdefault(f"{prefix}bag.{place}.bias", torch.zeros_like(pooled.bias))
        super()._load_from_state_dict(state_dict, prefix, *args)


@stackable
class InvariantDeepSets(SetEncoder):
    r""":math:`\rho(\operatorname{mean}_j \phi(x_j))`, φ and ρ of `num_layers` linear layers with ELU each."""

    def __init__(self, in_channels: int, channels: int, num_layers: int = 2) -> None:
        super().__init__(channels)
        self.phi = _mlp(in_channels, channels, num_layers)
        self.rho = _mlp(channels, channels, num_layers)

    def forward(self, x: Tensor, bag: Bag) -> Tensor:
        return self.rho(_mean(self.phi(x), bag))


def _mlp(in_channels: int, channels: int, num_layers: int) -> nn.Sequential:
    widths = [in_channels] + [channels] * num_layers
    layers: list[nn.Module] = []
    for i, o in pairwise(widths):
        layers += [Linear(i, o), nn.ELU()]
    return nn.Sequential(*layers)


def _mean(x: Tensor, bag: Bag) -> Tensor:
    return bag.by_graph.sum(x) / bag.selection.num_subgraphs[:, None]


#: How each name makes a set encoder of (in_channels, channels, num_layers).
SET_ENCODERS: dict[str, Callable[[int, int, int], SetEncoder]] = {
    "deepsets": DeepSets,
    "invariant-deepsets": InvariantDeepSets,
    "mean": lambda in_channels, _, __: SetMean(in_channels),
    "max": lambda in_channels, _, __: SetMax(in_channels),
}
