"""Stack the parameters and buffers of several networks along a leading dimension, as `torch.func` does."""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from esan.nn.execution.capabilities import activations, all_stackable
from esan.nn.models.subgraph_gnn import SubgraphGNN
from esan.ops.dispatch import is_changed


def can_stack(model: SubgraphGNN) -> bool:
    """Whether networks like this one can be computed together on a GPU, each as if it were alone."""
    return type(model) is SubgraphGNN and all_stackable(model)


def kind_of(model: SubgraphGNN) -> tuple[object, ...]:
    """What networks that are stacked must have in common: all but the values of their parameters and buffers."""
    functions = tuple(act for act in activations(model) if not isinstance(act, nn.Module))
    parameters = tuple((name, parameter.requires_grad, parameter.dtype) for name, parameter in model.named_parameters())
    modules = tuple((type(module), _settings(module)) for module in model.modules())
    return repr(model), functions, parameters, modules


def why_not_stacked(model: SubgraphGNN) -> str | None:
    """Why a network cannot be a member of an ensemble: what is not in its parameters and buffers; None if it can."""
    for name, module in model.named_modules():
        if is_parametrized(module):
            return f"one with a parametrisation of {name}"
    changed = next((name for name, module in model.named_modules() if is_changed(module)), None)
    if changed is not None:
        return f"one with a hook or a method of its own in {changed or 'the network itself'}"
    for tensors in (model.named_parameters, model.named_buffers):
        once = dict(tensors())
        again = next((name for name, _ in tensors(remove_duplicate=False) if name not in once), None)
        if again is not None:
            return f"one with {again}, which is also in another place"
    return None


def _settings(module: nn.Module) -> tuple[tuple[str, object], ...]:
    """The attributes of a module that are numbers, words or truth values."""
    return tuple((name, value) for name, value in vars(module).items() if isinstance(value, bool | int | float | str))


def stack(models: Sequence[SubgraphGNN]) -> SubgraphGNN:
    """One network that computes all of these, which must be built alike, on bags that hold a batch for each."""
    together = copy.deepcopy(models[0])
    others = [dict(model.named_modules()) for model in models]
    for name, module in together.named_modules():
        for key, parameter in module._parameters.items():
            if parameter is not None:
                stacked = torch.stack([modules[name]._parameters[key].detach() for modules in others])
                module._parameters[key] = nn.Parameter(stacked, parameter.requires_grad)
        for key, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[key] = torch.stack([modules[name]._buffers[key] for modules in others])
    together.members = len(models)
    return together


def unstacked(together: SubgraphGNN, number: int) -> dict[str, Tensor]:
    """The state_dict of one of the networks; views, not copies."""
    return {name: tensor[number] for name, tensor in together.state_dict().items()}
