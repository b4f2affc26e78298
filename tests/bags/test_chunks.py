"""Bags built some graphs at a time are, bit for bit, those of all graphs at once."""

from itertools import pairwise

import pytest
import torch

import esan
import strategies
from esan.bags.build import compact
from esan.bags.build.chunks import chunks
from esan.bags.build.on_gpu import bag_built_on
from esan.graphs import Graphs, read
from esan.policies import Policy, Selection
from esan.train.engines.engine import bag_on
from esan.train.engines.subgraph_sampling import training_bag

EVERY_POLICY = pytest.mark.parametrize("policy", strategies.POLICIES.values(), ids=strategies.POLICIES)
GRAPHS = [*strategies.odd_graphs(), strategies.from_edges(9, [(i, i + 1) for i in range(8)], 11)]
CPU = torch.device("cpu")


def same(one: esan.Bag, other: esan.Bag) -> None:
    for part in ("graphs", "selection", "rows"):
        assert getattr(one, part).fingerprint == getattr(other, part).fingerprint, part
    assert (one.rows.row_ends, one.rows.edge_ends) == (other.rows.row_ends, other.rows.edge_ends)
    assert (one.num_layers, repr(one.policy), one.strict) == (other.num_layers, repr(other.policy), other.strict)


@pytest.mark.parametrize("most", [1, 7, 20, 1000])
def test_chunks_hold_no_more_than_they_may(most: int) -> None:
    sizes = torch.tensor([5, 0, 30, 1, 1, 6, 7, 0])
    found = chunks(sizes, most)
    assert found[0][0] == 0
    assert found[-1][1] == len(sizes)
    assert all(one[1] == next_one[0] for one, next_one in pairwise(found))
    for first, end in found:
        assert end == first + 1 or int(sizes[first:end].sum()) <= most
    # No two neighbours would fit into one.
    assert all(int(sizes[one[0] : two[1]].sum()) > most for one, two in pairwise(found))


@EVERY_POLICY
@pytest.mark.parametrize("most", [1, 60])
def test_a_bag_built_some_graphs_at_a_time(policy: esan.Policy, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compact, "CHUNK_PAIRS", most)
    same(bag_built_on("cpu", read(GRAPHS), policy, 3), esan.Bag.of(GRAPHS, policy, 3))


class Drawn(Policy):
    """A random half of the nodes is marked."""

    marked = True
    random = True

    def select(self, graphs: Graphs) -> Selection:
        return self.drawn(graphs)

    def drawn(self, graphs: Graphs, generator: torch.Generator | None = None) -> Selection:
        nodes = torch.arange(graphs.node_graph.numel())
        nodes = nodes[torch.rand(nodes.numel(), generator=generator) < 0.5]
        none = nodes[:0]
        return Selection.deleting(
            graphs, torch.ones_like(graphs.num_nodes), none, none, (graphs.node_graph[nodes], nodes)
        )


def test_a_random_policy_draws_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compact, "CHUNK_PAIRS", 1)
    bags = []
    for build in (lambda: bag_built_on("cpu", read(GRAPHS), Drawn(), 3), lambda: esan.Bag.of(GRAPHS, Drawn(), 3)):
        torch.manual_seed(3)
        bags.append(build())
    same(*bags)


def test_samples_are_those_of_a_bag_built_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compact, "CHUNK_PAIRS", 20)
    policy, graphs = esan.Sampled(esan.EdgeDeletion(), 0.5), read(GRAPHS)
    bags = [training_bag(graphs, policy, 3, device) for device in (None, CPU)]
    same(*bags)
    drawn = [bag.resample(torch.Generator().manual_seed(5)) for bag in bags]
    same(*drawn)
    assert drawn[0].num_subgraphs < bags[0].num_subgraphs


def test_a_bag_goes_to_a_device_once() -> None:
    """The device "meta" has shapes and no numbers, which is enough here."""
    there, policy = torch.device("meta"), esan.Sampled(esan.NodeDeletion(), 0.5)
    bag = training_bag(read(GRAPHS), policy, 2)
    assert bag_on(bag, CPU) is bag
    first = bag_on(bag, there)
    assert first.device == there
    assert first.policy == policy
    assert bag_on(bag, there) is first
    # What a sampled bag shares with the whole one is there once, too.
    assert first.sampled_from is not None
    assert first.sampled_from.rows is first.rows


class Fickle(esan.Policy):
    """Keeps edges of small collections, deletes those of large ones."""

    def select(self, graphs: Graphs) -> Selection:
        return (esan.EgoNets(1) if len(graphs) < 3 else esan.EdgeDeletion()).select(graphs)


def test_a_policy_that_looks_at_other_graphs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compact, "CHUNK_PAIRS", 40)
    with pytest.raises(ValueError, match="Expected a policy that treats each graph by itself"):
        bag_built_on("cpu", read(GRAPHS), Fickle(), 2)
