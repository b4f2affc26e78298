"""`assert_obeyed`: hooks, subclasses, own forwards and replaced modules of a network are called."""

import copy
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from esan.bags import Bag
from esan.graphs import Source
from esan.nn import PyGConv
from esan.ops import reference
from esan.policies import Policy
from esan.testing.compare import check_close
from esan.testing.equivariance import layers_of

#: The factor of changes that scale.
_FACTOR = 1.5
Count = list[int]
Change = Callable[[nn.Module, str, Count], AbstractContextManager[None]]


def assert_obeyed(
    model: nn.Module,
    source: Source,
    policy: Policy,
    num_layers: int | None = None,
    *,
    literal: bool | None = None,
    modules: Iterable[str] | None = None,
    changes: Iterable[str] | None = None,
    training: Iterable[bool] = (True, False),
    device: torch.device | str | None = None,
    tolerance: float | None = None,
) -> None:
    """Whatever a user attaches to or changes in a module of the model is called and takes effect.

    Each part in turn gets a forward pre-hook, a forward hook, a forward hook that scales the output, a full backward
    hook, a subclass, a `forward` of its own, and a replacement that scales the output. Each of them must be called as
    often as under `with esan.reference():`, where modules are called one by one, and predictions, gradients and buffers
    must be those of the same changed model there. A module whose parameters get a gradient and that is never called is
    an error too. The model must draw nothing at random; it is left as it was.

    Args:
        model: takes a bag.
        source: the graphs.
        policy: makes the bag.
        num_layers: of a compact bag; None for what the model needs.
        literal: which kind of bag; None for the compact one where it is smaller.
        modules: names from `model.named_modules()`; None for all that take part.
        changes: from `esan.testing.obedience.CHANGES`; None for all.
        training: modes to try.
        device: of the bag; None for that of the model.
        tolerance: None for that of the dtype of the parameters.

    Raises:
        AssertionError: names the module, the change and the mode, and says what is wrong.
    """
    mine = copy.deepcopy(model)
    bag = Bag.of(source, policy, layers_of(mine, num_layers), literal=literal)
    bag = bag.to(next(mine.parameters()).device if device is None else device)
    kinds = [*CHANGES] if changes is None else [*changes]
    for mode in training:
        when = "while training" if mode else "in evaluation"
        mine.train(mode)
        parts = _parts(mine, bag)
        with reference():
            plain = _run(mine, bag)
        _check_called(mine, parts, plain, when)
        chosen = parts if modules is None else {name: parts[name] for name in modules}
        for name, part in chosen.items():
            for kind in kinds:
                if kind == "full backward hook" and not part.differentiable:
                    continue
                what = f"{name or 'the model'} ({part.kind}), {kind}, {when}"
                _check(mine, bag, name, part, CHANGES[kind], kind in _OBSERVING, plain, what, tolerance)


@dataclass(frozen=True, eq=False)
class _ModuleCalls:
    """A module that is called: its class, how often, and whether its output has a gradient."""

    kind: str
    calls: int
    differentiable: bool


@dataclass(frozen=True, eq=False)
class _Results:
    """The results of a model on a bag."""

    output: Tensor
    gradients: dict[str, Tensor]
    buffers: dict[str, Tensor]


def _check(
    model: nn.Module,
    bag: Bag,
    name: str,
    part: _ModuleCalls,
    change: Change,
    observes: bool,
    plain: _Results,
    what: str,
    tolerance: float | None,
) -> None:
    calls: Count = []
    with change(model, name, calls):
        got = _run(model, bag)
    expected, wanted = plain, part.calls
    if not observes:
        there: Count = []
        with change(model, name, there), reference():
            expected = _run(model, bag)
        wanted = len(there)
    if len(calls) != wanted:
        raise AssertionError(f"Expected {wanted} calls, as under esan.reference() (got {len(calls)}): {what}.")
    check_close(got.output, expected.output, f"predictions ({what})", tolerance=tolerance)
    for kind in ("gradients", "buffers"):
        ours, theirs = getattr(got, kind), getattr(expected, kind)
        # A parameter that no derivative reaches may have none, or 0.
        scale = max([1.0, *(float(t.abs().max()) for t in theirs.values() if t.is_floating_point() and t.numel())])
        for key in ours.keys() | theirs.keys():
            mine, other = (side.get(key) for side in (ours, theirs))
            known: Any = other if mine is None else mine
            zero = torch.zeros_like(known)
            mine, other = zero if mine is None else mine, zero if other is None else other
            check_close(mine, other, f"{kind}, {key} ({what})", scale=scale, tolerance=tolerance)


def _check_called(model: nn.Module, parts: dict[str, _ModuleCalls], plain: _Results, when: str) -> None:
    """An error for a module whose parameters are used without calling it."""
    for name, module in model.named_modules():
        read = [key for key, _ in module.named_parameters(prefix=name, recurse=False) if key in plain.gradients]
        if name not in parts and read and not isinstance(module, _CONTAINERS):
            raise AssertionError(
                f"Expected {name} ({type(module).__name__}) to be called (got its parameters read, {when}). Call the "
                "module, whose hooks are skipped otherwise."
            )


_CONTAINERS = (nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)


