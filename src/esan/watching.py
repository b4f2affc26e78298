"""Which networks are called while a step runs: they say so themselves, since a hook would change how they run."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from torch import nn

_WATCHERS: ContextVar[list[nn.Module] | None] = ContextVar("watchers", default=None)


@contextmanager
def networks_called() -> Iterator[list[nn.Module]]:
    """Within, every network of esan that is called is added to the list."""
    found: list[nn.Module] = []
    before = _WATCHERS.set(found)
    try:
        yield found
    finally:
        _WATCHERS.reset(before)


def is_watched() -> bool:
    """Whether somebody asks which networks are called."""
    return _WATCHERS.get() is not None


def called(network: nn.Module) -> None:
    """Say that a network is called."""
    found = _WATCHERS.get()
    if found is not None:
        found.append(network)
