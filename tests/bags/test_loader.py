"""`Loader`: every graph once an epoch, in a fresh order, with a fresh sample."""

import warnings
from collections.abc import Iterable, Iterator
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DistributedSampler

import esan
import strategies
from esan.bags import loader


def _bag(policy: esan.Policy, count: int = 10, literal: bool | None = None) -> esan.Bag:
    graphs = [strategies.from_edges(6, [(i, (i + 1) % 6) for i in range(6)], seed) for seed in range(count)]
    for place, graph in enumerate(graphs):
        graph.y = torch.tensor([place])
    return esan.Bag.of(graphs, policy, 2, literal=literal)


def _labels(loader: Iterable[esan.Bag]) -> list[list[int]]:
    labels = []
    for bag in loader:
        assert bag.y is not None
        labels.append(bag.y.tolist())
    return labels


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("policy", [esan.EdgeDeletion(), esan.Sampled(esan.EdgeDeletion(), 0.5)], ids=repr)
def test_every_graph_once_an_epoch(policy: esan.Policy, shuffle: bool) -> None:
    loader = esan.Loader(_bag(policy), batch_size=4, shuffle=shuffle)
    epochs = [_labels(loader) for _ in range(2)]
    assert len(loader) == 3
    for epoch in epochs:
        assert [len(batch) for batch in epoch] == [4, 4, 2]
        assert sorted(chain(*epoch)) == list(range(10))
    assert (epochs[0] != epochs[1]) == shuffle
    assert (list(chain(*epochs[0])) == list(range(10))) != shuffle


def test_drop_last() -> None:
    loader = esan.Loader(_bag(esan.EdgeDeletion()), batch_size=4, drop_last=True)
    assert len(loader) == 2
    assert _labels(loader) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    whole = esan.Loader(_bag(esan.EdgeDeletion()), batch_size=5, drop_last=True)
    assert len(whole) == len(_labels(whole)) == 2


def test_batches_are_parts_of_the_bag() -> None:
    bag = _bag(esan.EgoNets(1, marked=True))
    for batch, ids in zip(esan.Loader(bag, batch_size=3), ([0, 1, 2], [3, 4, 5], [6, 7, 8], [9]), strict=True):
        assert batch.rows.fingerprint == bag[ids].rows.fingerprint


@pytest.mark.parametrize("batch_size", [0, -3])
def test_batch_size_out_of_range(batch_size: int) -> None:
    with pytest.raises(ValueError, match=rf"Expected batch_size of at least 1 \(got {batch_size}\)"):
        esan.Loader(_bag(esan.EdgeDeletion()), batch_size)


def _drawn(loader: esan.Loader) -> list[str]:
    return [batch.selection.fingerprint for batch in loader]


@pytest.mark.parametrize("literal", [True, None])
def test_samples_are_redrawn_each_epoch(literal: bool | None) -> None:
    bag = _bag(esan.Sampled(esan.NodeDeletion(), 0.5), literal=literal)
    loader = esan.Loader(bag, batch_size=5)
    first, second = _drawn(loader), _drawn(loader)
    assert first[0] != second[0]
    assert first[1] != second[1]
    for batch in loader:
        assert batch.selection.num_subgraphs.tolist() == [3] * 5
        assert batch.literal == bool(literal)


def test_a_generator_makes_epochs_repeatable() -> None:
    bag = _bag(esan.Sampled(esan.NodeDeletion(), 0.5))
    runs: list[object] = []
    for seed in (1, 1, 2):
        torch.manual_seed(len(runs))  # nothing may come from torch's own generator
        loader = esan.Loader(bag, 4, shuffle=True, generator=torch.Generator().manual_seed(seed))
        runs.append((_labels(loader), _drawn(loader), _drawn(loader)))
    assert runs[0] == runs[1] != runs[2]


