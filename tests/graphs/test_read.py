"""`read` and `Graphs`: one collection from whatever people hold."""

import warnings
from collections.abc import Callable
from typing import Any

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.utils import add_self_loops, from_networkx

import esan
import strategies
from esan.graphs import Graphs, permuted, read
from hypothesis_examples import examples


@examples(15)
@given(graphs=strategies.batches(max_drawn=4))
def test_list_and_batch_are_the_same_graphs(graphs: list[Data]) -> None:
    assert read(graphs).fingerprint == read(Batch.from_data_list(graphs)).fingerprint
    assert read(read(graphs)).fingerprint == read(graphs).fingerprint


@examples(15)
@given(graphs=strategies.batches(max_drawn=4))
def test_counts_undirected_and_directed_edges(graphs: list[Data]) -> None:
    collection = read(graphs)
    assert len(collection) == len(graphs)
    assert collection.num_nodes.tolist() == [g.num_nodes for g in graphs]
    assert collection.num_edges.tolist() == [len(strategies.plain_edges(g)) for g in graphs]
    assert collection.num_directed_edges.tolist() == [g.edge_index.size(1) for g in graphs]
    whole = Batch.from_data_list(graphs)
    columns = torch.empty_like(collection.edge_index)
    columns[:, collection.column] = collection.edge_index
    assert torch.equal(columns, whole.edge_index)
    assert collection.edge_attr is not None
    assert torch.equal(collection.edge_attr, whole.edge_attr[collection.column])
    source, target = collection.edge_index
    key = target * whole.num_nodes + source
    assert bool((key[1:] > key[:-1]).all())
    ends = torch.stack([torch.minimum(source, target), torch.maximum(source, target)])
    assert torch.equal(collection.edges[:, collection.undirected_edge], ends)
    first, second = collection.directed_edges
    assert torch.equal(collection.edge_index[:, first], collection.edge_index[:, second].flip(0))
    assert torch.equal(collection.degree, torch.bincount(target, minlength=whole.num_nodes))


@examples(15)
@given(graphs=strategies.batches(max_drawn=3), data=st.data())
def test_take(graphs: list[Data], data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, len(graphs) - 1), min_size=1, max_size=6))
    assert read(graphs).take(torch.tensor(ids)).fingerprint == read([graphs[i] for i in ids]).fingerprint


def test_graphs_by_number() -> None:
    graphs = read(strategies.odd_graphs()[3:7])
    every = [graphs.take(torch.tensor([i])).fingerprint for i in range(4)]
    assert [graphs[i].fingerprint for i in range(len(graphs))] == every
    assert graphs[-1].fingerprint == every[-1]
    for some in (slice(1, 3), [1, 2], torch.tensor([False, True, True, False])):
        assert graphs[some].fingerprint == graphs.take(torch.tensor([1, 2])).fingerprint
    with pytest.raises(
        IndexError, match=r"Expected numbers of graphs below 4, at least one \(got \[4\]\)\. len\(graphs"
    ):
        graphs[4]
    with pytest.raises(TypeError, match=r"Expected a number, a slice, .*\(got 'first'\)\. Number graphs from 0"):
        graphs["first"]  # type: ignore[index]


@pytest.mark.parametrize("level", ["graph", "node", "edge"])
def test_targets_of_every_level_travel_with_their_graphs(level: str) -> None:
    graphs = strategies.odd_graphs()[3:]
    for place, graph in enumerate(graphs):
        lines = {"graph": 1, "node": graph.num_nodes, "edge": graph.edge_index.size(1)}[level]
        graph.y = torch.arange(lines) + 100 * place
    collection = read(graphs)
    assert collection.y_level == level
    part = collection.take(torch.tensor([2, 0]))
    assert part.y is not None
    assert part.y.tolist() == [*graphs[2].y.tolist(), *graphs[0].y.tolist()]


def _looped() -> tuple[Batch, list[Data]]:
    """A batch with self-loops behind all its edges, and the same graphs, each with its loops behind its own edges."""
    graphs = [strategies.from_edges(3, [(0, 1)], 1), strategies.from_edges(4, [(0, 1), (1, 2), (2, 3)], 2)]
    for graph in graphs:
        graph.edge_attr = graph.edge_attr.float()
    batch = Batch.from_data_list(graphs)
    for data in (batch, *graphs):
        data.edge_index, data.edge_attr = add_self_loops(data.edge_index, data.edge_attr, 7.0, data.num_nodes)
    return batch, graphs


