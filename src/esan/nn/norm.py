"""Norms weighted by the multiplicities of rows, and how modules that take no multiplicities are called."""

import inspect
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd

from esan.nn.execution.capabilities import capturable, stackable
from esan.nn.linear import Linear
from esan.ops.dispatch import is_plain
from esan.ops.norm import NormState, batch_norm


@stackable
class BatchNorm(nn.BatchNorm1d):
    r"""Batch normalisation over pairs: each row counts as often as the pairs that it stands for.

    .. math:: \mu = \tfrac1N \sum_r w_r x_r, \quad \sigma^2 = \tfrac1N \sum_r w_r (x_r - \mu)^2, \quad N = \sum_r w_r

    Parameters, buffers and state_dict are those of `torch.nn.BatchNorm1d`, and without multiplicities so is the result;
    with them it is what `torch.nn.BatchNorm1d` gives when each row is repeated `w_r` times.

    Attributes:
        unbiased: whether the running variance follows :math:`\sigma^2 N / (N - 1)`, as torch has it, or
            :math:`\sigma^2`, by which the batch itself is divided.
    """

    unbiased = True

    def forward(self, x: Tensor, multiplicity: Tensor | None = None, relu: bool = False) -> Tensor:
        """Normalise rows of these multiplicities, and apply ReLU if `relu`, in the same pass over the rows."""
        return batch_norm(x, self.state, multiplicity, relu)

    @property
    def state(self) -> NormState:
        """Parameters, buffers and mode, as the operators take them."""
        return NormState(
            gamma=self.weight,
            beta=self.bias,
            running_mean=self.running_mean,
            running_var=self.running_var,
            num_batches=self.num_batches_tracked,
            momentum=self.momentum,
            eps=self.eps,
            training=self.training,
            unbiased=self.unbiased,
        )


def is_relu(act: Any) -> bool:
    """Whether an activation is ReLU, which operators apply in the same pass as a norm."""
    return is_plain(act, nn.ReLU) if isinstance(act, nn.Module) else act in (torch.relu, F.relu)


@capturable
class LayerNorm(nn.LayerNorm):
    """Normalisation of each row by itself, for which multiplicities do not matter."""

    def forward(self, x: Tensor, multiplicity: Tensor | None = None) -> Tensor:  # noqa: ARG002
        return super().forward(x)


@capturable
class NoNorm(nn.Identity):
    """No normalisation; takes its width, and multiplicities, as the others do."""

    def forward(self, x: Tensor, multiplicity: Tensor | None = None) -> Tensor:  # noqa: ARG002
        return x


#: Modules of torch that treat each row by itself, and draw no random numbers.
_BY_ROW = {
    *(nn.Linear, Linear, nn.LayerNorm, nn.RMSNorm, nn.Identity, nn.Sequential),
    *(nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.Softplus),
}


_SOFTMAXES = (nn.Softmax, nn.LogSoftmax, nn.Softmin)


def on_rows(module: Any, x: Tensor, multiplicity: Tensor | None) -> Tensor:
    """The result of a norm or an MLP: `module(x, multiplicity)`, or `module(x)` if it takes no multiplicities.

    The latter is exact where every row stands for one pair, or where the module treats rows one by one.
    """
    if _takes_multiplicity(module):
        return module(x, multiplicity)
    why = why_every_pair(module)
    if multiplicity is not None and why is not None:
        raise ValueError(
            f"Expected rows that stand for one pair each (got multiplicities, and {why}). Use esan.nn.BatchNorm, let "
            "forward take (x, multiplicity), or use a literal bag without padding."
        )
    return module(x)


def norm_inside(module: nn.Module) -> nn.Module | None:
    """The first norm or softmax over rows inside a module, itself included; None if there is none."""
    parts: list[Any] = [module]
    for part in parts:  # not module.modules(), which is slow: this is asked of many modules in every step
        if part is not None:
            kind: Any = type(part)
            if _is_norm(kind) or (issubclass(kind, _SOFTMAXES) and part.dim not in (None, 1, -1)):
                return part
            parts += part._modules.values()
    return None


@lru_cache(256)  # classes may be created at run time
def _is_norm(kind: type[nn.Module]) -> bool:
    """Whether a module of a class is a norm over rows; those of PyG have no class in common."""
    return issubclass(kind, _NormBase) or kind.__module__.startswith("torch_geometric.nn.norm")


