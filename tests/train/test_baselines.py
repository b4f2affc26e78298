"""The baselines: what DropEdge deletes, which features are random, and the walks that are counted."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch_geometric.nn import GraphConv
from torch_geometric.utils import to_dense_adj

from esan.bags import Bag
from esan.graphs import complete, read
from esan.policies import Whole
from esan.train import EagerEngine, Job, Objective, run_jobs
from esan.train.baselines import DropEdge, RandomFeatures, closed_walks, drop_edge, with_walks
from esan.train.model_spec import ModelSpec
from small_sets import graphs, quick, small


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESAN_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.mark.parametrize("most", [1, 60, 1 << 22])
def test_closed_walks_are_the_diagonals_of_powers(most: int) -> None:
    made = graphs(10)
    found = closed_walks(read(made), 10, most=most).numpy()
    dense = [to_dense_adj(graph.edge_index, max_num_nodes=graph.num_nodes)[0].double().numpy() for graph in made]
    powers = [[np.diag(np.linalg.matrix_power(a, k)) for k in range(1, 11)] for a in dense]
    np.testing.assert_array_equal(found, np.concatenate([np.stack(p, 1) for p in powers]))


def test_walks_join_the_features() -> None:
    dataset = small()
    longer = with_walks(dataset, 3)
    assert dataset.graphs.x is not None
    assert longer.graphs.x is not None
    assert torch.equal(longer.graphs.x[:, :1], dataset.graphs.x.float())
    degree = dataset.graphs.degree.float()
    torch.testing.assert_close(longer.graphs.x[:, 2], torch.log1p(degree))
    bare = with_walks(replace(dataset, graphs=replace(dataset.graphs, x=None), in_channels=None), 3)
    assert bare.graphs.x is not None
    assert bare.graphs.x.shape[1] == 3


def test_drop_edge_deletes_its_share() -> None:
    data, generator = [complete(30)] * 5, torch.Generator().manual_seed(0)
    selection = DropEdge(0.2).drawn(read(data), generator)
    assert selection.num_subgraphs.tolist() == [1] * 5
    assert selection.entry_edge.numel() / (5 * 435) == pytest.approx(0.2, abs=0.03)
    again = DropEdge(0.2).drawn(read(data), generator)
    assert not torch.equal(selection.entry_edge[:50], again.entry_edge[:50])


def test_drop_edge_is_for_training_alone() -> None:
    dataset = small()
    bag = Bag.of(dataset.graphs, Whole(), 2)
    model = ModelSpec.of(quick(model="gnn", policy="identity"), dataset).build()
    seen: list[int] = []
    model.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0].selection.entry_edge.numel()))
    engine = EagerEngine(model, bag, Objective("classification"), 0.01, 24, torch.Generator(), drop_edge(0.5))
    engine.train_epoch(torch.arange(24))
    engine.predict(torch.arange(24))
    assert seen[0] > 0
    assert seen[1] == 0


def test_half_of_the_features_are_random() -> None:
    """Two GraphConv layers of widths w/2 and w/2 with ELU on the graph itself, and w/2 random columns behind them."""
    dataset = small()
    model = ModelSpec.of(quick(model="gnn", policy="identity", random_features=0.5), dataset).build().double().eval()
    features: Any = model.features
    assert isinstance(features, RandomFeatures)
    assert (features.out_channels, features.random_channels) == (8, 4)
    bag, like = Bag.of(dataset.graphs, Whole(), 2), torch.zeros(1, dtype=torch.float64)
    one, other = (features.encoded(bag, like) for _ in range(2))
    assert torch.equal(one[:, :4], other[:, :4])
    assert (one[:, 4:] != other[:, 4:]).all()
    assert dataset.graphs.x is not None
    known = features.encoder(dataset.graphs.x, bag.num_nodes, like)
    for conv in (features.first, features.second):
        plain = GraphConv(conv.lin_rel.in_features, 4).double()
        plain.load_state_dict(conv.state_dict())
        known = F.elu(plain(known, dataset.graphs.edge_index))
    torch.testing.assert_close(one[:, :4], known)


def test_random_features_beside_degrees() -> None:
    dataset = small()
    recipe = quick(model="gnn", policy="identity", random_features=0.5, node_features=False, degrees=9)
    model = ModelSpec.of(recipe, dataset).build()
    assert isinstance(model.features, RandomFeatures)
    assert model.features.first.lin_rel.in_features == 9
    bag = Bag.of(dataset.graphs, Whole(), 2)
    assert model(bag).shape == (24, 2)
    highest = int(dataset.graphs.degree.max())
    small_degrees = ModelSpec.of(replace(recipe, degrees=highest), dataset).build()
    for look in (lambda: small_degrees(bag), lambda: small_degrees.features.check(dataset.graphs)):
        with pytest.raises(ValueError, match=rf"Expected degrees below {highest} \(got {highest}\)"):
            look()


@pytest.mark.parametrize(
    "more",
    [{"drop_edge": 0.2}, {"random_features": 0.5}, {"walk_features": 10}, {"random_features": 0.5, "walk_features": 3}],
)
def test_baselines_train_in_the_same_protocol(more: dict[str, float]) -> None:
    (record,) = run_jobs([Job(quick(model="gnn", policy="identity", **more))], None, dataset=small())
    assert record.epochs == 4


def test_walks_that_were_not_added() -> None:
    dataset = small()
    model = ModelSpec.of(quick(walk_features=10), dataset).build()
    with pytest.raises(ValueError, match="Expected 10 columns of walk counts behind x"):
        model(Bag.of(dataset.graphs, quick().policy, 2))
