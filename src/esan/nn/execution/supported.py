"""Which modules may be computed for several networks at once, and which in a CUDA graph."""

from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import nn

from esan.ops.dispatch import is_plain
from esan.ops.limits import LOOKED_UP

Kind = TypeVar("Kind", bound=type[nn.Module])

#: Modules that know a leading dimension of networks, or have no parameters.
_STACKABLE: set[type[nn.Module]] = {nn.Embedding, nn.ELU, nn.ReLU, nn.Identity, nn.Sequential, nn.ModuleList}
#: Modules that launch the same kernels for all batches of one shape and never wait for the device.
_CAPTURABLE: set[type[nn.Module]] = {*_STACKABLE, nn.Linear, nn.LayerNorm, nn.LeakyReLU, nn.GELU, nn.SiLU, nn.Tanh}
#: Activations that are functions.
_FUNCTIONS = (torch.relu, F.relu, F.elu)


def stackable(kind: Kind) -> Kind:
    """Decorator: the module may be that of several networks at once, and run in a CUDA graph."""
    _STACKABLE.add(kind)
    _CAPTURABLE.add(kind)
    return kind


def capturable(kind: Kind) -> Kind:
    """Decorator: the module may run in a CUDA graph."""
    _CAPTURABLE.add(kind)
    return kind


def all_stackable(network: nn.Module) -> bool:
    """Whether a network, besides itself, consists of modules that may be those of several networks at once."""
    modules = [module for module in network.modules() if module is not network]
    if any(type(module) not in _STACKABLE and not getattr(module, "by_line", False) for module in modules):
        return False
    return _as_usual(modules)


def all_capturable(*modules: nn.Module) -> bool:
    """Whether modules, and all within them, may run in a CUDA graph: nobody has changed or watches any of them.

    Hooks on the given modules themselves are left out: who calls them runs these.
    """
    return all(_inside_is_capturable(module) for module in modules)


def _inside_is_capturable(module: nn.Module) -> bool:
    own = getattr(module, "is_capturable", None)  # a module that wraps one of another library knows best
    if own is not None:
        return bool(own) and all(is_plain(part, type(part)) for part in module.modules() if part is not module)
    if type(module) not in _CAPTURABLE and not getattr(module, "by_line", False):
        return False
    if not _as_usual([module]):
        return False
    return all(is_plain(part, type(part)) and _inside_is_capturable(part) for part in module.children())


def _as_usual(modules: list[nn.Module]) -> bool:
    tables = [m for m in modules if isinstance(m, nn.Embedding)]
    norms = [m for m in modules if isinstance(m, nn.BatchNorm1d)]
    return (
        all(map(usual_activation, _activations(modules)))
        and all(table.num_embeddings <= LOOKED_UP for table in tables)
        and all(n.affine and n.momentum is not None and n.track_running_stats for n in norms)
    )


def usual_activation(act: Any) -> bool:
    """Whether an activation is a module, or a function that is known."""
    return isinstance(act, nn.Module) or act in _FUNCTIONS


def activations(network: nn.Module) -> list[Any]:
    """Those of the layers."""
    return _activations([*network.modules()])


def _activations(modules: list[nn.Module]) -> list[Any]:
    return [module.act for module in modules if hasattr(module, "act")]
