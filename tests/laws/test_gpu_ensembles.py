"""Networks trained in ensembles on a GPU: each gives what it gives alone, and what batch after batch gives."""

import copy
from dataclasses import replace
from functools import partial

import pytest
import torch

import ensemble_cases
import ensembles
import esan
import sampled_ensembles
import sized_ensembles
import strategies
from esan.bags.padded import batches
from esan.bags.padded.column_store import ColumnLimits
from esan.bags.padded.padder import Padder
from esan.data import Dataset, Split, own
from esan.testing.compare import check_close
from esan.train import Job, Recipe, run_jobs
from esan.train.engines import ensemble_engine
from esan.train.engines.engine import EagerEngine
from esan.train.engines.engine_factory import EngineFactory, supports_ensemble
from esan.train.engines.objective import Objective

pytestmark = pytest.mark.gpu
PINNED = pytest.mark.usefixtures("_pinned")


@pytest.fixture
def _pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are gathered from pinned memory, though there is little of it."""
    monkeypatch.setattr(batches, "Padder", partial(Padder, limits=ColumnLimits(small=0, per_network=0)))


@PINNED
def test_an_ensemble_gives_what_each_gives_alone(gpu: torch.device) -> None:
    ensembles.check_alone(ensemble_cases.trial(gpu))


def test_folds_with_unequal_numbers_of_batches(gpu: torch.device) -> None:
    t = ensemble_cases.trial(gpu)
    ensembles.check_alone(t, [t.train[:9], t.train, t.train[:-6]])


def test_an_ensemble_gives_what_batch_after_batch_gives(gpu: torch.device) -> None:
    ensembles.check_eager(ensemble_cases.trial(gpu), 1e-4)


def test_predictions_of_an_ensemble(gpu: torch.device) -> None:
    ensembles.check_predictions(ensemble_cases.trial(gpu))


@PINNED
def test_predictions_that_need_a_larger_capacity(gpu: torch.device) -> None:
    ensembles.check_capacity(ensemble_cases.trial(gpu), 1e-3)


def test_states_of_an_ensemble(gpu: torch.device) -> None:
    ensembles.check_states(ensemble_cases.trial(gpu))


def test_leaving_an_ensemble(gpu: torch.device) -> None:
    ensembles.check_leaving(ensemble_cases.trial(gpu))


def test_engines_that_are_asked_out_of_step(gpu: torch.device) -> None:
    ensembles.check_out_of_step(ensemble_cases.trial(gpu))


@PINNED
@pytest.mark.parametrize("size", [None, 50])
def test_statistics_recalibrated_in_ensembles(size: int | None, gpu: torch.device) -> None:
    ensembles.check_recalibrated(ensemble_cases.trial(gpu), 1e-4, size)


def test_new_samples(gpu: torch.device) -> None:
    sampled_ensembles.check_new_samples(ensemble_cases.trial(gpu, sampled=0.5))


def test_samples_of_a_bag_too_large_for_memory(gpu: torch.device) -> None:
    t = sampled_ensembles.graphs_only(gpu, 30, 12, 32)
    sampled_ensembles.check_new_samples(t)
    sampled_ensembles.check_whole(t, 1e-3)


def test_samples_in_an_ensemble(gpu: torch.device) -> None:
    t = ensemble_cases.trial(gpu, sampled=0.5)
    sampled_ensembles.check_together(t, [t.train[:9], t.train, t.train[:-6]])


def test_dropout_in_an_ensemble(gpu: torch.device) -> None:
    ensembles.check_alone(ensemble_cases.trial(gpu, dropout=0.5))


@PINNED
@pytest.mark.parametrize("tf32", [False, True])
def test_smaller_shapes(tf32: bool, gpu: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of wide networks, whose products are a library's."""
    monkeypatch.setattr(ensemble_engine, "FINE_FROM_ROWS", 0)
    sized_ensembles.check_sized(sized_ensembles.trial(gpu, 40, 40, 300, tf32=tf32), 2e-2 if tf32 else 1e-4)


@PINNED
def test_smaller_shapes_for_many_rows(gpu: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "COARSE_FROM_ROWS", 0)
    sized_ensembles.check_sized(sized_ensembles.trial(gpu, 40, 40, 32), 1e-4)


