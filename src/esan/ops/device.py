"""Streams, pinned memory and CUDA graphs: what is particular to work on a GPU, and nothing on a CPU."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")
#: Behind the last item.
_END: Any = object()


def is_gpu(device: torch.device) -> bool:
    """Whether work on a device is asynchronous and pays for fixed shapes."""
    return device.type == "cuda"


@cache
def side_streams(device: torch.device) -> tuple["torch.cuda.Stream", "torch.cuda.Stream"]:
    """Two streams beside the current one: for the layout of batches, and for independent work of layers.

    One pair per device: libraries keep memory for every stream that they have worked on.
    """
    # Work of torch's own in the thread of gradients, so that it has a context: libraries warn where they find none.
    torch.ones(1, device=device, requires_grad=True).sum().backward()
    return torch.cuda.Stream(device), torch.cuda.Stream(device)


def side_stream(device: torch.device) -> Any:
    """The stream for independent work of layers; None on a CPU."""
    return side_streams(device)[1] if is_gpu(device) else None


def event(device: torch.device) -> Any:
    """What is over when all work so far on the current stream is; None on a CPU, where it is over."""
    return torch.cuda.current_stream(device).record_event() if is_gpu(device) else None


def sent(values: Tensor, device: torch.device) -> Tensor:
    """Values of the host on a device, which is not waited for."""
    return values.pin_memory().to(device, non_blocking=True) if is_gpu(device) else values.to(device)


def prefetched(
    make: Callable[[Any], T], asked: Iterator[Any], tensors: Callable[[T], list[Tensor]], device: torch.device
) -> Iterator[T]:
    """What `make` makes of each item, on a second stream, one item ahead of the work on what was given.

    Args:
        make: launches work on the current stream.
        asked: the items.
        tensors: the tensors of what was made, whose memory must not be used again while they are worked on.
        device: where; on a CPU nothing is made ahead.
    """
    if not is_gpu(device):
        yield from map(make, asked)
        return
    layout, _ = side_streams(device)
    layout.wait_stream(torch.cuda.current_stream(device))
    waiting: tuple[T, Any] | None = None
    worked: list[Any] = []
    while True:
        # What is asked for is found there too: it may be sent to the device.
        with torch.cuda.stream(layout):
            item = next(asked, _END)
            made = _END if item is _END else make(item)
        if made is _END:
            break
        done = layout.record_event()
        if waiting is not None:
            yield _handed(waiting, tensors, device)
            worked.append(torch.cuda.current_stream(device).record_event())
            if len(worked) > 1:
                # Not too far ahead of the device: what is made takes memory.
                worked.pop(0).synchronize()
        waiting = made, done
    if waiting is not None:
        yield _handed(waiting, tensors, device)


def _handed(waiting: tuple[T, Any], tensors: Callable[[T], list[Tensor]], device: torch.device) -> T:
    """What was made, for the current stream."""
    made, done = waiting
    here = torch.cuda.current_stream(device)
    here.wait_event(done)
    for tensor in tensors(made):
        tensor.record_stream(here)
    return made


def is_capturing() -> bool:
    """Whether what is launched is recorded as a CUDA graph."""
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


@contextmanager
def refusing_to_wait(device: torch.device) -> Iterator[list[RuntimeError]]:  # noqa: ARG001
    """Within, what would wait for the device stops; the list then holds why."""
    refused: list[RuntimeError] = []
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield refused
    except RuntimeError as error:
        if "synchronizing" not in str(error):
            raise
        refused.append(error)
    finally:
        torch.cuda.set_sync_debug_mode(before)


def new_graph() -> Any:
    """An empty CUDA graph."""
    return torch.cuda.CUDAGraph()


def graph_pool() -> Any:
    """Memory that CUDA graphs share which run one after another."""
    return torch.cuda.graph_pool_handle()


@contextmanager
def captured(graph: Any, pool: Any, device: torch.device) -> Iterator[None]:
    """Within, what is launched on a side stream is recorded, and not run."""
    torch.cuda.synchronize(device)
    with torch.cuda.graph(graph, pool=pool, stream=_capturing(device), capture_error_mode="thread_local"):
        yield


class Recording:
    """Work recorded as a CUDA graph.

    Attributes:
        results: what the work gave; every replay writes it anew, in the same memory.
    """

    def __init__(self, work: Callable[[], Any], pool: Any, device: torch.device) -> None:
        self._graph = new_graph()
        with captured(self._graph, pool, device):
            self.results = work()

    def replay(self) -> None:
        """Do the work again."""
        self._graph.replay()


@contextmanager
def on_capture_stream(device: torch.device) -> Iterator[None]:
    """Within, work is done on the stream that captures are made on, after all before it and before all behind it."""
    here, there = torch.cuda.current_stream(device), _capturing(device)
    there.wait_stream(here)
    with torch.cuda.stream(there):
        yield
    here.wait_stream(there)


@cache
def _capturing(device: torch.device) -> "torch.cuda.Stream":
    return torch.cuda.Stream(device)
