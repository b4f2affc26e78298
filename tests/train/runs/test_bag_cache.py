"""Cached bags: built once, and again when they are stale or broken."""

import gc
from dataclasses import replace
from pathlib import Path
from weakref import ref

import pytest
import torch

from esan.bags import Bag
from esan.graphs import cycle, path
from esan.policies import EdgeDeletion, NodeDeletion, Sampled, Whole
from esan.train import Job, Predictor, cached_bag, run_jobs
from esan.train.engines.engine import literal_bag
from esan.train.runs.prepare_data import cache_file
from small_sets import quick, small


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The policies that bags were built with."""
    calls: list[object] = []
    build = Bag.of

    def noted(*args: object, **kwargs: object) -> Bag:
        calls.append(args[1])
        return build(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Bag, "of", noted)
    return calls


def test_built_once(tmp_path: Path, built: list[object]) -> None:
    dataset, policy = small(), NodeDeletion()
    first, again = (cached_bag(dataset, policy, 2, cache=tmp_path) for _ in range(2))
    assert built == [policy]
    assert torch.equal(first.selection.entry_edge, again.selection.entry_edge)
    assert again.policy == policy
    cached_bag(dataset, EdgeDeletion(), 2, cache=tmp_path)
    cached_bag(dataset, policy, 3, cache=tmp_path)
    assert built == [policy, EdgeDeletion(), policy]


def test_samples_share_the_whole_bag(tmp_path: Path, built: list[object]) -> None:
    bags = [cached_bag(small(), Sampled(NodeDeletion(), part), 2, cache=tmp_path) for part in (0.2, 0.5)]
    assert built == [NodeDeletion()]
    assert [bag.policy for bag in bags] == [Sampled(NodeDeletion(), 0.2), Sampled(NodeDeletion(), 0.5)]
    assert all(bag.sampled_from is not None for bag in bags)


@pytest.mark.exhaustive
def test_samples_of_what_is_too_large_are_drawn_without_the_whole(
    tmp_path: Path, built: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same samples, and so the same training up to rounding, without a whole bag."""
    job, dataset = Job(quick(policy="EGO+(2)@0.4")), small()
    (usual,) = run_jobs([job], tmp_path / "usual", dataset=dataset, cache=tmp_path / "cache")
    network = Predictor.load(job.folder(tmp_path / "usual"))
    result = network.predict(dataset)
    built.clear()
    monkeypatch.setattr("esan.bags.build.build_rows.MOST_PAIRS", 10)
    (record,) = run_jobs([job], None, dataset=dataset, cache=tmp_path / "cache")
    assert built == [Whole()]
    assert [line.loss for line in record.curve] == pytest.approx([line.loss for line in usual.curve], rel=1e-4)
    torch.testing.assert_close(network.predict(dataset).probability, result.probability, rtol=1e-4, atol=1e-5)


def test_other_data_has_another_bag(tmp_path: Path, built: list[object]) -> None:
    dataset = small()
    cached_bag(dataset, NodeDeletion(), 2, cache=tmp_path)
    other = replace(dataset, graphs=replace(dataset.graphs, y=1 - dataset.y))
    assert torch.equal(cached_bag(other, NodeDeletion(), 2, cache=tmp_path).graphs.y, other.y)  # type: ignore[arg-type]
    assert len(built) == 2


def test_stale_and_broken_files_are_built_again(tmp_path: Path, built: list[object]) -> None:
    dataset, policy = small(), NodeDeletion()
    file = cache_file(dataset, policy, 2, tmp_path)
    cached_bag(dataset, policy, 2, cache=tmp_path)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.warns(UserWarning, match="The cached bag is built again: Expected a whole bag file"):
        cached_bag(dataset, policy, 2, cache=tmp_path)
    Bag.of(small(count=8).graphs, policy, 2).save(file)
    with pytest.warns(UserWarning, match="built again: Expected a bag of these graphs"):
        assert len(cached_bag(dataset, policy, 2, cache=tmp_path)) == len(dataset)
    cached_bag(dataset, policy, 2, cache=tmp_path)
    assert len(built) == 4


def test_a_cache_that_cannot_be_written_is_no_reason_to_stop(tmp_path: Path) -> None:
    (tmp_path / "bags").write_text("a file where the folder should be")
    with pytest.warns(UserWarning, match="The bag is not cached for the next run"):
        assert len(cached_bag(small(), NodeDeletion(), 2, cache=tmp_path)) == 24


def test_a_literal_bag_is_made_once_for_all_who_hold_it() -> None:
    bag = Bag.of([cycle(4), path(3)], NodeDeletion(), 2)
    literal = literal_bag(bag)
    assert literal.literal
    assert literal_bag(bag) is literal
    assert literal_bag(literal) is literal
    known = ref(literal)
    del literal
    gc.collect()
    assert known() is None
