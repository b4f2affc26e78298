"""In place of CUDA graphs on a CPU: a recording that does its work again, refuses what waits, and has torch's pools."""

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from typing import Any, ClassVar

import pytest
import torch
from torch import nn

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
        before = [copy.deepcopy(one.state_dict()) for one in self.state]
        try:
            with type(self).recording():
                self.replay()
        except BaseException:
            self._leave_pool()
            raise
        finally:
            for one, values in zip(self.state, before, strict=True):
                _restore(one, values)

    def _leave_pool(self) -> None:
        self._pool.graphs -= 1
        self._pool.gone = self._pool.graphs == 0

    def replay(self) -> None:
        """Do the work again."""
        with torch.set_grad_enabled(self._mode):
            self.results = self._context.copy().run(self._work)


def _restore(one: Any, values: dict[str, Any]) -> None:
    """Modules and optimisers are what they were. What has not changed is not written: autograd may have saved it."""
    if not isinstance(one, nn.Module):
        one.load_state_dict(values)
        return
    with torch.no_grad():
        for name, value in one.state_dict().items():
            if not torch.equal(value, values[name]):
                value.copy_(values[name])


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
