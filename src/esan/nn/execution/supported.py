"""The modules that may be computed for several networks at once, and in a CUDA graph."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from esan.nn.convs.base import GIN, GINE, EdgeFeatures, GraphConv, WeightedMLP
from esan.nn.encoder import Encoder
from esan.nn.features import Constant, Embeddings, NodeFeatures, Nothing, Numbers, OneHotLines
from esan.nn.layer import DSLayer, DSSLayer
from esan.nn.linear import Linear
from esan.nn.models.heads import TwoScores
from esan.nn.norm import BatchNorm
from esan.nn.set_encoder import DeepSets, InvariantDeepSets, SetMax, SetMean
from esan.ops.limits import LOOKED_UP

#: They know of a leading dimension, or have no parameters; encoders of features say themselves (`by_line`).
_KNOWN = (
    *(NodeFeatures, Encoder, DSLayer, DSSLayer),
    *(GIN, GINE, GraphConv, WeightedMLP, EdgeFeatures, BatchNorm, Linear),
    *(Constant, Embeddings, Nothing, Numbers, OneHotLines, TwoScores, DeepSets, InvariantDeepSets, SetMax, SetMean),
    *(nn.Embedding, nn.ELU, nn.ReLU, nn.Identity, nn.Sequential, nn.ModuleList),
)
#: The activations that are known, where they are no modules.
_FUNCTIONS = (torch.relu, F.relu, F.elu)


def all_known(network: nn.Module) -> bool:
    """Whether a network, besides itself, consists of such modules."""
    modules = [module for module in network.modules() if module is not network]
    if any(type(module) not in _KNOWN and not getattr(module, "by_line", False) for module in modules):
        return False
    tables = [m for m in modules if isinstance(m, nn.Embedding)]
    norms = [m for m in modules if isinstance(m, BatchNorm)]
    return (
        all(isinstance(act, nn.Module) or act in _FUNCTIONS for act in activations(network))
        and all(table.num_embeddings <= LOOKED_UP for table in tables)
        and all(n.affine and n.momentum is not None and n.track_running_stats for n in norms)
    )


def activations(network: nn.Module) -> list[Any]:
    """Those of the layers."""
    return [layer.act for layer in network.encoder.layers if hasattr(layer, "act")]  # type: ignore[union-attr]
