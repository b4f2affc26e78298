"""`step`: a training step written by the user, captured once per batch shape as a CUDA graph, then replayed."""

import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import update_wrapper
from typing import Any, Generic, TypeVar, overload

import torch
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook
from torch.utils import _pytree as pytree

from esan.bags.bag import Bag
from esan.bags.loader import Loader
from esan.bags.padded.bag import PaddedBag
from esan.bags.padded.batches import BatchFields, MissingFieldError
from esan.nn.execution.called_networks import networks_called
from esan.nn.execution.capabilities import hashable, settings_getter
from esan.nn.execution.replay import StaticFields, avoiding_waits
from esan.ops.device import Recording, graph_pool, is_gpu, on_capture_stream
from esan.ops.dispatch import is_observed, is_plain

T = TypeVar("T")
#: The most CUDA graphs of a step: a few shapes, in two modes.
_MOST_GRAPHS = 32
#: How often a step is captured again because it adds to other gradients: once or twice, where these come to rest.
_MOST_MOVES = 8
_BEGINS_NOW = (
    "Expected an optimiser that had made a step before esan.step captured one (got one that begins now). "
    "Call optimiser.step() in every step."
)
Work = Callable[[Any], Any]


@overload
def step(work: Loader | None = None, /) -> "Callable[[Callable[[Bag], T]], Step[T]]": ...
@overload
def step(work: Callable[[Bag], T], /) -> "Step[T]": ...
def step(work: Any = None, /) -> Any:
    """Capture a function of a batch as CUDA graphs, one per batch shape; on a CPU it is just the function.

    ```python
    loader = esan.Loader(bag, batch_size=128, shuffle=True, device="cuda")

    @esan.step(loader)
    def train(bag):
        optimiser.zero_grad()
        loss = (model(bag).squeeze(-1) - bag.y).abs().mean()
        loss.backward()
        optimiser.step()
        return loss.detach()

    for epoch in range(400):
        for bag in loader:
            train(bag)
    ```

    The first batch of each shape runs eagerly, the second is captured; from then on Python no longer runs inside the
    step, the kernels are replayed. The step returns a copy, which stays valid. A changed learning rate, mode
    (`model.eval()`), frozen parameter or reloaded weight is noticed. What a CUDA graph cannot hold (reading a value
    back, `loss.item()`, control flow that depends on it) is an error of torch with a note on what to do. A step in
    which a module has hooks runs eagerly, since hooks are Python.

    `losses = train.over(loader)` runs a whole epoch. Between its batches nothing can change, so what a captured step
    depends on is examined once instead of before every batch.

    Args:
        work: the loader whose batches the step takes, or the function itself.
    """
    if callable(work) and not isinstance(work, Loader):
        return Step(work)
    if work is not None and not isinstance(work, Loader):
        raise TypeError(f"Expected a Loader or the function of a step (got {type(work).__name__}). Write @esan.step.")
    return Step


