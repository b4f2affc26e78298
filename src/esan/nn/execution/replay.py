"""Passes of a network over padded batches as CUDA graphs, without `step`: captured once per shape, then replayed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.module import _has_any_global_hook

from esan.bags import Bag, LayerView
from esan.bags.padded.bag import PaddedBag
from esan.bags.padded.batches import BatchFields, MissingFieldError
from esan.nn.execution.called_networks import is_watched
from esan.nn.execution.capabilities import Survey
from esan.ops.device import Recording, graph_pool, is_capturing, is_gpu, on_capture_stream, refusing_to_wait
from esan.ops.dispatch import autocasts, first_order, is_observed, keeps_graph

#: A part of a forward pass: a bag, one of its views (None if it needs none) and tensors → tensors.
Part = Callable[..., Tensor | tuple[Tensor, ...]]
#: Calls of one kind that run as they are before one is captured: the first compiles kernels and finds what it reads.
_BEFORE = 2
#: Workspaces that a network has at most.
_MOST = 32

_ACTIVE: ContextVar["_Call | None"] = ContextVar("replayed", default=None)


def replaying(bag: Bag) -> bool:
    """Whether parts of the network that runs on this batch are replayed."""
    call = _ACTIVE.get()
    return call is not None and call.runs(bag)


def may_replay(*modules: nn.Module) -> bool:
    """Whether what is inside these modules may be replayed; there must be one."""
    call = _ACTIVE.get()
    return call is not None and bool(modules) and call.survey.may_capture(*modules)


def in_part(
    part: Part,
    modules: Sequence[nn.Module],
    bag: Bag,
    view: LayerView | None,
    *tensors: Tensor,
    if_it_waits: Part | None = None,
) -> Any:
    """`part(bag, view, *tensors)`, replayed where the network runs on padded batches and these modules allow it.

    Args:
        part: what is computed. When it is captured, it gets a bag and a view of its own, equal to the given ones:
            whatever it reads of a batch must come from these.
        modules: the modules that it calls. Hooks on them are not its own: who calls `in_part` runs inside them.
        bag: the batch.
        view: one of the batch's views; None for none.
        tensors: further inputs.
        if_it_waits: the same in smaller parts, called where `part` waits for the device.
    """
    call = _ACTIVE.get()
    if call is None or not call.runs(bag) or is_capturing() or not call.survey.may_capture(*modules):
        return part(bag, view, *tensors)
    return call.part(part, modules, bag, view, tensors, if_it_waits)


@contextmanager
def avoiding_waits(modules: Iterable[nn.Module], bag: Bag) -> Iterator[None]:
    """Within, modules leave out what waits for the device and does nothing for this batch (`while_captured`)."""
    with ExitStack() as entered:
        for module in {id(one): one for one in modules}.values():
            avoid: Any = getattr(module, "while_captured", None)
            if avoid is not None:
                entered.enter_context(avoid(bag))
        yield


class _Convolution(NamedTuple):
    """A convolution that a layer calls now, what it is given besides rows, and edge features encoded before."""

    conv: Any
    arguments: Callable[[Bag, LayerView], tuple[Any, ...]]
    bag: Bag
    view: LayerView
    given: tuple[Any, ...]
    edge_features: Tensor | None


_CONVOLUTION: ContextVar[_Convolution | None] = ContextVar("convolution", default=None)


def call_conv(
    conv: nn.Module,
    x: Tensor,
    arguments: Callable[[Bag, LayerView], tuple[Any, ...]],
    bag: Bag,
    view: LayerView,
    edge_features: Tensor | None = None,
) -> Tensor:
    """`conv(x, *arguments(bag, view))`, in which `conv_part` may be replayed; `edge_part` is known if that is given."""
    given = arguments(bag, view)
    if _ACTIVE.get() is None:
        return conv(x, *given)
    before = _CONVOLUTION.set(_Convolution(conv, arguments, bag, view, given, edge_features))
    try:
        return conv(x, *given)
    finally:
        _CONVOLUTION.reset(before)


def conv_part(conv: Any, x: Tensor, *given: Any) -> Tensor:
    """`conv.compute(x, *given)`, as a part of its own if these are the arguments of a layer."""
    called = _CONVOLUTION.get()
    if called is None or called.conv is not conv or any(a is not b for a, b in zip(given, called.given, strict=True)):
        return conv.compute(x, *given)

    def part(bag: Bag, view: LayerView, x: Tensor) -> Tensor:
        return conv.compute(x, *called.arguments(bag, view))

    return in_part(part, [conv], called.bag, called.view, x)


def edge_part(conv: nn.Module, work: Callable[..., Tensor], modules: Sequence[nn.Module], *given: Any) -> Tensor:
    """`work(*given)`, where a convolution prepares what does not depend on rows, as a part of its own."""
    called = _CONVOLUTION.get()
    if called is None or called.conv is not conv or any(a is not b for a, b in zip(given, called.given, strict=False)):
        return work(*given)
    if called.edge_features is not None:
        return called.edge_features
    count, arguments = len(given), called.arguments

    def part(bag: Bag, view: LayerView) -> Tensor:
        return work(*arguments(bag, view)[:count])

    return in_part(part, modules, called.bag, called.view)


class Replays:
    """The captured passes of one network.

    A network that nobody has changed is one part; else the parts between what somebody watches or has replaced are
    captured, and the rest runs as it is. A call works in memory of its own, a workspace that no other call uses until
    the gradient of the first can no longer be asked for; what a part gives is a copy.
    """

    def __init__(self) -> None:
        self._seen: dict[Any, int] = {}
        self._free: dict[Any, list[_Workspace]] = {}
        self._count = 0
        self._lock = Lock()

    def __deepcopy__(self, memo: Any) -> "Replays":
        return Replays()

    def __reduce__(self) -> tuple[type["Replays"], tuple[()]]:
        return Replays, ()

    def __call__(self, network: nn.Module, run: Callable[[Bag], Tensor], bag: Any) -> Tensor | None:
        """What `run`, the forward pass of a network, gives for a batch; None where it should run as it is."""
        if not isinstance(bag, PaddedBag) or not is_gpu(bag.device) or not isinstance(bag.fields, BatchFields):
            return None
        if is_capturing() or is_watched() or bag.keeps_padding or bag.seeds is not None:
            return None
        if _has_any_global_hook() or autocasts(next(network.parameters())):
            return None
        if is_observed() or bag.fields.wants_gradient:
            return None
        if not self._lock.acquire(blocking=False):  # a hook that calls the network, or another thread
            return None
        try:
            return self._replayed(network, run, bag)
        finally:
            self._lock.release()

    def _replayed(self, network: nn.Module, run: Callable[[Bag], Tensor], bag: PaddedBag) -> Tensor | None:
        assert isinstance(bag.fields, BatchFields)
        survey = Survey(network)
        key = _key(survey, bag)
        free = self._free.get(key)
        if not free:
            free = self._new(key, bag)
            if free is None:
                return None
        if bag.fields.chunk is None:
            return None
        if not free[-1].fits(bag.fields):  # made when fewer fields were read, or more
            free.pop()
            self._forget()
            return None
        return _Call(free.pop(), free, network, survey, self._forget).run(run, bag)

    def _forget(self) -> None:
        self._count -= 1

    def _new(self, key: Any, bag: PaddedBag) -> "list[_Workspace] | None":
        fields = bag.fields
        assert isinstance(fields, BatchFields)
        self._seen[key] = self._seen.get(key, 0) + 1
        whole = fields.chunk is not None and fields.batches.fields_read <= fields.chunk.fields.keys()
        if self._seen[key] <= _BEFORE or not whole:
            if len(self._seen) > 256:  # parameters that move all the time
                self._seen.clear()
            return None
        if self._count >= _MOST:
            # The oldest, perhaps of a loader that has gone; those of calls whose gradient is still wanted are kept.
            oldest = next((some for some in self._free.values() if some), None)
            if oldest is None:
                return None
            oldest.pop()
            self._count -= 1
        self._count += 1
        free = self._free.setdefault(key, [])
        free.append(_Workspace(fields))
        return free


def _key(survey: Survey, bag: PaddedBag) -> Any:
    fields = bag.fields
    assert isinstance(fields, BatchFields)
    # Tensors of inference mode cannot be written to outside of it.
    mode = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
    return bag.shape, bag.networks, bag.literal, bag.covered, mode, survey.state, id(fields.batches.fields_read)


class _Workspace:
    """Memory for the fields of a batch, and the parts that were captured over it."""

    def __init__(self, fields: BatchFields) -> None:
        assert fields.chunk is not None
        ints, floats = fields.buffers
        self._ints, self._floats = ints.to(torch.int64, copy=True), floats.clone()
        self._fields, self._batches, self._shape = fields.chunk.fields, fields.batches, fields.shape
        self._views = fields.chunk.views(self._ints, self._floats)
        # Memory of its own: a call may still need it for its gradient while others run. Backward passes have another:
        # what one of them writes must not lie where the forward pass of another part has saved something.
        self.pools = graph_pool(), graph_pool()
        self.parts: dict[Any, _RecordedPart | None] = {}

    def fits(self, fields: BatchFields) -> bool:
        return fields.chunk is not None and fields.chunk.fields.keys() == self._fields.keys()

    def load(self, fields: BatchFields) -> None:
        ints, floats = fields.current
        self._ints.copy_(ints)
        self._floats.copy_(floats)

    def bag(self, current: BatchFields | None = None) -> PaddedBag:
        """A bag over the memory; a field that it lacks is had from the current batch, if there is one."""
        return self._batches.of_fields(StaticFields(self._views, current), self._shape)


class _Call:
    """One call of a network in a workspace; the workspace is free again when nothing of the call is needed any more."""

    def __init__(
        self,
        workspace: _Workspace,
        free: list[_Workspace],
        network: nn.Module,
        survey: Survey,
        forget: Callable[[], None],
    ) -> None:
        self._workspace, self._free, self._network, self.survey, self._forget = workspace, free, network, survey, forget
        self._number, self._stale = 0, False
        self._fields: Any = None

    def __del__(self) -> None:
        if self._stale:
            self._forget()
        else:
            self._free.append(self._workspace)

    def runs(self, bag: Any) -> bool:
        """Whether this is the batch of the call, not that of another network which a hook calls."""
        return self._fields is not None and getattr(bag, "fields", None) is self._fields

    def run(self, run: Callable[[Bag], Tensor], bag: PaddedBag) -> Tensor:
        assert isinstance(bag.fields, BatchFields)
        self._workspace.load(bag.fields)
        if self.survey.may_capture_inside(self._network):
            whole = self.part(lambda batch, _: run(batch), [self._network], bag, None, ())
            if whole is not None:
                return whole
        batch = self._workspace.bag(bag.fields)
        self._fields = batch.fields
        before = _ACTIVE.set(self)
        try:
            out = run(batch)
        finally:
            _ACTIVE.reset(before)
        # What runs as it is may need the batch for its gradient.
        return _Hold.apply(self, out) if out.requires_grad else out

    def part(
        self,
        part: Part,
        modules: Sequence[nn.Module],
        bag: Bag,
        view: LayerView | None,
        tensors: Sequence[Tensor],
        if_it_waits: Part | None = None,
    ) -> Any:
        self._number += 1
        kinds = tuple((t.shape, t.dtype, t.requires_grad) for t in tensors)
        key = self._number, tuple(map(id, modules)), getattr(view, "block", None), kinds
        parts = self._workspace.parts
        if key not in parts and not self._stale:
            try:
                parts[key] = self._captured(part, modules, bag, view, tensors)
            except MissingFieldError:
                self._stale = True  # the next batches have the field
        found = parts.get(key)
        if found is None:
            return (if_it_waits or part)(bag, view, *tensors) if tensors or view is not None else None
        return found(self, tensors)

    def _captured(
        self, part: Part, modules: Sequence[nn.Module], bag: Bag, view: LayerView | None, tensors: Sequence[Tensor]
    ) -> "_RecordedPart | None":
        """The part as CUDA graphs; None if it waits for the device, which a graph cannot."""

        workspace = self._workspace  # not the call, which would never end then

        def run(*inputs: Tensor) -> Any:
            own: Bag = workspace.bag()
            own = own.skipping_padding() if getattr(bag, "skips_padding", False) else own
            return part(own, None if view is None else own.layer_view_of_block(view.block), *inputs)

        before = _ACTIVE.set(None)
        try:
            return _RecordedPart(run, modules, bag, tensors, workspace.pools)
        except WaitsError:
            return None
        except BaseException:
            workspace.pools = graph_pool(), graph_pool()  # torch refuses a pool whose only capture has failed
            raise
        finally:
            _ACTIVE.reset(before)


class WaitsError(Exception):
    """Something waits for the device."""


class _RecordedPart:
    """A part of a forward pass, and its backward pass, as CUDA graphs."""

    def __init__(
        self,
        run: Callable[..., Any],
        modules: Sequence[nn.Module],
        bag: Bag,
        tensors: Sequence[Tensor],
        pools: tuple[Any, Any],
    ) -> None:
        holder, device = _Holder(run, modules), bag.device
        self._held = holder.held  # modules are known by their address, which no other may get
        self._inputs = [t.detach().clone().requires_grad_(t.requires_grad) for t in tensors]
        self._parameters = [p for p in holder.parameters() if p.requires_grad]
        # Other names for the parameters: what autograd keeps of them belongs to the stream of captures.
        names = {name: p.detach().requires_grad_(p.requires_grad) for name, p in holder.named_parameters()}
        wanted = [t for t in (*self._inputs, *names.values()) if t.requires_grad]

        def forward() -> tuple[Tensor, ...]:
            out = functional_call(holder, names, tuple(self._inputs))
            self._single = isinstance(out, Tensor)
            return (out,) if isinstance(out, Tensor) else tuple(out)

        with avoiding_waits((part for module in modules for part in module.modules()), bag):
            with _buffers_kept(holder), on_capture_stream(device):
                self._try(forward, device)
            self._forward = Recording(forward, pools[0], device)
        results = self._forward.results
        self._differentiable = [out.requires_grad for out in results]
        self._backward: Recording | None = None
        if torch.is_grad_enabled() and any(self._differentiable):
            self._grads_in = [torch.empty_like(out) for out in results if out.requires_grad]

            def backward() -> tuple[Sequence[Tensor | None], Tensor | None]:
                outs = [out for out in self._forward.results if out.requires_grad]
                # What the forward pass has saved stays in its place, for the next call.
                grads = torch.autograd.grad(outs, wanted, self._grads_in, allow_unused=True, retain_graph=True)
                count = sum(t.requires_grad for t in self._inputs)
                flat = [g.reshape(-1) for g in grads[count:] if g is not None]
                return grads, torch.cat(flat) if flat else None

            self._backward = Recording(backward, pools[1], device)

    @staticmethod
    def _try(forward: Callable[[], Any], device: torch.device) -> None:
        """A pass as it is, which must not wait for the device."""
        with refusing_to_wait(device) as refused:
            forward()
        if refused:
            raise WaitsError

    def __call__(self, call: _Call, tensors: Sequence[Tensor]) -> Any:
        if self._backward is None:
            out = self.forward(tensors)
        else:
            out = _Replay.apply(self, call, len(tensors), *tensors, *self._parameters)
        return out[0] if self._single else out

    def forward(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        with torch.no_grad():
            for static, tensor in zip(self._inputs, tensors, strict=True):
                static.copy_(tensor)
        self._forward.replay()
        return tuple(out.detach().clone() for out in self._forward.results)

    def not_differentiable(self, outs: Sequence[Tensor]) -> list[Tensor]:
        return [out for out, differentiable in zip(outs, self._differentiable, strict=True) if not differentiable]

    def backward(self, grads: Sequence[Tensor]) -> list[Tensor | None]:
        given = [grad for grad, differentiable in zip(grads, self._differentiable, strict=True) if differentiable]
        for static, grad in zip(self._grads_in, given, strict=True):
            static.copy_(grad)
        assert self._backward is not None
        self._backward.replay()
        grads_out, flat = self._backward.results
        found = iter(grads_out)
        inputs: list[Tensor | None] = []
        for static in self._inputs:
            grad_of = next(found) if static.requires_grad else None
            inputs.append(None if grad_of is None else grad_of.clone())
        used = [(p, grad is not None) for p, grad in zip(self._parameters, found, strict=True)]
        chunks = iter(() if flat is None else flat.clone().split([p.numel() for p, there in used if there]))
        return [*inputs, *(next(chunks).view_as(p) if there else None for p, there in used)]


class _Holder(nn.Module):
    """Modules, and a function that calls them: something whose parameters `functional_call` can exchange."""

    def __init__(self, run: Callable[..., Any], modules: Sequence[nn.Module]) -> None:
        super().__init__()
        self.held = nn.ModuleList(modules)
        self._run = run

    def forward(self, *inputs: Tensor) -> Any:
        return self._run(*inputs)


@contextmanager
def _buffers_kept(module: nn.Module) -> Iterator[None]:
    """Buffers are afterwards what they were before."""
    before = [buffer.clone() for buffer in module.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, value in zip(module.buffers(), before, strict=True):
                buffer.copy_(value)


class _Replay(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: _RecordedPart, call: _Call, count: int, *given: Tensor) -> tuple[Tensor, ...]:
        ctx.part, ctx.call = part, call
        ctx.save_for_backward(*given[count:])  # as torch's operators do: an error if they change before the gradient
        outs = part.forward(given[:count])
        ctx.mark_non_differentiable(*part.not_differentiable(outs))
        return outs

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        _ = ctx.saved_tensors
        found = ctx.part.backward(grads)
        if not keeps_graph():
            ctx.call = None  # a loss that is kept does not keep the workspace
        return None, None, None, *found


class _Hold(torch.autograd.Function):
    """A tensor as it is, whose gradient may need a call."""

    @staticmethod
    def forward(ctx: Any, call: _Call, out: Tensor) -> Tensor:
        ctx.call = call
        return out.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        if not keeps_graph():
            ctx.call = None
        return None, grad


class StaticFields(dict[str, Tensor]):
    """The fields of a batch in memory that every replay reads.

    Args:
        fields: by name.
        current: the batch that is in that memory now, which other fields are had from; None if there are no others.
    """

    def __init__(self, fields: dict[str, Tensor], current: BatchFields | None = None) -> None:
        super().__init__(fields)
        self._current = current

    @property
    def ids(self) -> Tensor | None:
        """The numbers of the graphs; None where they differ from replay to replay."""
        return None if self._current is None or is_capturing() else self._current.ids

    def get(self, name: str, default: Tensor | None = None) -> Tensor | None:  # type: ignore[override]
        there = name in self or (self._current is not None and name in self._current)
        return self[name] if there else default

    def __missing__(self, name: str) -> Tensor:
        if self._current is None or is_capturing():
            raise MissingFieldError(name)
        return self._current[name]
