"""Interpreted: the engine of ensembles on a GPU that is not there: steps are run, not replayed."""

import gc
from dataclasses import replace
from typing import Any

import pytest
import torch

import ensemble_cases
import ensembles
import sampled_ensembles
import sized_ensembles
from esan.bags.padded import batches, shapes
from esan.bags.padded.bag import PaddedBag
from esan.bags.padded.column_store import Columns
from esan.bags.padded.compute_columns import ColumnSource
from esan.bags.padded.padder import Padder
from esan.bags.padded.plan import Plan
from esan.bags.padded.shapes import Shape
from esan.nn import linear
from esan.ops import linear as products
from esan.ops.dispatch import MAX_WIDTH
from esan.ops.triton import gin
from esan.ops.triton.adam import FlatAdam
from esan.train.engines import engine_factory, ensemble_engine
from esan.train.engines.ensemble_engine import EnsembleEngine
from interpreting import ONLY_INTERPRETED, poison, use_reference_layout

pytestmark = ONLY_INTERPRETED


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_factory, "supports_ensemble", lambda model, bag: True)


@pytest.fixture
def _reference_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    use_reference_layout(monkeypatch)


REFERENCE_LAYOUT = pytest.mark.usefixtures("_reference_layout")


def trial(**choices: Any) -> ensemble_cases.Trial:
    return ensemble_cases.small_trial("cpu", **choices)


@pytest.mark.exhaustive
def test_each_as_if_it_were_alone() -> None:
    """With unequal numbers of batches, the last of which lacks a graph."""
    ensembles.check_alone(trial(), [torch.arange(1), torch.arange(3)])


@pytest.mark.exhaustive
@REFERENCE_LAYOUT
def test_each_as_if_it_were_alone_for_an_epoch() -> None:
    ensembles.check_alone(trial(), [torch.arange(1), torch.arange(3)], epochs=1)


@pytest.mark.exhaustive
@REFERENCE_LAYOUT
def test_a_step_on_an_empty_batch_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    step = FlatAdam.step
    monkeypatch.setattr(FlatAdam, "step", lambda adam, live: step(adam, torch.ones_like(live)))
    with pytest.raises(AssertionError, match="network 0"):
        ensembles.check_alone(trial(), [torch.arange(1), torch.arange(3)], epochs=1)


@pytest.mark.exhaustive
@REFERENCE_LAYOUT
def test_batch_after_batch() -> None:
    ensembles.check_eager(trial(), 1e-4)


@pytest.mark.exhaustive
@REFERENCE_LAYOUT
def test_predictions() -> None:
    ensembles.check_predictions(trial())


@pytest.mark.exhaustive
@REFERENCE_LAYOUT
def test_predictions_that_need_a_larger_capacity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shape, "grown", lambda shape, factor: shape)
    ensembles.check_capacity(trial(), 1e-4)


@pytest.mark.exhaustive
@REFERENCE_LAYOUT
def test_states() -> None:
    ensembles.check_states(trial())


@pytest.mark.exhaustive
@REFERENCE_LAYOUT
def test_leaving() -> None:
    ensembles.check_leaving(trial())


@pytest.mark.exhaustive
@REFERENCE_LAYOUT
def test_out_of_step() -> None:
    ensembles.check_out_of_step(trial())


@pytest.mark.exhaustive
@REFERENCE_LAYOUT
def test_recalibrated_statistics() -> None:
    """Over batches of another size than that of training, with capacity for more graphs than there are."""
    t = trial()
    assert t.batch_size != 5 > len(t.train)
    ensembles.check_recalibrated(t, 1e-4, 5)


@pytest.mark.exhaustive
def test_new_samples() -> None:
    sampled_ensembles.check_new_samples(trial(sampled=0.5))


@pytest.mark.exhaustive
@REFERENCE_LAYOUT
def test_samples_of_a_bag_too_large_for_memory() -> None:
    t = sampled_ensembles.graphs_only("cpu", 6, 4, 3)
    sampled_ensembles.check_new_samples(t)
    sampled_ensembles.check_whole(t, 1e-4)


@pytest.mark.exhaustive
@REFERENCE_LAYOUT
def test_samples_of_several() -> None:
    sampled_ensembles.check_together(trial(sampled=0.5), [torch.arange(1), torch.arange(3), torch.arange(1, 3)])


