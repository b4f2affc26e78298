"""Losses entry by entry against torch's own, with missing targets; scaled targets."""

import pytest
import torch
import torch.nn.functional as F

from esan.train import Objective
from esan.train.engines.objective import objective_for

Y = torch.tensor([[1.0, 0.0], [torch.nan, 1.0], [0.0, torch.nan]])


def test_classes() -> None:
    prediction, y = torch.randn(5, 3), torch.tensor([0, 2, 1, 1, 0])
    terms = Objective("classification").losses(prediction, y)
    assert terms.value.shape == terms.mask.shape == (5, 1)
    torch.testing.assert_close(terms.mean(), F.cross_entropy(prediction, y))


def test_labels_that_are_missing_do_not_count() -> None:
    prediction = torch.randn(3, 2, requires_grad=True)
    terms = Objective("labels").losses(prediction, Y)
    there = torch.isfinite(Y)
    torch.testing.assert_close(terms.mean(), F.binary_cross_entropy_with_logits(prediction[there], Y[there]))
    terms.mean().backward()
    assert prediction.grad is not None
    assert torch.isfinite(prediction.grad).all()
    assert (prediction.grad[~there] == 0).all()


def test_numbers() -> None:
    prediction = torch.randn(3, 2)
    terms = Objective("regression").losses(prediction, Y)
    there = torch.isfinite(Y)
    torch.testing.assert_close(terms.mean(), F.l1_loss(prediction[there], Y[there]))


def test_a_batch_in_which_all_targets_are_missing() -> None:
    terms = Objective("labels").losses(torch.randn(2, 1), torch.full((2, 1), torch.nan))
    assert float(terms.mean()) == 0


def test_scaled_targets() -> None:
    y = torch.tensor([[100.0, 5.0], [102.0, 5.0], [torch.nan, 5.0]])
    objective = objective_for("regression", y, scale_targets=True)
    assert objective.shift is not None
    assert objective.scale is not None
    assert objective.shift.tolist() == [101.0, 5.0]
    assert objective.scale.tolist() == [1.0, 1.0], "a target that never varies keeps its unit"
    inside = torch.tensor([[-1.0, 0.0], [1.0, 0.0], [3.0, 0.0]])
    assert objective.losses(inside, y).value[:2].tolist() == [[0.0, 0.0], [0.0, 0.0]]
    torch.testing.assert_close(objective.unscale(inside)[0], y[0])
    assert objective_for("classification", torch.tensor([0, 1]), True).shift is None
    assert Objective("regression").unscale(inside) is inside


def test_other_kinds() -> None:
    with pytest.raises(ValueError, match="Expected a task of the kind classification"):
        Objective("ranking")