def test_part_of_a_sampled_bag_is_redrawn_from_the_generator() -> None:
    """A training split is `bag[ids]`: it samples, and repeats itself, as the whole bag does."""
    part = _bag(esan.Sampled(esan.NodeDeletion(), 0.5))[[0, 2, 4, 6]]
    runs: list[object] = []
    for _ in range(2):
        torch.manual_seed(len(runs))
        loader = esan.Loader(part, 4, generator=torch.Generator().manual_seed(1))
        runs.append([_drawn(loader), _drawn(loader)])
    assert runs[0] == runs[1]
    assert _drawn(loader) != _drawn(loader)
    assert part.resample().num_subgraphs == 4 * 3


def test_a_random_policy_of_ones_own_is_redrawn() -> None:
    bag = _bag(esan.Augmented(esan.Sampled(esan.NodeDeletion(), 0.5)))
    loader = esan.Loader(bag, batch_size=10)
    assert _drawn(loader) != _drawn(loader)


class OwnDeletion(esan.NodeDeletion):
    """A policy whose name esan cannot read back."""


def test_samples_of_an_own_policy_after_loading(tmp_path: Path) -> None:
    """A bag that is read with its policy draws afresh; one that is read without says what is missing."""
    policy = esan.Sampled(OwnDeletion(), 0.5)
    esan.Bag.of(esan.graphs.cycle(20), policy, 2).save(tmp_path / "bag.npz")
    loader = esan.Loader(esan.Bag.load(tmp_path / "bag.npz", policy=policy))
    prints = {next(iter(loader)).selection.fingerprint for _ in range(4)}
    assert len(prints) > 1
    assert next(iter(loader)).policy == policy
    with pytest.raises(ValueError, match=r"Expected the policy of a sampled bag .*Bag\.load\(path, policy="):
        esan.Loader(esan.Bag.load(tmp_path / "bag.npz"))


def test_only_bags_are_loaded() -> None:
    with pytest.raises(TypeError, match=r"Expected a Bag \(got list\)"):
        esan.Loader([esan.graphs.cycle(3)])  # type: ignore[arg-type]


