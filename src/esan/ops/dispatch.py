"""Decides which implementation of an operator runs, torch's, numba's or Triton's, and which modules must be called."""

import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from functools import cache, wraps
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.modules.module import _has_any_global_hook

from esan.ops.compile_progress import report_triton
from esan.ops.numba import runtime


class Backend(Enum):
    """Which implementation computes an operator; the others give the result of the reference, only faster."""

    REFERENCE = "reference"
    NUMBA = "numba"
    TRITON = "triton"


#: Rows of the largest table of edge features that Triton's message kernels look up themselves: each has a gradient sum.
MAX_FUSED_TABLE = 4
#: The widest layer that Triton's kernels take at once, and the most columns that a program works on.
MAX_WIDTH = 128
#: Rows of the largest embedding table whose gradient Triton's kernels compute.
MAX_TABLE = 128
#: Types that numba's loops are compiled for.
_COMPILED = (torch.float32, torch.float64)
_REFERENCE: ContextVar[bool] = ContextVar("reference", default=False)


@contextmanager
def reference() -> Iterator[None]:
    """Within, all operators run as plain torch: slower, but differentiable twice and open to every transform of torch.

    ```python
    with esan.reference():
        loss = model(bag).sum()
        (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
    ```
    """
    before = _REFERENCE.set(True)
    try:
        yield
    finally:
        _REFERENCE.reset(before)


def backend(*tensors: Tensor | None) -> Backend:
    """The backend for these tensors; None stands for an absent tensor.

    Triton takes tensors on a GPU whose floats are in single precision, numba those on a CPU whose floats are all in
    single or all in double precision. The reference runs under whatever traces torch (`torch.func`, forward-mode
    derivatives, a `TorchDispatchMode`, `torch.compile`, `torch.export`), and on subclasses of tensors.
    """
    present = [t for t in tensors if t is not None]
    if _REFERENCE.get() or _traced(present):
        return Backend.REFERENCE
    dtypes = {t.dtype for t in present if t.is_floating_point()}
    kind = present[0].device.type
    if _triton_runs_on(kind):
        return Backend.TRITON if dtypes <= {torch.float32} else Backend.REFERENCE
    if kind == "cpu" and len(dtypes) <= 1 and dtypes <= {*_COMPILED} and runtime.available():
        return Backend.NUMBA
    return Backend.REFERENCE


def computes_several_networks(*tensors: Tensor | None) -> bool:
    """Whether one call computes several networks of the same kind: Triton's kernels do."""
    return backend(*tensors) is Backend.TRITON


def implementation(family: str, *tensors: Tensor | None) -> Any:
    """The module `esan.ops.<backend>.<family>` for these tensors; None where the reference runs, or where the backend
    has no such module.
    """
    chosen = backend(*tensors)
    return None if chosen is Backend.REFERENCE else _module(chosen, family)


@cache
def _module(chosen: Backend, family: str) -> Any:
    # Numba and Triton are optional: their modules are imported when they are first used.
    name = f"esan.ops.{chosen.value}.{family}"
    return import_module(name) if find_spec(name) is not None else None


def is_observed() -> bool:
    """Whether somebody follows every operation: torch traces them, checks them, or asks what they save."""
    return _REFERENCE.get() or _traced([]) or torch.is_anomaly_enabled() or _saved_tensors_are_watched()


def _saved_tensors_are_watched() -> bool:
    """Whether somebody is told what operations save for their gradients, as in checkpoints."""
    if _SAVING is None:
        return False
    try:
        return _SAVING(True) is not None
    except TypeError:  # a version of torch without the argument
        return _SAVING() is not None


def keeps_graph() -> bool:
    """Within a backward pass: whether it may be run again."""
    return _KEEPS_GRAPH is None or bool(_KEEPS_GRAPH())


#: What torch has no public name for; None in versions that lack it.
_SAVING = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)
_KEEPS_GRAPH = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", None)


def _traced(tensors: list[Tensor]) -> bool:
    """Whether torch traces the computation, so that every operation must be torch's own."""
    if any(type(t) not in (Tensor, nn.Parameter, nn.Buffer) for t in tensors):
        return True
    # Derivatives in forward mode have a level while a `dual_level` is open; modes are e.g. torch's counter of FLOPs.
    traced = forward_ad._current_level >= 0 or torch._C._len_torch_dispatch_stack() > 0
    return traced or torch._C._functorch.peek_interpreter_stack() is not None or torch.compiler.is_compiling()


