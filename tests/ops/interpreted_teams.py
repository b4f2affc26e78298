"""Interpreted: the engine of teams on a GPU that is not there: steps are run, not replayed."""

import gc
from dataclasses import replace
from typing import Any

import pytest
import torch
from interpreting import ONLY_INTERPRETED, poison

import sampled_teams
import sized_teams
import teams
import trials
from esan.bags.padded import batches, plan, shapes
from esan.bags.padded.bag import PaddedBag
from esan.bags.padded.columns import Columns
from esan.bags.padded.padder import Padder
from esan.bags.padded.plan import Plan
from esan.bags.padded.shapes import Shape
from esan.bags.padded.source import Source
from esan.nn import linear
from esan.ops import linear as products
from esan.ops.limits import WIDEST
from esan.ops.triton import gin
from esan.ops.triton.adam import FlatAdam
from esan.train.engines import ensemble_engine as team
from esan.train.engines import ensembles as graphed
from esan.train.engines.ensemble_engine import Team

pytestmark = ONLY_INTERPRETED


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphed, "fits", lambda model, bag: True)


@pytest.fixture
def _laid_out_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are laid out by the kernel's reference implementation: interpreted, the kernel takes half of the time."""
    monkeypatch.setattr(plan, "implementation", lambda family, *tensors: None)


PLAINLY = pytest.mark.usefixtures("_laid_out_plainly")


def trial(**choices: Any) -> trials.Trial:
    return trials.small_trial("cpu", **choices)


@pytest.mark.exhaustive
def test_each_as_if_it_were_alone() -> None:
    """With unequal numbers of batches, the last of which lacks a graph."""
    teams.check_alone(trial(), [torch.arange(1), torch.arange(3)])


@PLAINLY
def test_each_as_if_it_were_alone_for_an_epoch() -> None:
    teams.check_alone(trial(), [torch.arange(1), torch.arange(3)], epochs=1)


@pytest.mark.exhaustive
@PLAINLY
def test_a_step_on_an_empty_batch_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    step = FlatAdam.step
    monkeypatch.setattr(FlatAdam, "step", lambda adam, live: step(adam, torch.ones_like(live)))
    with pytest.raises(AssertionError, match="network 0"):
        teams.check_alone(trial(), [torch.arange(1), torch.arange(3)], epochs=1)


@PLAINLY
def test_batch_after_batch() -> None:
    teams.check_eager(trial(), 1e-4)


@pytest.mark.exhaustive
@PLAINLY
def test_predictions() -> None:
    teams.check_predictions(trial())


@pytest.mark.exhaustive
@PLAINLY
def test_predictions_that_need_more_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shape, "grown", lambda shape, factor: shape)
    teams.check_room(trial(), 1e-4)


@pytest.mark.exhaustive
@PLAINLY
def test_states() -> None:
    teams.check_states(trial())


@pytest.mark.exhaustive
@PLAINLY
def test_leaving() -> None:
    teams.check_leaving(trial())


@pytest.mark.exhaustive
@PLAINLY
def test_out_of_step() -> None:
    teams.check_out_of_step(trial())


@pytest.mark.exhaustive
@PLAINLY
def test_renewed_statistics() -> None:
    """Over batches of another size than that of training, with room for more graphs than there are."""
    t = trial()
    assert t.batch_size != 5 > len(t.train)
    teams.check_renewed(t, 1e-4, 5)


@pytest.mark.exhaustive
def test_fresh_samples() -> None:
    sampled_teams.check_fresh(trial(sampled=0.5))


@pytest.mark.exhaustive
@PLAINLY
def test_samples_of_what_is_never_whole() -> None:
    t = sampled_teams.never_whole("cpu", 6, 4, 3)
    sampled_teams.check_fresh(t)
    sampled_teams.check_whole(t, 1e-4)


@pytest.mark.exhaustive
@PLAINLY
def test_samples_of_several() -> None:
    sampled_teams.check_together(trial(sampled=0.5), [torch.arange(1), torch.arange(3), torch.arange(1, 3)])


