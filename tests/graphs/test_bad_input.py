"""What `read` refuses: each error says what was expected, what it got and what to do."""

from typing import Any

import networkx as nx
import pytest
import torch
from torch_geometric import transforms as T
from torch_geometric.data import Batch, Data, HeteroData

import esan
from esan.graphs import read

BOTH = [[0, 1], [1, 0]]


def _data(edge_index: Any = BOTH, num_nodes: Any = 2, **extra: Any) -> Data:
    return Data(edge_index=torch.as_tensor(edge_index), num_nodes=num_nodes, **extra)


@pytest.mark.parametrize(
    ("edge_index", "error", "match"),
    [
        (
            [[0, 2], [2, 0]],
            ValueError,
            r"Expected node numbers from 0 to 1 .*graph 0 \(got the edge \(0, 2\)\)\. Number",
        ),
        ([[0, -1], [-1, 0]], ValueError, r"Expected node numbers from 0 to 1 .*got the edge \(0, -1\)"),
        ([[0.0, 1.0], [1.0, 0.0]], TypeError, r"Expected edge_index of integers \(got torch.float32 .*\.long\(\)"),
        ([[True, False], [False, True]], TypeError, r"Expected edge_index of integers \(got torch.bool"),
        ([0, 1], ValueError, r"Expected edge_index of shape \[2, edges\] \(got \(2,\) in graph 0\)\. Transpose"),
        ([[0, 1, 0], [1, 0, 0], [0, 0, 0]], ValueError, r"Expected edge_index of shape \[2, edges\] \(got \(3, 3\)"),
        ([[0], [1]], ValueError, r"Expected both directions of every edge \(got 0→1 of graph 0 .*to_undirected"),
        ([[0, 1, 0], [1, 0, 1]], ValueError, r"Expected simple graphs \(got the edge 0→1 of graph 0 .*coalesce"),
    ],
    ids=["too large", "negative", "floats", "truth values", "flat", "three lines", "one direction", "twice"],
)
def test_edge_index(edge_index: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        read(_data(edge_index))


def test_errors_name_the_graph_in_a_list_and_in_a_batch() -> None:
    graphs = [_data(), _data([[0, 5], [5, 0]])]
    with pytest.raises(ValueError, match=r"in edge_index of graph 1 \(got the edge \(0, 5\)\)"):
        read(graphs)
    with pytest.raises(ValueError, match=r"Expected both directions of every edge \(got 1→0 of graph 1"):
        read(Batch.from_data_list([_data(), _data([[1], [0]])]))


def test_edge_index_that_is_no_tensor() -> None:
    data = Data(num_nodes=2)
    data.edge_index = [[0, 1], [1, 0]]
    with pytest.raises(ValueError, match=r"Expected edge_index of shape \[2, edges\] \(got list in graph 0\)"):
        read(data)


@pytest.mark.parametrize(
    ("transform", "name"), [(T.ToSparseTensor(), "adj_t"), (T.ToDense(), "adj")], ids=["sparse", "dense"]
)
def test_edges_that_a_transform_put_elsewhere(transform: T.BaseTransform, name: str) -> None:
    moved = [transform(_data(x=torch.ones(2, 1))) for _ in range(2)]
    kind = type(transform).__name__
    match = rf"Expected the edges in edge_index \(got {name} and no edge_index in .*\)\. Leave T\.{kind} out"
    with pytest.raises(ValueError, match=match):
        read(moved)
    with pytest.raises(ValueError, match=match):
        read(Batch.from_data_list(moved))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("name", ["x", "edge_attr"])
def test_features_that_are_not_finite(name: str, bad: float) -> None:
    with pytest.raises(ValueError, match=rf"Expected finite numbers in {name} \(got .* at line 1 .*Fill or drop"):
        read(_data(**{name: torch.tensor([[0.0], [bad]])}))


@pytest.mark.parametrize("name", ["x", "edge_attr"])
@pytest.mark.parametrize(
    ("value", "words"),
    [
        (torch.ones(2, 1).to_sparse(), r"sparse_coo on graph 1\). Call to_dense"),
        (torch.ones(2, 1, dtype=torch.cfloat), r"complex numbers on graph 1\). Give real and imaginary"),
    ],
)
def test_features_that_are_not_dense_or_not_real(name: str, value: torch.Tensor, words: str) -> None:
    with pytest.raises(TypeError, match=rf"Expected {name} to be a dense tensor of real numbers \(got {words}"):
        read([_data(**{name: torch.ones(2, 1)}), _data(**{name: value})])


@pytest.mark.parametrize(("name", "what"), [("x", "node"), ("edge_attr", "column of edge_index")])
def test_features_of_a_wrong_length(name: str, what: str) -> None:
    data = Data(edge_index=torch.tensor(BOTH), **{name: torch.ones(3, 1)})
    if name == "x":
        data.num_nodes = 2
        with pytest.raises(ValueError, match=r"Expected one row of x per node \(got 3 rows and num_nodes=2"):
            read(data)
    else:
        with pytest.raises(ValueError, match=rf"Expected one row of {name} per {what}, 2 in all \(got shape \(3, 1\)"):
            read(data)


@pytest.mark.parametrize("name", ["x", "edge_attr"])
def test_features_on_some_graphs_only(name: str) -> None:
    with pytest.raises(ValueError, match=rf"Expected {name} on every graph or on none \(got none on graph 1\)\. Add"):
        read([_data(**{name: torch.ones(2, 1)}), _data()])


def test_features_of_several_widths() -> None:
    with pytest.raises(ValueError, match=r"Expected x of one width \(got \(1,\) on graph 0 and \(2,\) on graph 1\)"):
        read([_data(x=torch.ones(2, 1)), _data(x=torch.ones(2, 2))])


def test_features_that_are_no_tensor() -> None:
    data = _data()
    data.edge_attr = [1, 2]
    with pytest.raises(TypeError, match=r"Expected edge_attr to be a tensor \(got list in graph 0\)\. Convert"):
        read(data)


def test_node_features_that_are_no_lines() -> None:
    data = _data()
    data.x = [[1.0], [2.0]]
    with pytest.raises(TypeError, match=r"Expected x to be a tensor \(got list in graph 0\)\. Convert"):
        read(data)
    data.x = torch.tensor(1.0)
    with pytest.raises(
        ValueError, match=r"Expected one row of x per node \(got one number in graph 0\)\. Give every node"
    ):
        read(data)


@pytest.mark.parametrize(
    ("name", "value", "error", "match"),
    [
        (
            "x",
            torch.ones(3, 1),
            ValueError,
            r"Expected one row of x per node, 4 in all \(got shape \(3, 1\) in the batch",
        ),
        (
            "edge_attr",
            torch.ones(5),
            ValueError,
            r"one row of edge_attr per column of edge_index, 4 in all \(got shape \(5,\) in the batch\)\. Give",
        ),
        ("x", [1.0] * 4, TypeError, r"Expected x to be a tensor \(got list in the batch\)\. Convert"),
        ("y", ["a", "b"], TypeError, r"Expected y to be a tensor or numbers \(got 'a' in graph 0\)\. Encode"),
        ("y", torch.ones(3), ValueError, r"Expected y with one row per graph, .*\(got 3 rows in the batch\)\. Give"),
        ("y", torch.ones(1), ValueError, r"Expected y with one row per graph, .*\(got 1 row in the batch\)\. Give"),
        ("ptr", None, ValueError, r"Expected a batch with ptr, .*\(got none\)\. Make it with Batch.from_data_list"),
    ],
    ids=["rows of x", "rows of edge_attr", "list", "classes", "rows of y", "row of y", "no ptr"],
)
def test_fields_of_a_batch(name: str, value: Any, error: type[Exception], match: str) -> None:
    batch = Batch.from_data_list([_data(), _data()])
    batch[name] = value
    with pytest.raises(error, match=match):
        read(batch)


def test_a_label_that_is_text() -> None:
    with pytest.raises(TypeError, match=r"Expected y to be a tensor or numbers \(got 'toxic' in graph 0\)\. Encode"):
        read(_data(y="toxic"))


def test_labels() -> None:
    graph = _data(y=torch.tensor([1.0]))
    with pytest.raises(
        ValueError, match=r"Expected y with one row per graph, .*got 3 rows on graph 1.*Give each graph"
    ):
        read([graph, _data(y=torch.ones(3))])
    with pytest.raises(ValueError, match=r"Expected y on every graph or on none \(got none on graph 1\)\. Label it"):
        read([graph, _data()])


def test_labels_of_different_levels() -> None:
    about_graph, about_nodes = _data(y=torch.tensor([1.0])), _data([[0, 1, 1, 2], [1, 0, 2, 1]], 3, y=torch.ones(3))
    about_edges = _data([[0, 1, 1, 2], [1, 0, 2, 1]], 3, y=torch.ones(4))
    for graphs, got in (
        ([about_graph, about_nodes], "one row on graph 0, but one row per node on graph 1"),
        ([about_nodes, about_graph, about_nodes], "one row per node on graph 0, but one row on graph 1"),
        ([about_graph, about_edges], "one row on graph 0, but one row per column of edge_index on graph 1"),
    ):
        with pytest.raises(ValueError, match=rf"Expected y to be about graphs, .*alike \(got {got}\)\. Label all"):
            read(graphs)


def test_the_graph_whose_labels_fit_nothing_is_named() -> None:
    about_nodes = _data(y=torch.ones(2))
    with pytest.raises(ValueError, match=r"Expected y with one row per graph, .*got 3 rows on graph 2\)"):
        read([about_nodes, about_nodes, _data(y=torch.ones(3))])


def test_labels_of_different_widths() -> None:
    wide, narrow = _data(y=torch.zeros(1, 12)), _data(y=torch.ones(1, 3))
    message = r"Expected y of one width on all graphs \(got shape \[1, 3\] on graph 1, \[1, 12\] on graph 0\)\. Give"
    with pytest.raises(ValueError, match=message):
        read([wide, narrow])


def test_nothing_to_read() -> None:
    with pytest.raises(ValueError, match=r"Expected at least one graph \(got an empty list\)\. Pass the graphs"):
        read([])
    with pytest.raises(ValueError, match=r"Expected at least one graph"):
        esan.Bag.of([], esan.Whole(), 1)


@pytest.mark.parametrize("empty", [Data(num_nodes=0), Data(edge_index=torch.empty(2, 0, dtype=torch.long)), nx.Graph()])
def test_graphs_without_nodes(empty: Any) -> None:
    with pytest.raises(
        ValueError, match=r"Expected graphs with at least one node \(got none in graph 1\)\. Leave it out"
    ):
        read([_data(), empty])


@pytest.mark.parametrize("thing", ["a graph", 3, torch.tensor(BOTH), {"edge_index": BOTH}])
def test_things_that_are_no_graphs(thing: Any) -> None:
    with pytest.raises(TypeError, match=r"Expected PyG data, a dataset, networkx graphs .*got .*Wrap an edge index"):
        read(thing)


def test_graphs_of_several_kinds_of_nodes() -> None:
    graph = HeteroData({"atom": {"x": torch.ones(2, 1)}})
    for thing in (graph, Batch.from_data_list([graph])):
        with pytest.raises(TypeError, match=r"Expected PyG Data, with one kind .*\(got HeteroData.*to_homogeneous"):
            read(thing)


def test_lists_of_things_that_are_no_graphs() -> None:
    with pytest.raises(TypeError, match=r"Expected PyG Data or networkx graphs \(got int at place 1"):
        read([_data(), 3])


def test_networkx() -> None:
    with pytest.raises(ValueError, match=r"Expected an undirected networkx graph \(got a directed one at 0\)\. Call"):
        read(nx.DiGraph([(0, 1)]))
    partial = nx.path_graph(2)
    partial.nodes[0]["x"] = [1.0]
    with pytest.raises(ValueError, match=r"Expected x on every node \(got 1 of 2 in graph 0\)"):
        read(partial)
    partial = nx.path_graph(3)
    partial.edges[0, 1]["edge_attr"] = [1.0]
    with pytest.raises(ValueError, match=r"Expected edge_attr on every edge \(got 1 of 2 in graph 0\)"):
        read(partial)


def test_networkx_edges_that_are_there_twice() -> None:
    twice = nx.MultiGraph([("a", "b"), ("b", "c"), ("c", "b")])
    match = r"Expected a simple networkx graph \(got the edge .* more than once in graph 1\)\. Call networkx\.Graph"
    with pytest.raises(ValueError, match=match):
        read([nx.path_graph(2), twice])
    loops = nx.MultiGraph([(0, 0), (0, 0)])
    with pytest.raises(ValueError, match=r"got the edge \(0, 0\) more than once"):
        read(loops)
    for graph in (twice, loops):
        assert read(nx.Graph(graph)).num_edges.tolist() == [len(set(map(frozenset, graph.edges())))]
    assert read(nx.MultiGraph([(0, 1), (1, 2)])).num_edges.tolist() == [2]


def test_permuted_needs_a_permutation() -> None:
    with pytest.raises(
        ValueError, match=r"Expected an order of the nodes 0 to 1 \(got \[0, 0\]\)\. Use torch.randperm"
    ):
        esan.graphs.permuted(_data(), order=torch.tensor([0, 0]))
