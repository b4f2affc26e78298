"""`cached`: values computed once, usable outside of inference mode wherever they were first asked for."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

import torch

T = TypeVar("T")


class cached(cached_property[T]):  # noqa: N801 (used as a decorator)
    """As `functools.cached_property`; tensors made under `torch.inference_mode` could not be trained with later."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        def normally(instance: Any) -> T:
            with torch.inference_mode(False):
                return make(instance)

        super().__init__(normally)
        self.__doc__ = make.__doc__