def why_rows_mix(module: Any) -> str | None:
    """Why what is called on rows alone, such as a linear layer or an activation, needs one row per pair, if it does."""
    if not isinstance(module, nn.Module) and function_mixes_rows(module):
        name = getattr(module, "__name__", type(module).__name__)
        return f"the activation {name} gives a row other values where there are other rows"
    if not isinstance(module, nn.Module) or (type(module) in _BY_ROW and not module._modules):
        return None
    if (norm := norm_inside(module)) is not None:
        where = "" if norm is module else f"{type(module).__name__} holds a "
        return f"{where}{type(norm).__name__}{', which' if where else ''} does not know how many pairs a row stands for"
    if any(part.training and drops(part) for part in module.modules()):
        return f"{type(module).__name__} holds dropout, which is drawn for every pair"
    if any(part.training and isinstance(part, nn.RReLU) for part in module.modules()):
        return f"{type(module).__name__} draws slopes for every pair"
    return None


def function_mixes_rows(function: Any) -> bool:
    """Whether a function gives a row other values where there are other rows, or draws them; tried on four rows."""
    try:
        if function not in _MIXES_ROWS:
            _MIXES_ROWS[function] = _mixes_rows(function)
        return _MIXES_ROWS[function]
    except TypeError:  # what cannot be referred to weakly is tried again
        return _mixes_rows(function)


#: What was found out about functions, for as long as they exist.
_MIXES_ROWS: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def _mixes_rows(function: Any) -> bool:
    rows = torch.linspace(-2.0, 2.0, 12, device="cpu").view(4, 3)
    with torch.no_grad(), torch.random.fork_rng([]):
        try:
            together, alone = function(rows.clone()), [function(row) for row in rows.clone().split(1)]
            return not torch.allclose(together, torch.cat(alone), 1e-4, 1e-4)
        except Exception:  # it needs another width, dtype or device: nothing was found out
            return False


def drops(module: nn.Module) -> bool:
    """Whether a module drops anything: a dropout of torch, or PyG's attribute of that name (a list in its MLP)."""
    if isinstance(module, _DropoutNd):
        return module.p > 0
    rates = getattr(module, "dropout", 0.0)
    return any(isinstance(p, int | float) and p > 0 for p in (rates if isinstance(rates, list | tuple) else [rates]))


def why_every_pair(module: Any) -> str | None:
    """Why a norm or an MLP needs one row per pair; None if it does not."""
    if isinstance(module, nn.SyncBatchNorm):
        raise TypeError(
            "Expected a norm that knows how many pairs a row stands for (got SyncBatchNorm). Leave esan's norms in "
            "place and call esan.train.convert_sync_batch_norm(model), whose statistics are those of all processes."
        )
    if module is None:
        raise TypeError("Expected a module as a norm (got None). Put torch.nn.Identity() there.")
    if _takes_multiplicity(module) or all(type(part) in _BY_ROW for part in module.modules()):
        return None
    for part in module.modules():
        kind: Any = type(part)
        if _normalises_graphs(kind) and getattr(part, "mode", None) != "node":
            raise TypeError(
                f"Expected a norm over rows (got {kind.__name__} of PyG, which normalises graph by graph and is not "
                "told them here). Use norm='layer_norm', or a norm of torch."
            )
    return f"{type(module).__name__} does not know how many pairs a row stands for"


def _takes_multiplicity(module: Any) -> bool:
    kind: Any = type(module)
    return _takes_two(module.forward) if "forward" in vars(module) else _class_takes_two(kind)


@lru_cache(256)  # classes may be created at run time
def _class_takes_two(kind: type[nn.Module]) -> bool:
    return _takes_two(kind.forward.__get__(object()))


def _takes_two(forward: Any) -> bool:
    """Whether a second argument is the multiplicity: by its name, since that of PyG's modules is `batch`."""
    signature = inspect.signature(forward)
    try:
        given = signature.bind("x", "multiplicity").arguments
    except TypeError:
        return False
    name = [*given][-1]  # of the argument that gets it; a wrapper may hand on whatever it is given
    return name == "multiplicity" or signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL


@lru_cache(256)  # classes may be created at run time
def _normalises_graphs(kind: type[nn.Module]) -> bool:
    """Whether a class is one of PyG's norms that must be told which graph a row belongs to."""
    is_pygs = kind.__module__.startswith("torch_geometric.nn.norm")
    return is_pygs and "batch" in inspect.signature(kind.forward).parameters


NORMS: dict[str | None, type[nn.Module]] = {"batch_norm": BatchNorm, "layer_norm": LayerNorm, None: NoNorm}
