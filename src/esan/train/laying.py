"""Batches laid out beside the work on those before."""

from collections import deque
from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import Tensor

from esan.bags.packing import Batches
from esan.bags.padding import Padder
from esan.train.captured import Captured

#: How many pieces may wait to be worked on.
_AHEAD = 1


def laid_out(
    padder: Padder, step: Captured, ids: Tensor, size: int, stream: torch.cuda.Stream, aside: torch.cuda.Stream
) -> Iterator[Batches]:
    """The batches of these steps, some at a time; the next ones are laid out beside the work on those that were given.

    Args:
        padder: lays them out.
        step: the work that they are for.
        ids: the graphs of each step and network, on the device.
        size: how many batches are laid out at a time.
        stream: where the work is done.
        aside: where they are laid out.
    """
    # A short piece first, so that the work begins soon.
    begins = [0, *range(max(1, size // 4), len(ids), size)]
    aside.wait_stream(stream)
    ready: Batches | None = None
    worked: deque[torch.cuda.Event] = deque()
    for begin, end in pairwise([*begins, len(ids)]):
        with torch.cuda.stream(aside):
            laid = step.lay_out(padder, ids[begin:end])
        done = aside.record_event()
        if ready is not None:
            yield ready
            worked.append(stream.record_event())
            if len(worked) > _AHEAD:
                # Not too far ahead of the device: what is laid out takes memory.
                worked.popleft().synchronize()
        stream.wait_event(done)
        # Their memory may be used again only when the work on them is over.
        laid.ints.record_stream(stream)
        laid.floats.record_stream(stream)
        ready = laid
    if ready is not None:
        yield ready