@PINNED
@pytest.mark.parametrize(("dropout", "sampled"), [(0.5, None), (0.0, 0.5)])
def test_smaller_shapes_in_an_ensemble(
    dropout: float, sampled: float | None, gpu: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a network draws depends neither on the capacity nor on the other members."""
    monkeypatch.setattr(ensemble_engine, "FINE_FROM_ROWS", 0)
    sized_ensembles.check_near_alone(sized_ensembles.trial(gpu, 40, 40, 300, dropout=dropout, sampled=sampled), 1e-4)


def test_kinds_of_ensembles(gpu: torch.device) -> None:
    ensembles.check_kinds(ensemble_cases.trial(gpu))


@pytest.mark.parametrize("kind", ["classification", "regression", "labels"])
def test_a_batch_larger_than_any_before(kind: str, gpu: torch.device) -> None:
    """The step is captured again with a larger capacity, and continues."""
    outputs = {"classification": 2, "regression": 1, "labels": 2}[kind]
    small = [strategies.from_edges(3, [(0, 1), (1, 2)], i) for i in range(30)]
    large = [strategies.from_edges(40, [(i, i + 1) for i in range(39)], 50 + i) for i in range(2)]
    for i, graph in enumerate([*small, *large]):
        y = {"classification": torch.tensor([i % 2]), "regression": torch.tensor([[float(i)]])}
        graph.y = y.get(kind, torch.tensor([[float(i % 2), torch.nan]]))
    policy = esan.EdgeDeletion()
    bag = esan.Bag.of([*small, *large], policy, 2).to(gpu)
    torch.manual_seed(0)
    network = esan.dss_gnn(esan.Categories(strategies.ATOMS), 16, 2, outputs).to(gpu)
    assert supports_ensemble(network, bag)
    arguments = bag, Objective(kind), 1e-3, 4
    ours, theirs = (
        make(copy.deepcopy(network), *arguments, torch.Generator().manual_seed(0))
        for make in (EngineFactory(), EagerEngine)
    )
    (member,) = ensembles.members([ours])
    # No batch that is drawn without putting back has four large graphs.
    few, many = torch.arange(30), torch.tensor([30, 31, 31, 30, 0])
    shapes = []
    for order in (few, many):
        mine, other = ours.train_epoch(order), theirs.train_epoch(order)
        ours.flush()
        check_close(mine.cpu(), other.cpu(), f"loss of {kind}", tolerance=1e-3)
        shapes.append(member.ensemble._known_shapes.known[4])
    assert shapes[0] != shapes[1]
    check_close(ours.predict(many).cpu(), theirs.predict(many).cpu(), "predictions", tolerance=2e-2)


def test_a_compact_bag_asked_for_by_name_is_refused(gpu: torch.device) -> None:
    t = ensemble_cases.trial(gpu, dropout=0.5)
    strict = replace(t.bag, strict=True)
    network, generator = t.build().to(gpu), torch.Generator().manual_seed(0)
    engine = EngineFactory()(network, strict, t.objective, t.rate, t.batch_size, generator)
    with pytest.raises(ValueError, match="Expected a network that is exact on a compact bag"):
        engine.train_epoch(t.train)


def _dataset() -> Dataset:
    graphs = [strategies.from_edges(4 + i % 5, [(v, v + 1) for v in range(3 + i % 5)], i) for i in range(24)]
    ids = torch.arange(24)
    split = Split(ids[ids % 3 == 0], ids[ids % 3 == 1], ids[ids % 3 == 2])
    return own(graphs, labels=ids % 2, task="classification", given=split, name="small")


def test_the_loop_trains_ensembles(gpu: torch.device) -> None:
    """Records are the same whether seeds train together or one after another."""
    recipe = Recipe(
        data="small",
        name="small/gpu",
        policy=esan.NodeDeletion(),
        num_layers=2,
        hidden_channels=16,
        batch_size=4,
        epochs=3,
        lr=0.01,
    )
    jobs = [Job(recipe, seed=seed) for seed in range(3)]
    together = run_jobs(jobs, None, dataset=_dataset(), device=gpu)
    apart = [run_jobs([job], None, dataset=_dataset(), device=gpu)[0] for job in jobs]
    for mine, theirs in zip(together, apart, strict=True):
        assert (mine.best, mine.final) == (theirs.best, theirs.final)
        assert [line.valid for line in mine.curve] == [line.valid for line in theirs.curve]
