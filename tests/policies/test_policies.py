"""Policies as objects: names, bad arguments, one's own, and as PyG transforms."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch
from torch.utils.data import ConcatDataset, Subset, random_split
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.utils import add_self_loops

import esan
import strategies
from esan.graphs import Graphs
from esan.testing import assert_invariant, assert_policy_invariant, assert_same_execution


@pytest.mark.parametrize("hops", [0, -1])
def test_hops_out_of_range(hops: int) -> None:
    with pytest.raises(ValueError, match=rf"Expected hops of at least 1 \(got {hops}\)\. Pass e\.g\. EgoNets\(2\)"):
        esan.EgoNets(hops)


@pytest.mark.parametrize("k", [0, -2])
def test_k_out_of_range(k: int) -> None:
    with pytest.raises(ValueError, match=rf"Expected k of at least 1 \(got {k}\)\. NodeDeletion\(\) deletes one"):
        esan.NodeDeletion(k)


@pytest.mark.parametrize("number", [True, 2.0, "2", None], ids=repr)
def test_numbers_that_are_not_whole(number: Any) -> None:
    with pytest.raises(TypeError, match=r"Expected hops to be a whole number \(got .*\)\. Pass e\.g\. EgoNets\(2\)"):
        esan.EgoNets(number)
    with pytest.raises(TypeError, match=r"Expected k to be a whole number \(got .*\)\. NodeDeletion\(\) deletes one"):
        esan.NodeDeletion(number)


@pytest.mark.parametrize("fraction", [True, "0.5", None], ids=repr)
def test_fractions_that_are_no_numbers(fraction: Any) -> None:
    with pytest.raises(TypeError, match=r"Expected fraction to be a number \(got .*\)\. 0.2 keeps a fifth"):
        esan.Sampled(esan.EdgeDeletion(), fraction)


@pytest.mark.parametrize("wrap", [esan.Augmented, lambda policy: esan.Sampled(policy, 0.5)], ids=["all", "sample"])
def test_wrapped_things_that_are_no_policies(wrap: Callable[[Any], esan.Policy]) -> None:
    with pytest.raises(TypeError, match=r"Expected a policy \(got 'ED'\)\. Pass esan\.policy_named\(\"ED\"\)\."):
        wrap("ED")
    with pytest.raises(TypeError, match=r"Expected a policy \(got <class .*Pass an object, e\.g\. esan\.EdgeDeletion"):
        wrap(esan.EdgeDeletion)


@pytest.mark.parametrize("fraction", [0, -0.1, 1.01, float("nan")])
def test_fraction_out_of_range(fraction: float) -> None:
    with pytest.raises(ValueError, match=rf"Expected a fraction in \(0, 1\] \(got {fraction}\)\. 0.2 keeps a fifth"):
        esan.Sampled(esan.EdgeDeletion(), fraction)


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("ND", esan.NodeDeletion()),
        ("ND(2)", esan.NodeDeletion(2)),
        ("ED", esan.EdgeDeletion()),
        ("EGO(3)", esan.EgoNets(3)),
        ("EGO+(3)", esan.EgoNets(3, marked=True)),
        ("SE", esan.SingleEdges()),
        ("NM", esan.NodeMarking()),
        ("identity", esan.Whole()),
        ("EGO+(3)^", esan.Augmented(esan.EgoNets(3, marked=True))),
        ("EGO+(3)^@0.2", esan.Sampled(esan.Augmented(esan.EgoNets(3, marked=True)), 0.2)),
    ],
)
def test_policies_by_name_and_by_repr(name: str, policy: esan.Policy) -> None:
    assert esan.policy_named(name) == policy
    assert esan.policy_named(repr(policy)) == policy


@pytest.mark.parametrize(
    "name",
    [
        *("", "nd", "EGO(x)", "ED(2)", "EGO@many", "Unknown(k=1)", "EgoNets(2)", "EgoNets(hops=True)"),
        *("Sampled(policy=EdgeDeletion(), fraction=x)", "Sampled(policy=ED, fraction=0.5)", None, 3),
    ],
)
def test_unknown_names_list_the_known_ones(name: Any) -> None:
    with pytest.raises(ValueError, match=r"Expected the name of a policy \(got .*\)\. Known: ND, ED, EGO, EGO\+, SE"):
        esan.policy_named(name)


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("EGO(0)", r"Expected hops of at least 1 \(got 0\)\. Pass e\.g\. EgoNets\(2\)"),
        ("EgoNets(hops=0)", r"Expected hops of at least 1 \(got 0\)\. Pass e\.g\. EgoNets\(2\)"),
        ("ND(0)", r"Expected k of at least 1 \(got 0\)\. NodeDeletion\(\) deletes one"),
        ("ED@2", r"Expected a fraction in \(0, 1\] \(got 2.0\)\. 0.2 keeps a fifth"),
    ],
)
def test_numbers_out_of_range_in_a_name(name: str, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        esan.policy_named(name)


class EdgeMarking(esan.Policy):
    """One subgraph an edge: the whole graph, with both ends of the edge marked."""

    marked = True

    def select(self, graphs: Graphs) -> esan.Selection:
        edge = torch.arange(graphs.edges.size(1))
        subgraphs = graphs.num_edges.clamp(min=1)
        first = torch.cumsum(subgraphs, 0) - subgraphs
        subgraph = edge + (first - graphs.edge_start)[graphs.edge_graph]
        marks = (subgraph.repeat(2), graphs.edges.reshape(-1))
        return esan.Selection.deleting(graphs, subgraphs, edge[:0], edge[:0], marks)


def test_a_policy_of_ones_own() -> None:
    policy, graphs = EdgeMarking(), strategies.odd_graphs()
    assert_policy_invariant(policy, graphs)
    network = strategies.model("dss", "gcn", policy, num_layers=2)
    assert_invariant(network, graphs, policy)
    assert_same_execution(network, graphs, policy)
    assert repr(policy) == "EdgeMarking()"
    bag = esan.Bag.of(graphs, esan.Sampled(esan.Augmented(policy), 0.5), 2)
    assert bag.marked


class WrongGraph(esan.Policy):
    """Numbers edges from 0 in every graph: right for one graph, wrong for two."""

    def select(self, graphs: Graphs) -> esan.Selection:
        subgraph = torch.arange(len(graphs))
        return esan.Selection.deleting(graphs, torch.ones_like(subgraph), subgraph, torch.zeros_like(subgraph))


def test_a_policy_that_forgets_to_number_through_the_collection() -> None:
    graphs = [strategies.from_edges(2, [(0, 1)], s) for s in range(2)]
    assert esan.Bag.of(graphs[0], WrongGraph(), 1).num_subgraphs == 1
    got = "edge 0 of graph 0 in subgraph 1 of graph 1"
    with pytest.raises(
        ValueError, match=rf"Expected each subgraph to list edges of its own graph \(got {got}\)\. Number subgraphs"
    ):
        esan.Bag.of(graphs, WrongGraph(), 1)


class SelectsNothing(esan.Policy):
    def select(self, graphs: Graphs) -> Any:
        """Forgets to return what it selected."""


class SecretlyMarked(esan.Policy):
    """Marks the node of each subgraph and does not say so."""

    def select(self, graphs: Graphs) -> esan.Selection:
        return esan.NodeMarking().select(graphs)


def test_policies_of_ones_own_are_checked() -> None:
    graph = esan.graphs.path(3)
    with pytest.raises(TypeError, match=r"Expected select of SelectsNothing\(\) to give a Selection \(got NoneType\)"):
        esan.Bag.of(graph, SelectsNothing(), 2)
    for use in (lambda policy: esan.Bag.of(graph, policy, 2), lambda policy: policy(graph)):
        with pytest.raises(ValueError, match=r"Expected marked = True on SecretlyMarked\(\).*Set it in its class"):
            use(SecretlyMarked())


def test_a_transform_takes_pyg_data() -> None:
    with pytest.raises(TypeError, match=r"Expected PyG data \(got Graph\)\. Bag\.of\(graphs, policy\) takes networkx"):
        esan.NodeDeletion()(nx.path_graph(3))


def test_selections_are_checked() -> None:
    graphs = esan.graphs.read(strategies.odd_graphs()[4])
    one, none = torch.tensor([1]), torch.empty(0, dtype=torch.long)
    with pytest.raises(
        ValueError, match=r"Expected .*one subgraph.* for each of the 1 graphs .*Let the policy give the graph itself"
    ):
        esan.Selection.deleting(graphs, torch.tensor([0]), none, none)
    with pytest.raises(ValueError, match=r"Expected two lists of one length \(got shapes \(1,\) and \(0,\)\)"):
        esan.Selection.keeping(graphs, one, one, none)
    with pytest.raises(
        ValueError, match=r"Expected each subgraph to list edges of its own graph \(got edge 99 of \d+ edge"
    ):
        esan.Selection.keeping(graphs, one, torch.tensor([0]), torch.tensor([99]))
    with pytest.raises(
        ValueError, match=r"Expected each subgraph to list nodes of its own graph \(got subgraph 3 of 1 subgraph\)"
    ):
        esan.Selection.keeping(graphs, one, none, none, marks=(torch.tensor([3]), torch.tensor([0])))


@pytest.mark.parametrize("node", [-1, 3, 4])
def test_numbers_out_of_range_are_named(node: int) -> None:
    """Node 4 in the first of three subgraphs is not node 1 in the second."""
    graphs, none = esan.graphs.read(esan.graphs.path(3)), torch.empty(0, dtype=torch.long)
    with pytest.raises(ValueError, match=rf"list nodes of its own graph \(got node {node} of 3 nodes\)"):
        esan.Selection.deleting(graphs, graphs.num_nodes, none, none, marks=(torch.tensor([0]), torch.tensor([node])))


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


def test_a_batch_that_was_changed_is_refused() -> None:
    batch = Batch.from_data_list([esan.graphs.cycle(4), esan.graphs.cycle(5)])
    for edges in (batch.edge_index[:, 2:], add_self_loops(batch.edge_index)[0]):
        changed = batch.clone()
        changed.edge_index = edges
        with pytest.raises(ValueError, match=r"Expected a batch as .* made it .*Transform the graphs before"):
            esan.NodeDeletion()(changed)


def test_selections_and_graphs_are_as_many() -> None:
    data = esan.NodeDeletion()(esan.graphs.cycle(4))
    data.selection_num_subgraphs = torch.tensor([2, 2])
    with pytest.raises(ValueError, match=r"Expected a selection a graph \(got 2 selections on 1 graph\)\. Apply the"):
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


def test_parts_of_datasets() -> None:
    graphs: Any = [esan.graphs.cycle(n) for n in (3, 4, 5, 6)]
    part: Subset[Data]
    rest: Subset[Data]
    part, rest = random_split(graphs, [3, 1], torch.Generator().manual_seed(0))
    both: ConcatDataset[Data] = ConcatDataset([part, rest])
    for source in (part, both):
        expected = esan.Bag.of([source[i] for i in range(len(source))], "ND", 2)
        assert esan.Bag.of(source, "ND", 2).graphs.fingerprint == expected.graphs.fingerprint
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


class _Counted(esan.Policy):
    """Says how many subgraphs there are as one number for all graphs."""

    def select(self, graphs: esan.graphs.Graphs) -> esan.Selection:
        none = torch.empty(0, dtype=torch.long)
        return esan.Selection.deleting(graphs, 2, none, none)  # type: ignore[arg-type]


def test_a_number_in_place_of_counts() -> None:
    with pytest.raises(TypeError, match=r"as a tensor, one number a graph \(got 2\)"):
        esan.Bag.of(strategies.odd_graphs(), _Counted(), 2)


class Forgetful(esan.Policy):
    """Marks nodes without saying so."""

    def select(self, graphs: Graphs) -> esan.Selection:
        return esan.NodeMarking().select(graphs)


def test_the_check_of_a_policy_sees_what_a_bag_refuses() -> None:
    with pytest.raises(ValueError, match=r"Expected marked = True on Forgetful\(\), which marks nodes"):
        assert_policy_invariant(Forgetful(), [esan.graphs.cycle(4)])
