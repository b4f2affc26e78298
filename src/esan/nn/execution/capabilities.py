"""Which modules can run for several networks at once, and which inside a CUDA graph."""

from functools import cache
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import nn

from esan.ops.dispatch import MAX_TABLE, is_changed

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
    if any(type(module) not in _STACKABLE and not getattr(module, "row_wise", False) for module in modules):
        return False
    return all(map(_is_usual, modules))


class Survey:
    """A network as it is now: what a captured pass has fixed, and which modules may run in one.

    Attributes:
        state: the mode of every module, and of every parameter where it lies and whether it is trained.
    """

    def __init__(self, network: nn.Module) -> None:
        self._modes: list[bool] = []
        self._parameters: list[tuple[int, bool]] = []
        self._capturable: dict[int, bool] = {}
        self._visit(network)
        self.state = tuple(self._modes), tuple(self._parameters)

    def may_capture(self, *modules: nn.Module) -> bool:
        """Whether modules may run in a CUDA graph: nobody has changed or watches anything inside them.

        Hooks on the given modules themselves are left out: who calls these runs them.
        """
        return all(self._capturable.get(id(module), False) for module in modules)

    def may_capture_inside(self, module: nn.Module) -> bool:
        """Whether all parts of a module may run in a CUDA graph, whatever it is itself."""
        parts = list(module.children())
        return self.may_capture(*parts) and not any(map(is_changed, parts))

    def _visit(self, module: nn.Module) -> tuple[bool, bool]:
        """Whether it may run in a CUDA graph with all that is inside it, and whether nothing inside it is changed."""
        own = vars(module)  # what torch's __getattr__ would look up, without its detours: this runs in every step
        self._modes.append(own["training"])
        for parameter in own["_parameters"].values():
            if parameter is not None:
                self._parameters.append((parameter.data_ptr(), parameter.requires_grad))
        inside, unchanged = True, True
        for part in own["_modules"].values():
            if part is not None:
                good, same = self._visit(part)
                inside, unchanged = inside and good, unchanged and same and not is_changed(part)
        kind: Any = type(module)
        wraps, known = _kind(kind)
        if wraps:
            found = unchanged and bool(module.is_capturable)
        else:
            found = known and inside and unchanged and _is_usual(module)
        self._capturable[id(module)] = found
        return found, unchanged


@cache
def _kind(kind: type[nn.Module]) -> tuple[bool, bool]:
    """Whether a class wraps modules of another library, and knows best; and whether it may run in a CUDA graph."""
    known = kind in _CAPTURABLE or getattr(kind, "row_wise", False)
    return getattr(kind, "is_capturable", None) is not None, known


def _is_usual(module: nn.Module) -> bool:
    """Whether what varies within a class of modules is as kernels know it."""
    if isinstance(module, nn.Embedding):
        return module.num_embeddings <= MAX_TABLE
    if isinstance(module, nn.BatchNorm1d):
        return module.affine and module.momentum is not None and module.track_running_stats
    return usual_activation(vars(module).get("act", torch.relu))


def usual_activation(act: Any) -> bool:
    """Whether an activation is a module, or a function that is known."""
    return isinstance(act, nn.Module) or act in _FUNCTIONS


def activations(network: nn.Module) -> list[Any]:
    """Those of the layers."""
    return [module.act for module in network.modules() if hasattr(module, "act")]