@pytest.fixture
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every layer is wider than the kernels take: interpreted, one that is takes minutes."""
    for module in (linear, products, gin):
        monkeypatch.setattr(module, "WIDEST", 1)
    monkeypatch.setattr(team, "_MANY_ROWS", 0)


@pytest.mark.exhaustive
@PLAINLY
@pytest.mark.usefixtures("_wide")
def test_smaller_rooms_for_wide_networks() -> None:
    sized_teams.check_sized(sized_teams.trial("cpu", 6, 8, 3), 1e-4)


@pytest.mark.exhaustive
@PLAINLY
def test_smaller_rooms_for_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_MANY_ROWS", 0)
    sized_teams.check_sized(sized_teams.trial("cpu", 6, 8, 3), 1e-4)


@pytest.mark.exhaustive
@PLAINLY
@pytest.mark.usefixtures("_wide")
@pytest.mark.parametrize(("dropout", "sampled"), [(0.5, None), (0.0, 0.5)])
def test_smaller_rooms_beside_others(dropout: float, sampled: float | None) -> None:
    """What is drawn, for dropout on the literal bag and for samples, depends neither on the room nor on others."""
    sized_teams.check_near_alone(sized_teams.trial("cpu", 6, 8, 3, dropout=dropout, sampled=sampled), 1e-4)


@pytest.mark.parametrize(("width", "sizes"), [(WIDEST + 1, [2, 2, 1]), (WIDEST, [5])])
def test_few_wide_networks_fill_a_device(width: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Teams of them are no larger: all networks of one have the room of the largest batch."""
    t = sized_teams.trial("cpu", 8, 8, width)
    monkeypatch.setattr(graphed, "_ENOUGH", 2.5 * t.bag.num_rows / len(t.bag) * width)
    found = [seat.team for seat in teams.seats(t.engines([0, 1, 2, 3, 4]))]
    assert [len(team.seats) for team in dict.fromkeys(found)] == sizes


@pytest.mark.exhaustive
@PLAINLY
def test_dropout() -> None:
    """With batches of unequal numbers: what one network draws depends neither on the others nor on their steps."""
    teams.check_alone(trial(dropout=0.5), [torch.arange(1), torch.arange(3)])


@pytest.mark.exhaustive
@PLAINLY
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_filler_is_not_read(monkeypatch: pytest.MonkeyPatch, dropout: float) -> None:
    """Steps, predictions and renewed statistics are, to the bit, the same whatever memory held, and how much of it."""
    found = []
    for clean in (True, False):
        if not clean:
            poison(monkeypatch)
            monkeypatch.setattr(shapes, "_MARGIN", 3.0)
        t = trial(dropout=dropout)
        (engine,) = t.engines([0])
        loss = engine.train_epoch(t.train, renew_over=t.batch_size)
        found.append((loss, engine.predict(t.valid), engine.weights()))
    (loss, answer, weights), (poisoned_loss, poisoned_answer, poisoned_weights) = found
    assert bool(poisoned_answer.isfinite().all())
    assert torch.equal(loss, poisoned_loss)
    assert torch.equal(answer, poisoned_answer)
    teams.same_bits(poisoned_weights, weights, "in memory that held NaN")


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
@PLAINLY
def test_kinds() -> None:
    teams.check_kinds(trial())


def alive(*kinds: type) -> list[str]:
    return [type(thing).__name__ for thing in gc.get_objects() if type(thing) in kinds]


def test_nothing_of_a_team_stays() -> None:
    """Neither the team, nor what its steps and batches were made with, once its engines are gone."""

    def train() -> None:
        t = trial()
        engines = t.engines([0])
        teams.epoch(engines, [t.order(0, 0)], t.valid)
        assert alive(Team, Padder, Plan)

    train()
    gc.collect()
    assert not alive(Team, Padder, Plan, PaddedBag, Columns, Source)


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
        assert not alive(Plan, Columns, Source)
    finally:
        gc.enable()