@pytest.fixture
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every layer is wider than the kernels take: interpreted, one that is takes minutes."""
    for module in (linear, products, gin):
        monkeypatch.setattr(module, "MAX_WIDTH", 1)
    monkeypatch.setattr(ensemble_engine, "FINE_FROM_ROWS", 0)


@pytest.mark.exhaustive
@REFERENCE_LAYOUT
@pytest.mark.usefixtures("_wide")
def test_smaller_shapes_for_wide_networks() -> None:
    sized_ensembles.check_sized(sized_ensembles.trial("cpu", 6, 8, 3), 1e-4)


@pytest.mark.exhaustive
@REFERENCE_LAYOUT
def test_smaller_shapes_for_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "COARSE_FROM_ROWS", 0)
    sized_ensembles.check_sized(sized_ensembles.trial("cpu", 6, 8, 3), 1e-4)


@pytest.mark.exhaustive
@REFERENCE_LAYOUT
@pytest.mark.usefixtures("_wide")
@pytest.mark.parametrize(("dropout", "sampled"), [(0.5, None), (0.0, 0.5)])
def test_smaller_shapes_in_an_ensemble(dropout: float, sampled: float | None) -> None:
    """What is drawn, for dropout on the literal bag and for samples, depends neither on the capacity nor on others."""
    sized_ensembles.check_near_alone(sized_ensembles.trial("cpu", 6, 8, 3, dropout=dropout, sampled=sampled), 1e-4)


@pytest.mark.parametrize(("width", "sizes"), [(MAX_WIDTH + 1, [2, 2, 1]), (MAX_WIDTH, [5])])
def test_few_wide_networks_fill_a_device(width: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Their ensembles are no larger: all members have the capacity of the largest batch."""
    t = sized_ensembles.trial("cpu", 8, 8, width)
    monkeypatch.setattr(engine_factory, "MAX_ACTIVATIONS", 2.5 * t.bag.num_rows / len(t.bag) * width)
    found = [member.ensemble for member in ensembles.members(t.engines([0, 1, 2, 3, 4]))]
    assert [len(ensemble.members) for ensemble in dict.fromkeys(found)] == sizes


@pytest.mark.exhaustive
@REFERENCE_LAYOUT
def test_dropout() -> None:
    """With batches of unequal numbers: what one network draws depends neither on the others nor on their steps."""
    ensembles.check_alone(trial(dropout=0.5), [torch.arange(1), torch.arange(3)])


@pytest.mark.exhaustive
@REFERENCE_LAYOUT
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_padding_is_not_read(monkeypatch: pytest.MonkeyPatch, dropout: float) -> None:
    """Steps, predictions and recalibrated statistics do not depend on what memory held, nor on how much of it."""
    found = []
    for clean in (True, False):
        if not clean:
            poison(monkeypatch)
            monkeypatch.setattr(shapes, "MARGIN", 3.0)
        t = trial(dropout=dropout)
        (engine,) = t.engines([0])
        loss = engine.train_epoch(t.train, recalibration_batch_size=t.batch_size)
        found.append((loss, engine.predict(t.valid), engine.weights()))
    (loss, answer, weights), (poisoned_loss, poisoned_answer, poisoned_weights) = found
    assert bool(poisoned_answer.isfinite().all())
    assert torch.equal(loss, poisoned_loss)
    assert torch.equal(answer, poisoned_answer)
    ensembles.same_bits(poisoned_weights, weights, "in memory that held NaN")


@pytest.mark.parametrize(("x", "message"), [(0.5, "got fractions"), (7.0, "got up to \\[7\\]")])
def test_categories_that_are_none(x: float, message: str) -> None:
    """Which a step that was captured would not see."""
    t = trial()
    numbers = torch.zeros(t.bag.graphs.node_graph.numel())
    numbers[-1] = x
    t = replace(t, bag=replace(t.bag, graphs=replace(t.bag.graphs, x=numbers)))
    with pytest.raises(ValueError, match=message):
        t.engines([0])


@pytest.mark.exhaustive
@REFERENCE_LAYOUT
def test_kinds() -> None:
    ensembles.check_kinds(trial())


def alive(*kinds: type) -> list[str]:
    return [type(thing).__name__ for thing in gc.get_objects() if type(thing) in kinds]


@pytest.mark.exhaustive
def test_nothing_of_an_ensemble_stays() -> None:
    """Neither the ensemble, nor what its steps and batches were made with, once its engines are gone."""

    def train() -> None:
        t = trial()
        engines = t.engines([0])
        ensembles.epoch(engines, [t.order(0, 0)], t.valid)
        assert alive(EnsembleEngine, Padder, Plan)

    train()
    gc.collect()
    assert not alive(EnsembleEngine, Padder, Plan, PaddedBag, Columns, ColumnSource)


@pytest.mark.exhaustive
def test_the_fields_of_a_plan_wait_for_no_collector() -> None:
    """Gigabytes of a GPU would wait with them."""
    t = trial()
    gc.collect()
    gc.disable()
    try:
        padder = Padder(t.bag, 1)
        ids = torch.tensor([[[0, 1]]])
        padder.lay_out(ids, padder.counts.shape(ids[0].numpy()))
        del padder
        assert not alive(Plan, Columns, ColumnSource)
    finally:
        gc.enable()
