"""Which modules can run for several networks at once, and which inside a CUDA graph."""

from collections.abc import Callable
from functools import cache
from operator import itemgetter
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

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
        state: every module with its settings; every parameter, where it lies and whether it is trained; where every
            buffer lies.
    """

    def __init__(self, network: nn.Module) -> None:
        self._settings: list[Any] = []
        self._tensors: list[Tensor] = []
        self._capturable: dict[int, bool] = {}
        self._visit(network)
        tensors = self._tensors
        places = (
            tuple(map(id, tensors)),
            tuple(map(Tensor.data_ptr, tensors)),
            tuple([t.requires_grad for t in tensors]),
        )
        self.state = hashable((*self._settings, places))

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
        kind: Any = type(module)
        self._settings += (id(module), settings_getter(kind, own)(own))
        for held in (own["_parameters"], own["_buffers"]):
            if held:
                self._tensors += [tensor for tensor in held.values() if tensor is not None]
        inside, unchanged = True, True
        for part in own["_modules"].values():
            if part is not None:
                good, same = self._visit(part)
                inside, unchanged = inside and good, unchanged and same and not is_changed(part)
        wraps, known = _kind(kind)
        if wraps:
            found = unchanged and bool(module.is_capturable)
        else:
            found = known and inside and unchanged and _is_usual(module)
        self._capturable[id(module)] = found
        return found, unchanged


def settings_getter(kind: Any, own: dict[str, Any]) -> Callable[[dict[str, Any]], Any]:
    """What reads the mode and the constants that a captured pass holds from the `vars` of modules of this class.

    Of classes that are neither torch's, PyG's nor esan's the mode alone: they may count calls in their attributes.
    """
    key = kind, *own
    if key not in _GETTERS:
        known = kind.__module__.partition(".")[0] in ("torch", "torch_geometric", "esan")
        names = [name for name in own if name not in ("training", "act") and not name.startswith("_")]
        constants = itemgetter("training", *(name for name in names if known and _may_be_fixed(own[name])))
        # An activation may be a module at first, which is visited, and a function of `_FUNCTIONS` later.
        _GETTERS[key] = (lambda own: (id(own.get("act")), constants(own))) if known else constants
    return _GETTERS[key]


def hashable(state: tuple[Any, ...]) -> Any:
    """A state as the key of a dictionary: as text where a setting is a list, such as several aggregations of PyG's."""
    try:
        hash(state)
    except TypeError:
        return repr(state)
    return state


#: By class and the names of attributes.
_GETTERS: dict[tuple[Any, ...], Callable[[dict[str, Any]], Any]] = {}


def _may_be_fixed(value: Any) -> bool:
    """Whether a value is a constant: a number, word or nothing."""
    return value is None or type(value) in (bool, int, float, str)


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
