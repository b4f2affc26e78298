"""Extra fields and edge weights in bag files that were edited, and in the padded batches of loaders."""

import json
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data

import esan
import strategies
from esan.bags import loader
from esan.bags.io import _digest
from esan.bags.padded.batches import PaddedBatches

ND = esan.NodeDeletion()


def graphs() -> list[Data]:
    found = [strategies.from_edges(n, [(i, i + 1) for i in range(n - 1)], n) for n in (3, 4)]
    for place, graph in enumerate(found):
        graph.edge_weight = torch.rand(graph.edge_index.size(1))
        graph.pos = torch.rand(graph.num_nodes, 2)
        graph.edge_label_index = torch.tensor([[0, 1], [2, 2]])
        graph.name = f"path {place}"
        graph.y = torch.tensor([float(place)])
    return found


def edited(path: Path, change: Callable[[dict[str, Any], dict[str, np.ndarray]], None]) -> Path:
    """The file with other contents, whose digest is right."""
    with np.load(path) as held:
        arrays = {name: held[name] for name in held.files}
    header = json.loads(str(arrays.pop("header")))
    change(header, arrays)
    header["sha256"] = _digest(header, arrays)
    np.savez(path, header=np.array(json.dumps(header)), **arrays)
    return path


def change_array(name: str, make: Callable[[np.ndarray], np.ndarray]) -> Callable[..., None]:
    def change(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        arrays[f"graphs/{name}"] = make(arrays[f"graphs/{name}"])

    return change


def change_lists(lists: Any) -> Callable[..., None]:
    return lambda header, arrays: header["flags"]["graphs"].update(lists=lists)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (change_array("edge_weight", lambda w: w[:-1]), "rows of edge_weight"),
        (change_array("edge_weight", lambda w: w * np.nan), "finite numbers in edge_weight"),
        (change_array("edge_weight", lambda w: (10 * w).astype(int)), "edge_weight of one fraction per edge"),
        (change_array("extra/local/pos", lambda p: p[:-1]), "the counts of pos"),
        (change_array("extra/counts/pos", lambda c: c - c), "the counts of pos that add up"),
        (change_array("extra/dim/pos", lambda d: d + 2), "pos with a dimension"),
        (
            change_array("extra/step/edge_label_index", lambda s: s[:-1]),
            "edge_label_index with one increment per graph",
        ),
        (change_array("extra/step/edge_label_index", lambda s: s + 1), "number the nodes of each graph from 0"),
        (change_array("extra/local/edge_label_index", lambda e: e + 1), "Expected node numbers from 0 to 2"),
        (change_array("extra/local/edge_label_index", lambda e: e / 1), "edge_label_index of integers"),
        (change_lists({"name": ["one"]}), "name with one entry per graph"),
        (change_lists({"name": "one"}), "a header that lacks a field"),
        (change_lists({"pos": ["one", "two"]}), "the extra field pos once"),
        (change_lists({"num_nodes": [1, 2]}), "names that a bag does not use itself"),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_edited_fields_of_a_file_are_refused(change: Callable[..., None], match: str, tmp_path: Path) -> None:
    path = tmp_path / "bag.npz"
    esan.Bag.of(graphs(), ND, 2).save(path)
    with pytest.raises(ValueError, match=match):
        esan.Bag.load(edited(path, change))


def test_fields_of_a_file_are_part_of_its_digest(tmp_path: Path) -> None:
    path = tmp_path / "bag.npz"
    bag = esan.Bag.of(graphs(), ND, 2)
    bag.save(path)
    again = esan.Bag.load(edited(path, lambda header, arrays: None))
    assert again.graphs.fingerprint == bag.graphs.fingerprint
    assert again.name == ["path 0", "path 1"]
    for change in (change_array("extra/local/pos", lambda p: p + 1), change_lists({"name": ["a", "b"]})):
        bag.save(path)
        with np.load(path) as held:
            digest = json.loads(str(held["header"]))["sha256"]
        edited(path, change)
        with np.load(path) as held:
            assert json.loads(str(held["header"]))["sha256"] != digest


def test_fields_that_numpy_does_not_have_are_not_saved(tmp_path: Path) -> None:
    some = graphs()
    for graph in some:
        graph.charge = torch.ones(2, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match=r"Expected extra fields of tensors, .*\(got torch.bfloat16 in charge\)"):
        esan.Bag.of(some, ND, 2).save(tmp_path / "bag.npz")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("without", "why"),
    [("edge_weight", "the extra fields edge_label_index, which"), ("edge_label_index", "edge weights")],
)
def test_batches_with_such_fields_are_not_padded(without: str, why: str) -> None:
    some = graphs()
    for graph in some:
        del graph[without]
    bag = esan.Bag.of(some, ND, 2)
    with pytest.raises(ValueError, match=rf"Expected a bag whose batches can be padded \(got {why}.*Leave padded out"):
        esan.Loader(bag, padded=True)
    assert not esan.Loader(bag).padded


