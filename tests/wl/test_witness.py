"""Witnesses: the first colour that differs, as data and in words; and what colours saw, against subgraphs taken out."""

from collections import Counter

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

import esan
import strategies
from esan import wl
from esan.graphs import cycle, path, permuted, read
from hypothesis_examples import examples


@pytest.mark.parametrize(
    ("first", "second", "test", "policy", "text"),
    [
        ("cycle(6)", "2xcycle(3)", "ds", "ED", "Round 2: a node that saw 1, 2 exists in cycle(6) only."),
        ("path(4)", "star(3)", "1", None, "Round 1: a node that saw 1, 1 exists in path(4) only."),
        ("path(4)", "path(5)", "dss", "ND", "Round 0: path(4) has 4 nodes, path(5) has 5."),
        ("path(4)", "cycle(4)", "ds", "ED", "Round 0: path(4) has 3 subgraphs in their bags, cycle(4) has 4."),
        (
            "path(4)", "star(3)", "dss", "SE",
            "Round 1: a node of colour 1 that saw 1 and has 2 neighbours in the graph exists in path(4) only.",
        ),
    ],
)  # fmt: skip
def test_the_witness_in_words(first: str, second: str, test: str, policy: str | None, text: str) -> None:
    verdict = wl.separates(first, second, test, policy)
    assert str(verdict.witness) == text


def test_no_witness_where_graphs_do_not_part() -> None:
    assert wl.separates("cycle(6)", "2xcycle(3)", "1").witness is None


@pytest.mark.parametrize("test", wl.TESTS)
@examples(15)
@given(one=strategies.graphs(max_nodes=5), other=strategies.graphs(max_nodes=5), policy=strategies.policies())
def test_a_witness_is_true(test: str, one: Data, other: Data, policy: esan.Policy) -> None:
    """What it says of the counts holds in the colourings, and its example is where it says."""
    chosen = policy if wl.TESTS[test].subgraphs else None
    verdict = wl.separates(one, other, test, chosen, node_labels=False, edge_labels=False)
    witness = verdict.witness
    assert (witness is None) == (not verdict)
    if witness is None or witness.kind == "size":
        return
    history = wl.History([one, other], test, chosen, node_labels=False, edge_labels=False)
    assert history.parted == verdict.iteration == witness.round
    if witness.kind == "colour":
        numbers = [history.of(graph, witness.round) for graph in (0, 1)]
        assert witness.colour is not None
        assert witness.counts == tuple(found.count(witness.colour - 1) for found in numbers)
        assert witness.counts[0] != witness.counts[1]
        n = int(history.graphs.num_nodes[witness.graph])
        cells = history.of(witness.graph, witness.round, witness.subgraph)
        place = witness.nodes[0] if len(witness.nodes) == 1 else witness.nodes[0] * n + witness.nodes[1]
        assert cells[place] == witness.colour - 1
    else:
        held = sorted(history.of(witness.graph, witness.round, witness.subgraph))
        other_bag = [
            sorted(history.of(1 - witness.graph, witness.round, s))
            for s in range(int(history.refinement.selection.num_subgraphs[1 - witness.graph]))
        ]
        assert other_bag.count(held) == witness.counts[1 - witness.graph]
        assert witness.counts[0] != witness.counts[1]


@examples(15)
@given(graph=strategies.graphs(max_nodes=6), policy=strategies.policies(), test=st.sampled_from(["ds", "dss"]))
def test_what_colours_saw(graph: Data, policy: esan.Policy, test: str) -> None:
    """Every cell, not the example alone, saw what its colour says: the neighbours in its subgraph, and its copies."""
    history = wl.History([graph], test, policy, node_labels=False, edge_labels=False)
    bag = esan.Bag.of(read(graph), policy, literal=True)
    n = bag.num_nodes
    for t in range(1, history.rounds):
        found, copies = history.meanings(t), history.copies(t - 1)
        before = np.array(history.of(0, t - 1)).reshape(-1, n)
        now = np.array(history.of(0, t)).reshape(-1, n)
        for s in range(bag.num_subgraphs):
            source, target = bag.subgraph(s).edge_index.numpy()
            for v in range(n):
                colour = int(now[s, v])
                assert found.was[colour] == before[s, v]
                assert found.seen_by(colour) == sorted(before[s, source[target == v]].tolist())
                if copies is not None and found.copies is not None:
                    assert found.copies[colour] == copies.of_node[v]
                    assert dict(copies.of(int(copies.of_node[v]))) == Counter(before[:, v].tolist())


@examples(15)
@given(graph=strategies.graphs(max_nodes=6), policy=strategies.policies())
def test_numbers_stay_while_classes_are_split(graph: Data, policy: esan.Policy) -> None:
    history = wl.History([graph], "dss", policy, node_labels=False, edge_labels=False)
    found = wl.colouring(graph, "dss", policy, node_labels=False, edge_labels=False)
    assert history.rounds == len(found.rounds)
    for t, numbers in enumerate(history.numbers):
        colours = found.rounds[t].reshape(-1).numpy()
        assert len(set(zip(numbers.tolist(), colours.tolist(), strict=True))) == len(set(colours.tolist()))
        assert set(numbers.tolist()) == set(range(len(set(colours.tolist()))))
        if t:
            # The largest part of each class has the number that the class had.
            for number in set(history.numbers[t - 1].tolist()):
                parts = Counter(numbers[history.numbers[t - 1] == number].tolist())
                assert parts[number] == max(parts.values())


def test_what_two_graphs_are_to_each_other() -> None:
    ring = cycle(7)
    assert wl.separates("rook", "rook", "1").relation == "identical"
    assert wl.separates("rook", "rook", "1").explanation.startswith("Identical")
    other = wl.separates("petersen", "kneser(5,2)", "dss", "ND")
    assert (other.relation, other.explanation.split(":")[0]) == ("isomorphic", "Isomorphic")
    assert wl.separates(ring, permuted(ring, torch.Generator().manual_seed(1)), "1").relation == "isomorphic"
    blind = wl.separates("rook", "shrikhande", "2-fwl")
    assert blind.relation == "not isomorphic"
    assert "these two are not" in blind.explanation
    assert "does not prove that they are isomorphic" in blind.explanation


def test_labels_belong_to_what_is_identical() -> None:
    one, other = path(3), path(3)
    one.x, other.x = torch.tensor([[1], [2], [3]]), torch.tensor([[3], [2], [1]])
    assert wl.separates(one, other, "1").relation == "isomorphic"
    assert wl.separates(one, other, "1", node_labels=False).relation == "identical"


@examples(15)
@given(one=strategies.graphs(max_nodes=5), other=strategies.graphs(max_nodes=5))
def test_relations_agree_with_networkx(one: Data, other: Data) -> None:
    verdict = wl.separates(one, other, "1", node_labels=False, edge_labels=False)
    whole = [nx.Graph() for _ in range(2)]
    for graph, data in zip(whole, (one, other), strict=True):
        graph.add_nodes_from(range(int(data.num_nodes or 0)))
        graph.add_edges_from(data.edge_index.t().tolist())
    assert (verdict.relation in ("identical", "isomorphic")) == nx.is_isomorphic(*whole)