class Step(Generic[T]):
    """A step that runs eagerly or is replayed; see `step`.

    Attributes:
        captures: the number of CUDA graphs that it holds.
    """

    def __init__(self, work: Callable[[Any], T]) -> None:
        self._work = work
        self._seen: dict[Any, int] = {}
        self._graphs: dict[Any, _Graph] = {}
        self._known = _TrackedState()
        self._pool: Any = None
        #: The state of modules and optimisers within `over`, where only the step itself can change it.
        self._state: Any = None
        for value in _named(work):
            if isinstance(value, nn.Module):
                self._known.add(value)
        self._why_eager: str | None = None
        #: How often the gradients that a captured step adds to were others.
        self._moved = 0
        _refuse_other_arguments(work)
        update_wrapper(self, work)

    @property
    def captures(self) -> int:
        return len(self._graphs)

    def over(self, bags: Iterable[Bag]) -> list[T]:
        """The results for all batches: `[step(bag) for bag in bags]`. Reading a batch must not change a module."""
        self._state = self._known.state()
        try:
            return [self(bag) for bag in bags]
        finally:
            self._state = None

    def __call__(self, bag: Bag) -> T:
        if not isinstance(bag, PaddedBag) or not isinstance(bag.fields, BatchFields) or self._why_eager:
            return self._work(bag)
        if not is_gpu(bag.device) or is_observed() or bag.fields.wants_gradient:
            return self._work(bag)
        key = self._key(bag)
        graph = self._graphs.get(key)
        if graph is not None and graph.fits(bag):
            if self._moved == _MOST_MOVES or graph.adds_in_place():
                return graph.replay(bag)
            self._moved += 1  # it is captured again, over the gradients of now
        self._seen[key] = self._seen.get(key, 0) + 1
        chunk = bag.fields.chunk
        if self._seen[key] == 1 or chunk is None or not bag.fields.batches.fields_read <= chunk.fields.keys():
            return self._eagerly(bag)
        return self._captured(bag, key)

    def _key(self, bag: PaddedBag) -> tuple[Any, ...]:
        # Tensors of inference mode cannot be written to outside of it.
        mode = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        state = self._known.state() if self._state is None else self._state
        return bag.shape, bag.networks, bag.literal, bag.covered, mode, self._known.without_gradient, state

    def _eagerly(self, bag: PaddedBag) -> T:
        """Run the step, and record the modules and optimisers that it uses."""
        before = len(self._known.modules), len(self._known.optimisers)
        # On the capture stream: autograd ties its state of a parameter to the stream of its first use.
        with self._known.watching(), on_capture_stream(bag.device):
            result = self._work(bag)
        if self._state is not None:
            self._state = self._known.state()
        if before != (len(self._known.modules), len(self._known.optimisers)):
            key = self._key(bag)
            self._seen[key] = max(self._seen.get(key, 0), 1)
        hooked = self._known.hooked()
        if hooked is not None:
            self._why_eager = hooked
            warnings.warn(
                f"The step is not captured as a CUDA graph: {hooked} has hooks or a forward of its own, in Python.",
                stacklevel=3,
            )
        return result

    def _captured(self, bag: PaddedBag, key: Any) -> T:
        if self._pool is None:
            self._pool = graph_pool()
        try:
            graph = _Graph(self._work, bag, self._known, self._pool)
        except BaseException as error:
            # torch refuses a pool whose only capture has failed.
            self._pool = self._pool if self._graphs else None
            if not isinstance(error, MissingFieldError):
                raise
            # It reads a field that the first batch did not need: the next batches have it.
            return self._eagerly(bag)
        self._graphs[key] = graph
        if len(self._graphs) > _MOST_GRAPHS:
            # Probably of a shape that batches have outgrown; the oldest is the first.
            del self._graphs[next(iter(self._graphs))]
        return graph.replay(bag)


def _refuse_other_arguments(work: Work) -> None:
    try:
        signature = inspect.signature(work)
    except ValueError:  # not every callable has one
        return
    try:
        signature.bind("bag")
    except TypeError:
        name, taken = getattr(work, "__name__", type(work).__name__), ", ".join(map(str, signature.parameters))
        raise TypeError(
            f"Expected a step of one argument, the batch (got {name}({taken})). What else it uses may be an enclosing "
            "variable; of a method, decorate the bound one: self.train = esan.step(self.train)."
        ) from None


def _named(work: Work) -> Iterator[Any]:
    """The values that the code of a function refers to: enclosing variables and globals."""
    try:
        variables = inspect.getclosurevars(work)
    except TypeError:  # a callable that is no function
        return
    yield from variables.nonlocals.values()
    yield from variables.globals.values()