def test_extra_fields_that_slow_a_gpu_down_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "is_gpu", lambda device: True)
    some = graphs()
    for graph in some:
        del graph.edge_weight
    bag = esan.Bag.of(some, ND, 2)
    with pytest.warns(UserWarning, match=r"without CUDA graphs.*fields edge_label_index, .*padded=False") as caught:
        assert not esan.Loader(bag).padded
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        esan.Loader(bag, padded=False)


def with_fields(place: int, nodes: int) -> Data:
    """A graph with fields of many kinds, as data sets have them."""
    graph = strategies.from_edges(nodes, [(i, i + 1) for i in range(nodes - 1)], place)
    graph.x = torch.rand(nodes, 2, dtype=torch.float64)
    graph.y = torch.tensor([1 / 3 + place], dtype=torch.float64)
    graph.pos, graph.z, graph.train_mask = torch.rand(nodes, 3), torch.arange(nodes).int(), torch.rand(nodes) > 0.5
    graph.idx, graph.mu, graph.smiles = torch.tensor([10**12 + place]), 1 / 7 + place, "C" * nodes
    graph.target = torch.rand(1, 19).half()
    return graph


OF_GRAPHS, OF_NODES = ("y", "idx", "mu", "target"), ("x", "pos", "z", "train_mask")


def test_padded_batches_have_the_fields_of_the_graphs() -> None:
    """Exactly: fields of graphs and lists as in a batch without padding, those of nodes with zeros behind them."""
    bag = esan.Bag.of([with_fields(place, nodes) for place, nodes in enumerate((3, 5, 1, 4, 2))], ND, 2)
    loaders = [esan.Loader(bag, batch_size=2, padded=padded) for padded in (True, False)]
    for _ in range(2):
        for padded, plain in zip(*loaders, strict=True):
            for name in OF_GRAPHS:
                assert getattr(padded, name).dtype == getattr(plain, name).dtype
                assert getattr(padded, name).equal(getattr(plain, name)), name
            assert padded.smiles == plain.smiles == padded.graphs.extra["smiles"]
            for name in OF_NODES:
                of_padded, of_plain = (bag.graphs.x if name == "x" else getattr(bag, name) for bag in (padded, plain))
                assert of_padded.dtype == of_plain.dtype
                assert of_padded[: len(of_plain)].equal(of_plain), name
                assert not of_padded[len(of_plain) :].any(), name
            assert [*padded.graphs.extra] == [*plain.graphs.extra]


def test_padded_batches_for_an_ensemble_have_fields_per_member() -> None:
    bag = esan.Bag.of([with_fields(place, nodes) for place, nodes in enumerate((3, 5, 1))], ND, 2)
    batches = esan.Loader(bag, batch_sampler=[[[0, 1], [2, 0]]], padded=True, members=2)
    for batch in (*batches, *batches):
        assert batch.mu.equal(torch.tensor([[1 / 7, 8 / 7], [15 / 7, 1 / 7]]))
        assert batch.smiles == [["CCC", "CCCCC"], ["C", "CCC"]]


def test_a_bag_is_pickled_after_fields_of_its_batches_were_read() -> None:
    bag = esan.Bag.of([with_fields(place, nodes) for place, nodes in enumerate((3, 5, 1))], ND, 2)
    expected = [batch.mu for batch in esan.Loader(bag, batch_sampler=[[[0, 1], [2, 0]]], padded=True, members=2)]
    copied = pickle.loads(pickle.dumps(bag))  # noqa: S301
    for batch in esan.Loader(copied, batch_sampler=[[[0, 1], [2, 0]]], padded=True, members=2):
        assert batch.mu.equal(expected[0])


@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("name", ["x", "edge_attr", "y", "pos", "mu"])
def test_data_without_columns(name: str, members: int) -> None:
    graphs = [with_fields(place, nodes) for place, nodes in enumerate((3, 5, 1))]
    for graph in graphs:
        items = {"x": graph.num_nodes, "pos": graph.num_nodes, "edge_attr": graph.num_edges}.get(name, 1)
        graph[name] = torch.zeros(items, 0)
    bag = esan.Bag.of(graphs, ND, 2)
    for _ in range(2):
        for batch in esan.Loader(bag, 1, members=members, padded=True):
            found = getattr(batch.graphs if name in ("x", "edge_attr") else batch, name)
            assert found.size(-1) == 0
            assert found.dim() == (3 if members > 1 and name in ("y", "mu") else 2)
            assert members > 1 or esan.ds_gnn(None, 4, 2, 1).eval()(batch).isfinite().all()


