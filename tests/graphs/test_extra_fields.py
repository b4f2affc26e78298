"""Extra fields of PyG data are carried along with their graphs, as PyG batches them, or refused."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

import esan

ND = esan.NodeDeletion()


def labelled(n: int) -> Data:
    data = esan.graphs.cycle(n)
    data.train_mask = torch.arange(n) % 2 == 0
    data.pos = torch.randn(n, 3, generator=torch.Generator().manual_seed(n))
    data.edge_kind = torch.arange(2 * n)
    data.smiles = "C" * n
    data.id = n
    data.weight = torch.tensor(0.5 * n)
    data.fingerprint = torch.arange(n, n + 2)[None]
    data.edge_label_index = torch.tensor([[0, n - 1], [1, 1]])
    data.edge_label = torch.tensor([1.0, 0.0])
    return data


GRAPHS = [labelled(n) for n in (4, 6, 3)]
NAMES = sorted({*GRAPHS[0].keys()} - {"edge_index", "num_nodes"})


def check(bag: esan.Bag, graphs: list[Data]) -> None:
    expected = Batch.from_data_list(graphs)
    for name in NAMES:
        got, wanted = getattr(bag, name), expected[name]
        assert torch.equal(got, wanted) if isinstance(wanted, torch.Tensor) else got == wanted, name


@pytest.mark.parametrize("source", [GRAPHS, Batch.from_data_list(GRAPHS)], ids=["list", "batch"])
def test_fields_are_what_a_pyg_batch_has(source: Any) -> None:
    bag = esan.Bag.of(source, ND, 2)
    check(bag, GRAPHS)
    check(bag[[2, 0]], [GRAPHS[2], GRAPHS[0]])
    check(bag[[2, 0]][1], [GRAPHS[0]])
    check(bag.to_literal(), GRAPHS)


def test_batches_of_a_loader_and_of_random_policies() -> None:
    for policy in (ND, esan.Sampled(ND, 0.5), esan.Augmented(ND)):
        sizes = []
        for batch in esan.Loader(esan.Bag.of(GRAPHS, policy, 2), batch_size=2, shuffle=True):
            check(batch, [next(g for g in GRAPHS if g.id == i) for i in batch.id.tolist()])
            sizes += batch.id.tolist()
        assert sorted(sizes) == [3, 4, 6]


def test_fields_move_with_the_bag() -> None:
    bag = esan.Bag.of(GRAPHS, ND, 2).to("meta")
    assert bag.train_mask.device.type == bag.edge_label_index.device.type == "meta"
    assert bag.smiles == ["CCCC", "CCCCCC", "CCC"]
    assert bag.nbytes > esan.Bag.of([esan.graphs.cycle(n) for n in (4, 6, 3)], ND, 2).nbytes


def test_data_that_a_policy_was_applied_to() -> None:
    loader = DataLoader([ND(graph) for graph in GRAPHS], batch_size=3, follow_batch=["pos"])
    (batch,) = loader
    bag = esan.Bag.of(batch, num_layers=2)
    check(bag, GRAPHS)
    assert sorted(bag.graphs.extra) == NAMES
    assert torch.equal(bag.pos_batch, batch.pos_batch)
    assert torch.equal(bag.pos_ptr, batch.pos_ptr)


def test_fields_added_to_a_batch() -> None:
    batch = Batch.from_data_list([esan.graphs.cycle(n) for n in (4, 6, 3)])
    batch.val_mask = torch.rand(13) < 0.5
    batch.edge_kind = torch.arange(26)
    batch.size = torch.tensor([4, 6, 3])
    batch.edge_label_index = torch.tensor([[0, 5, 12], [3, 9, 11]])
    batch.edge_label = torch.tensor([1, 0, 1])
    bag = esan.Bag.of(batch, ND, 2)
    for name in ("val_mask", "edge_kind", "size", "edge_label_index", "edge_label"):
        assert torch.equal(getattr(bag, name), batch[name]), name
    last = bag[2]
    assert torch.equal(last.val_mask, batch.val_mask[10:])
    assert last.size.tolist() == [3]
    assert last.edge_label_index.tolist() == [[2], [1]]
    assert last.edge_label.tolist() == [1]
    assert last.edge_kind.tolist() == [*range(20, 26)]


def test_a_data_class_with_increments_of_its_own() -> None:
    class Bipartite(Data):
        def __inc__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
            return torch.tensor([[2], [5]]) if key == "pair_index" else super().__inc__(key, value, *args, **kwargs)

    graphs = [Bipartite(**esan.graphs.cycle(3).to_dict(), pair_index=torch.tensor([[0, 1], [4, 3]])) for _ in range(3)]
    expected = Batch.from_data_list(graphs).pair_index
    for source in (graphs, Batch.from_data_list(graphs)):
        bag = esan.Bag.of(source, ND, 1)
        assert torch.equal(bag.pair_index, expected)
        assert torch.equal(bag[[1, 2]].pair_index, expected[:, :4])


def test_fields_are_saved(tmp_path: Path) -> None:
    bag = esan.Bag.of(GRAPHS, ND, 2)
    bag.save(tmp_path / "bag.npz")
    check(esan.Bag.load(tmp_path / "bag.npz", source=GRAPHS), GRAPHS)
    other = [graph.clone() for graph in GRAPHS]
    other[1].train_mask[0] = False
    with pytest.raises(ValueError, match="Expected a bag of these graphs"):
        esan.Bag.load(tmp_path / "bag.npz", source=other)
    for graph in other:
        graph.molecule = object()
    with pytest.raises(ValueError, match=r"Expected extra fields of tensors, .*\(got object in molecule\)\. Delete"):
        esan.Bag.of(other, ND, 2).save(tmp_path / "other.npz")


def test_fingerprints_without_extra_fields_are_those_of_before() -> None:
    assert esan.graphs.read(esan.graphs.cycle(5)).fingerprint.startswith("e696ce1e3b4611b5")


def changed(**fields: Any) -> list[Data]:
    graphs = [esan.graphs.cycle(n) for n in (4, 5)]
    for name, values in fields.items():
        for graph, value in zip(graphs, values, strict=True):
            if value is not None:
                graph[name] = value
    return graphs


@pytest.mark.parametrize(
    ("fields", "error", "match"),
    [
        ({"mask": [torch.ones(4), None]}, ValueError, r"Expected mask on every graph .*\(got none on graph 1\)\. Add"),
        ({"mask": [None, "a"]}, ValueError, r"Expected mask on every graph .*\(got none on graph 0\)\. Add"),
        ({"mask": [torch.ones(4), "a"]}, TypeError, r"Expected mask to be a tensor on every .*\(got str on graph 1\)"),
        ({"dist": [torch.eye(4), torch.eye(5)]}, ValueError, r"Expected dist of one width \(got shape \(4, 4\).*Resh"),
        ({"rows": [1, 2]}, ValueError, r"Expected extra fields with names .*\(got 'rows'\)\. Rename it"),
        ({"num_layers": [1, 2]}, ValueError, r"Expected extra fields with names .*\(got 'num_layers'\)\. Rename it"),
        ({"edge_weight": [torch.ones(8), None]}, ValueError, r"Expected edge_weight on every graph"),
        ({"edge_weight": [torch.ones(7), torch.ones(10)]}, ValueError, r"Expected one row of edge_weight per column"),
        ({"edge_weight": [torch.ones(8, 2), torch.ones(10, 2)]}, ValueError, r"Expected edge_weight with one number"),
        (
            {"edge_weight": [torch.full((8,), torch.inf), torch.ones(10)]},
            ValueError,
            r"Expected finite numbers in edge",
        ),
        (
            {"edge_weight": [torch.ones(8, requires_grad=True), torch.ones(10)]},
            ValueError,
            r"Expected edge_weight to be constant \(got one that requires grad in graph 0\)\. Detach it",
        ),
        ({"edge_label_index": [torch.ones(3, 2)] * 2}, ValueError, r"Expected edge_label_index of shape \[2, pairs\]"),
        ({"edge_label_index": [torch.ones(2, 3)] * 2}, TypeError, r"Expected edge_label_index of integers"),
        (
            {"edge_label_index": [torch.tensor([[0], [4]])] * 2},
            ValueError,
            r"Expected node numbers from 0 to 3 in edge_label_index of graph 0 \(got the pair \(0, 4\)\)",
        ),
    ],
)
def test_what_is_refused(fields: dict[str, Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        esan.Bag.of(changed(**fields), ND, 2)


def test_what_is_refused_on_a_batch() -> None:
    batch = Batch.from_data_list(changed())
    batch.odd = torch.ones(5)
    with pytest.raises(ValueError, match=r"Expected odd with one entry per graph, node or column .*\(got shape \(5,\)"):
        esan.Bag.of(batch, ND, 2)
    del batch.odd
    batch.edge_label_index = torch.tensor([[5, 0], [6, 1]])
    with pytest.raises(ValueError, match=r"Expected the columns of edge_label_index graph by graph"):
        esan.Bag.of(batch, ND, 2)


def test_a_field_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'test_mask'.* extra fields are .*train_mask"):
        esan.Bag.of(GRAPHS, ND, 2).test_mask  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'test_mask'.* have no extra fields"):
        esan.Bag.of(esan.graphs.cycle(3), ND, 2).test_mask  # noqa: B018


def test_relabelled_graphs_keep_their_fields() -> None:
    order = torch.tensor([2, 0, 3, 1])
    moved = esan.graphs.permuted(GRAPHS[0], order=order)
    assert torch.equal(moved.train_mask, GRAPHS[0].train_mask[order])
    assert torch.equal(moved.pos[moved.edge_label_index], GRAPHS[0].pos[GRAPHS[0].edge_label_index])