@cache
def _triton_runs_on(kind: str) -> bool:
    """Whether Triton's kernels run on devices of a kind: on a GPU, or by its interpreter on a CPU, for tests."""
    runs = kind == "cuda" or (kind == "cpu" and os.environ.get("TRITON_INTERPRET") == "1")
    if not runs or find_spec("triton") is None:
        return False
    report_triton()
    return True


def say_if_slow(like: Tensor) -> None:
    """Warn once if a faster backend for tensors like this one could be installed."""
    if like.device.type == "cpu":
        runtime.say_if_missing()


def fills_at_once(device: torch.device) -> int:
    """How many rows keep a device busy: fewer at a time leave a GPU idle; 0 for a CPU."""
    return 2**25 if device.type == "cuda" else 0


def is_plain(module: Any, kind: type[nn.Module]) -> bool:
    """Whether a module is unchanged, so that its parameters may be read instead of calling it.

    A subclass, a hook (also a global one) or a method set on the instance may do something else: then it is called.
    """
    return type(module) is kind and not is_changed(module) and not _has_any_global_hook()


def is_changed(module: nn.Module) -> bool:
    """Whether a module has hooks, or a method that was set on the instance."""
    own = vars(module)  # without the detours of torch's __getattr__: this is asked for every module in every step
    hooks = own["_forward_hooks"] or own["_forward_pre_hooks"] or own["_backward_hooks"] or own["_backward_pre_hooks"]
    return bool(hooks) or not _methods(type(module)).isdisjoint(own)  # type: ignore[arg-type]


@cache
def _methods(kind: type[nn.Module]) -> frozenset[str]:
    """The names of all methods of a class; one of them in an instance's own attributes is a replaced method."""
    return frozenset(name for name in dir(kind) if inspect.isroutine(inspect.getattr_static(kind, name)))


def is_plain_table(module: Any) -> bool:
    """Whether an `nn.Embedding` is a plain lookup in its weight."""
    special = (module.padding_idx, module.max_norm) if type(module) is nn.Embedding else (0,)
    rare = type(module) is not nn.Embedding or module.scale_grad_by_freq or module.sparse
    return is_plain(module, nn.Embedding) and special == (None, None) and not rare


def never_compiled(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a pass that `torch.compile` runs eagerly: its operators are compiled already."""
    # Versions of torch before 2.7 take no reason.
    takes_reason = "reason" in inspect.signature(torch.compiler.disable).parameters
    why = (
        {"reason": "esan's operators are compiled already, so that its networks run as they are"}
        if takes_reason
        else {}
    )
    return torch.compiler.disable(forward, **why)


def refuse_export() -> None:
    """Refuse `torch.export` and `torch.jit.trace`: they would record the indices of one bag, not a network."""
    # Versions of torch before 2.7 lack the first function.
    exporting = getattr(torch.compiler, "is_exporting", bool)()
    if exporting or torch.jit.is_tracing():
        how = "torch.export" if exporting else "torch.jit.trace"
        raise RuntimeError(
            f"Expected a network that is run by esan (got {how}, whose graphs hold no bags). Save "
            "model.state_dict() instead."
        )


def autocasts(x: Tensor) -> bool:
    """Whether autocast chooses the precision of matrix products."""
    return torch.is_autocast_enabled(x.device.type)


def first_order(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate the backward pass of a fused operator, which autograd cannot differentiate again: refuse to."""

    @wraps(backward)
    def once(ctx: Any, *grads: Any) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "Expected first derivatives of a fused operator (got create_graph=True, which asks for second ones). "
                "Run the forward pass under `with esan.reference():`, whose operators are differentiable twice."
            )
        if any(isinstance(grad, Tensor) and torch._C._functorch.is_legacy_batchedtensor(grad) for grad in grads):
            raise RuntimeError(
                "Expected one gradient at a time for a fused operator (got is_grads_batched=True, or vectorize=True). "
                "Run the forward pass under `with esan.reference():`."
            )
        return backward(ctx, *grads)

    # Where a whole step is compiled, `loss.backward()` would have it traced.
    return never_compiled(once)
