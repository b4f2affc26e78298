"""Ranking is injective: equal colours if and only if equal inputs, for tuples, multisets and long sequences."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from esan.wl.palette import Colours, Palette

BAGS = st.lists(st.lists(st.integers(0, 4), max_size=9), min_size=1, max_size=12)


def _elements(bags: list[list[int]], rng: np.random.Generator) -> tuple[np.ndarray, Colours]:
    owner = np.repeat(np.arange(len(bags)), [len(bag) for bag in bags])
    colour = np.array([c for bag in bags for c in bag], dtype=np.int64)
    order = rng.permutation(owner.size)
    return owner[order], Colours(colour[order], 5)


def _same_partition(colours: Colours, expected: list[object]) -> None:
    found = colours.values.tolist()
    assert colours.count >= len(set(found))
    for i in range(len(found)):
        for j in range(i):
            assert (found[i] == found[j]) == (expected[i] == expected[j]), (i, j)


@given(BAGS, st.integers(0, 100))
def test_multisets_are_equal_exactly_when_their_colours_are(bags: list[list[int]], seed: int) -> None:
    owner, colours = _elements(bags, np.random.default_rng(seed))
    _same_partition(Palette().multiset(owner, colours, len(bags)), [sorted(bag) for bag in bags])


@given(BAGS, st.integers(0, 100))
def test_others_leaves_exactly_one_element_out(bags: list[list[int]], seed: int) -> None:
    owner, colours = _elements(bags, np.random.default_rng(seed))
    expected: list[object] = []
    for who, colour in zip(owner, colours.values, strict=True):
        rest = Counter(bags[who])
        rest[int(colour)] -= 1
        expected.append(sorted(rest.elements()))
    _same_partition(Palette().others(owner, colours, len(bags)), expected)


@given(st.lists(st.lists(st.integers(-3, 3), min_size=2, max_size=2), min_size=1, max_size=20))
def test_lines_are_ranked_in_their_order(lines: list[list[int]]) -> None:
    found = Palette().lines(np.array(lines, dtype=np.int64))
    ranks = {tuple(line): rank for rank, line in enumerate(sorted({tuple(line) for line in lines}))}
    assert found.values.tolist() == [ranks[tuple(line)] for line in lines]


def test_long_sequences_that_differ_at_one_place_differ() -> None:
    bags = [list(range(1000)) for _ in range(3)]
    bags[1][-1] = 1000
    bags[2] = bags[2][:-1]
    owner = np.repeat(np.arange(3), [1000, 1000, 999])
    colours = Colours(np.array([c for bag in bags for c in bag]), 1001)
    assert len(set(Palette().multiset(owner, colours, 3).values.tolist())) == 3


def test_large_colours_do_not_overflow() -> None:
    """2-FWL packs two colours into one: colours may be far more than cells."""
    huge = 2**61
    colours = Colours(np.array([huge - 1, 0, huge - 1, 1]), huge)
    found = Palette().multiset(np.array([0, 1, 2, 3]), colours, 4).values
    assert found[0] == found[2]
    assert len(set(found.tolist())) == 3


def test_both_ways_of_ranking_agree() -> None:
    key = np.array([7, 3, 3, 90, 7], dtype=np.int64)
    small, large = Palette(recording=True), Palette(recording=True)
    assert small.rank(key, 100).values.tolist() == large.rank(key, 10**12).values.tolist() == [1, 0, 0, 2, 1]
    assert small.certificate == large.certificate


def test_a_certificate_must_be_recorded() -> None:
    with pytest.raises(ValueError, match="recording=True"):
        _ = Palette().certificate


def test_a_certificate_tells_a_colour_from_its_repetition() -> None:
    """{{0, 0}} and {{1}} are packed into the same key; only the record of the packing tells them apart."""
    twice, once = Palette(recording=True), Palette(recording=True)
    twice.multiset(np.array([0, 0]), Colours(np.array([0, 0]), 2), 1)
    once.multiset(np.array([0]), Colours(np.array([1]), 2), 1)
    assert twice.certificate != once.certificate
