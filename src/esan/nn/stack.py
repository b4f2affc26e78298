"""Several networks of one kind as one: every parameter and buffer has a leading dimension, a line a network."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from esan.nn.conv import GIN, GINE, EdgeFeatures, GraphConv, WeightedMLP
from esan.nn.encoder import Encoder
from esan.nn.features import Constant, Embeddings, NodeFeatures, Numbers, OneHotLines
from esan.nn.layer import DSLayer, DSSLayer
from esan.nn.linear import Linear
from esan.nn.model import SubgraphGNN
from esan.nn.norm import BatchNorm
from esan.nn.set_encoder import DeepSets, InvariantDeepSets, SetMax, SetMean
from esan.ops.limits import LOOKED_UP

#: The modules that know of a leading dimension, or have no parameters; encoders of lines say themselves (`by_line`).
_KNOWN = (
    *(SubgraphGNN, NodeFeatures, Encoder, DSLayer, DSSLayer),
    *(GIN, GINE, GraphConv, WeightedMLP, EdgeFeatures, BatchNorm, Linear),
    *(Constant, Embeddings, Numbers, OneHotLines, DeepSets, InvariantDeepSets, SetMax, SetMean),
    *(nn.Embedding, nn.ELU, nn.ReLU, nn.Identity, nn.Sequential, nn.ModuleList),
)
#: The activations that are known, where they are no modules.
_FUNCTIONS = (torch.relu, F.relu, F.elu)


def stackable(model: SubgraphGNN) -> bool:
    """Whether networks like this one can be computed together on a GPU, each as if it were alone."""
    modules = list(model.modules())
    if any(type(module) not in _KNOWN and not getattr(module, "by_line", False) for module in modules):
        return False
    tables = [m for m in modules if isinstance(m, nn.Embedding)]
    norms = [m for m in modules if isinstance(m, BatchNorm)]
    return (
        all(isinstance(act, nn.Module) or act in _FUNCTIONS for act in _activations(model))
        and all(table.num_embeddings <= LOOKED_UP for table in tables)
        and all(n.affine and n.momentum is not None and n.track_running_stats for n in norms)
    )


def kind_of(model: SubgraphGNN) -> tuple[object, ...]:
    """What networks that are stacked must have in common: all but the values of their parameters and buffers."""
    functions = tuple(act for act in _activations(model) if not isinstance(act, nn.Module))
    names = tuple(name for name, _ in model.named_parameters())
    encoder = model.encoder
    dropout = encoder.dropout, encoder.dropout_on
    return repr(model), *dropout, model.readout, model.jk, model.output, functions, names


def _activations(model: SubgraphGNN) -> list[Any]:
    return [layer.act for layer in model.encoder.layers if hasattr(layer, "act")]


def stack(models: Sequence[SubgraphGNN]) -> SubgraphGNN:
    """One network that computes all of these, which must be built alike, on bags that hold a batch for each."""
    together = copy.deepcopy(models[0])
    others = [dict(model.named_modules()) for model in models]
    for name, module in together.named_modules():
        for key, parameter in module._parameters.items():
            if parameter is not None:
                lines = torch.stack([modules[name]._parameters[key].detach() for modules in others])
                module._parameters[key] = nn.Parameter(lines, parameter.requires_grad)
        for key, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[key] = torch.stack([modules[name]._buffers[key] for modules in others])
    return together


def unstacked(together: SubgraphGNN, number: int) -> dict[str, Tensor]:
    """The state_dict of one of the networks; views, not copies."""
    return {name: tensor[number] for name, tensor in together.state_dict().items()}
