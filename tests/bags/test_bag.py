"""`Bag`: making one, taking it apart, and what it refuses."""

from typing import Any

import pytest
import torch
from torch_geometric import transforms as T
from torch_geometric.data import Batch, HeteroData, InMemoryDataset

import esan
import strategies

GRAPHS = strategies.odd_graphs()


@pytest.fixture
def bag() -> esan.Bag:
    return esan.Bag.of(GRAPHS, esan.NodeDeletion(), 3)


@pytest.mark.parametrize(
    ("ids", "expected"),
    [(2, [2]), (-1, [6]), (slice(1, 4), [1, 2, 3]), ([3, 3, 0], [3, 3, 0]), (torch.tensor([5, 1]), [5, 1])],
)
def test_getitem(bag: esan.Bag, ids: Any, expected: list[int]) -> None:
    assert bag[ids].graphs.num_nodes.tolist() == [GRAPHS[i].num_nodes for i in expected]
    assert bag[ids].y is not None


def test_getitem_by_truth_values(bag: esan.Bag) -> None:
    mask = torch.tensor([False, True, False, True, False, False, False])
    assert len(bag[mask]) == 2


def test_iteration(bag: esan.Bag) -> None:
    assert [one.num_pairs for one in bag] == [g.num_nodes**2 for g in GRAPHS]


@pytest.mark.parametrize("ids", [7, -8, [0, 7], [], slice(3, 3)], ids=str)
def test_getitem_out_of_range(bag: esan.Bag, ids: Any) -> None:
    with pytest.raises(IndexError, match=r"Expected numbers of graphs below 7, at least one \(got .*len\(bag\)"):
        bag[ids]


def test_subgraphs_are_counted_from_the_end_too(bag: esan.Bag) -> None:
    every = list(bag.subgraphs())
    assert len(every) == bag.num_subgraphs
    for i, expected in enumerate(every, start=-len(every)):
        found = bag.subgraph(i)
        assert found.graph == expected.graph
        assert torch.equal(found.edge_index, expected.edge_index)


@pytest.mark.parametrize("i", [25, -26])
def test_subgraph_out_of_range(bag: esan.Bag, i: int) -> None:
    with pytest.raises(
        IndexError, match=rf"Expected the number of a subgraph from -25 to 24 \(got {i}\)\. bag\.num_subgraphs"
    ):
        bag.subgraph(i)


def test_needs_a_policy() -> None:
    with pytest.raises(ValueError, match=r"got list, which carries no selection .*Name a policy, e\.g\. Bag\.of"):
        esan.Bag.of(GRAPHS, None)
    with pytest.raises(TypeError, match=r"Expected a policy \(got <class .*EdgeDeletion'>\)\. Pass an object"):
        esan.Bag.of(GRAPHS, esan.EdgeDeletion, 2)  # type: ignore[arg-type]


def test_a_policy_by_its_name() -> None:
    bag = esan.Bag.of(GRAPHS, "EGO+(1)", 2)
    assert bag.policy == esan.EgoNets(1, marked=True)
    assert bag.rows.fingerprint == esan.Bag.of(GRAPHS, esan.EgoNets(1, marked=True), 2).rows.fingerprint
    with pytest.raises(ValueError, match=r"Expected the name of a policy \(got 'EDD'\)\. Known: ND, ED"):
        esan.Bag.of(GRAPHS, "EDD", 2)


@pytest.mark.parametrize("literal", ["yes", 1, 0])
def test_literal_or_not(literal: Any) -> None:
    with pytest.raises(TypeError, match=rf"Expected literal to be True or False \(got {literal!r}\)\. Leave it out"):
        esan.Bag.of(GRAPHS, esan.EdgeDeletion(), 2, literal=literal)


@pytest.mark.parametrize("num_layers", [None, 0, -1])
def test_a_compact_bag_needs_its_layers(num_layers: int | None) -> None:
    with pytest.raises(
        ValueError, match=rf"Expected num_layers.*got {num_layers}\)\. Pass num_layers=4 .*literal=True"
    ):
        esan.Bag.of(GRAPHS, esan.Whole(), num_layers)


def test_only_needs_a_subgraph_of_each_graph(bag: esan.Bag) -> None:
    kept = torch.ones(bag.num_subgraphs, dtype=torch.bool)
    kept[0] = False
    for held in (bag, bag.selection):
        with pytest.raises(
            ValueError, match=r"Expected at least one subgraph of each graph \(got none of graph 0\)\. Keep"
        ):
            held.only(kept)


def test_only_samples_are_drawn_again(bag: esan.Bag) -> None:
    with pytest.raises(ValueError, match=r"Expected the bag of a random policy \(got NodeDeletion\(k=1\)\)\. Wrap"):
        bag.resample()


