"""Forward and backward passes of a network on padded batches, captured once per shape and replayed: less Python."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.module import _has_any_global_hook

from esan.bags.padded.bag import PaddedBag
from esan.bags.padded.batches import LaidFields, MissingFieldError
from esan.nn.execution.supported import all_known
from esan.ops.device import captured, graph_pool, is_capturing, is_gpu, new_graph, on_capture_stream
from esan.ops.dispatch import autocasts, first_order, is_plain
from esan.watching import is_watched

#: Calls of one kind that run as they are before one is captured: the first compiles kernels and finds what it reads.
_BEFORE = 2
#: Captured passes that a network holds at most.
_MOST = 32


class Replays:
    """The captured passes of one network.

    A pass works in memory of its own, so that a call takes one that no other call still needs for its gradient; what a
    call gives is a copy. A network that somebody has changed (hooks, other modules) or whose parameters moved runs as
    it is.
    """

    def __init__(self) -> None:
        self._seen: dict[Any, int] = {}
        self._free: dict[Any, list[_Pass]] = {}
        self._count = 0
        self._busy = False

    def __deepcopy__(self, memo: Any) -> "Replays":
        return Replays()

    def __reduce__(self) -> tuple[type["Replays"], tuple[()]]:
        return Replays, ()

    def __call__(self, network: nn.Module, bag: Any) -> Tensor | None:
        """What the network gives for a batch, by a replay; None where it should run as it is."""
        if not isinstance(bag, PaddedBag) or not is_gpu(bag.device) or not isinstance(bag.fields, LaidFields):
            return None
        if (
            self._busy
            or is_capturing()
            or is_watched()
            or bag.whole_output
            or bag.seeds is not None
            or not _usual(network)
        ):
            return None
        key = _key(network, bag)
        free = self._free.get(key)
        if not free:
            free = self._new(key, bag, network)
            if free is None:
                return None
        return free.pop().call(bag, free)

    def _new(self, key: Any, bag: PaddedBag, network: nn.Module) -> "list[_Pass] | None":
        fields = bag.fields
        assert isinstance(fields, LaidFields)
        self._seen[key] = self._seen.get(key, 0) + 1
        whole = fields.laid is not None and fields.batches.read <= fields.laid.fields.keys()
        if self._seen[key] <= _BEFORE or not whole or self._count >= _MOST:
            if len(self._seen) > 256:  # parameters that move all the time
                self._seen.clear()
            return None
        self._busy = True
        try:
            made = _Pass(bag, network)
        except MissingFieldError:
            return None
        finally:
            self._busy = False
        self._count += 1
        free = self._free.setdefault(key, [])
        free.append(made)
        return free


def _usual(network: nn.Module) -> bool:
    """Whether a network consists of modules that are known to work in a CUDA graph, and nobody has changed them."""
    if _has_any_global_hook() or autocasts(next(network.parameters())) or not all_known(network):
        return False
    return all(is_plain(module, type(module)) for module in network.modules())


def _key(network: nn.Module, bag: PaddedBag) -> Any:
    parameters = tuple((p.data_ptr(), p.requires_grad) for p in network.parameters())
    modes = tuple(module.training for module in network.modules())
    fields = bag.fields
    assert isinstance(fields, LaidFields)
    return bag.shape, bag.networks, bag.literal, torch.is_grad_enabled(), modes, parameters, id(fields.batches.read)


class _Pass:
    """One forward pass, and its backward pass, captured in memory of their own."""

    def __init__(self, bag: PaddedBag, network: nn.Module) -> None:
        fields = bag.fields
        assert isinstance(fields, LaidFields)
        assert fields.laid is not None
        ints, floats = fields.buffers
        self._ints, self._floats = ints.long(), floats.clone()
        self._fields = fields.laid.fields
        views = Static(fields.laid.views(self._ints, self._floats))
        self._parameters = [p for p in network.parameters() if p.requires_grad]
        # Other names for the parameters: what autograd keeps of them belongs to the stream of captures.
        names = {name: p.detach().requires_grad_(p.requires_grad) for name, p in network.named_parameters()}
        leaves = [alias for alias in names.values() if alias.requires_grad]

        def run() -> Tensor:
            return functional_call(network, names, (fields.batches.over(views, fields.shape),))

        before = [buffer.clone() for buffer in network.buffers()]
        with on_capture_stream(bag.device):
            run()
        for buffer, value in zip(network.buffers(), before, strict=True):
            buffer.copy_(value)
        # Memory of its own: a call may still need it for its gradient while others run.
        pool = graph_pool()
        self._forward = new_graph()
        with captured(self._forward, pool, bag.device):
            self._out = run()
        self._backward: Any = None
        if torch.is_grad_enabled() and self._out.requires_grad:
            self._grad = torch.empty_like(self._out)
            self._backward = new_graph()
            with captured(self._backward, pool, bag.device):
                # What the forward pass has saved stays in its place, for the next call.
                grads = torch.autograd.grad(self._out, leaves, self._grad, allow_unused=True, retain_graph=True)
                self._used = [g is not None for g in grads]
                self._flat = torch.cat([g.reshape(-1) for g in grads if g is not None])

    def call(self, bag: PaddedBag, free: "list[_Pass]") -> Tensor | None:
        assert isinstance(bag.fields, LaidFields)
        assert bag.fields.laid is not None
        if bag.fields.laid.fields.keys() != self._fields.keys():
            free.append(self)
            return None
        ints, floats = bag.fields.buffers
        self._ints.copy_(ints)
        self._floats.copy_(floats)
        lease = _Lease(self, free)
        return self.forward() if self._backward is None else _Replay.apply(lease, *self._parameters)

    def forward(self) -> Tensor:
        self._forward.replay()
        return self._out.detach().clone()

    def backward(self, grad: Tensor) -> list[Tensor | None]:
        self._grad.copy_(grad)
        self._backward.replay()
        sizes = [p.numel() for p, used in zip(self._parameters, self._used, strict=True) if used]
        parts = iter(self._flat.clone().split(sizes))
        return [next(parts).view_as(p) if used else None for p, used in zip(self._parameters, self._used, strict=True)]


class _Lease:
    """A pass that a call has, until its gradient can no longer be asked for."""

    def __init__(self, of: _Pass, free: list[_Pass]) -> None:
        self.of, self._free = of, free

    def __del__(self) -> None:
        self._free.append(self.of)


class _Replay(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, lease: _Lease, *parameters: Tensor) -> Tensor:  # noqa: ARG004 (where gradients go)
        ctx.lease = lease
        return lease.of.forward()

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return None, *ctx.lease.of.backward(grad)


class Static(dict[str, Tensor]):
    """The fields of a batch in memory that every replay reads; no other can be had."""

    def __missing__(self, name: str) -> Tensor:
        raise MissingFieldError(name)
