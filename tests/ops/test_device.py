"""What must stay in memory until the device is done with it, also while a CUDA graph is captured."""

import gc
import weakref
from typing import Any

import pytest
import torch

import esan
from esan.graphs import cycle
from esan.ops import device as device_ops


class Event:
    """In place of an event of CUDA."""

    waited = False

    def synchronize(self) -> None:
        self.waited = True


class Kept:
    """Something that can be seen to go."""


def test_objects_go_after_their_event() -> None:
    used, kept = Event(), Kept()
    alive = weakref.ref(kept)
    device_ops.let_go(used, kept)
    del kept
    assert used.waited
    assert alive() is None


def test_nothing_waits_during_a_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting ends it; what would have to wait goes with what is let go next."""
    monkeypatch.setattr(device_ops, "is_capturing", lambda: True)
    used, kept = Event(), Kept()
    alive = weakref.ref(kept)
    device_ops.let_go(used, kept)
    del kept
    assert alive() is not None
    assert not used.waited
    monkeypatch.undo()
    device_ops.let_go(Event())
    assert used.waited
    assert alive() is None


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
