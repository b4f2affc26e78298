"""Which networks a step calls; each network reports its own calls, since forward hooks would be slow."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from torch import nn

_WATCHERS: ContextVar[list[nn.Module] | None] = ContextVar("watchers", default=None)


@contextmanager
def networks_called() -> Iterator[list[nn.Module]]:
    """A list to which every network of esan that is called inside the context is added."""
    networks: list[nn.Module] = []
    before = _WATCHERS.set(networks)
    try:
        yield networks
    finally:
        _WATCHERS.reset(before)


def is_watched() -> bool:
    """Whether calls of networks are being recorded."""
    return _WATCHERS.get() is not None


def called(network: nn.Module) -> None:
    """Record that a network is called."""
    networks = _WATCHERS.get()
    if networks is not None:
        networks.append(network)
