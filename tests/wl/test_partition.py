"""`classes`: a whole collection by one palette, whatever it is cut into."""

import pytest
import torch
from torch_geometric.data import Batch

import esan
from esan import wl
from esan.graphs import Graphs, atlas, cycle, disjoint_union, path, permuted, random_regular, read
from esan.wl import registry
from esan.wl.inputs import labels_of
from esan.wl.palette import Palette
from esan.wl.partition import Limits, divide
from hypothesis_examples import drawn


def _classes(graphs: Graphs, test: str, policy: str | None, limits: Limits) -> torch.Tensor:
    """As `wl.classes`, with other limits."""
    kind = registry.test_named(test)
    selection = registry.policy_for(kind, policy).select(graphs)
    return torch.from_numpy(divide(graphs, selection, labels_of(graphs, Palette(), True, True), kind, limits))


def test_classes_are_numbered_as_they_appear() -> None:
    graphs = [cycle(6), path(3), disjoint_union(cycle(3), cycle(3)), path(3), path(4)]
    assert wl.classes(graphs, "1").tolist() == [0, 1, 0, 1, 2]
    assert wl.classes(graphs, "dss", esan.EdgeDeletion()).tolist() == [0, 1, 2, 1, 3]


@pytest.mark.parametrize(("test", "policy"), [("1", None), ("ds", "ED"), ("dss", "EGO(1)"), ("2-fwl", None)])
def test_small_portions_change_nothing(test: str, policy: str | None) -> None:
    graphs = read(atlas(6))
    whole = wl.classes(graphs, test, policy)
    assert torch.equal(_classes(graphs, test, policy, Limits(portion=500)), whole)


def test_finished_graphs_may_leave_the_board() -> None:
    generator = torch.Generator().manual_seed(0)
    graphs = [random_regular(3, 10, seed) for seed in range(12)]
    graphs += [permuted(graph, generator) for graph in graphs[:6]] + [path(10), path(10)]
    shares = (0.0, 0.7, 1.1)
    found = [_classes(read(graphs), "dss", "ED", Limits(rebuild=share)).tolist() for share in shares]
    assert found[0] == found[1] == found[2]
    assert found[0][12:18] == found[0][:6]


def test_pairwise_verdicts_agree_with_classes() -> None:
    graphs = [graph for graph in atlas(6) if graph.num_nodes == 6 and graph.num_edges == 14]
    graphs = graphs if drawn(1) > 1 else graphs[::2]
    for test, policy in (("1", None), ("ds", "SE"), ("ds", "ED")):
        found = wl.classes(graphs, test, policy).tolist()
        for i in range(len(graphs)):
            for j in range(i):
                assert bool(wl.separates(graphs[i], graphs[j], test, policy)) == (found[i] != found[j])


def test_a_batch_and_a_collection_are_read_too() -> None:
    graphs = [path(3), cycle(3), path(3)]
    for source in (Batch.from_data_list(graphs), read(graphs), tuple(graphs)):
        assert wl.classes(source, "1").tolist() == [0, 1, 0]


def test_an_empty_collection() -> None:
    with pytest.raises(ValueError, match="at least one graph"):
        wl.classes([], "1")
