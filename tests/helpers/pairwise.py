"""Few cases of a parametrised test in which any two values of different parameters meet, or every value occurs."""

from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from typing import Any

import pytest


def covering(cases: Sequence[Mapping[str, Hashable]], strength: int = 2) -> list[int]:
    """Positions of cases that hold every combination of `strength` values that any case holds.

    Greedy: the case with most combinations that are not held yet, the first of several. The same cases always give
    the same answer. With no more parameters than `strength`, every case is kept.

    Args:
        cases: the value of each parameter, by its name; all have the same names.
        strength: 2 for pairs of values, 1 for single values.
    """
    held = [_combinations(case, strength) for case in cases]
    missing = set().union(*held) if held else set()
    kept: list[int] = []
    while missing:
        best = max(range(len(cases)), key=lambda i: (len(held[i] & missing), -i))
        missing -= held[best]
        kept.append(best)
    return sorted(kept)


def _combinations(case: Mapping[str, Hashable], strength: int) -> set[tuple[Hashable, ...]]:
    return {*combinations(sorted(case.items(), key=lambda item: item[0]), min(strength, len(case)))}


def mark_others(items: Sequence[pytest.Item]) -> None:
    """Mark as `exhaustive` the cases of tests marked `pairwise` that add no pair of values, of `each_value` no value.

    Cases that need a GPU are covered by themselves: where there is none, they hold nothing.
    """
    tests: dict[Any, list[pytest.Function]] = {}
    for item in items:
        for strength, marker in ((1, "each_value"), (2, "pairwise")):
            if isinstance(item, pytest.Function) and item.get_closest_marker(marker):
                needs_gpu = item.get_closest_marker("gpu") is not None
                tests.setdefault((item.path, item.originalname, needs_gpu, strength), []).append(item)
    for (*_, strength), cases in tests.items():
        kept = {*covering([_values(item) for item in cases], strength)}
        for place, item in enumerate(cases):
            if place not in kept:
                item.add_marker(pytest.mark.exhaustive)


def _values(item: pytest.Function) -> dict[str, Hashable]:
    """The values of a case: objects are told apart by identity, since many cannot be hashed."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    return {name: value if isinstance(value, str | int | float | None) else id(value) for name, value in params.items()}
