"""`cached`: values computed once, usable everywhere wherever they were first asked for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

T = TypeVar("T")


@contextmanager
def kept_tensors() -> Iterator[None]:
    """Within, tensors are made that are kept: neither of inference mode nor of a transform of `torch.func`.

    The former could not be trained with later, the latter are dead once the transform is over.
    """
    with torch.inference_mode(False):
        if torch._C._functorch.peek_interpreter_stack() is None:
            yield
        else:
            with temporarily_clear_interpreter_stack():
                yield


class cached(cached_property[T]):  # noqa: N801 (used as a decorator)
    """As `functools.cached_property`, for values that hold tensors; see `kept_tensors`."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        def normally(instance: Any) -> T:
            with kept_tensors():
                return make(instance)

        super().__init__(normally)
        self.__doc__ = make.__doc__