def test_copied_arcs_need_every_pair(bag: esan.Bag) -> None:
    with pytest.raises(ValueError, match=r"Expected a literal bag \(got a compact one\)\. Call bag.to_literal"):
        bag.shared.between_rows("max")


@pytest.mark.parametrize("pool", ["pool_bag", "pool_nodes"])
def test_maxima_need_every_pair(bag: esan.Bag, pool: str) -> None:
    view = bag.layer_view(1)
    with pytest.raises(ValueError, match=r"Expected a literal bag for the maximum .*Call bag.to_literal"):
        getattr(view, pool)(torch.ones(view.num_rows, 1), "max")


def test_repr_says_what_it_holds(bag: esan.Bag) -> None:
    text = repr(bag)
    assert text.startswith("Bag(compact for 3 layers, policy=NodeDeletion(k=1): 7 graphs, 25 subgraphs")
    assert f"{bag.num_pairs:,} pairs in {bag.num_rows:,} rows" in text
    assert repr(bag.to_literal()).startswith("Bag(literal, ")


def test_repr_counts_one_as_one() -> None:
    one = esan.Bag.of(strategies.from_edges(1, [], 0), esan.Whole(), 1)
    held = "compact for 1 layer, policy=Whole(): 1 graph, 1 subgraph, 1 pair in 1 row, "
    assert repr(one).startswith(f"Bag({held}")
    assert repr(one.graphs) == "Graphs(1 graph, 1 node, 0 edges)"


def test_moving_it_keeps_it(bag: esan.Bag) -> None:
    assert bag.to("cpu") is bag
    assert bag.to("meta").device.type == "meta"
    sampled = esan.Bag.of(GRAPHS, esan.Sampled(esan.NodeDeletion(), 0.5), 2).to("meta")
    assert sampled.sampled_from is not None
    assert sampled.sampled_from.device.type == "meta"


