"""`cached`: cached properties whose tensors are never inference-mode tensors."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

T = TypeVar("T")


@contextmanager
def plain_tensors() -> Iterator[None]:
    """Within, new tensors are ordinary ones, neither of inference mode nor of a transform of `torch.func`.

    The former cannot be used in training later, the latter are invalid after the transform.
    """
    with torch.inference_mode(False):
        if torch._C._functorch.peek_interpreter_stack() is None:
            yield
        else:
            with temporarily_clear_interpreter_stack():
                yield


class cached(cached_property[T]):  # noqa: N801 (used as a decorator)
    """As `functools.cached_property`, for values that hold tensors; see `plain_tensors`."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        def compute(instance: Any) -> T:
            with plain_tensors():
                return make(instance)

        super().__init__(compute)
        self.__doc__ = make.__doc__
