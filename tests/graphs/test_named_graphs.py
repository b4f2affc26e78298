"""Named graphs and families are what their names say, by networkx and by their definitions."""

from pathlib import Path

import networkx as nx
import pytest
import torch
from torch_geometric.data import Data

from esan import graphs


def _nx(data: Data) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(range(int(data.num_nodes or 0)))
    graph.add_edges_from(data.edge_index.t().tolist())
    return graph


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (graphs.cycle(7), nx.cycle_graph(7)),
        (graphs.path(1), nx.path_graph(1)),
        (graphs.path(5), nx.path_graph(5)),
        (graphs.star(4), nx.star_graph(4)),
        (graphs.complete(5), nx.complete_graph(5)),
        (graphs.csl(12, 5), nx.circulant_graph(12, [1, 5])),
        (graphs.rook(3), nx.line_graph(nx.complete_bipartite_graph(3, 3))),
        (
            graphs.disjoint_union(graphs.cycle(3), graphs.path(2)),
            nx.disjoint_union(nx.cycle_graph(3), nx.path_graph(2)),
        ),
    ],
)
def test_by_networkx(data: Data, expected: nx.Graph) -> None:
    assert nx.is_isomorphic(_nx(data), expected)
    assert graphs.read(data).num_edges.tolist() == [expected.number_of_edges()]


def test_rook_and_shrikhande() -> None:
    """Strongly regular (16, 6, 2, 2) both; the neighbours of a node are two triangles there, a 6-cycle here."""
    rook, shrikhande = graphs.rook(), graphs.shrikhande()
    assert graphs.strong_regularity(rook) == graphs.strong_regularity(shrikhande) == (16, 6, 2, 2)
    around = [_nx(graph).subgraph(list(_nx(graph)[0])) for graph in (rook, shrikhande)]
    assert [nx.number_connected_components(part) for part in around] == [2, 1]


def test_the_atlas() -> None:
    every = graphs.atlas()
    assert len(every) == 1252
    assert [sum(graph.num_nodes == n for graph in every) for n in range(1, 8)] == [1, 2, 4, 11, 34, 156, 1044]
    assert len(graphs.atlas(4)) == 18


def test_random_regular() -> None:
    graph = graphs.random_regular(3, 20, seed=5)
    assert graphs.read(graph).degree.tolist() == [3] * 20
    assert torch.equal(graph.edge_index, graphs.random_regular(3, 20, seed=5).edge_index)


def test_strong_regularity_is_none_where_there_is_none() -> None:
    for graph in (graphs.path(4), graphs.complete(4), graphs.csl(8, 2), graphs.path(1)):
        assert graphs.strong_regularity(graph) is None
    assert graphs.strong_regularity(graphs.cycle(5)) == (5, 2, 0, 1)


def test_a_family_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "sr.g6"
    file.write_text("\n".join(map(graphs.to_graph6, (graphs.rook(), graphs.shrikhande()))))
    assert len(graphs.strongly_regular(file)) == 2
    file.write_text("\n".join(map(graphs.to_graph6, (graphs.rook(), graphs.cycle(5)))))
    with pytest.raises(ValueError, match=r"has \(5, 2, 0, 1\)"):
        graphs.strongly_regular(file)
    file.write_text(graphs.to_graph6(graphs.path(4)))
    with pytest.raises(ValueError, match="is not strongly regular"):
        graphs.strongly_regular(file)


@pytest.mark.parametrize("name", graphs.HARD_PAIRS)
def test_hard_pairs_are_not_isomorphic(name: str) -> None:
    first, second = graphs.hard_pair(name)
    assert not nx.is_isomorphic(_nx(first), _nx(second))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: graphs.cycle(2), "at least 3 nodes of a cycle"),
        (lambda: graphs.csl(8, 4), "not half of n"),
        (lambda: graphs.csl(8, 7), "length 2 to 6"),
        (lambda: graphs.random_regular(3, 5, 0), "n · degree even"),
        (lambda: graphs.atlas(8), "1 to 7 nodes"),
        (lambda: graphs.disjoint_union(), "at least one graph"),
        (lambda: graphs.hard_pair("easy"), "Known: c6-2xc3"),
        (lambda: graphs.permuted(graphs.path(3), order=torch.tensor([0, 0, 1])), "Expected an order of the nodes"),
    ],
)
def test_bad_numbers(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]


def test_permuted_moves_features_with_their_node_or_edge() -> None:
    data = graphs.path(4)
    data.x = torch.arange(4)[:, None]
    data.edge_attr = data.edge_index[0] * 10 + data.edge_index[1]
    data.y = torch.tensor([5, 6, 7, 8])
    copy = graphs.permuted(data, torch.Generator().manual_seed(3))
    assert not torch.equal(copy.x, data.x)
    assert torch.equal(copy.y, copy.x[:, 0] + 5)
    # Node features say which node each was, so edges must read the same through them.
    assert torch.equal(copy.edge_attr, copy.x[copy.edge_index[0], 0] * 10 + copy.x[copy.edge_index[1], 0])
    assert sorted(copy.edge_attr.tolist()) == sorted(data.edge_attr.tolist())
