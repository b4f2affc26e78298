"""The baselines: what DropEdge deletes, which features are random, and the walks that are counted."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from small_sets import graphs, quick, small
from torch_geometric.utils import to_dense_adj

from esan.bags import Bag
from esan.graphs import complete, read
from esan.policies import Whole
from esan.train import EagerEngine, Job, Objective, run_jobs
from esan.train.model_spec import ModelSpec
from esan.train.recipes.baselines import DropEdge, RandomLines, closed_walks, drop_edge, with_walks


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
    dataset = small()
    model = ModelSpec.of(quick(model="gnn", policy="identity", random_features=0.5), dataset).build().eval()
    lines = model.features.encoder
    assert isinstance(lines, RandomLines)
    assert (lines.out_channels, lines.random_channels) == (8, 4)
    like = torch.zeros(1)
    one, other = (lines(dataset.graphs.x, 0, like) for _ in range(2))
    assert torch.equal(one[:, :4], other[:, :4])
    assert (one[:, 4:] != other[:, 4:]).all()


@pytest.mark.parametrize("more", [{"drop_edge": 0.2}, {"random_features": 0.5}, {"walk_features": 10}])
def test_baselines_train_in_the_same_protocol(more: dict[str, float]) -> None:
    (record,) = run_jobs([Job(quick(model="gnn", policy="identity", **more))], None, dataset=small())
    assert record.epochs == 4


def test_walks_that_were_not_added() -> None:
    dataset = small()
    model = ModelSpec.of(quick(walk_features=10), dataset).build()
    with pytest.raises(ValueError, match="Expected 10 columns of walk counts behind x"):
        model(Bag.of(dataset.graphs, quick().selected, 2))