def test_a_batch_whose_arcs_are_not_grouped_by_graph() -> None:
    batch, graphs = _looped()
    batch.y = torch.arange(batch.edge_index.size(1))
    mixed, apart = read(batch), read(graphs)
    for name in ("num_nodes", "num_edges", "num_directed_edges", "edges", "edge_index", "undirected_edge", "edge_attr"):
        assert torch.equal(getattr(mixed, name), getattr(apart, name)), name
    columns = torch.empty_like(mixed.edge_index)
    columns[:, mixed.column] = mixed.edge_index
    assert torch.equal(columns, batch.edge_index)
    assert mixed.y is not None
    assert mixed.y_level == "edge"
    # Graphs taken out have their own columns in the order of the batch, and their targets with them.
    part = mixed.take(torch.tensor([1, 0]))
    assert torch.equal(part.column, apart.take(torch.tensor([1, 0])).column)
    of_column = batch.batch[batch.edge_index[0]]
    assert part.y is not None
    assert part.y.tolist() == [*mixed.y[of_column == 1].tolist(), *mixed.y[of_column == 0].tolist()]
    assert torch.equal(part.take(torch.tensor([1, 0])).edge_index, mixed.edge_index)


def test_predictions_of_edges_in_the_order_of_a_mixed_batch() -> None:
    batch, graphs = _looped()
    policy = esan.NodeDeletion()
    network = esan.dss_gnn(
        esan.Categories(strategies.ATOMS), 4, 2, 1, conv="gine", edge_channels=1, output="edge"
    ).eval()
    got = network(esan.Bag.of(batch, policy, 2)).squeeze(1).detach()
    expected = network(esan.Bag.of(graphs, policy, 2)).squeeze(1).detach()
    whole = Batch.from_data_list(graphs).edge_index
    by_edge = {tuple(edge): float(value) for edge, value in zip(whole.t().tolist(), expected, strict=True)}
    assert got.tolist() == pytest.approx([by_edge[tuple(edge)] for edge in batch.edge_index.t().tolist()])


def test_batches_of_graphs_without_edge_index_or_with_labels_in_lists() -> None:
    bare = [Data(x=torch.ones(2, 1)), Data(x=torch.ones(1, 1))]
    assert read(Batch.from_data_list(bare)).fingerprint == read(bare).fingerprint
    batch = Batch.from_data_list(bare)
    batch.y = [1.0, 2.0]
    assert read(batch).y.tolist() == [1.0, 2.0]  # type: ignore[union-attr]


def test_targets_may_be_missing_or_of_several_tasks() -> None:
    graphs = strategies.odd_graphs()
    for graph in graphs:
        graph.y = torch.tensor([[1.0, float("nan")]])
    assert read(graphs).y_level == "graph"
    assert tuple(read(graphs).y.shape) == (len(graphs), 2)  # type: ignore[union-attr]


def test_networkx_graphs_keep_their_attributes() -> None:
    graph = nx.Graph()
    graph.add_nodes_from([("a", {"x": [1.0]}), ("b", {"x": [2.0]}), ("c", {"x": [3.0]})])
    graph.add_edge("c", "a", edge_attr=[5.0])
    graph.add_edge("b", "b", edge_attr=[6.0])
    graph.graph["y"] = 7.0
    collection = read(graph)
    assert collection.x is not None
    assert collection.edge_attr is not None
    assert collection.y is not None
    assert collection.x.tolist() == [[1.0], [2.0], [3.0]]
    assert collection.edge_index.tolist() == [[2, 1, 0], [0, 1, 2]]
    assert collection.edge_attr.tolist() == [[5.0], [6.0], [5.0]]
    assert collection.y.tolist() == [7.0]


