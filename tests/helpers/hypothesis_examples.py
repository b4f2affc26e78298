"""How many examples hypothesis draws: a few in `make test`, many times as many in `make test-all`."""

import os
from typing import Any

from hypothesis import settings

#: The environment variable that `make test-all` sets: by how much the number of examples is multiplied.
TIMES = "ESAN_EXAMPLES"


def drawn(count: int) -> int:
    """The number of examples where `make test` draws `count`."""
    return count * int(os.environ.get(TIMES, "1"))


def examples(count: int, **others: Any) -> settings:
    """A decorator: draw so many examples in `make test`; other settings of hypothesis as usual."""
    return settings(max_examples=drawn(count), **others)
