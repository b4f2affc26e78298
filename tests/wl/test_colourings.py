"""`colouring`: shapes, stability, canonical numbers and certificates."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

import esan
import strategies
from esan import wl
from esan.graphs import atlas, cycle, path, permuted, star
from hypothesis_examples import examples


@pytest.mark.parametrize(
    ("test", "policy", "shape"),
    [
        ("1", None, (4,)),
        ("ds", "ED", (3, 4)),
        ("dss", "ND^", (5, 4)),
        ("dss-excluding", "SE", (3, 4)),
        ("2-fwl", None, (4, 4)),
        ("ds-2-fwl", "EGO(1)", (4, 4, 4)),
    ],
)
def test_shapes(test: str, policy: str | None, shape: tuple[int, ...]) -> None:
    found = wl.colouring(path(4), test, policy)
    assert all(tuple(colours.shape) == shape for colours in found.rounds)
    assert found.stable is found.rounds[-1]
    assert found.stable_after == len(found.rounds) - 1
    assert sum(found.histogram().values()) == found.stable.numel()
    assert all(len(colours) == (shape[0] if policy else 1) for colours in found.subgraphs)


def test_1_wl_on_a_path_by_hand() -> None:
    """Ends, then their neighbours, then the middle: numbers ascend with (own colour, neighbours' colours)."""
    found = wl.colouring(path(5), "1")
    assert [colours.tolist() for colours in found.rounds] == [[0] * 5, [0, 1, 1, 1, 0], [0, 1, 2, 1, 0]]


def test_every_round_refines_the_one_before_and_the_last_is_stable() -> None:
    found = wl.colouring(esan.graphs.random_regular(3, 14, seed=1), "dss", "ED")
    for before, after in itertools.pairwise(found.rounds):
        couples = set(zip(after.reshape(-1).tolist(), before.reshape(-1).tolist(), strict=True))
        assert len(couples) == len(set(after.reshape(-1).tolist())) > len(set(before.reshape(-1).tolist()))


@pytest.mark.parametrize("test", wl.TESTS)
@examples(6)
@given(graph=strategies.graphs(max_nodes=5), policy=strategies.policies(), seed=st.integers(0, 2**16))
def test_colours_are_canonical(test: str, graph: Data, policy: esan.Policy, seed: int) -> None:
    chosen = policy if wl.TESTS[test].subgraphs else None
    mine = wl.colouring(graph, test, chosen)
    theirs = wl.colouring(permuted(graph, torch.Generator().manual_seed(seed)), test, chosen)
    assert mine.histogram() == theirs.histogram()
    assert mine.certificate == theirs.certificate


@pytest.mark.parametrize(("test", "policy"), [("1", None), ("ds", "SE"), ("dss", "ND"), ("2-fwl", None)])
def test_certificates_are_equal_exactly_where_the_test_is_inconclusive(test: str, policy: str | None) -> None:
    """Graphs coloured each on its own, against the classes of all of them together."""
    graphs = atlas(6)
    together = wl.classes(graphs, test, policy).tolist()
    alone = [wl.colouring(graph, test, policy).certificate for graph in graphs]
    seen: dict[bytes, int] = {}
    for certificate, found in zip(alone, together, strict=True):
        assert seen.setdefault(certificate, found) == found
    assert len(seen) == len(set(together))


def test_graphs_coloured_together_share_a_palette() -> None:
    one, other = wl.colourings([path(4), star(3)], "1")
    assert one.rounds[1].tolist() == [0, 1, 1, 0]
    assert other.rounds[1].tolist() == [2, 0, 0, 0]
    assert one.certificate == b""
    assert one.graphs[0] == other.graphs[0]
    assert one.graphs[1] != other.graphs[1]


def test_labels_of_several_columns_are_one_colour_each() -> None:
    graph = cycle(4)
    graph.x = torch.tensor([[1, 0], [0, 1], [1, 0], [1, 1]])
    assert wl.colouring(graph, "1").rounds[0].tolist() == [1, 0, 1, 2]
    graph.x = graph.x.float()
    assert wl.colouring(graph, "1").rounds[0].tolist() == [1, 0, 1, 2]
    graph.x = torch.tensor([True, False, True, True])
    assert wl.colouring(graph, "1").rounds[0].tolist() == [1, 0, 1, 1]
