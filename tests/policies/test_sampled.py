"""`Sampled`: the right number of subgraphs, without replacement, uniformly, reproducibly."""

import math

import pytest
import torch

import esan
import strategies


@pytest.mark.parametrize("fraction", [0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0])
def test_size_for_many_bags(fraction: float) -> None:
    sizes = torch.arange(1, 200)
    kept = esan.Sampled(esan.EdgeDeletion(), fraction).sample(sizes)
    got = torch.bincount(torch.repeat_interleave(sizes)[kept], minlength=sizes.numel())
    # In exact arithmetic: 0.7 * 10 is 7, whatever floating point makes of it.
    numerator = round(fraction * 100)
    assert got.tolist() == [-(-numerator * m // 100) for m in sizes.tolist()]
    assert got.min() >= 1


def test_without_replacement() -> None:
    policy = esan.Sampled(esan.EdgeDeletion(), 0.5)
    cycle = strategies.from_edges(8, [(i, (i + 1) % 8) for i in range(8)])
    for _ in range(5):
        removed = esan.Bag.of(cycle, policy, 1).selection.entry_edge.tolist()
        assert len(removed) == len(set(removed)) == 4


def test_uniform() -> None:
    """Every subset of 2 among 5 is as likely: chi-squared over the 10 subsets, fixed seed."""
    generator = torch.Generator().manual_seed(0)
    draws = 4000
    kept = esan.Sampled(esan.Whole(), 0.4).sample(torch.full((draws,), 5), generator).reshape(draws, 5)
    subset = (kept * 2 ** torch.arange(5)).sum(1)
    counts = torch.unique(subset, return_counts=True)[1].double()
    assert counts.numel() == math.comb(5, 2)
    expected = draws / 10
    # 99.9% of uniform draws stay below 27.9 (9 degrees of freedom).
    assert float(((counts - expected) ** 2 / expected).sum()) < 27.9


def test_a_biased_draw_would_be_seen() -> None:
    """The test above can fail: a draw that prefers low numbers exceeds the bound."""
    generator = torch.Generator().manual_seed(0)
    chance = torch.rand(4000, 5, generator=generator) + 0.1 * torch.arange(5)
    kept = chance.argsort(1)[:, :2].sort(1).values
    counts = torch.unique(kept[:, 0] * 5 + kept[:, 1], return_counts=True)[1].double()
    assert float(((counts - 400) ** 2 / 400).sum()) > 27.9


@pytest.mark.parametrize("fraction", [0.01, 0.5, 1.0])
@pytest.mark.parametrize("name", ["ND", "ED", "EGO(1)", "EGO(2)", "EGO+(2)", "SE", "EGO(2)^"])
def test_some_are_those_of_all(name: str, fraction: float) -> None:
    """Where a policy finds some of its subgraphs alone, they are the ones that it finds among all."""
    graphs, policy = esan.graphs.read(strategies.odd_graphs()), esan.policy_named(name)
    every = policy.select(graphs)
    kept = esan.Sampled(policy, fraction).sample(every.num_subgraphs, torch.Generator().manual_seed(0))

    def keep(num_subgraphs: torch.Tensor) -> torch.Tensor:
        assert torch.equal(num_subgraphs, every.num_subgraphs)
        return kept

    assert policy.some(graphs, keep).fingerprint == every.only(kept).fingerprint


class _Deeper(esan.EgoNets):
    """A policy made from another, which overrides `select` only."""

    def select(self, graphs: esan.graphs.Graphs) -> esan.Selection:
        return esan.EgoNets(self.hops + 1, self.marked).select(graphs)


def test_some_of_a_policy_made_from_another() -> None:
    graphs = esan.graphs.read(strategies.odd_graphs())
    every = esan.EgoNets(2).select(graphs)
    assert every.fingerprint != esan.EgoNets(1).select(graphs).fingerprint
    found = _Deeper(1).some(graphs, lambda counts: torch.ones(int(counts.sum()), dtype=torch.bool))
    assert found.fingerprint == every.fingerprint


def test_a_generator_reaches_a_sample_within() -> None:
    """Augmented(Sampled(policy)) draws from the generator too."""
    graphs, policy = strategies.odd_graphs(), esan.Augmented(esan.Sampled(esan.NodeDeletion(), 0.5))
    bags = [esan.Bag.of(graphs, policy, 2, generator=torch.Generator().manual_seed(seed)) for seed in (5, 5, 6)]
    prints = [bag.selection.fingerprint for bag in bags]
    assert prints[0] == prints[1] != prints[2]


@pytest.mark.parametrize("literal", [True, None])
def test_a_generator_makes_it_repeatable(literal: bool | None) -> None:
    graphs, policy = strategies.odd_graphs(), esan.Sampled(esan.NodeDeletion(), 0.5)
    prints: list[tuple[str, str]] = []
    for seed in (5, 5, 6):
        torch.manual_seed(len(prints))
        generator = torch.Generator().manual_seed(seed)
        bag = esan.Bag.of(graphs, policy, 2, literal=literal, generator=generator)
        prints.append((bag.selection.fingerprint, bag.resample(generator).selection.fingerprint))
    assert prints[0] == prints[1] != prints[2]
    assert prints[0][0] != prints[0][1]


def test_a_sample_is_part_of_the_whole_bag() -> None:
    bag = esan.Bag.of(strategies.odd_graphs(), esan.Sampled(esan.EgoNets(1, marked=True), 0.5), 2)
    assert bag.sampled_from is not None

    def roots(of: esan.Bag) -> set[int]:
        return set(of.selection.mark_node.tolist())

    assert roots(bag) < roots(bag.sampled_from)
    seen = roots(bag)
    for _ in range(30):
        bag = bag.resample()
        seen |= roots(bag)
    assert seen == roots(bag.sampled_from)  # type: ignore[arg-type]


def test_sampled_needs_the_marks_of_its_policy() -> None:
    assert esan.Sampled(esan.EgoNets(1, marked=True), 0.5).marked
    assert not esan.Sampled(esan.EgoNets(1), 0.5).marked
    assert esan.Augmented(esan.Sampled(esan.EgoNets(1), 0.5)).random


class _SomeEdge(esan.Policy):
    """A random policy of one's own, which draws from torch's generator alone."""

    random = True

    def select(self, graphs: esan.graphs.Graphs) -> esan.Selection:
        edge = int(torch.randint(graphs.edges.size(1), ()))
        return esan.Selection.deleting(
            graphs, torch.ones_like(graphs.num_nodes), torch.zeros(1).long(), torch.tensor([edge])
        )


def test_a_generator_that_a_policy_cannot_draw_from_is_refused() -> None:
    bag = esan.Bag.of(esan.graphs.cycle(5), _SomeEdge(), 2)
    batches = esan.Loader(bag, generator=torch.Generator())
    with pytest.raises(ValueError, match=r"draw from a generator \(got _SomeEdge\(\), which has select alone\)"):
        list(batches)


def test_bags_of_random_policies_are_drawn_again() -> None:
    torch.manual_seed(0)
    bag = esan.Bag.of(esan.graphs.cycle(20), _SomeEdge(), 2)
    assert len({int(bag.resample().selection.entry_edge) for _ in range(10)}) > 1
    with pytest.raises(ValueError, match="Expected the bag of a random policy"):
        esan.Bag.of(esan.graphs.cycle(5), "ED", 2).resample()


@pytest.mark.parametrize(
    ("counts", "edge", "marks", "match"),
    [
        (torch.tensor([2.0]), torch.tensor([0]), None, r"Expected num_subgraphs as .* 64-bit integers \(got .*float32"),
        (torch.tensor([2]), torch.tensor([0.0]), None, r"Expected edges as .* 64-bit integers \(got .*float32"),
        (torch.tensor([2]), torch.tensor([0]), torch.arange(3), r"Expected marks as two tensors, .* \(got Tensor\)"),
    ],
)
def test_selections_of_other_types(
    counts: torch.Tensor, edge: torch.Tensor, marks: torch.Tensor | None, match: str
) -> None:
    graphs = esan.graphs.read(esan.graphs.cycle(5))
    with pytest.raises(TypeError, match=match):
        esan.Selection.deleting(graphs, counts, torch.tensor([0]), edge, marks)  # type: ignore[arg-type]
