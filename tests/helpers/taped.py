"""In place of CUDA graphs on a CPU: the operations of torch are recorded, and repeated on the same tensors.

Unlike `recorded_again`, a replay runs nothing of the recorded code: what that reads only once is seen here.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from device_waits import refuse_waiting
from esan.bags.padded import batches
from esan.nn import feature_encoders
from esan.ops.numba import runtime
from recorded_again import Again, Pool, record_again


class _Recorder(TorchDispatchMode):
    """Collects the operations that run within."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        refuse_waiting(func, args, kwargs)
        result = func(*args, **(kwargs or {}))
        if func.namespace != "profiler" and not any(
            one.alias_info is not None and not one.alias_info.is_write for one in func._schema.returns
        ):
            self.operations.append((func, args, kwargs or {}, result))  # a view is where it was
        return result


class Tape(Again):
    """In place of `esan.ops.device.Recording`."""

    capturing = False

    def __init__(self, work: Callable[[], Any], pool: Pool, device: torch.device) -> None:
        assert not pool.gone, "recorded into a pool whose graphs have all gone"
        pool.graphs += 1
        self._pool, recorder = pool, _Recorder()
        Tape.capturing = True
        try:
            with self._not_done(), recorder:
                self.results = work()
        except BaseException:
            self._leave_pool()
            raise
        finally:
            Tape.capturing = False
        self._operations = recorder.operations

    @torch.no_grad()
    def replay(self) -> None:
        """Repeat the operations."""
        for func, args, kwargs, result in self._operations:
            args, kwargs = pytree.tree_map(_detached, (args, kwargs))
            for old, new in zip(pytree.tree_leaves(result), pytree.tree_leaves(func(*args, **kwargs)), strict=True):
                if old.data_ptr() != new.data_ptr():
                    _detached(old).copy_(new)


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) and not value.is_inference() else value


def tape(monkeypatch: pytest.MonkeyPatch, *modules: Any) -> None:
    """Modules that record CUDA graphs record so."""
    for module in modules:
        record_again(monkeypatch, module, Tape)
    for module in (*modules, batches, feature_encoders):
        if hasattr(module, "is_capturing"):
            monkeypatch.setattr(module, "is_capturing", lambda: Tape.capturing)
    # The recorder is not shown what compiled loops do.
    monkeypatch.setattr(runtime, "available", lambda: False)
