"""Pictures of bags: what they show, what they refuse, and that they leave matplotlib's own state alone."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import esan
from esan.bags.draw import ACCENT, INK, PALE
from esan.bags.node_positions import positions_by_hops
from esan.graphs import Graphs
from esan.policies import Policy, Selection

matplotlib = pytest.importorskip("matplotlib")


def bag_of(policy: Policy, *graphs: Data) -> esan.Bag:
    return esan.Bag.of(list(graphs), policy, num_layers=2)


def panels(figure: Any) -> list[Any]:
    return [axes for axes in figure.axes if axes.get_title()]


def edges_of(panel: Any) -> tuple[int, int]:
    """How many edges are drawn solid, and how many dashed."""
    solid, dashed = panel.collections[:2]
    return len(solid.get_segments()), len(dashed.get_segments())


def colours(panel: Any) -> list[str]:
    return [matplotlib.colors.to_hex(colour) for colour in panel.collections[2].get_edgecolors()]


def test_the_graph_comes_first_then_its_subgraphs() -> None:
    figure = bag_of(esan.EdgeDeletion(), esan.graphs.cycle(6)).draw()
    assert [panel.get_title() for panel in panels(figure)] == ["G"] + [f"subgraph {i}" for i in range(6)]
    assert [edges_of(panel) for panel in panels(figure)] == [(6, 0)] + [(5, 1)] * 6


def test_a_panel_shows_what_the_subgraph_holds() -> None:
    bag = bag_of(esan.EgoNets(1, marked=True), esan.graphs.path(5))
    for i, panel in enumerate(panels(bag.draw())[1:]):
        subgraph = bag.subgraph(i)
        assert edges_of(panel)[0] == subgraph.edge_index.size(1) // 2
        assert sum(edges_of(panel)) == 4
        touched = set(subgraph.edge_index.reshape(-1).tolist())
        assert colours(panel) == [ACCENT if v == i else INK if v in touched else PALE for v in range(5)]


def test_all_panels_share_one_layout() -> None:
    places = [
        np.asarray(p.collections[2].get_offsets())
        for p in panels(bag_of(esan.NodeDeletion(), esan.graphs.star(4)).draw())
    ]
    assert all(np.array_equal(place, places[0]) for place in places)


def test_it_says_how_many_subgraphs_are_left_out() -> None:
    bag = bag_of(esan.NodeDeletion(), esan.graphs.cycle(9))
    assert "9 subgraphs, 6 more not drawn" in bag.draw(most=3).texts[0].get_text()
    assert "more" not in bag.draw(most=9).texts[0].get_text()


def test_subgraphs_of_a_later_graph_carry_the_numbers_that_subgraph_takes() -> None:
    bag = bag_of(esan.NodeDeletion(), esan.graphs.cycle(3), esan.graphs.path(2))
    assert [panel.get_title() for panel in panels(bag.draw(graph=1))] == ["G", "subgraph 3", "subgraph 4"]
    assert [panel.get_title() for panel in panels(bag.draw(graph=-1))] == ["G", "subgraph 3", "subgraph 4"]


@pytest.mark.parametrize(
    "graph",
    [
        Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=1),
        Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=3),
        Data(edge_index=torch.tensor([[0], [0]]), num_nodes=1),
        Data(edge_index=torch.tensor([[0, 0, 1], [0, 1, 0]]), num_nodes=4),
        esan.graphs.disjoint_union(esan.graphs.cycle(3), esan.graphs.path(2)),
        esan.graphs.complete(2),
    ],
    ids=["single node", "no edges", "loop", "loop and isolated", "two components", "one edge"],
)
@pytest.mark.parametrize("policy", [esan.NodeDeletion(), esan.EdgeDeletion(), esan.EgoNets(1), esan.NodeMarking()])
def test_odd_graphs_are_drawn(graph: Data, policy: Policy) -> None:
    for panel in panels(bag_of(policy, graph).draw()):
        assert np.isfinite(np.asarray(panel.collections[2].get_offsets())).all()
        assert sum(edges_of(panel)) == esan.graphs.read(graph).edges.size(1)


def test_it_saves_where_it_is_reported_to(tmp_path: Path) -> None:
    bag_of(esan.EdgeDeletion(), esan.graphs.cycle(4)).draw(path=tmp_path / "new folder" / "bag.png")
    assert (tmp_path / "new folder" / "bag.png").read_bytes().startswith(b"\x89PNG")


def test_pyplot_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot", raising=False)
    bag_of(esan.EdgeDeletion(), esan.graphs.cycle(4)).draw()
    # Without pyplot there is no current figure, and no backend is chosen.
    assert "matplotlib.pyplot" not in sys.modules


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install 'esan\[plot\]'"):
        bag_of(esan.EdgeDeletion(), esan.graphs.cycle(4)).draw()


def test_what_cannot_be_drawn_is_refused() -> None:
    bag = bag_of(esan.Whole(), esan.graphs.cycle(4))
    with pytest.raises(ValueError, match="got most=0"):
        bag.draw(most=0)
    with pytest.raises(IndexError, match="graph below 1"):
        bag.draw(graph=1)
    with pytest.raises(ValueError, match="at most 1000 nodes"):
        bag_of(esan.Whole(), esan.graphs.path(1001)).draw()


def test_a_bag_of_a_users_own_policy_is_drawn() -> None:
    class Nothing(Policy):
        def select(self, graphs: Graphs) -> Selection:
            none = graphs.num_nodes.new_empty(0)
            return Selection.keeping(graphs, torch.ones_like(graphs.num_nodes), none, none)

    figure = bag_of(Nothing(), esan.graphs.cycle(4)).draw()
    assert edges_of(panels(figure)[1]) == (0, 4)
    assert "Nothing(): 1 subgraph" in figure.texts[0].get_text()


def test_layouts_repeat_and_keep_nodes_apart() -> None:
    for graph in (esan.graphs.star(5), esan.graphs.rook(3), esan.graphs.path(7), esan.graphs.csl(11, 3)):
        edges = esan.graphs.read(graph).edges.numpy()
        place = positions_by_hops(int(graph.num_nodes or 0), edges)
        assert np.array_equal(place, positions_by_hops(len(place), edges))
        assert np.abs(place).max() == pytest.approx(1, abs=0.02)
        apart = np.linalg.norm(place[:, None] - place, axis=-1) + 9 * np.eye(len(place))
        assert apart.min() > 0.1
