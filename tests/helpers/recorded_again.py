"""In place of CUDA graphs on a CPU: a recording that does its work again, refuses what waits, and has torch's pools."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from device_waits import RefusingToWait


class Pool:
    """In place of a memory pool of CUDA graphs, which torch refuses once all its graphs have gone."""

    def __init__(self) -> None:
        self.graphs, self.gone = 0, False


class Again:
    """In place of `esan.ops.device.Recording`: a replay does the work again, in the context that it was recorded in."""

    #: Modules and optimisers that the work changes: what is recorded is not done.
    state: ClassVar[list[Any]] = []
    #: What is refused while it records.
    recording: ClassVar[Callable[[], AbstractContextManager[Any]]] = RefusingToWait

    def __init__(self, work: Callable[[], Any], pool: Pool, device: torch.device) -> None:
        assert not pool.gone, "recorded into a pool whose graphs have all gone"
        pool.graphs += 1
        self._work, self._pool = work, pool
        self._context, self._mode = copy_context(), torch.is_grad_enabled()
        with self._not_done():
            try:
                with type(self).recording():
                    self.replay()
            except BaseException:
                self._leave_pool()
                raise

    @contextmanager
    def _not_done(self) -> Iterator[None]:
        """What is recorded is not done: tensors are afterwards as they were."""
        tensors = [tensor for one in self.state for tensor in _tensors(one)]
        before = [tensor.detach().clone() for tensor in tensors]
        try:
            yield
        finally:
            for tensor, value in zip(tensors, before, strict=True):
                if not torch.equal(tensor, value):  # else autograd may have saved it
                    tensor.data.copy_(value)

    def _leave_pool(self) -> None:
        self._pool.graphs -= 1
        self._pool.gone = self._pool.graphs == 0

    def replay(self) -> None:
        """Do the work again."""
        with torch.set_grad_enabled(self._mode):
            self.results = self._context.copy().run(self._work)


def _tensors(one: Any) -> Iterator[Tensor]:
    """The tensors of a module, with their gradients, or the state of an optimiser."""
    if isinstance(one, nn.Module):
        yield from (*one.parameters(), *one.buffers())
        yield from (p.grad for p in one.parameters() if p.grad is not None)
    else:
        yield from (t for held in one.state.values() for t in held.values() if isinstance(t, Tensor))


@contextmanager
def _nothing(device: torch.device) -> Iterator[None]:
    yield


def record_again(monkeypatch: pytest.MonkeyPatch, module: Any, recording: type[Again] = Again) -> None:
    """A module that records CUDA graphs records so; networks on a CPU are captured as on a GPU."""
    monkeypatch.setattr(recording, "state", [])
    monkeypatch.setattr(module, "Recording", recording)
    monkeypatch.setattr(module, "is_gpu", lambda device: True)
    monkeypatch.setattr(module, "graph_pool", Pool)
    monkeypatch.setattr(module, "on_capture_stream", _nothing)
