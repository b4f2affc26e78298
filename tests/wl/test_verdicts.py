"""`separates`: what a verdict says, which inputs it reads, and that isomorphic graphs are never separated."""

from pathlib import Path

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

import esan
import strategies
from esan import wl
from esan.graphs import csl, cycle, path, permuted, read, rook, shrikhande, to_graph6
from hypothesis_examples import examples


@pytest.mark.parametrize("test", wl.TESTS)
@examples(10)
@given(graph=strategies.graphs(max_nodes=6), policy=strategies.policies(), seed=st.integers(0, 2**16))
def test_isomorphic_copies_are_never_separated(test: str, graph: Data, policy: esan.Policy, seed: int) -> None:
    copy = permuted(graph, torch.Generator().manual_seed(seed))
    verdict = wl.separates(graph, copy, test, policy if wl.TESTS[test].subgraphs else None)
    assert not verdict, verdict.explanation
    assert verdict.iteration is None


def test_a_verdict_says_when_graphs_part() -> None:
    verdict = wl.separates(rook(), shrikhande(), "ds", esan.EdgeDeletion())
    assert verdict
    assert (verdict.iteration, verdict.rounds, verdict.colours) == (3, 3, (1, 2, 4, 7))
    assert "round 3" in str(verdict)
    assert "EdgeDeletion()" in verdict.explanation


def test_an_inconclusive_verdict_says_why_that_is_no_proof() -> None:
    verdict = wl.separates(rook(), shrikhande(), "2-fwl")
    assert not verdict
    assert verdict.iteration is None
    assert "does not prove that they are isomorphic" in verdict.explanation


@pytest.mark.parametrize(("test", "policy"), [("1", None), ("dss", "ND"), ("2-fwl", None), ("ds-2-fwl", "ED")])
def test_graphs_of_different_size_part_at_once(test: str, policy: str | None) -> None:
    verdict = wl.separates(path(4), path(5), test, policy)
    assert verdict.iteration == 0
    assert "4 and 5 nodes" in verdict.explanation


def test_bags_of_different_size_part_at_once() -> None:
    verdict = wl.separates(path(4), cycle(4), "ds", "ED")
    assert verdict.iteration == 0
    assert "3 and 4 subgraphs" in verdict.explanation


def test_initial_labels_part_in_round_0() -> None:
    one, other = path(2), path(2)
    one.x, other.x = torch.tensor([[1], [1]]), torch.tensor([[1], [2]])
    assert wl.separates(one, other, "1").iteration == 0
    assert not wl.separates(one, other, "1", node_labels=False)


def test_edge_labels_are_seen_and_can_be_ignored() -> None:
    one, other = cycle(6), cycle(6)
    low, high = one.edge_index.min(0).values, one.edge_index.max(0).values
    one.edge_attr = ((low == 0) | (low == 3)).long()
    other.edge_attr = ((low == 0) & (high == 1) | (low == 2) & (high == 3) | (low == 4)).long()
    for test, policy in (("1", None), ("ds", "ND"), ("dss", "ED"), ("2-fwl", None)):
        assert wl.separates(one, other, test, policy)
        assert not wl.separates(one, other, test, policy, edge_labels=False)


def test_every_kind_of_input_is_the_same_graph(tmp_path: Path) -> None:
    line = to_graph6(csl(12, 3))
    graph6, edges = tmp_path / "one.g6", tmp_path / "edges.txt"
    graph6.write_text(line + "\n")
    one_way = read(csl(12, 3)).edges.t().tolist()
    edges.write_text("# u v\n" + "\n".join(f"{u} {v}" for u, v in one_way))
    networkx = nx.circulant_graph(12, [1, 3])
    things: list[object] = ["csl(12,3)", line, graph6, str(graph6), edges, [tuple(e) for e in one_way], networkx]
    for thing in things:
        assert not wl.separates(csl(12, 3), thing, "ds", "EGO(2)")
        assert wl.separates(csl(12, 5), thing, "ds", "EGO(2)")


