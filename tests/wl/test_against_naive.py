"""The vectorised tests are the paper's: the same classes, and the same partition of cells after every round."""

import naive
import pytest
import torch
from hypothesis import given
from torch_geometric.data import Data

import esan
import strategies
from esan import wl
from hypothesis_examples import drawn, examples

ON_BAGS = ("ds", "dss", "dss-excluding", "ds-2-fwl")
CASES = [("1", None), ("2-fwl", None)] + [(test, name) for test in ON_BAGS for name in strategies.POLICIES]


def _policy(name: str | None) -> esan.Policy | None:
    return None if name is None else strategies.POLICIES[name]


def _as_sets(values: list[int]) -> set[frozenset[int]]:
    return {frozenset(i for i, value in enumerate(values) if value == one) for one in values}


@pytest.mark.parametrize(("test", "name"), CASES)
@examples(2)
@given(graphs=strategies.batches())
def test_classes(test: str, name: str | None, graphs: list[Data]) -> None:
    found = wl.classes(graphs, test, _policy(name)).tolist()
    assert _as_sets(found) == _as_sets(naive.classes(graphs, test, _policy(name)))


@pytest.mark.parametrize(("test", "name"), CASES)
@examples(1)
@given(graphs=strategies.batches())
def test_colours_after_every_round(test: str, name: str | None, graphs: list[Data]) -> None:
    expected = naive.histories(graphs, test, _policy(name))
    found = wl.colourings(graphs, test, _policy(name))
    assert len(found[0].rounds) == len(expected)
    for number, colours in enumerate(expected):
        flat = [colour for bag in colours for cells in bag for colour in cells]
        assert _as_sets(torch.cat([one.rounds[number].reshape(-1) for one in found]).tolist()) == _as_sets(flat)


@pytest.mark.parametrize(("test", "name"), [("1", None), ("ds", "ND"), ("dss", "ED"), ("2-fwl", None)])
def test_small_graphs_without_labels(test: str, name: str | None) -> None:
    """All 52 graphs of up to 5 nodes, or in `make test-all` all 208 of up to 6."""
    graphs = esan.graphs.atlas(5 if drawn(1) == 1 else 6)
    found = wl.classes(graphs, test, _policy(name)).tolist()
    assert _as_sets(found) == _as_sets(naive.classes(graphs, test, _policy(name)))