class _TrackedState:
    """The modules and optimisers that a step uses, and the state of them that a captured step depends on."""

    def __init__(self) -> None:
        self.modules: dict[int, nn.Module] = {}
        self.optimisers: dict[int, Optimizer] = {}
        #: The parameters and buffers of each module, by name.
        self._parameters: list[dict[str, nn.Parameter | None]] = []
        self._buffers: list[dict[str, Tensor | None]] = []
        #: The hooks of each module.
        self._hooks: list[Any] = []
        #: What reads the settings of each module, and where.
        self._settings: list[tuple[Any, dict[str, Any]]] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        hook = register_optimizer_step_pre_hook(lambda optimiser, *_: self._prepared(optimiser))
        try:
            with networks_called() as networks:
                yield
        finally:
            hook.remove()
            for network in networks:
                self.add(network)

    @contextmanager
    def refusing_others(self) -> Iterator[None]:
        """Within, a step of an optimiser that made none before is an error: its first step is unlike the others."""

        def check(optimiser: Optimizer, *_: Any) -> None:
            if id(optimiser) not in self.optimisers:
                raise RuntimeError(_BEGINS_NOW)

        hook = register_optimizer_step_pre_hook(check)
        try:
            yield
        finally:
            hook.remove()

    def add(self, module: nn.Module) -> None:
        """Record a module and its submodules."""
        for part in module.modules():
            if id(part) not in self.modules:
                self.modules[id(part)] = part
                self._parameters.append(part._parameters)
                self._buffers.append(part._buffers)
                self._settings.append((settings_getter(type(part), vars(part)), vars(part)))
                self._hooks += [part._forward_hooks, part._forward_pre_hooks]
                self._hooks += [part._backward_hooks, part._backward_pre_hooks]

    def _prepared(self, optimiser: Optimizer) -> None:
        """Prepare an optimiser for capture: step counts on the device."""
        self.optimisers.setdefault(id(optimiser), optimiser)
        for group in optimiser.param_groups:
            if group.get("capturable") is False:
                group["capturable"] = True
                for parameter in group["params"]:
                    state = optimiser.state.get(parameter, {})
                    if isinstance(state.get("step"), Tensor):
                        state["step"] = state["step"].to(parameter.device)

    def hooked(self) -> str | None:
        """The class of a module with hooks; None if there is none."""
        return next((type(m).__name__ for m in self.modules.values() if not is_plain(m, type(m)) or _hooks(m)), None)

    def state(self) -> Any:
        """What a captured step depends on: settings, hyper-parameters, hooks, and where tensors lie."""
        # Every step computes it, so without a call per parameter in Python.
        try:
            settings = tuple([get(own) for get, own in self._settings])
        except KeyError:  # an attribute has gone
            self._settings = [(settings_getter(type(one), vars(one)), vars(one)) for one in self.modules.values()]
            settings = tuple([get(own) for get, own in self._settings])
        parameters = [p for held in self._parameters for p in held.values() if p is not None]
        buffers = [b for held in self._buffers if held for b in held.values() if b is not None]
        addresses = tuple(map(Tensor.data_ptr, parameters)), tuple(map(Tensor.data_ptr, buffers))
        frozen = tuple([p.requires_grad for p in parameters])
        groups = tuple([(id(group), _fixed(group)) for o in self.optimisers.values() for group in o.param_groups])
        moments = tuple([(id(o.state), len(o.state)) for o in self.optimisers.values()])
        hooked = any(self._hooks) or any(map(_hooks_of, parameters))
        return hashable((settings, addresses, frozen, groups, moments, hooked))

    @property
    def rates(self) -> list[dict[str, Any]]:
        """The parameter groups whose learning rate a CUDA graph can read from memory."""
        groups = [group for o in self.optimisers.values() for group in o.param_groups]
        return [g for g in groups if g.get("capturable") and not isinstance(g["lr"], Tensor)]

    @property
    def parameters(self) -> list[Tensor]:
        """Those of the optimisers, then those of modules that no optimiser in the step has."""
        stepped = [p for o in self.optimisers.values() for group in o.param_groups for p in group["params"]]
        called = [p for held in self._parameters for p in held.values() if p is not None and p.requires_grad]
        return list({id(p): p for p in (*stepped, *called)}.values())

    @property
    def without_gradient(self) -> tuple[bool, ...]:
        """Which parameters have none: a backward pass makes one there, and adds to the others."""
        return tuple([p is None or p.grad is None for held in self._parameters for p in held.values()])


def _hooks(module: nn.Module) -> bool:
    """Whether there are hooks on the parameters of a module."""
    return any(_hooks_of(parameter) for parameter in module._parameters.values() if parameter is not None)


def _hooks_of(parameter: Tensor) -> bool:
    return bool(parameter._backward_hooks or parameter._post_accumulate_grad_hooks)


def _fixed(group: dict[str, Any]) -> tuple[Any, ...]:
    """Hyper-parameters that a CUDA graph holds as constants."""
    varies = ("params", "lr", "initial_lr") if group.get("capturable") else ("params", "initial_lr")
    return tuple((name, _number(value)) for name, value in group.items() if name not in varies)


def _number(value: Any) -> Any:
    return value.data_ptr() if isinstance(value, Tensor) else value


