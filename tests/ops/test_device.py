"""What must stay in memory until the device is done with it, also while a CUDA graph is captured."""

import gc
from typing import Any

import pytest
import torch

import esan
from esan.graphs import cycle
from esan.ops import device as device_ops


class Event:
    """In place of an event of CUDA."""

    def __init__(self, passed: bool) -> None:
        self.passed = passed

    def query(self) -> bool:
        return self.passed


class Kept:
    """Something that can be seen to go."""


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    device_ops._KEPT.clear()


def kept() -> int:
    return len(device_ops._KEPT)


def test_kept_until_an_event_has_passed() -> None:
    first, second = Event(False), Event(True)
    device_ops.keep_until(first, Kept())
    device_ops.keep_until(second, Kept())
    assert kept() == 1
    first.passed = True
    device_ops.release_kept()
    assert not kept()


def test_nothing_is_asked_during_a_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks about an event there ends the capture."""
    monkeypatch.setattr(device_ops, "is_capturing", lambda: True)
    device_ops.keep_until(Event(True), Kept())
    assert kept() == 1
    monkeypatch.undo()
    device_ops.release_kept()
    assert not kept()


@pytest.mark.gpu
def test_a_loader_that_goes_during_a_capture(gpu: torch.device) -> None:
    """Whether the collector finds it or its last reference goes; the collector is left as it was."""
    bag, x = esan.Bag.of([cycle(n) for n in range(4, 9)], "ND", 2), torch.ones(3, device=gpu)

    def used() -> list[Any]:
        loader = esan.Loader(bag, 2, device=gpu)
        return [loader, *loader]

    held, cyclic = used(), used()
    cyclic.append(cyclic)
    del cyclic

    def work() -> torch.Tensor:
        held.clear()
        made: list[list[int]] = [[] for _ in range(1000)]
        return x + len(made)

    before, threshold = gc.isenabled(), gc.get_threshold()
    gc.enable()
    gc.set_threshold(1)
    try:
        recording = device_ops.Recording(work, device_ops.graph_pool(), gpu)
        assert gc.isenabled()
        gc.disable()
        device_ops.Recording(work, device_ops.graph_pool(), gpu)
        assert not gc.isenabled()
    finally:
        gc.set_threshold(*threshold)
        (gc.enable if before else gc.disable)()
    recording.replay()
    assert recording.results.tolist() == [1001.0] * 3
