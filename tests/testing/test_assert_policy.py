"""`assert_policy_invariant` accepts the policies of the paper and rejects those that read numbers."""

import pytest
import torch

import esan
import strategies
from esan.graphs import Graphs
from esan.testing import assert_policy_invariant

GRAPHS = strategies.odd_graphs()


class FirstNode(esan.Policy):
    """Deletes the edges at the first node of each graph."""

    def select(self, graphs: Graphs) -> esan.Selection:
        at, edge = graphs.incidence
        first = graphs.node_start[graphs.node_graph[at]] == at
        one = torch.ones_like(graphs.num_nodes)
        return esan.Selection.deleting(graphs, one, graphs.node_graph[at[first]], edge[first])


class MarksFirstNode(esan.Policy):
    marked = True

    def select(self, graphs: Graphs) -> esan.Selection:
        one, nothing = torch.ones_like(graphs.num_nodes), graphs.num_nodes[:0]
        place = torch.arange(len(graphs))
        return esan.Selection.deleting(graphs, one, nothing, nothing, marks=(place, graphs.node_start))


class CountsOtherGraphs(esan.Policy):
    """As many copies of each graph as there are graphs."""

    def select(self, graphs: Graphs) -> esan.Selection:
        nothing = graphs.num_nodes[:0]
        return esan.Selection.deleting(graphs, torch.full_like(graphs.num_nodes, len(graphs)), nothing, nothing)


@pytest.mark.parametrize("policy", strategies.POLICIES.values(), ids=strategies.POLICIES)
def test_accepts_the_policies_of_the_paper(policy: esan.Policy) -> None:
    assert_policy_invariant(policy, GRAPHS)


@pytest.mark.parametrize("policy", [FirstNode(), MarksFirstNode()], ids=repr)
def test_rejects_policies_that_read_node_numbers(policy: esan.Policy) -> None:
    with pytest.raises(AssertionError, match=r"the same bag of graph \d for relabelled nodes .*got 1 other subgraphs"):
        assert_policy_invariant(policy, GRAPHS)


def test_rejects_policies_that_read_other_graphs() -> None:
    with pytest.raises(AssertionError, match=r"the same bag of graph 0 for the graph alone"):
        assert_policy_invariant(CountsOtherGraphs(), GRAPHS)


def test_refuses_random_policies() -> None:
    with pytest.raises(ValueError, match=r"Expected a policy that does not draw at random.*Check the policy"):
        assert_policy_invariant(esan.Sampled(esan.EdgeDeletion(), 0.5), GRAPHS)