def test_a_bag_too_large_to_be_built_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only samples are stored; each batch and each new sample selects again; equal numbers give equal samples."""
    graphs, policy = strategies.odd_graphs(), esan.Sampled(esan.EgoNets(1, marked=True), 0.5)
    usual = esan.Bag.of(graphs, policy, 2, generator=torch.Generator().manual_seed(0))
    monkeypatch.setattr("esan.bags.build.build_rows.MOST_PAIRS", 10)
    bag = esan.Bag.of(graphs, policy, 2, generator=torch.Generator().manual_seed(0))
    assert usual.sampled_from is not None
    assert bag.sampled_from is None
    assert "whole" in repr(usual)
    assert "whole" not in repr(bag)
    ids = torch.tensor([3, 0, 2])
    for make in (
        lambda bag, seed: bag,
        lambda bag, seed: bag.resample(torch.Generator().manual_seed(seed)),
        lambda bag, seed: esan.Loader(bag, generator=torch.Generator().manual_seed(seed)).batch(ids),
    ):
        mine, theirs = make(bag, 1), make(usual, 1)
        assert mine.selection.fingerprint == theirs.selection.fingerprint
        assert mine.rows.fingerprint == theirs.rows.fingerprint
        assert mine.policy == policy
    first, second = (bag.resample(torch.Generator().manual_seed(seed)).selection.fingerprint for seed in (1, 2))
    assert first != second


def test_what_it_is_called() -> None:
    bag = _bag(esan.EdgeDeletion(), 3)
    chosen = "batch_size=2, shuffle=False, drop_last=False, device='cpu', padded=False"
    assert repr(esan.Loader(bag, 2)) == f"Loader({bag!r}, {chosen})"


def test_several_processes_without_a_sampler_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "in_several_processes", lambda: True)
    bag = _bag(esan.NodeDeletion(), 4)
    with pytest.warns(UserWarning, match=r"Every process goes through all graphs.*DistributedSampler") as caught:
        assert len(list(esan.Loader(bag, batch_size=2))) == 2
    assert caught[0].filename == __file__
    everything: Any = range(4)
    shares: list[Any] = [DistributedSampler(everything, 2, rank, shuffle=False) for rank in range(2)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [_labels(esan.Loader(bag, batch_size=2, sampler=share)) for share in shares] == [[[0, 2]], [[1, 3]]]


PADDED = pytest.mark.parametrize("padded", [False, True])


@PADDED
def test_a_sampler_is_read_as_batches_are_asked_for(padded: bool) -> None:
    """It may be endless, and may follow what was learned from the batches so far."""
    bag, drawn = _bag(esan.NodeDeletion(), 6), 0

    def endless() -> Iterator[int]:
        nonlocal drawn
        while True:
            drawn += 1
            yield drawn % 6

    class Endless:
        def __iter__(self) -> Iterator[int]:
            return endless()

    loader = esan.Loader(bag, 2, sampler=Endless(), padded=padded)
    assert _labels(islice(loader, 4)) == [[1, 2], [3, 4], [5, 0], [1, 2]]
    assert drawn <= (2 * 16 if padded else 2 * 4)
    pairs = ([k % 6, (k + 1) % 6] for k in count())
    batches = islice(esan.Loader(bag, batch_sampler=pairs, padded=padded), 20)
    assert _labels(batches) == [[k % 6, (k + 1) % 6] for k in range(20)]


@PADDED
@pytest.mark.parametrize("drop_last", [False, True])
def test_a_sampler_with_a_rest(padded: bool, drop_last: bool) -> None:
    loader = esan.Loader(_bag(esan.NodeDeletion(), 6), 2, drop_last=drop_last, sampler=[4, 1, 5], padded=padded)
    assert _labels(loader) == [[4, 1], [5]][: len(loader)]
    with pytest.raises(ValueError, match=r"Expected the numbers of graphs from a sampler \(got \[\]\)"):
        list(esan.Loader(loader.bag, 2, sampler=[], padded=padded))


@PADDED
def test_numbers_of_a_sampler_are_those_of_graphs(padded: bool) -> None:
    """Below 0 they count from the end, as in a list; padding has the number −1 inside, which nobody may meet."""
    bag = _bag(esan.NodeDeletion(), 6)
    options: dict[str, Any]
    for options in ({"batch_sampler": [[-1, 0], [2, -6]]}, {"batch_size": 2, "sampler": [-1, 0, 2, -6]}):
        loader = esan.Loader(bag, padded=padded, **options)
        assert _labels(loader) == [[5, 0], [2, 0]]
    for wrong in (6, -7):
        with pytest.raises(IndexError, match=rf"Expected the numbers of 6 graphs from a sampler \(got {wrong}\)"):
            list(esan.Loader(bag, 2, sampler=[0, wrong], padded=padded))


@pytest.mark.parametrize(
    ("members", "lists", "got"),
    [(1, [[0, 1], [2, 3]], "2 lists for 1 member"), (2, [[0, 1], [2, 3], [4, 5]], "3 lists for 2 members")],
)
def test_a_list_for_each_member(members: int, lists: list[list[int]], got: str) -> None:
    bag = _bag(esan.NodeDeletion(), 6)
    with pytest.raises(ValueError, match=rf"Expected one list of graphs per batch, or one per member \(got {got}\)"):
        list(esan.Loader(bag, batch_sampler=[lists], padded=True, members=members))
    for options in ({"batch_sampler": [[[0, 1], [2]]], "members": 2}, {"sampler": [[0, 1], [2, 3]]}):
        with pytest.raises(ValueError, match=r"Expected the numbers of graphs from a sampler \(got \[\[0, 1\], \[2"):
            list(esan.Loader(bag, **{"padded": True, "batch_size": 2 if "sampler" in options else 1} | options))


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"padded": "no"}, r"Expected padded to be True or False \(got 'no'\)"),
        ({"sizes": 3}, r"Expected sizes of esan\.bags\.padded\.shapes\.Sizes \(got 3\)"),
        ({"sampler": 5}, r"Expected sampler to yield numbers of graphs \(got 5\)"),
        ({"batch_sampler": 5}, r"Expected batch_sampler to yield numbers of graphs \(got 5\)"),
    ],
    ids=str,
)
def test_arguments_of_other_types(arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(TypeError, match=match):
        esan.Loader(esan.Bag.of([esan.graphs.cycle(5)] * 2, "ED", 2), **arguments)