class HighDegreeDeleted(esan.Policy):
    """A user's own policy: one subgraph a node of the greatest degree, without its edges."""

    def select(self, graphs: esan.graphs.Graphs) -> esan.Selection:
        most = torch.zeros(len(graphs), dtype=torch.long).scatter_reduce(0, graphs.node_graph, graphs.degree, "amax")
        chosen = (graphs.degree == most[graphs.node_graph]).nonzero().reshape(-1)
        counts = torch.bincount(graphs.node_graph[chosen], minlength=len(graphs))
        number = torch.full((graphs.node_graph.numel(),), -1)
        number[chosen] = torch.arange(chosen.numel())
        node, edge = graphs.incidence
        kept = number[node] >= 0
        return esan.Selection.deleting(graphs, counts, number[node[kept]], edge[kept])


def test_a_users_own_policy() -> None:
    assert wl.separates("cycle(6)", "2xcycle(3)", "ds", HighDegreeDeleted())
    assert not wl.separates("rook", "shrikhande", "dss", HighDegreeDeleted())


@pytest.mark.parametrize("test", ["ds", "dss"])
def test_without_a_policy_edges_are_deleted(test: str) -> None:
    verdict = wl.separates("cycle(6)", "2xcycle(3)", test)
    assert verdict
    assert verdict.policy == wl.separates("cycle(6)", "2xcycle(3)", test, "ED").policy
    assert wl.separates("cycle(6)", "2xcycle(3)", "1").policy is None


def _directed() -> Data:
    return Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2)


def _real() -> Data:
    return Data(edge_index=torch.tensor([[0, 1], [1, 0]]), x=torch.tensor([[0.5], [1.0]]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((path(2), path(2), "3-wl"), "Expected the name of a test .*Known: 1, ds, dss"),
        ((path(2), path(2), "dss", "EDD"), "Expected the name of a policy"),
        ((path(2), path(2), "1", "ED"), "Expected no policy"),
        ((path(2), path(2), "ds", "ED@0.5"), "Expected a policy that draws nothing"),
        ((path(2), Data(num_nodes=0), "1"), "at least one node"),
        ((path(2), nx.Graph(), "1"), "at least one node"),
        ((path(2), _directed(), "1"), "Expected both directions"),
        ((path(2), nx.DiGraph([(0, 1)]), "1"), "Expected an undirected networkx graph"),
        ((path(2), _real(), "1"), "in every graph|on every graph|Expected x"),
        ((_real(), _real(), "1"), "Expected integers in x .*node_labels=False"),
        ((path(2), "C~~~~", "1"), "Expected 1 characters of edges for 4 nodes"),
        ((path(2), "no such graph", "1"), "Expected the name of a graph, a file or a line of graph6"),
        ((path(2), Path("missing.g6"), "1"), "which is not there"),
        ((path(2), "csl(12)", "1"), "Expected other numbers behind csl"),
    ],
)
def test_bad_input_gets_one_clear_error(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises((ValueError, TypeError, FileNotFoundError), match=message):
        wl.separates(*arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("edges", [[], [(0, 1, 2)], [(0, -1)], [("a", "b")], 7, [(0, 1), (2,)]])
def test_bad_edge_lists(edges: object) -> None:
    with pytest.raises(TypeError, match="Expected a graph"):
        wl.separates(path(2), edges, "1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"0 1\n1,2,0.5", "got '1,2,0.5' in .*edges.csv, line 2"),
        (b"0,1,x", "got '0,1,x'"),
        (b"0 1 2", "got '0 1 2'"),
        (b"0", "got '0'"),
        (b"0 -1", "got '0 -1'"),
        (b"u v", "got 'u v'"),
        (b"# nothing\n\n", 'at least one line "u v" .*edges.csv'),
        ("0 1 # é".encode("latin-1"), "in UTF-8 .*edges.csv, whose byte 6"),
    ],
)
def test_bad_files_of_edges(text: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "edges.csv"
    file.write_bytes(text)
    with pytest.raises(ValueError, match=message):
        wl.separates(path(2), file, "1")


def test_a_line_longer_than_the_name_of_a_file_is_graph6() -> None:
    line = to_graph6(cycle(60))
    assert len(line) > 255
    assert not wl.separates(cycle(60), line, "1")


def test_a_policy_must_be_one() -> None:
    with pytest.raises(TypeError, match="Expected a policy"):
        wl.separates(path(2), path(2), "ds", 3)  # type: ignore[arg-type]


def test_2_fwl_refuses_what_would_not_fit() -> None:
    with pytest.raises(ValueError, match="triples of nodes"):
        wl.separates(path(900), path(900), "2-fwl")
