"""`assert_equivariant` and `assert_invariant` accept equivariant networks and reject those that read numbers."""

import pytest
import torch
from torch import Tensor, nn

import esan
import strategies
from esan.bags import LayerView
from esan.graphs import Graphs
from esan.testing import acted, assert_equivariant, assert_invariant, relabelled

GRAPHS = strategies.odd_graphs()


class ReadsNodes(nn.Module):
    def forward(self, h: Tensor, bag: esan.Bag, view: LayerView) -> Tensor:
        h = view.expand(h)
        return h + view.node[:, None]


class ReadsSubgraphs(nn.Module):
    def forward(self, h: Tensor, bag: esan.Bag, view: LayerView) -> Tensor:
        return h + bag.rows.subgraph[:, None]


class ReadsOrder(nn.Module):
    """Adds the row before, so that the order of rows matters."""

    def forward(self, h: Tensor, bag: esan.Bag, view: LayerView) -> Tensor:
        return h + h.roll(1, 0)


class FirstNode(esan.Policy):
    """Deletes the edges at the first node of each graph: it depends on the numbering."""

    def select(self, graphs: Graphs) -> esan.Selection:
        at, edge = graphs.incidence
        first = graphs.node_start[graphs.node_graph[at]] == at
        one = torch.ones_like(graphs.num_nodes)
        return esan.Selection.deleting(graphs, one, graphs.node_graph[at[first]], edge[first])


@pytest.mark.parametrize("literal", [True, None])
def test_accepts_layers_and_encoders(literal: bool | None) -> None:
    policy = esan.EgoNets(2, marked=True)
    network = strategies.model("dss", "gcn", policy)
    bag = esan.Bag.of(GRAPHS, policy, 4, literal=literal)
    assert_equivariant(network.encoder, bag, network.features.out_channels)
    assert_equivariant(network.encoder.layers[0], bag, network.features.out_channels)


@pytest.mark.parametrize("layer", [ReadsNodes(), ReadsSubgraphs(), ReadsOrder()], ids=lambda m: type(m).__name__)
def test_rejects_layers_that_read_numbers(layer: nn.Module) -> None:
    bag = esan.Bag.of(GRAPHS, esan.NodeDeletion(), literal=True)
    with pytest.raises(AssertionError, match=f"Expected output 0 of {type(layer).__name__} on the permuted bag"):
        assert_equivariant(layer, bag, 3)


def test_rejects_a_layer_that_does_not_expand() -> None:
    bag = esan.Bag.of(GRAPHS, esan.NodeDeletion(), 3)
    with pytest.raises(AssertionError, match=r"Expected ReadsOrder to return the \d+ rows of .* h = view\.expand\(h\)"):
        assert_equivariant(ReadsOrder(), bag, 3)


def test_rejects_a_layer_that_reads_node_numbers_on_compact_bags() -> None:
    with pytest.raises(AssertionError, match="on the permuted bag and the permuted output"):
        assert_equivariant(ReadsNodes(), esan.Bag.of(GRAPHS, esan.NodeDeletion(), 1), 3)


class NumberedModel(nn.Module):
    """Weighs the nodes (or subgraphs) of each graph by their numbers."""

    def __init__(self, network: esan.nn.SubgraphGNN) -> None:
        super().__init__()
        self.network = network

    def forward(self, bag: esan.Bag) -> Tensor:
        number = torch.arange(bag.graphs.node_graph.numel()) * bag.graphs.degree
        total = torch.zeros(len(bag), dtype=torch.float64).index_add(0, bag.graphs.node_graph, number.double())
        return self.network(bag) + total[:, None]


@pytest.mark.parametrize("output", ["graph", "node", "edge"])
def test_accepts_models(output: str) -> None:
    policy = esan.EdgeDeletion()
    assert_invariant(strategies.model("dss", "gine", policy, output=output), GRAPHS, policy)


def test_accepts_a_model_on_a_random_policy() -> None:
    policy = esan.Sampled(esan.NodeDeletion(), 0.4)
    assert_invariant(strategies.model("ds", "gin", policy), GRAPHS, policy)


def test_rejects_a_model_that_reads_node_numbers() -> None:
    policy = esan.EdgeDeletion()
    with pytest.raises(AssertionError, match="relabelled nodes and shuffled subgraphs"):
        assert_invariant(NumberedModel(strategies.model("ds", "gin", policy)), GRAPHS, policy, num_layers=3)


@pytest.mark.parametrize("output", ["node", "edge"])
def test_rejects_predictions_in_another_order(output: str) -> None:
    class Backwards(nn.Module):
        def __init__(self, network: esan.nn.SubgraphGNN) -> None:
            super().__init__()
            self.network, self.output = network, network.output

        def forward(self, bag: esan.Bag) -> Tensor:
            return self.network(bag).flip(0)

    policy = esan.EdgeDeletion()
    network = Backwards(strategies.model("ds", "gin", policy, output=output))
    with pytest.raises(AssertionError, match="relabelled nodes and shuffled subgraphs"):
        assert_invariant(network, GRAPHS, policy, num_layers=3)


def test_rejects_a_policy_that_reads_node_numbers() -> None:
    policy = FirstNode()
    with pytest.raises(AssertionError, match="the bags that FirstNode"):
        assert_invariant(strategies.model("ds", "gin", policy), GRAPHS, policy)


def test_relabelled_moves_nodes_and_edges() -> None:
    data = strategies.from_edges(3, [(0, 1), (1, 2)], 5)
    order = torch.tensor([2, 0, 1])
    moved = relabelled(data, order)
    assert torch.equal(moved.x, data.x[order])
    edges = {
        (int(order[u]), int(order[v])): int(a) for (u, v), a in zip(moved.edge_index.t(), moved.edge_attr, strict=True)
    }
    assert edges == {(int(u), int(v)): int(a) for (u, v), a in zip(data.edge_index.t(), data.edge_attr, strict=True)}


def test_acted_is_the_same_bag_otherwise_numbered() -> None:
    bag = esan.Bag.of(GRAPHS, esan.EgoNets(1, marked=True), 2)
    moved = acted(bag, torch.Generator().manual_seed(0))
    assert moved.num_rows == bag.num_rows
    assert moved.graphs.fingerprint != bag.graphs.fingerprint
    edges = [sorted(int(s.edge_index.size(1)) for s in b.subgraphs()) for b in (bag, moved)]
    assert edges[0] == edges[1]


def test_a_whole_model_is_reported_what_to_pass() -> None:
    model = esan.dss_gnn(None, 4, 2, 1, marked=True)
    bag = esan.Bag.of(esan.graphs.cycle(4), esan.NodeMarking(), 2)
    with pytest.raises(TypeError, match=r"Pass model\.encoder, with in_channels = 3"):
        assert_equivariant(model, bag, 4)
