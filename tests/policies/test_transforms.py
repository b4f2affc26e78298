"""Policies as PyG transforms, and bags of what they give: graphs with selections, batches, parts of datasets."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch
from torch.utils.data import ConcatDataset, IterableDataset, Subset, random_split
from torch_geometric.data import Batch, Data, InMemoryDataset
from torch_geometric.io import fs
from torch_geometric.loader import DataLoader
from torch_geometric.utils import add_self_loops

import esan
import strategies
from esan.graphs import Graphs


@pytest.mark.parametrize("policy", strategies.POLICIES.values(), ids=strategies.POLICIES)
@pytest.mark.parametrize("encoder", ["gine", "gcn"])
def test_as_a_pyg_transform(encoder: str, policy: esan.Policy) -> None:
    graphs = strategies.odd_graphs()
    network = strategies.model("dss", encoder, policy).eval()
    expected = network(esan.Bag.of(graphs, policy, 4))
    got = torch.cat([network(batch) for batch in DataLoader([policy(g) for g in graphs], batch_size=3)])
    assert torch.allclose(got, expected, rtol=0, atol=1e-10)
    carried = esan.Bag.of(next(iter(DataLoader([policy(g) for g in graphs], batch_size=len(graphs)))), num_layers=4)
    direct = esan.Bag.of(graphs, policy, 4)
    for part in ("graphs", "selection", "rows"):
        assert getattr(carried, part).fingerprint == getattr(direct, part).fingerprint


@pytest.mark.parametrize("policy", [esan.NodeDeletion(), esan.EgoNets(1, marked=True)], ids=repr)
def test_a_transform_of_a_batch(policy: esan.Policy) -> None:
    graphs = strategies.odd_graphs()
    carried = esan.Bag.of(policy(Batch.from_data_list(graphs)), num_layers=2)
    direct = esan.Bag.of(graphs, policy, 2)
    assert repr(carried) == repr(direct)
    for part in ("graphs", "selection", "rows"):
        assert getattr(carried, part).fingerprint == getattr(direct, part).fingerprint


def test_a_batch_without_edges() -> None:
    batch = Batch.from_data_list([Data(num_nodes=2), Data(num_nodes=3)])
    assert esan.Bag.of(esan.NodeDeletion()(batch), num_layers=1).num_pairs == 13


def test_a_batch_that_was_changed_is_refused() -> None:
    batch = Batch.from_data_list([esan.graphs.cycle(4), esan.graphs.cycle(5)])
    fewer, more = batch.edge_index[:, 2:], add_self_loops(batch.edge_index)[0]
    for name, value in (("edge_index", fewer), ("edge_index", more), ("x", torch.ones(9, 1))):
        changed = batch.clone()
        changed[name] = value
        with pytest.raises(ValueError, match=r"Expected a batch as .* made it .*Transform the graphs before"):
            esan.NodeDeletion()(changed)


def test_selections_and_graphs_are_as_many() -> None:
    data = esan.NodeDeletion()(esan.graphs.cycle(4))
    data.selection_num_subgraphs = torch.tensor([2, 2])
    with pytest.raises(ValueError, match=r"one selection per graph \(got 2 selections on 1 graph\)\. Apply the"):
        esan.Bag.of(data, num_layers=2)


def test_what_was_carried_knows_its_policy(tmp_path: Path) -> None:
    policy = esan.Sampled(esan.NodeDeletion(), 0.3)
    bag = esan.Bag.of([policy(esan.graphs.cycle(9)) for _ in range(4)], num_layers=2)
    assert bag.policy == policy
    loader = esan.Loader(bag, batch_size=4, generator=torch.Generator().manual_seed(0))
    first, second = (next(iter(loader)).selection.entry_edge for _ in range(2))
    assert not torch.equal(first, second)
    bag.save(tmp_path / "bag")
    assert esan.Bag.load(tmp_path / "bag", policy=policy).policy == policy


class Counting:
    """A list that remembers what it was asked for."""

    def __init__(self, graphs: list[Data]) -> None:
        self.graphs, self.asked = graphs, list[int]()

    def __getitem__(self, i: int) -> Data:
        self.asked.append(i)
        return self.graphs[i]


class Stream(IterableDataset[Data]):
    """Graphs that come one after another; how many is known."""

    def __iter__(self) -> Iterator[Data]:
        return iter([esan.graphs.cycle(3), esan.graphs.cycle(4)])

    def __len__(self) -> int:
        return 2


def test_a_stream_of_graphs() -> None:
    assert esan.Bag.of(Stream(), "ND", 2).num_pairs == 9 + 16


class CalledLikeAnother(esan.NodeMarking):
    def __repr__(self) -> str:
        return "ND"


def test_a_policy_of_ones_own_is_not_taken_for_another() -> None:
    assert esan.Bag.of([CalledLikeAnother()(esan.graphs.cycle(4))], num_layers=1).policy == "ND"


def test_parts_of_datasets() -> None:
    graphs: Any = [esan.graphs.cycle(n) for n in (3, 4, 5, 6)]
    part: Subset[Data]
    rest: Subset[Data]
    part, rest = random_split(graphs, [3, 1], torch.Generator().manual_seed(0))
    both: ConcatDataset[Data] = ConcatDataset([part, rest])
    for source in (part, both):
        expected = esan.Bag.of([source[i] for i in range(len(source))], "ND", 2)
        assert esan.Bag.of(source, "ND", 2).graphs.fingerprint == expected.graphs.fingerprint
    whole: Any = Counting(graphs)
    part = Subset(whole, [0, 1, 3])
    assert len(esan.Bag.of(part, "ND", 2)) == 3
    assert whole.asked == [0, 1, 3]
    selected: Any = [esan.NodeDeletion()(graph) for graph in graphs]
    carried: Subset[Data] = Subset(selected, [0, 2])
    assert repr(esan.Bag.of(carried, num_layers=2)) == repr(esan.Bag.of([graphs[0], graphs[2]], "ND", 2))
    with pytest.raises(ValueError, match=r"or with that of EdgeDeletion\(\) \(got that of NodeDeletion\(k=1\)\)"):
        esan.Bag.of(carried, "ED", 2)


def test_a_transform_leaves_its_graph_alone() -> None:
    graph = strategies.odd_graphs()[5]
    keys = set(graph.keys())
    esan.NodeDeletion()(graph)
    assert set(graph.keys()) == keys


def test_a_transform_of_a_graph_without_features() -> None:
    data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]))
    batch = next(iter(DataLoader([esan.NodeDeletion()(data)] * 2, batch_size=2)))
    assert esan.Bag.of(batch, num_layers=1).num_pairs == 8


def test_one_batch_has_one_policy() -> None:
    graph = strategies.odd_graphs()[5]
    for other in (esan.EdgeDeletion(), esan.EgoNets(1)):
        mixed = [esan.NodeDeletion()(graph), other(graph)]
        for source in (mixed, next(iter(DataLoader(mixed, batch_size=2)))):
            with pytest.raises(ValueError, match=r"Expected one policy for all graphs \(got NodeDeletion\(k=1\) and E"):
                esan.Bag.of(source, num_layers=1)


class Fickle(esan.Policy):
    """The graph itself, said in two ways."""

    def select(self, graphs: Graphs) -> esan.Selection:
        one, edge = torch.ones_like(graphs.num_nodes), torch.arange(graphs.edges.size(1))
        if edge.numel() > 4:
            return esan.Selection.deleting(graphs, one, edge[:0], edge[:0])
        return esan.Selection.keeping(graphs, one, graphs.edge_graph, edge)


def test_one_batch_has_one_kind_of_selection() -> None:
    graphs = [esan.graphs.cycle(5), esan.graphs.path(4)]
    assert esan.Bag.of(graphs, Fickle(), 1).num_subgraphs == 2
    with pytest.raises(ValueError, match=r"Expected selections of one kind \(got .*keeps_edges\)\. Let the policy"):
        esan.Bag.of([Fickle()(graph) for graph in graphs], num_layers=1)


def test_a_transform_takes_pyg_data() -> None:
    with pytest.raises(TypeError, match=r"Expected PyG data \(got Graph\)\. Bag\.of\(graphs, policy\) takes networkx"):
        esan.NodeDeletion()(nx.path_graph(3))


def test_datasets_of_selected_data_need_no_unrestricted_pickle(tmp_path: Path) -> None:
    """PyG's datasets load with `weights_only=True`, and warn where that fails."""
    graphs = [esan.NodeDeletion()(graph) for graph in strategies.odd_graphs()]
    InMemoryDataset.save(graphs, str(tmp_path / "data.pt"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fs.torch_load(str(tmp_path / "data.pt"))[2] is type(graphs[0])
