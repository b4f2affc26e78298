"""Pairwise covering: few cases of a parametrised test in which every two values of different parameters still meet."""

from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from typing import Any

import pytest


def covering(cases: Sequence[Mapping[str, Hashable]]) -> list[int]:
    """Positions of cases that hold every pair of values that any case holds.

    Greedy: the case with most pairs that are not held yet, the first of several. The same cases always give the same
    answer. With one parameter every value is kept, with two every case.

    Args:
        cases: the value of each parameter, by its name; all have the same names.
    """
    pairs = [_pairs(case) for case in cases]
    missing = set().union(*pairs) if pairs else set()
    kept: list[int] = []
    while missing:
        best = max(range(len(cases)), key=lambda i: (len(pairs[i] & missing), -i))
        missing -= pairs[best]
        kept.append(best)
    return sorted(kept)


def _pairs(case: Mapping[str, Hashable]) -> set[tuple[Hashable, ...]]:
    return {*combinations(sorted(case.items(), key=lambda item: item[0]), min(2, len(case)))}


def mark_others(items: Sequence[pytest.Item]) -> None:
    """Mark as `exhaustive` the cases of each test marked `pairwise` that add no pair of values.

    Cases that need a GPU are covered by themselves: where there is none, they hold nothing.
    """
    tests: dict[Any, list[pytest.Function]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("pairwise"):
            needs_gpu = item.get_closest_marker("gpu") is not None
            tests.setdefault((item.path, item.originalname, needs_gpu), []).append(item)
    for cases in tests.values():
        kept = {*covering([_values(item) for item in cases])}
        for place, item in enumerate(cases):
            if place not in kept:
                item.add_marker(pytest.mark.exhaustive)


def _values(item: pytest.Function) -> dict[str, Hashable]:
    """The values of a case: objects are told apart by identity, since many cannot be hashed."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    return {name: value if isinstance(value, str | int | float | None) else id(value) for name, value in params.items()}