def test_a_padded_batch_names_the_fields_that_there_are() -> None:
    bag = esan.Bag.of([with_fields(0, 3)], ND, 2)
    (batch,) = PaddedBatches(bag, bag.device)([np.arange(1)[None]])
    with pytest.raises(AttributeError, match=r"no attribute 'po'\. The graphs' extra fields are .*pos, smiles"):
        _ = batch.po
    with pytest.raises(KeyError, match="po"):
        batch.graphs.extra["po"]
    assert getattr(batch, "po", None) is None
    assert (batch.networks, bag.networks) == (1, 1)


def test_columns_of_the_dataset_are_computed_after_the_second_batch() -> None:
    """By then a step that is captured has been captured, and holds its activations no longer."""
    bag = esan.Bag.of(graphs() * 4, ND, 2)
    batches = PaddedBatches(bag, bag.device)
    made, whole = [], []
    for batch in batches([np.array([[k, k + 1]]) for k in range(4)]):
        assert batch.graphs.num_nodes.sum() > 0
        made.append(batches._padder._columns is not None)
        fields: Any = batch.fields
        whole.append(fields.chunk is not None)
    assert made == [False, False, True, True]
    assert whole == [False, True, True, True]


def test_features_that_require_gradients_are_not_padded() -> None:
    graph = with_fields(0, 4)
    graph.x = graph.x.requires_grad_()
    bag = esan.Bag.of([graph], ND, 2)
    with pytest.raises(ValueError, match=r"Expected a bag whose .*\(got features that require gradients"):
        esan.Loader(bag, padded=True)
    (batch,) = esan.Loader(bag)
    esan.ds_gnn(2, 4, 2, 1).double()(batch).sum().backward()
    assert graph.x.grad is not None


def test_bags_used_or_made_in_inference_mode_can_be_trained_on() -> None:
    some = [with_fields(place, nodes) for place, nodes in enumerate((3, 4))]
    bag, model = esan.Bag.of(some, ND, 2), esan.ds_gnn(2, 4, 2, 1).double()
    (padded,) = esan.Loader(bag, batch_size=2, padded=True)
    with torch.inference_mode():
        made = [padded, bag[[0, 1]], esan.Bag.of(some, ND, 2), *esan.Loader(bag, batch_size=2)]
        for one in made:
            model(one)
    for one in made:
        model(one).sum().backward()


@pytest.mark.parametrize("literal", [True, None])
def test_all_fields_of_edges_have_the_order_of_the_data(literal: bool | None) -> None:
    """Features, weights and the edges themselves, beside fields of the user's own and predictions for edges."""
    graphs = []
    for seed in range(3):
        graph = strategies.from_edges(6, [(4, 1), (0, 5), (3, 2), (1, 0), (5, 4)], seed)
        graph.edge_index = graph.edge_index[:, torch.randperm(10)]
        graph.edge_attr, graph.edge_weight = torch.rand(10, 2, requires_grad=True), torch.rand(10)
        graph.edge_copy, graph.edge_mask = graph.edge_attr.detach().clone(), torch.rand(10) < 0.5
        graphs.append(graph)
    batch, bag = Batch.from_data_list(graphs), esan.Bag.of(graphs, "ND", 2, literal=literal)
    for name in ("edge_index", "edge_attr", "edge_weight", "edge_copy", "edge_mask"):
        assert getattr(bag, name).equal(getattr(batch, name)), name
    assert bag.edge_index[:, bag.edge_mask].equal(batch.edge_index[:, batch.edge_mask])
    (bag.edge_attr * bag.edge_copy).sum().backward()
    for graph in graphs:
        assert graph.edge_attr.grad.equal(graph.edge_copy)
    for graph in graphs:
        del graph.edge_weight, graph.edge_copy, graph.edge_mask
        graph.edge_attr = graph.edge_attr.detach()
    padded = next(iter(esan.Loader(esan.Bag.of(graphs, "ND", 2, literal=literal), 2, padded=True)))
    for name in ("edge_index", "edge_attr"):
        with pytest.raises(AttributeError, match=rf"Expected a bag without padding for {name} .*without_padding\(\)"):
            getattr(padded, name)
    assert padded.without_padding().edge_index.equal(Batch.from_data_list(graphs[:2]).edge_index)