class _Graph:
    """A step captured on the memory of one batch, replayed for every batch of its shape."""

    def __init__(self, work: Work, bag: PaddedBag, known: _TrackedState, pool: Any) -> None:
        fields = bag.fields
        assert isinstance(fields, BatchFields)
        assert fields.chunk is not None
        self._batches = fields.batches
        #: What the key knows by its address, which no other may get.
        self._held = [(o.state, *o.param_groups) for o in known.optimisers.values()]
        ints, floats = fields.buffers
        self._ints, self._floats = ints.to(torch.int64, copy=True), floats.clone()
        self._fields = fields.chunk.fields
        views = StaticFields(fields.chunk.views(self._ints, self._floats))
        device = bag.device
        self._rates = [(group, torch.tensor(float(group["lr"]), device=device)) for group in known.rates]
        self._last = [float(group["lr"]) for group, _ in self._rates]
        parameters = known.parameters
        before = [parameter.grad for parameter in parameters]
        versions = [None if grad is None else grad._version for grad in before]
        states = sum(len(o.state) for o in known.optimisers.values())
        # Those that the step uses are known, for it has run before.
        with self._rates_in_memory(), known.refusing_others(), avoiding_waits(known.modules.values(), bag):
            try:
                # A new bag, since the cached values of this one would not be part of the graph.
                batches, shape = fields.batches, fields.shape
                self._recording = Recording(lambda: work(batches.of_fields(views, shape)), pool, device)
            except BaseException as error:
                for parameter, grad in zip(parameters, before, strict=True):
                    parameter.grad = grad
                if isinstance(error, MissingFieldError) or not isinstance(error, RuntimeError):
                    raise
                error.add_note(
                    "Raised while esan.step captured the step as a CUDA graph, in which nothing may be read back from "
                    "the device (item(), print of a tensor, if on a tensor). Return tensors and read them outside, or "
                    "leave esan.step out."
                )
                raise
        if states != sum(len(o.state) for o in known.optimisers.values()):
            raise RuntimeError(_BEGINS_NOW)
        #: The parameters whose gradients are made or read by the step, with these gradients.
        self._grads: list[tuple[Tensor, Tensor | None]] = []
        #: Gradients that the step adds to, with their parameters.
        self._added_to: list[tuple[Tensor, Tensor]] = []
        stepped = {id(p) for o in known.optimisers.values() for group in o.param_groups for p in group["params"]}
        for parameter, one, version in zip(parameters, before, versions, strict=True):
            after = parameter.grad
            if id(parameter) in stepped or after is not one or (after is not None and after._version != version):
                self._grads.append((parameter, after))
                if one is not None and one is after:
                    self._added_to.append((parameter, one))

    @contextmanager
    def _rates_in_memory(self) -> Iterator[None]:
        rates = [group["lr"] for group, _ in self._rates]
        for group, rate in self._rates:
            group["lr"] = rate
        try:
            yield
        finally:
            for (group, _), lr in zip(self._rates, rates, strict=True):
                group["lr"] = lr

    def fits(self, bag: PaddedBag) -> bool:
        """Whether a batch has the captured fields, at the same places in its buffers."""
        fields = bag.fields
        assert isinstance(fields, BatchFields)
        return (
            fields.batches.fields_read is self._batches.fields_read
            and fields.chunk is not None
            and self._alike(fields.chunk.fields)
        )

    def _alike(self, fields: Any) -> bool:
        if fields is not self._fields:
            if fields != self._fields:
                return False
            self._fields = fields  # that of the next batches, too: seen at once then
        return True

    def adds_in_place(self) -> bool:
        """Whether the gradients that it adds to are those of the capture."""
        return all(parameter.grad is before for parameter, before in self._added_to)

    def replay(self, bag: PaddedBag) -> Any:
        assert isinstance(bag.fields, BatchFields)
        if not self.adds_in_place():
            raise RuntimeError(
                "Expected the gradients that the captured step adds to (got others). Call zero_grad() inside the "
                "step, or with set_to_none=False outside."
            )
        ints, floats = bag.fields.current
        self._ints.copy_(ints)
        self._floats.copy_(floats)
        for index, (group, rate) in enumerate(self._rates):
            lr = float(group["lr"])
            if lr != self._last[index]:
                rate.fill_(lr)
                self._last[index] = lr
        self._recording.replay()
        for parameter, grad in self._grads:
            parameter.grad = grad
        results = self._recording.results
        if results is None:
            return None
        return pytree.tree_map(lambda value: value.clone() if isinstance(value, Tensor) else value, results)