def _parts(model: nn.Module, bag: Bag) -> dict[str, _ModuleCalls]:
    """The modules that are called when every module is called, by name."""
    calls: dict[nn.Module, list[bool]] = {}

    def seen(module: nn.Module, _: Any, output: Any) -> None:
        outputs = output if isinstance(output, tuple) else (output,)
        calls.setdefault(module, []).append(all(isinstance(x, Tensor) and x.requires_grad for x in outputs))

    with ExitStack() as stack, reference(), _restored(model):
        for module in model.modules():
            stack.callback(module.register_forward_hook(seen).remove)
        model(bag)
    return {
        name: _ModuleCalls(type(module).__name__, len(calls[module]), all(calls[module]))
        for name, module in model.named_modules()
        if module in calls
    }


def _run(model: nn.Module, bag: Bag) -> _Results:
    with _restored(model):
        output = model(bag)
        # The loss weights every output differently.
        weight = torch.linspace(0.5, 1.5, output.numel(), dtype=output.dtype, device=output.device)
        (output.reshape(-1) * weight).sum().backward()
        gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        return _Results(output.detach(), gradients, {name: b.clone() for name, b in model.named_buffers()})


@contextmanager
def _restored(model: nn.Module) -> Iterator[None]:
    """Restores buffers and gradients on exit."""
    before = [(buffer, buffer.clone()) for buffer in model.buffers()]
    model.zero_grad()
    try:
        yield
    finally:
        model.zero_grad()
        with torch.no_grad():
            for buffer, value in before:
                buffer.copy_(value)


# -- changes: each within a context, counting its calls --------------------------------------------------------------


def _scaled(value: Any) -> Any:
    """The output of a module, times a factor: a tensor, or records and lists of tensors."""
    if isinstance(value, Tensor):
        return _FACTOR * value if value.is_floating_point() else value
    if isinstance(value, list | tuple):
        return type(value)(map(_scaled, value))
    if is_dataclass(value) and not isinstance(value, type):
        tensors = {f.name: getattr(value, f.name) for f in fields(value)}
        return replace(value, **{name: _scaled(t) for name, t in tensors.items() if isinstance(t, Tensor)})
    return value


@contextmanager
def _removed(handle: Any) -> Iterator[None]:
    try:
        yield
    finally:
        handle.remove()


def _pre_hook(model: nn.Module, name: str, calls: Count) -> AbstractContextManager[None]:
    return _removed(model.get_submodule(name).register_forward_pre_hook(lambda *_: calls.append(1)))


def _hook(model: nn.Module, name: str, calls: Count) -> AbstractContextManager[None]:
    return _removed(model.get_submodule(name).register_forward_hook(lambda *_: calls.append(1)))


def _scaling_hook(model: nn.Module, name: str, calls: Count) -> AbstractContextManager[None]:
    def scales(_: nn.Module, __: Any, output: Any) -> Any:
        calls.append(1)
        return _scaled(output)

    return _removed(model.get_submodule(name).register_forward_hook(scales))


@contextmanager
def _backward_hook(model: nn.Module, name: str, calls: Count) -> Iterator[None]:
    hook = model.get_submodule(name).register_full_backward_hook(lambda *_: calls.append(1))
    with _removed(hook), warnings.catch_warnings():
        # Whether inputs require grad does not matter here.
        warnings.filterwarnings("ignore", "Full backward hook is firing", UserWarning)
        yield


@contextmanager
def _subclass(model: nn.Module, name: str, calls: Count, scale: Callable[[Any], Any] | None = None) -> Iterator[None]:
    module: Any = model.get_submodule(name)
    kind = type(module)

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        output = kind.forward(self, *args, **kwargs)
        return output if scale is None else scale(output)

    wrapper = model.get_submodule(name.rpartition(".")[0])
    # A subclass of a PyG convolution may read more than that does, unless it says what it reads.
    exact = isinstance(wrapper, PyGConv) and module is wrapper.conv and wrapper.why_literal is None
    declared = {"lookahead": wrapper.lookahead} if exact else {}
    module.__class__ = type(f"Own{kind.__name__}", (kind,), {"forward": forward, **declared})
    try:
        yield
    finally:
        module.__class__ = kind


@contextmanager
def _own_forward(model: nn.Module, name: str, calls: Count) -> Iterator[None]:
    module: Any = model.get_submodule(name)
    before, original = vars(module).get("forward"), module.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        return original(*args, **kwargs)

    module.forward = forward
    try:
        yield
    finally:
        del module.forward
        if before is not None:
            module.forward = before


def _replaced(model: nn.Module, name: str, calls: Count) -> AbstractContextManager[None]:
    """A replacement keeps the attributes of the module, which its parent may read."""
    return _subclass(model, name, calls, _scaled)


#: The changes of a module, by name.
CHANGES: dict[str, Change] = {
    "forward pre-hook": _pre_hook,
    "forward hook": _hook,
    "forward hook that scales": _scaling_hook,
    "full backward hook": _backward_hook,
    "subclass": _subclass,
    "forward of its own": _own_forward,
    "replacement that scales": _replaced,
}
#: Changes that change nothing and are called in every forward pass.
_OBSERVING = {"forward pre-hook", "forward hook", "subclass", "forward of its own"}
