"""Policies as objects: names, bad arguments, and one's own."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import esan
import strategies
from esan.graphs import Graphs
from esan.testing import assert_invariant, assert_policy_invariant, assert_same_execution


@pytest.mark.parametrize("hops", [0, -1])
def test_hops_out_of_range(hops: int) -> None:
    with pytest.raises(ValueError, match=rf"Expected hops of at least 1 \(got {hops}\)\. Pass e\.g\. EgoNets\(2\)"):
        esan.EgoNets(hops)


@pytest.mark.parametrize("k", [0, -2])
def test_k_out_of_range(k: int) -> None:
    with pytest.raises(ValueError, match=rf"Expected k of at least 1 \(got {k}\)\. NodeDeletion\(\) deletes one"):
        esan.NodeDeletion(k)


@pytest.mark.parametrize("number", [True, 2.0, "2", None], ids=repr)
def test_numbers_that_are_not_whole(number: Any) -> None:
    with pytest.raises(TypeError, match=r"Expected hops to be a whole number \(got .*\)\. Pass e\.g\. EgoNets\(2\)"):
        esan.EgoNets(number)
    with pytest.raises(TypeError, match=r"Expected k to be a whole number \(got .*\)\. NodeDeletion\(\) deletes one"):
        esan.NodeDeletion(number)


@pytest.mark.parametrize("fraction", [True, "0.5", None], ids=repr)
def test_fractions_that_are_no_numbers(fraction: Any) -> None:
    with pytest.raises(TypeError, match=r"Expected fraction to be a number \(got .*\)\. 0.2 keeps a fifth"):
        esan.Sampled(esan.EdgeDeletion(), fraction)


@pytest.mark.parametrize("wrap", [esan.Augmented, lambda policy: esan.Sampled(policy, 0.5)], ids=["all", "sample"])
def test_wrapped_things_that_are_no_policies(wrap: Callable[[Any], esan.Policy]) -> None:
    with pytest.raises(TypeError, match=r"Expected a policy \(got 'ED'\)\. Pass esan\.policy_named\(\"ED\"\)\."):
        wrap("ED")
    with pytest.raises(TypeError, match=r"Expected a policy \(got <class .*Pass an object, e\.g\. esan\.EdgeDeletion"):
        wrap(esan.EdgeDeletion)


@pytest.mark.parametrize("fraction", [0, -0.1, 1.01, float("nan")])
def test_fraction_out_of_range(fraction: float) -> None:
    with pytest.raises(ValueError, match=rf"Expected a fraction in \(0, 1\] \(got {fraction}\)\. 0.2 keeps a fifth"):
        esan.Sampled(esan.EdgeDeletion(), fraction)


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("ND", esan.NodeDeletion()),
        ("ND(2)", esan.NodeDeletion(2)),
        ("ED", esan.EdgeDeletion()),
        ("EGO(3)", esan.EgoNets(3)),
        ("EGO+(3)", esan.EgoNets(3, marked=True)),
        ("SE", esan.SingleEdges()),
        ("NM", esan.NodeMarking()),
        ("identity", esan.Whole()),
        ("EGO+(3)^", esan.Augmented(esan.EgoNets(3, marked=True))),
        ("EGO+(3)^@0.2", esan.Sampled(esan.Augmented(esan.EgoNets(3, marked=True)), 0.2)),
    ],
)
def test_policies_by_name_and_by_repr(name: str, policy: esan.Policy) -> None:
    assert esan.policy_named(name) == policy
    assert esan.policy_named(repr(policy)) == policy


@pytest.mark.parametrize(
    "name",
    [
        *("", "n d", "EGO(x)", "ED(2)", "EGO@many", "Unknown(k=1)", "EgoNets(2)", "EgoNets(hops=True)"),
        *("Sampled(policy=EdgeDeletion(), fraction=x)", "Sampled(policy=ED, fraction=0.5)", None, 3),
    ],
)
def test_unknown_names_list_the_known_ones(name: Any) -> None:
    with pytest.raises(ValueError, match=r"Expected the name of a policy \(got .*\)\. Known: ND, ED, EGO, EGO\+, SE"):
        esan.policy_named(name)


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("EGO(0)", r"Expected hops of at least 1 \(got 0\)\. Pass e\.g\. EgoNets\(2\)"),
        ("EgoNets(hops=0)", r"Expected hops of at least 1 \(got 0\)\. Pass e\.g\. EgoNets\(2\)"),
        ("ND(0)", r"Expected k of at least 1 \(got 0\)\. NodeDeletion\(\) deletes one"),
        ("ED@2", r"Expected a fraction in \(0, 1\] \(got 2.0\)\. 0.2 keeps a fifth"),
    ],
)
def test_numbers_out_of_range_in_a_name(name: str, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        esan.policy_named(name)


class EdgeMarking(esan.Policy):
    """One subgraph an edge: the whole graph, with both ends of the edge marked."""

    marked = True

    def select(self, graphs: Graphs) -> esan.Selection:
        edge = torch.arange(graphs.edges.size(1))
        subgraphs = graphs.num_edges.clamp(min=1)
        first = torch.cumsum(subgraphs, 0) - subgraphs
        subgraph = edge + (first - graphs.edge_start)[graphs.edge_graph]
        marks = (subgraph.repeat(2), graphs.edges.reshape(-1))
        return esan.Selection.deleting(graphs, subgraphs, edge[:0], edge[:0], marks)


def test_a_policy_of_ones_own() -> None:
    policy, graphs = EdgeMarking(), strategies.odd_graphs()
    assert_policy_invariant(policy, graphs)
    network = strategies.model("dss", "gcn", policy, num_layers=2)
    assert_invariant(network, graphs, policy)
    assert_same_execution(network, graphs, policy)
    assert repr(policy) == "EdgeMarking()"
    bag = esan.Bag.of(graphs, esan.Sampled(esan.Augmented(policy), 0.5), 2)
    assert bag.marked


class WrongGraph(esan.Policy):
    """Numbers edges from 0 in every graph: right for one graph, wrong for two."""

    def select(self, graphs: Graphs) -> esan.Selection:
        subgraph = torch.arange(len(graphs))
        return esan.Selection.deleting(graphs, torch.ones_like(subgraph), subgraph, torch.zeros_like(subgraph))


def test_a_policy_that_forgets_to_number_through_the_collection() -> None:
    graphs = [strategies.from_edges(2, [(0, 1)], s) for s in range(2)]
    assert esan.Bag.of(graphs[0], WrongGraph(), 1).num_subgraphs == 1
    got = "edge 0 of graph 0 in subgraph 1 of graph 1"
    with pytest.raises(
        ValueError, match=rf"Expected each subgraph to list edges of its own graph \(got {got}\)\. Number subgraphs"
    ):
        esan.Bag.of(graphs, WrongGraph(), 1)


class SelectsNothing(esan.Policy):
    def select(self, graphs: Graphs) -> Any:
        """Forgets to return what it selected."""


class SecretlyMarked(esan.Policy):
    """Marks the node of each subgraph and does not say so."""

    def select(self, graphs: Graphs) -> esan.Selection:
        return esan.NodeMarking().select(graphs)


def test_policies_of_ones_own_are_checked() -> None:
    graph = esan.graphs.path(3)
    with pytest.raises(TypeError, match=r"Expected select of SelectsNothing\(\) to give a Selection \(got NoneType\)"):
        esan.Bag.of(graph, SelectsNothing(), 2)
    for use in (lambda policy: esan.Bag.of(graph, policy, 2), lambda policy: policy(graph)):
        with pytest.raises(ValueError, match=r"Expected marked = True on SecretlyMarked\(\).*Set it in its class"):
            use(SecretlyMarked())


def test_selections_are_checked() -> None:
    graphs = esan.graphs.read(strategies.odd_graphs()[4])
    one, none = torch.tensor([1]), torch.empty(0, dtype=torch.long)
    with pytest.raises(
        ValueError, match=r"Expected .*one subgraph.* for each of the 1 graphs .*Let the policy give the graph itself"
    ):
        esan.Selection.deleting(graphs, torch.tensor([0]), none, none)
    with pytest.raises(ValueError, match=r"Expected two lists of one length \(got shapes \(1,\) and \(0,\)\)"):
        esan.Selection.keeping(graphs, one, one, none)
    with pytest.raises(
        ValueError, match=r"Expected each subgraph to list edges of its own graph \(got edge 99 of \d+ edge"
    ):
        esan.Selection.keeping(graphs, one, torch.tensor([0]), torch.tensor([99]))
    with pytest.raises(
        ValueError, match=r"Expected each subgraph to list nodes of its own graph \(got subgraph 3 of 1 subgraph\)"
    ):
        esan.Selection.keeping(graphs, one, none, none, marks=(torch.tensor([3]), torch.tensor([0])))


@pytest.mark.parametrize("node", [-1, 3, 4])
def test_numbers_out_of_range_are_named(node: int) -> None:
    """Node 4 in the first of three subgraphs is not node 1 in the second."""
    graphs, none = esan.graphs.read(esan.graphs.path(3)), torch.empty(0, dtype=torch.long)
    with pytest.raises(ValueError, match=rf"list nodes of its own graph \(got node {node} of 3 nodes\)"):
        esan.Selection.deleting(graphs, graphs.num_nodes, none, none, marks=(torch.tensor([0]), torch.tensor([node])))


class _Counted(esan.Policy):
    """Says how many subgraphs there are as one number for all graphs."""

    def select(self, graphs: esan.graphs.Graphs) -> esan.Selection:
        none = torch.empty(0, dtype=torch.long)
        return esan.Selection.deleting(graphs, 2, none, none)  # type: ignore[arg-type]


def test_a_number_in_place_of_counts() -> None:
    with pytest.raises(TypeError, match=r"as a tensor, one number per graph \(got 2\)"):
        esan.Bag.of(strategies.odd_graphs(), _Counted(), 2)


def test_the_check_of_a_policy_sees_what_a_bag_refuses() -> None:
    with pytest.raises(ValueError, match=r"Expected marked = True on SecretlyMarked\(\), which marks nodes"):
        assert_policy_invariant(SecretlyMarked(), [esan.graphs.cycle(4)])