@pytest.mark.parametrize("device", ["cuda:99", "gpu", torch.device("cuda", 99), torch.float64], ids=str)
def test_moving_it_to_a_device_that_is_not_here(bag: esan.Bag, device: Any) -> None:
    with pytest.raises(ValueError, match=rf"Expected a device of this machine: cpu.* \(got '{device}'\)\. Choose one"):
        bag.to(device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_moving_it_to_a_gpu_where_there_is_none(bag: esan.Bag) -> None:
    with pytest.raises(ValueError, match=r"Expected a device of this machine: cpu \(got 'cuda'\)\. Choose one"):
        bag.to("cuda")


def test_a_pyg_batch_is_a_bag_too() -> None:
    one, other = (esan.Bag.of(s, esan.EgoNets(1), 2) for s in (GRAPHS, Batch.from_data_list(GRAPHS)))
    assert one.rows.fingerprint == other.rows.fingerprint


def test_adjacency_of_the_bag() -> None:
    """Entrywise maximum and sum of the adjacency matrices, for a policy that does not cover all edges."""
    path = strategies.from_edges(3, [(0, 1), (1, 2)], 0)
    bag = esan.Bag.of(path, esan.NodeDeletion(2), literal=True)
    assert bag.shared.between_nodes("max").edge_index.size(1) == 0
    assert bag.shared.between_nodes("original").edge_index.size(1) == 4
    bag = esan.Bag.of(path, esan.NodeDeletion(), literal=True)
    counts = bag.shared.between_nodes("sum")
    assert counts.weight is not None
    assert counts.weight.tolist() == [1, 1, 1, 1]
    assert torch.equal(counts.edge_index, bag.shared.between_nodes("max").edge_index)


@pytest.mark.parametrize("ids", [[True, False], [0.5], 1.0, "a", None, [[0, 1]]])
def test_ids_that_cannot_be_meant(ids: Any) -> None:
    bag = esan.Bag.of([esan.graphs.cycle(3)] * 3, esan.EdgeDeletion(), 2)
    with pytest.raises(
        TypeError, match=r"Expected a number, a slice, a list of numbers or 3 truth values \(got .*Number"
    ):
        bag[ids]


def test_a_transform_after_the_policy_is_refused() -> None:
    """It would renumber the edges, so that the selection meant others."""
    data = T.AddSelfLoops()(esan.EdgeDeletion()(esan.graphs.cycle(6)))
    with pytest.raises(ValueError, match=r"Expected the 6 edges .* \(got 12, or others\)\. Apply the policy last"):
        esan.Bag.of(data, num_layers=2)


def test_lists_of_data_that_carry_their_selection() -> None:
    graphs, policy = [esan.graphs.cycle(5), esan.graphs.path(4)], esan.EgoNets(1, marked=True)
    carried = esan.Bag.of([policy(graph) for graph in graphs], num_layers=2)
    assert carried.rows.fingerprint == esan.Bag.of(graphs, policy, 2).rows.fingerprint


class Kept(InMemoryDataset):
    """A PyG dataset of two graphs."""

    def __init__(self, transform: esan.Policy | None = None) -> None:
        super().__init__(transform=transform)
        self.data, self.slices = self.collate([esan.graphs.cycle(5), esan.graphs.path(4)])


ND, ED = esan.NodeDeletion(), esan.EdgeDeletion()


@pytest.mark.parametrize(
    "source",
    [
        ED(esan.graphs.cycle(5)),
        [esan.graphs.cycle(5), ED(esan.graphs.path(4))],
        Batch.from_data_list([ND(esan.graphs.cycle(5)), ED(esan.graphs.path(4))]),
        Kept(transform=ED),
        (ED(graph) for graph in Kept()),
        {"a": ED(esan.graphs.path(4))}.values(),
    ],
    ids=["one", "list", "batch", "dataset", "generator", "values"],
)
def test_a_policy_that_is_not_the_one_that_graphs_carry(source: Any) -> None:
    """Theirs would be passed over in silence."""
    match = (
        r"without a selection, or with that of NodeDeletion\(k=1\) \(got that of EdgeDeletion\(\)\)\. Pass that policy"
    )
    with pytest.raises(ValueError, match=match):
        esan.Bag.of(source, ND, 2)


@pytest.mark.parametrize("source", [HeteroData(), torch.tensor(1), 3], ids=["hetero", "number", "int"])
def test_what_carries_nothing_is_left_to_read(source: Any) -> None:
    """Some of these say that they can be gone through, and cannot."""
    with pytest.raises(TypeError, match=r"Expected PyG [dD]ata, "):
        esan.Bag.of(source, ND, 2)
    with pytest.raises(ValueError, match="Expected a bag, or graphs with a policy"):
        esan.Bag.of(source, num_layers=2)


def test_a_policy_that_graphs_carry_already() -> None:
    expected = esan.Bag.of(list(Kept()), ED, 2).rows.fingerprint
    for policy in (ED, None):
        for source in (Kept(transform=ED), (ED(graph) for graph in Kept())):
            assert esan.Bag.of(source, policy, 2).rows.fingerprint == expected


def test_graphs_of_which_some_carry_a_selection() -> None:
    with pytest.raises(ValueError, match=r"Expected a selection on every graph \(got none on graph 1\)\. Apply"):
        esan.Bag.of([ND(esan.graphs.cycle(5)), esan.graphs.path(4)], num_layers=2)


def test_a_model_does_not_store_the_whole_of_a_sample() -> None:
    bag = esan.Bag.of(esan.graphs.cycle(12), esan.Sampled(esan.EdgeDeletion(), 0.25), 2)
    model = esan.ds_gnn(None, 4, 2, 1, readout="max")
    with pytest.warns(UserWarning, match="The literal bag is used") as said:
        fitting = model._fitting(bag)
    assert fitting.sampled_from is None
    assert fitting.num_rows == 12 * 3
    assert len(said) == 1


def test_the_warning_points_at_the_caller() -> None:
    model = esan.ds_gnn(None, 4, 2, 1, readout="max")
    with pytest.warns(UserWarning, match="The literal bag is used") as said:
        model(esan.Bag.of(esan.graphs.cycle(5), esan.EdgeDeletion(), 2))
    assert said[0].filename == __file__


@pytest.mark.parametrize("call", ["pool_bag", "pool_nodes"])
def test_unknown_reductions(call: str) -> None:
    view = esan.Bag.of(esan.graphs.cycle(5), esan.EdgeDeletion(), 2).layer_view(1)
    with pytest.raises(ValueError, match=r"Expected one of sum, mean, max \(got 'median'\)"):
        getattr(view, call)(torch.zeros(view.num_rows, 1), "median")


def test_iteration_gives_the_graphs_and_ends(bag: esan.Bag) -> None:
    assert [one.graphs.num_nodes.tolist() for one in bag] == [[graph.num_nodes] for graph in GRAPHS]


def test_lightning_finds_the_size_of_a_batch(bag: esan.Bag) -> None:
    """It looks inside iterables; a bag of one graph is its own only graph."""
    data = pytest.importorskip("lightning.pytorch.utilities.data")
    assert [data.extract_batch_size(some) for some in (bag, bag[0])] == [len(GRAPHS), 1]


@pytest.mark.parametrize(
    ("name", "place"),
    [("batch", "node_graph"), ("ptr", "node_start")],
)
def test_what_a_pyg_batch_has_is_found_elsewhere(bag: esan.Bag, name: str, place: str) -> None:
    for some in (bag, next(iter(esan.Loader(bag, batch_size=2, padded=True)))):
        with pytest.raises(AttributeError, match=rf"no attribute '{name}'. Use bag\.graphs\.{place}\.$"):
            getattr(some, name)
        assert isinstance(getattr(some.graphs, place), torch.Tensor)
