"""`cached`: cached properties whose tensors are never inference-mode tensors."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

T = TypeVar("T")


_NOTHING_TO_DO = nullcontext()


def plain_tensors() -> AbstractContextManager[None]:
    """Within, new tensors are ordinary ones, neither of inference mode nor of a transform of `torch.func`.

    The former cannot be used in training later, the latter are invalid after the transform.
    """
    usual = not torch.is_inference_mode_enabled() and torch._C._functorch.peek_interpreter_stack() is None
    return _NOTHING_TO_DO if usual else _leaving_modes()


@contextmanager
def _leaving_modes() -> Iterator[None]:
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
