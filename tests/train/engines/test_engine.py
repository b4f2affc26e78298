"""Engines that go batch after batch: which bag a network is trained on, and whose random numbers it draws."""

import warnings
from typing import Any

import pytest
import torch

import esan
from esan.train import EagerEngine, Objective
from small_sets import small


def engine(literal: bool | None, **options: Any) -> EagerEngine:
    dataset = small()
    torch.manual_seed(0)
    model = esan.ds_gnn(dataset.in_channels, 8, 2, 2, **options)
    bag = esan.Bag.of(dataset.graphs, esan.NodeDeletion(), 2, literal=literal)
    return EagerEngine(model, bag, Objective("classification"), 0.01, 5, torch.Generator().manual_seed(0))


@pytest.mark.parametrize("options", [{"dropout": 0.5}, {"readout": "max"}])
def test_what_needs_every_pair_is_trained_on_them_and_nothing_is_said(options: dict[str, Any]) -> None:
    compact, literal = engine(None, **options), engine(True, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        losses = [float(found.train_epoch(torch.arange(24))) for found in (compact, literal)]
        given = [found.predict(torch.arange(24)) for found in (compact, literal)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    # Without dropout, when predicting, the compact bag is exact and rounds in another order.
    torch.testing.assert_close(*given, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("options", [{"dropout": 0.5}, {"readout": "max"}])
def test_a_compact_bag_asked_for_by_name_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Expected a network that is exact on a compact bag"):
        engine(False, **options).train_epoch(torch.arange(24))


def test_dropout_is_drawn_from_the_generator_of_the_job() -> None:
    first, same = engine(None, dropout=0.5), engine(None, dropout=0.5)
    torch.manual_seed(1)
    one = first.train_epoch(torch.arange(24))
    torch.manual_seed(2)
    assert torch.equal(one, same.train_epoch(torch.arange(24)))
    other = engine(None, dropout=0.5)
    other.generator.manual_seed(1)
    assert not torch.equal(one, other.train_epoch(torch.arange(24)))
