"""Extra fields and edge weights in bag files that were edited, and in loaders, whose padded batches have neither."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

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
    ("without", "why"), [(("edge_weight",), "the extra fields .*name, pos"), (("pos", "name"), "edge weights")]
)
def test_batches_with_such_fields_are_not_padded(without: tuple[str, ...], why: str) -> None:
    some = graphs()
    for graph in some:
        for name in (*without, "edge_label_index"):
            del graph[name]
    bag = esan.Bag.of(some, ND, 2)
    with pytest.raises(ValueError, match=rf"Expected a bag whose batches can be padded \(got {why}.*Leave padded out"):
        esan.Loader(bag, padded=True)
    assert not esan.Loader(bag).padded


def test_extra_fields_that_slow_a_gpu_down_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "is_gpu", lambda device: True)
    some = graphs()
    for graph in some:
        for name in ("edge_weight", "edge_label_index", "pos"):
            del graph[name]
    bag = esan.Bag.of(some, ND, 2)
    with pytest.warns(UserWarning, match=r"without CUDA graphs.*the extra fields .*name.*padded=False") as caught:
        assert not esan.Loader(bag).padded
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        esan.Loader(bag, padded=False)


def test_a_padded_batch_says_that_it_has_no_extra_fields() -> None:
    bag = esan.Bag.of(graphs(), ND, 2)
    (batch,) = PaddedBatches(bag, bag.device)([np.arange(2)[None]])
    with pytest.raises(AttributeError, match=r"no attribute 'pos': padded batches have no extra fields. Use Loader"):
        _ = batch.pos
    assert getattr(batch, "pos", None) is None
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
