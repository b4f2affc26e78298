"""Samples for several networks at once are those that each would draw alone."""

import pytest
import torch

import esan
import strategies
from esan.train.engines import subgraph_sampling
from esan.train.engines.subgraph_sampling import (
    BagSampler,
    GraphSampler,
    SampleNumbers,
    graphs_only_bag,
    max_members,
    sample_fits_memory,
    sampler_for,
    training_bag,
)


def _bag(fraction: float = 0.4) -> esan.Bag:
    graphs = [strategies.from_edges(5 + i, [(v, v + 1) for v in range(4 + i)], i) for i in range(7)]
    return esan.Bag.of(graphs, esan.Sampled(esan.NodeDeletion(), fraction), 2)


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_peeking_does_not_move_the_generator() -> None:
    generator, alone = _generator(0), _generator(0)
    numbers = SampleNumbers(generator)
    expected = [torch.rand(5, generator=alone, dtype=torch.float64) for _ in range(3)]
    before = generator.get_state()
    # In any order, and as often as one likes.
    for index in (1, 0, 2, 1):
        assert torch.equal(numbers.peek(index, 5), expected[index])
    assert torch.equal(generator.get_state(), before)
    numbers.advance(1)
    assert torch.equal(torch.rand(5, generator=generator, dtype=torch.float64), expected[2])
    numbers.restart()
    next_one = torch.rand(5, generator=alone, dtype=torch.float64)
    assert torch.equal(numbers.peek(0, 5), next_one)


@pytest.mark.parametrize(
    "orders", [[[3, 0, 6], [2, 2, 5], []], [[1, 4]], [[6], [6]]], ids=["several, one of none", "one", "the same"]
)
def test_each_has_the_sample_that_it_has_alone(orders: list[list[int]]) -> None:
    bag = _bag()
    wanted = [torch.tensor(order, dtype=torch.long) for order in orders]
    sampler = BagSampler(bag)
    together, moved = sampler.sample(
        wanted, [esan.Sampled.numbers(sampler.count, _generator(k)) for k in range(len(orders))]
    )
    assert together.policy == bag.policy
    for k, (order, ids) in enumerate(zip(wanted, moved, strict=True)):
        alone = bag.resample(_generator(k))
        assert len(order) == len(ids)
        if len(order):
            mine, theirs = together[ids], alone[order]
            assert mine.selection.fingerprint == theirs.selection.fingerprint
            assert mine.rows.fingerprint == theirs.rows.fingerprint
            assert mine.graphs.fingerprint == theirs.graphs.fingerprint


def test_samples_of_a_bag_too_large_for_memory() -> None:
    """Of the given graphs, each with its fraction of the subgraphs, decided by the given number."""
    policy = esan.Sampled(esan.EgoNets(1, marked=True), 0.4)
    bag = graphs_only_bag(_bag().graphs, policy, 2)
    sampler, order = sampler_for(bag), torch.tensor([3, 0, 6, 3])
    assert isinstance(sampler, GraphSampler)
    assert max_members(bag, literal=False) == 1
    found = []
    for seed in (0, 0, 1):
        sample, (ids,) = sampler.sample([order], [esan.Sampled.numbers(sampler.count, _generator(seed))])
        assert sample.graphs.num_nodes.tolist() == [5, 8, 11]
        assert sample.selection.num_subgraphs.tolist() == [2, 4, 5]
        assert ids.tolist() == [1, 0, 2, 1]
        found.append(sample.rows.fingerprint)
    assert found[0] == found[1] != found[2]


def test_samples_of_two_differ() -> None:
    bag, everything = _bag(), torch.arange(7)
    sampler = BagSampler(bag)
    together, moved = sampler.sample(
        [everything] * 2, [esan.Sampled.numbers(sampler.count, _generator(k)) for k in (0, 1)]
    )
    one, other = (together[ids].selection.fingerprint for ids in moved)
    assert one != other


def test_the_cache_is_bounded() -> None:
    bag = _bag()
    assert bag.sampled_from is not None
    sampler = BagSampler(bag, max_bytes=3 * bag.sampled_from.nbytes)
    for first in range(6):
        orders = [torch.arange(first, 7), torch.arange(7)]
        sampler.sample(orders, [esan.Sampled.numbers(sampler.count, _generator(k)) for k in (0, 1)])
        cached = sum(part.whole.nbytes for part in sampler._cache.values())
        assert cached <= 3.75 * bag.sampled_from.nbytes
    assert len(sampler._cache) > 1


def test_an_ensemble_is_as_large_as_whole_bags_allow() -> None:
    bag = _bag(0.2)
    assert bag.sampled_from is not None
    assert bag.nbytes < bag.sampled_from.nbytes
    assert max_members(bag, literal=False, max_bytes=3 * bag.sampled_from.nbytes) == 3
    assert max_members(bag, literal=True, max_bytes=3 * bag.sampled_from.nbytes) <= 3
    assert max_members(bag, literal=False, max_bytes=1) == 1


def test_samples_too_large_for_memory_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where even the sample of all graphs is too large, each batch has its own, as on a CPU."""
    graphs = _bag().graphs
    monkeypatch.setattr(subgraph_sampling, "MAX_SAMPLED_PAIRS", int((graphs.num_nodes**2).sum()) // 2)
    few, many = (esan.Sampled(esan.EgoNets(1), fraction) for fraction in (0.1, 0.9))
    assert sample_fits_memory(few, graphs)
    assert not sample_fits_memory(many, graphs)


def test_a_sample_of_a_sample() -> None:
    """Both are drawn again for every batch: 5, 8 and 11 nodes, of which half, rounded up, and of these half."""
    policy = esan.Sampled(esan.Sampled(esan.EgoNets(1), 0.5), 0.5)
    bag = training_bag(_bag().graphs, policy, 2)
    batches = [esan.Loader(bag, generator=_generator(seed)).batch(torch.tensor([0, 3, 6])) for seed in (0, 1)]
    assert [batch.selection.num_subgraphs.tolist() for batch in batches] == [[2, 2, 3]] * 2
    assert batches[0].selection.fingerprint != batches[1].selection.fingerprint