def test_attributes_of_networkx_graphs_that_are_not_read_are_named_once() -> None:
    weighted = nx.Graph([(0, 1, {"weight": 2.0}), (1, 2, {"weight": 3.0})], name="a name is no attribute", label=1)
    nx.set_node_attributes(weighted, 1.0, "pos")
    nx.set_node_attributes(weighted, 1.0, "x")
    club = nx.karate_club_graph()
    nx.set_node_attributes(club, 1.0, "x")
    words = r"not used: club, pos of nodes and weight of edges and label of graphs\. Read are x of nodes"
    grouped = r"group_node_attrs=\['club', 'pos'\], group_edge_attrs=\['weight'\]"
    with pytest.warns(UserWarning, match=rf"{words}.*{grouped}") as caught:
        read([club, weighted])
    assert len(caught) == 1
    with pytest.warns(UserWarning, match="not used: club of nodes and weight of edges") as caught:
        esan.Bag.of(nx.karate_club_graph(), "EGO(1)", 2)
    assert len(caught) == 1


def test_nothing_is_said_of_networkx_graphs_whose_attributes_are_read() -> None:
    graph = nx.path_graph(3)
    nx.set_node_attributes(graph, 1.0, "x")
    nx.set_edge_attributes(graph, 1.0, "edge_attr")
    graph.graph |= {"y": 1, "name": "path"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read([graph, graph.copy()])
        read([esan.graphs.graph_of(name) for name in ("karate_club", "florentine_families", "complete_bipartite(2,3)")])
        read(nx.petersen_graph())


@pytest.mark.parametrize("graph", [nx.petersen_graph(), nx.empty_graph(3), nx.path_graph(1)], ids=str)
def test_networkx_and_pyg_agree(graph: nx.Graph) -> None:
    data = Data(edge_index=from_networkx(graph).edge_index, num_nodes=graph.number_of_nodes())
    one, other = read(graph), read(data)
    assert torch.equal(one.edge_index, other.edge_index)
    assert torch.equal(one.num_nodes, other.num_nodes)


def test_edge_index_of_32_bits_and_absent_edge_index() -> None:
    data = strategies.odd_graphs()[5]
    narrow = data.clone()
    narrow.edge_index = data.edge_index.int()
    assert read(narrow).fingerprint == read(data).fingerprint
    assert read(Data(x=torch.ones(2, 1))).num_directed_edges.tolist() == [0]


@examples(20)
@given(graph=strategies.graphs())
def test_permuted_is_isomorphic(graph: Data) -> None:
    order = torch.randperm(graph.num_nodes)
    moved = permuted(graph, order=order)
    assert {(min(a, b), max(a, b)) for a, b in order[moved.edge_index].t().tolist()} == strategies.plain_edges(graph)
    assert torch.equal(moved.x, graph.x[order])


def test_permuted_moves_targets_of_every_level() -> None:
    graph = strategies.from_edges(4, [(0, 1), (1, 2), (1, 1)], 3)
    order = torch.tensor([2, 0, 3, 1])
    graph.y = 10 * torch.arange(4)
    assert permuted(graph, order=order).y.tolist() == [20, 0, 30, 10]
    graph.y = 10 * graph.edge_index[0] + graph.edge_index[1]
    moved = permuted(graph, order=order)
    source, target = order[moved.edge_index]
    assert torch.equal(moved.y, 10 * source + target)


def test_records_move_measure_and_show_themselves() -> None:
    graphs = read(strategies.odd_graphs())
    assert isinstance(graphs.to("cpu"), Graphs)
    assert graphs.nbytes == sum(t.numel() * t.element_size() for t in graphs.tensors().values())
    assert repr(graphs) == "Graphs(7 graphs, 25 nodes, 17 edges)"
    other = read(strategies.odd_graphs()[::-1])
    assert graphs.fingerprint != other.fingerprint


@pytest.mark.parametrize("batched", [DataLoader, lambda graphs, size: [Batch.from_data_list(graphs[:size])]])
@pytest.mark.parametrize("policy", [None, esan.NodeDeletion()])
def test_batches_among_graphs_are_refused(batched: Callable[..., Any], policy: esan.Policy | None) -> None:
    """Each batch would be one graph, with the predictions of one."""
    graphs = [esan.graphs.cycle(n) for n in (3, 4, 5)]
    source = batched(graphs if policy is None else [policy(graph) for graph in graphs], 2)
    for read_it in (read, lambda some: esan.Bag.of(some, policy and str(policy), 2)):
        with pytest.raises(TypeError, match=r"Expected graphs one by one \(got a batch of 2 at place 0\)\. Pass"):
            read_it(source)
