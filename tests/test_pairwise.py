"""The pairwise covering of parametrised tests: every pair is held, few cases are kept, and always the same."""

from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairwise import covering


def _held(cases: list[dict[str, int]]) -> set[object]:
    return {pair for case in cases for pair in combinations(sorted(case.items()), 2)}


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_every_value_occurs(sizes: list[int]) -> None:
    cases = _cases(*sizes)
    kept = covering(cases, 1)
    assert len(kept) == max(sizes)
    assert {item for i in kept for item in cases[i].items()} == {item for case in cases for item in case.items()}


def _cases(*sizes: int) -> list[dict[str, int]]:
    return [dict(zip("abcdefgh", values, strict=False)) for values in product(*map(range, sizes))]


@given(st.lists(st.integers(1, 4), min_size=2, max_size=4), st.integers(1, 7))
def test_every_pair_is_held(sizes: list[int], every: int) -> None:
    """Also where not all combinations are cases."""
    cases = _cases(*sizes)[::every]
    kept = covering(cases)
    assert kept == sorted(set(kept))
    assert _held([cases[i] for i in kept]) == _held(cases)


@pytest.mark.parametrize(
    ("sizes", "most"),
    [((2, 7, 10), 70), ((2, 2, 7, 10), 75), ((3, 3, 3, 3), 12), ((2, 2, 2, 2), 6), ((5,), 5), ((3, 4), 12)],
)
def test_few_are_kept(sizes: tuple[int, ...], most: int) -> None:
    assert len(covering(_cases(*sizes))) <= most


def test_all_values_of_one_parameter_and_all_cases_of_two() -> None:
    assert covering(_cases(5)) == [*range(5)]
    assert covering(_cases(3, 4)) == [*range(12)]
    assert covering([{}]) == [0]
    assert covering([]) == []


SUITE = """
import pytest

@pytest.mark.pairwise
@pytest.mark.parametrize("a", [1, 2, 3])
@pytest.mark.parametrize("b", ["x", "y", "z"])
@pytest.mark.parametrize("c", [[1], [1], [2]])
def test_some(a, b, c):
    pass

@pytest.mark.parametrize("a", [1, 2, 3])
@pytest.mark.parametrize("b", [1, 2, 3])
def test_all(a, b):
    pass

@pytest.mark.pairwise
@pytest.mark.parametrize("a", [1, 2])
@pytest.mark.parametrize("b", [1, 2])
@pytest.mark.parametrize("device", ["cpu", pytest.param("gpu", marks=pytest.mark.gpu)])
def test_each_device(a, b, device):
    pass
"""

CONFTEST = """
import pytest
from pairwise import mark_others

@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    mark_others(items)
"""


def test_the_other_cases_are_exhaustive(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(SUITE)
    pytester.makeini("[pytest]\nmarkers =\n    pairwise: x\n    gpu: x\n    exhaustive: x\naddopts = --strict-markers")
    few, every = (pytester.inline_run("-m", marks) for marks in ("not exhaustive", "exhaustive or not exhaustive"))
    assert len(every.listoutcomes()[0]) == 27 + 9 + 8
    names = [report.nodeid.split("::")[1] for report in few.listoutcomes()[0]]
    assert 9 <= sum(name.startswith("test_some") for name in names) <= 12
    assert sum(name.startswith("test_all") for name in names) == 9
    # Neither device stands in for the other.
    assert sum(name.startswith("test_each_device") for name in names) == 8
