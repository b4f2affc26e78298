"""Metrics against scikit-learn's, with missing labels as OGB has it; and averages over samples."""

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from esan.train.runs.metrics import METRICS, accuracy, combine_samples, mae, rocauc
from esan.train.runs.records import HIGHER_IS_BETTER


def test_every_metric_has_a_direction() -> None:
    assert set(METRICS) == set(HIGHER_IS_BETTER)


def test_accuracy_is_an_exact_part() -> None:
    scores = torch.eye(3).repeat(7, 1)[:19]
    y = scores.argmax(1)
    y[:6] = (y[:6] + 1) % 3
    assert accuracy(scores, y) == 13 / 19


def test_mae_of_what_is_there() -> None:
    assert mae(torch.tensor([[1.0], [2.0], [9.0]]), torch.tensor([[0.0], [4.0], [torch.nan]])) == 1.5


def ogb(prediction: np.ndarray, y: np.ndarray) -> float:
    """As OGB's evaluator: the mean over the tasks that have a positive and a negative label."""
    areas = []
    for task in range(y.shape[1]):
        known = ~np.isnan(y[:, task])
        if (y[known, task] == 1).any() and (y[known, task] == 0).any():
            areas.append(roc_auc_score(y[known, task], prediction[known, task]))
    return sum(areas) / len(areas)


@pytest.mark.parametrize("seed", range(5))
def test_rocauc_as_ogb_defines_it(seed: int) -> None:
    draw = np.random.default_rng(seed)
    y = draw.integers(0, 2, (40, 6)).astype(float)
    y[draw.random(y.shape) < 0.3] = np.nan
    y[:, 4] = 1  # a task with one answer does not count
    prediction = draw.normal(size=y.shape).round(1)  # with ties
    found = rocauc(torch.from_numpy(prediction), torch.from_numpy(y))
    assert found == pytest.approx(ogb(prediction, y), abs=1e-6)


def test_rocauc_of_scores_far_out() -> None:
    """A sigmoid in single precision would make the two highest scores equal."""
    assert rocauc(torch.tensor([[-200.0], [100.0], [200.0]]), torch.tensor([[0.0], [0.0], [1.0]])) == 1.0


def test_rocauc_without_both_answers() -> None:
    assert np.isnan(rocauc(torch.randn(3, 1), torch.ones(3, 1)))


def test_the_majority_wins() -> None:
    sure, unsure = [0.0, 9.0], [0.1, 0.0]
    samples = torch.tensor([[sure, unsure], [unsure, unsure], [unsure, unsure]])
    outcome = combine_samples(samples, "classification")
    assert outcome.prediction.argmax(1).tolist() == [0, 0], "not the one who is loudest"
    assert outcome.spread is not None
    assert outcome.spread[:, 0].tolist() == pytest.approx([1 / 3, 0.0])


def test_a_tie_is_decided_by_the_mean_probability() -> None:
    samples = torch.tensor([[[0.0, 5.0]], [[0.5, 0.0]]])
    outcome = combine_samples(samples, "classification")
    assert outcome.prediction.argmax(1).tolist() == [1]
    assert outcome.spread is not None
    assert outcome.spread.tolist() == [[0.5]]


def test_numbers_and_labels_are_averaged() -> None:
    samples = torch.tensor([[[1.0, 0.0]], [[3.0, 0.0]]])
    numbers = combine_samples(samples, "regression")
    assert numbers.prediction.tolist() == [[2.0, 0.0]]
    assert numbers.spread is not None
    assert numbers.spread.tolist() == [[1.0, 0.0]]
    labels = combine_samples(samples, "labels")
    assert labels.prediction.tolist() == [[2.0, 0.0]]
    assert labels.spread is not None
    assert labels.spread[0, 0] == pytest.approx(float(samples[:, 0, 0].sigmoid().std(correction=0)))


def test_one_sample_has_no_spread() -> None:
    samples = torch.randn(1, 4, 3)
    assert combine_samples(samples, "classification").spread is None
    assert torch.equal(combine_samples(samples, "classification").prediction, samples[0])
