"""Every policy against its definition, written out with networkx and Python loops."""

import pytest
from hypothesis import given
from torch_geometric.data import Data

import esan
import strategies
from hypothesis_examples import examples
from policy_definitions import Subgraph, definition, networkx_graph


def _seen(subgraph: Data) -> Subgraph:
    marks = subgraph.mark.nonzero().reshape(-1).tolist() if "mark" in subgraph else []
    return frozenset(strategies.plain_edges(subgraph)), frozenset(marks)


@pytest.mark.parametrize(
    "policy", [*strategies.POLICIES.values(), esan.NodeDeletion(3), esan.EgoNets(3), esan.EgoNets(2)], ids=repr
)
@examples(8)
@given(graphs=strategies.batches(max_nodes=7))
def test_subgraphs_are_those_of_the_definition(policy: esan.Policy, graphs: list[Data]) -> None:
    bag = esan.Bag.of(graphs, policy, literal=True)
    expected = [subgraph for graph in graphs for subgraph in definition(policy, networkx_graph(graph))]
    assert [_seen(s) for s in bag.subgraphs()] == expected
    assert bag.selection.num_subgraphs.tolist() == [len(definition(policy, networkx_graph(graph))) for graph in graphs]
    assert bag.num_pairs == sum(graph.num_nodes * len(definition(policy, networkx_graph(graph))) for graph in graphs)


@pytest.mark.parametrize("policy", strategies.POLICIES.values(), ids=strategies.POLICIES)
@examples(8)
@given(graphs=strategies.batches())
def test_subgraphs_keep_nodes_features_and_both_directions(policy: esan.Policy, graphs: list[Data]) -> None:
    bag = esan.Bag.of(graphs, policy, 2)
    for subgraph in bag.subgraphs():
        whole = graphs[subgraph.graph]
        assert subgraph.num_nodes == whole.num_nodes
        assert subgraph.x.tolist() == whole.x.tolist()
        attributes = {tuple(a): int(f) for a, f in zip(whole.edge_index.t().tolist(), whole.edge_attr, strict=True)}
        edges = [tuple(a) for a in subgraph.edge_index.t().tolist()]
        assert len(set(edges)) == len(edges)
        assert {(v, u) for u, v in edges} == set(edges)
        assert [attributes[a] for a in edges] == subgraph.edge_attr.tolist()


@pytest.mark.parametrize("policy", strategies.POLICIES.values(), ids=strategies.POLICIES)
@examples(8)
@given(graphs=strategies.batches())
def test_rows_of_a_literal_bag_are_its_subgraphs(policy: esan.Policy, graphs: list[Data]) -> None:
    """The rows and edges that layers work on, against `subgraph(i)`."""
    bag = esan.Bag.of(graphs, policy, literal=True)
    view, first = bag.layer_view(1), 0
    node = view.node - bag.graphs.node_start[bag.graphs.node_graph[view.node]]
    for subgraph in bag.subgraphs():
        rows = range(first, first + subgraph.num_nodes)
        assert node[first : first + subgraph.num_nodes].tolist() == list(range(subgraph.num_nodes))
        assert bag.graphs.node_graph[view.node[first]] == subgraph.graph
        target = view.edges.edge_index[1]
        mine = (target >= rows.start) & (target < rows.stop)
        edges = (view.edges.edge_index[:, mine] - first).t().tolist()
        assert edges == subgraph.edge_index.t().tolist()
        assert bag.graphs.edge_attr is not None
        assert bag.graphs.edge_attr[view.edges.edge_id[mine]].tolist() == subgraph.edge_attr.tolist()
        if bag.marked:
            assert view.marked[first : first + subgraph.num_nodes].tolist() == subgraph.mark.tolist()
        first += subgraph.num_nodes
    assert first == view.num_rows
