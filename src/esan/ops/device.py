"""Streams, pinned memory, prefetching and CUDA graphs on a GPU, which do nothing on a CPU; groups of processes."""

import gc
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

T = TypeVar("T")
#: Behind the last item.
_END: Any = object()
#: What must stay in memory until an event has passed, each with its event.
_KEPT: deque[tuple[Any, Any]] = deque()


def is_gpu(device: torch.device) -> bool:
    """Whether work on a device is asynchronous and pays for fixed shapes."""
    return device.type == "cuda"


@cache
def side_streams(device: torch.device) -> tuple["torch.cuda.Stream", "torch.cuda.Stream"]:
    """Two side streams: for the layout of batches, and for independent work of layers.

    One pair per device: libraries keep memory for every stream that they have worked on.
    """
    # Work of torch's own in the thread of gradients, so that it has a context: libraries warn where they find none.
    torch.ones(1, device=device, requires_grad=True).sum().backward()
    return torch.cuda.Stream(device), torch.cuda.Stream(device)


def side_stream(device: torch.device) -> Any:
    """The stream for independent work of layers; None on a CPU."""
    return side_streams(device)[1] if is_gpu(device) else None


def in_several_processes() -> bool:
    """Whether this process is one of several that train together."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def event(device: torch.device) -> Any:
    """An event after all work so far on the current stream; None on a CPU."""
    return torch.cuda.current_stream(device).record_event() if is_gpu(device) else None


def let_go(used: Any, *kept: Any) -> None:
    """Wait for an event before objects go. While a CUDA graph is captured, which waiting ends, they are kept instead.

    Args:
        used: the event after the last work that reads them.
        kept: the objects; those kept earlier go with the next ones.
    """
    _KEPT.append((used, kept))
    if is_capturing():
        return
    # A destructor that runs in between may add others, and another thread may take the last.
    with suppress(IndexError):
        while _KEPT:
            used, kept = _KEPT.popleft()
            used.synchronize()


def to_device(values: Tensor, device: torch.device) -> Tensor:
    """Copy values of the host to a device, asynchronously."""
    return values.pin_memory().to(device, non_blocking=True) if is_gpu(device) else values.to(device)


def prefetch(
    make: Callable[[Any], T], items: Iterator[Any], tensors: Callable[[T], list[Tensor]], device: torch.device
) -> Iterator[T]:
    """`make(item)` of each item, on a second stream, one item ahead of the consumer.

    Args:
        make: launches work on the current stream.
        items: the items.
        tensors: the tensors of a result, whose memory must not be reused while the consumer works on them.
        device: where the work runs; on a CPU nothing is prefetched.
    """
    if not is_gpu(device):
        yield from map(make, items)
        return
    layout, _ = side_streams(device)
    layout.wait_stream(torch.cuda.current_stream(device))
    ready: tuple[T, Any] | None = None
    consumed: list[Any] = []
    while True:
        # The items too: reading one may copy it to the device.
        with torch.cuda.stream(layout):
            item = next(items, _END)
            result = _END if item is _END else make(item)
        if result is _END:
            break
        done = layout.record_event()
        if ready is not None:
            yield _hand_over(ready, tensors, device)
            consumed.append(torch.cuda.current_stream(device).record_event())
            if len(consumed) > 1:
                # Not too far ahead of the device: results take memory.
                consumed.pop(0).synchronize()
        ready = result, done
    if ready is not None:
        yield _hand_over(ready, tensors, device)


def _hand_over(ready: tuple[T, Any], tensors: Callable[[T], list[Tensor]], device: torch.device) -> T:
    """The result, for use on the current stream."""
    result, done = ready
    here = torch.cuda.current_stream(device)
    here.wait_event(done)
    for tensor in tensors(result):
        tensor.record_stream(here)
    return result


def is_capturing() -> bool:
    """Whether what is launched is recorded as a CUDA graph."""
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


@contextmanager
def refusing_to_wait(device: torch.device) -> Iterator[list[str]]:  # noqa: ARG001
    """Within, an operation that would synchronise with the device ends the work; the list then holds the message."""
    refused: list[str] = []
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield refused
    except RuntimeError as error:
        if "synchronizing" not in str(error):
            raise
        # Neither the error nor its traceback is kept: both hold frames, and these what the work has made.
        refused.append(str(error.with_traceback(None)))
    finally:
        torch.cuda.set_sync_debug_mode(before)


def new_graph() -> Any:
    """An empty CUDA graph."""
    return torch.cuda.CUDAGraph()


def graph_pool() -> Any:
    """A memory pool for CUDA graphs that run one after another."""
    return torch.cuda.graph_pool_handle()


@contextmanager
def capture(graph: Any, pool: Any, device: torch.device) -> Iterator[None]:
    """Within, work on the capture stream is recorded as a CUDA graph, and not run.

    No garbage is collected meanwhile: destructors may wait for the device, which ends a capture.
    """
    torch.cuda.synchronize(device)
    collected = gc.isenabled()
    gc.disable()
    try:
        # Around it, since a capture that fails to end leaves its stream current.
        with (
            torch.cuda.stream(torch.cuda.current_stream(device)),
            torch.cuda.graph(graph, pool=pool, stream=_capturing(device), capture_error_mode="thread_local"),
        ):
            yield
    finally:
        if collected:
            gc.enable()


class Recording:
    """Work recorded as a CUDA graph.

    Attributes:
        results: the results of the work; every replay overwrites them in place.
    """

    def __init__(self, work: Callable[[], Any], pool: Any, device: torch.device) -> None:
        self._graph = new_graph()
        with capture(self._graph, pool, device):
            self.results = work()

    def replay(self) -> None:
        """Do the work again."""
        self._graph.replay()


@contextmanager
def on_capture_stream(device: torch.device) -> Iterator[None]:
    """Within, work runs on the capture stream, ordered with the work before and after on the current stream."""
    here, there = torch.cuda.current_stream(device), _capturing(device)
    there.wait_stream(here)
    try:
        with torch.cuda.stream(there):
            yield
    finally:  # also where the work was refused: what it has begun comes first
        here.wait_stream(there)


@cache
def _capturing(device: torch.device) -> "torch.cuda.Stream":
    return torch.cuda.Stream(device)
