"""Learning rates against torch's own schedulers, and the stop."""

import pytest
import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau, StepLR

from esan.train.runs.lr_schedule import LRSchedule
from small_sets import quick


def optimiser(lr: float) -> torch.optim.Adam:
    return torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))], lr=lr)


def test_steps_as_torch_has_them() -> None:
    ours = LRSchedule(quick(schedule="step", lr=0.01, period=3, factor=0.5))
    adam = optimiser(0.01)
    theirs = StepLR(adam, 3, 0.5)
    for epoch in range(1, 12):
        assert ours.lr == pytest.approx(adam.param_groups[0]["lr"])
        adam.step()
        ours.step(epoch, 1.0)
        theirs.step()
    assert not ours.is_finished


@pytest.mark.parametrize("seed", range(3))
def test_plateaus_as_torch_has_them(seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    losses = (torch.rand(80, generator=draw) * torch.linspace(1, 0.7, 80)).tolist()
    ours, adam = LRSchedule(quick(schedule="plateau", patience=3, lr=0.01)), optimiser(0.01)
    theirs = ReduceLROnPlateau(adam, factor=0.5, patience=3)
    for epoch, loss in enumerate(losses, start=1):
        ours.step(epoch, loss)
        theirs.step(loss)
        assert ours.lr == pytest.approx(adam.param_groups[0]["lr"])


def test_the_stop_of_zinc() -> None:
    """From 0.001, seven halvings after 21 epochs without progress each."""
    schedule = LRSchedule(quick(schedule="plateau", patience=20, lr=0.001, min_lr=1e-5))
    epoch = 0
    while not schedule.is_finished:
        epoch += 1
        schedule.step(epoch, 1.0)
    assert epoch == 1 + 7 * 21
    assert schedule.lr == 0.001 / 2**7


def test_nothing_changes_without_a_schedule() -> None:
    schedule = LRSchedule(quick(schedule="constant", lr=0.01))
    for epoch in range(1, 100):
        schedule.step(epoch, float("nan"))
    assert schedule.lr == 0.01
    assert not schedule.is_finished


def test_a_loss_that_is_not_a_number_is_no_progress() -> None:
    schedule = LRSchedule(quick(schedule="plateau", patience=0, lr=0.01))
    schedule.step(1, 1.0)
    schedule.step(2, float("nan"))
    assert schedule.lr == 0.005


def test_its_state() -> None:
    recipe = quick(schedule="plateau", patience=2)
    one, other = LRSchedule(recipe), LRSchedule(recipe)
    for epoch in range(1, 6):
        one.step(epoch, 1.0)
    other.load_state_dict(one.state_dict())
    assert other.state_dict() == one.state_dict()
