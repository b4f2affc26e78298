"""Samples for several networks at once are those that each would draw alone."""

import pytest
import torch

import esan
import strategies
from esan.train.engines import resample as fresh
from esan.train.engines.resample import bag_of, fresh_bag, sample_fits
from esan.train.engines.samples import Draws, FreshSamples, Samples, most_together, samples_of


def _bag(fraction: float = 0.4) -> esan.Bag:
    graphs = [strategies.from_edges(5 + i, [(v, v + 1) for v in range(4 + i)], i) for i in range(7)]
    return esan.Bag.of(graphs, esan.Sampled(esan.NodeDeletion(), fraction), 2)


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_numbers_that_are_looked_at_do_not_move_the_generator() -> None:
    generator, alone = _generator(0), _generator(0)
    draws = Draws(generator)
    expected = [torch.rand(5, generator=alone, dtype=torch.float64) for _ in range(3)]
    before = generator.get_state()
    # In any order, and as often as one likes.
    for place in (1, 0, 2, 1):
        assert torch.equal(draws.look(place, 5), expected[place])
    assert torch.equal(generator.get_state(), before)
    draws.take(1)
    assert torch.equal(torch.rand(5, generator=generator, dtype=torch.float64), expected[2])
    draws.forget()
    next_one = torch.rand(5, generator=alone, dtype=torch.float64)
    assert torch.equal(draws.look(0, 5), next_one)


@pytest.mark.parametrize(
    "orders", [[[3, 0, 6], [2, 2, 5], []], [[1, 4]], [[6], [6]]], ids=["several, one of none", "one", "the same"]
)
def test_each_has_the_sample_that_it_has_alone(orders: list[list[int]]) -> None:
    bag = _bag()
    wanted = [torch.tensor(order, dtype=torch.long) for order in orders]
    taken = Samples(bag)
    together, moved = taken.of(wanted, [esan.Sampled.numbers(taken.count, _generator(k)) for k in range(len(orders))])
    assert together.policy == bag.policy
    for k, (order, places) in enumerate(zip(wanted, moved, strict=True)):
        alone = bag.resample(_generator(k))
        assert len(order) == len(places)
        if len(order):
            mine, theirs = together[places], alone[order]
            assert mine.selection.fingerprint == theirs.selection.fingerprint
            assert mine.rows.fingerprint == theirs.rows.fingerprint
            assert mine.graphs.fingerprint == theirs.graphs.fingerprint


def test_samples_of_what_is_never_whole() -> None:
    """Those of the graphs that are asked for, each with its part of the subgraphs; by the number that is given."""
    policy = esan.Sampled(esan.EgoNets(1, marked=True), 0.4)
    bag = fresh_bag(_bag().graphs, policy, 2)
    taken, order = samples_of(bag), torch.tensor([3, 0, 6, 3])
    assert isinstance(taken, FreshSamples)
    assert most_together(bag, literal=False) == 1
    found = []
    for seed in (0, 0, 1):
        sample, (places,) = taken.of([order], [esan.Sampled.numbers(taken.count, _generator(seed))])
        assert sample.graphs.num_nodes.tolist() == [5, 8, 11]
        assert sample.selection.num_subgraphs.tolist() == [2, 4, 5]
        assert places.tolist() == [1, 0, 2, 1]
        found.append(sample.rows.fingerprint)
    assert found[0] == found[1] != found[2]


def test_samples_of_two_differ() -> None:
    bag, everything = _bag(), torch.arange(7)
    taken = Samples(bag)
    together, moved = taken.of([everything] * 2, [esan.Sampled.numbers(taken.count, _generator(k)) for k in (0, 1)])
    one, other = (together[places].selection.fingerprint for places in moved)
    assert one != other


def test_what_is_remembered_is_bounded() -> None:
    bag = _bag()
    assert bag.whole is not None
    taken = Samples(bag, 3 * bag.whole.nbytes)
    for first in range(6):
        orders = [torch.arange(first, 7), torch.arange(7)]
        taken.of(orders, [esan.Sampled.numbers(taken.count, _generator(k)) for k in (0, 1)])
        held = sum(part.whole.nbytes for part in taken._parts.values())
        assert held <= 3.75 * bag.whole.nbytes
    assert len(taken._parts) > 1


def test_a_team_is_as_large_as_whole_bags_allow() -> None:
    bag = _bag(0.2)
    assert bag.whole is not None
    assert bag.nbytes < bag.whole.nbytes
    assert most_together(bag, literal=False, most_bytes=3 * bag.whole.nbytes) == 3
    assert most_together(bag, literal=True, most_bytes=3 * bag.whole.nbytes) <= 3
    assert most_together(bag, literal=False, most_bytes=1) == 1


def test_samples_too_large_to_hold_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where even the sample of all graphs is too large, each batch has its own, as on a CPU."""
    graphs = _bag().graphs
    monkeypatch.setattr(fresh, "MOST_SAMPLED", int((graphs.num_nodes**2).sum()) // 2)
    few, many = (esan.Sampled(esan.EgoNets(1), fraction) for fraction in (0.1, 0.9))
    assert sample_fits(few, graphs)
    assert not sample_fits(many, graphs)


def test_a_sample_of_a_sample() -> None:
    """Both are drawn anew for every batch: 5, 8 and 11 nodes, of which half, rounded up, and of these half."""
    policy = esan.Sampled(esan.Sampled(esan.EgoNets(1), 0.5), 0.5)
    bag = bag_of(_bag().graphs, policy, 2)
    batches = [esan.Loader(bag, generator=_generator(seed)).batch(torch.tensor([0, 3, 6])) for seed in (0, 1)]
    assert [batch.selection.num_subgraphs.tolist() for batch in batches] == [[2, 2, 3]] * 2
    assert batches[0].selection.fingerprint != batches[1].selection.fingerprint
