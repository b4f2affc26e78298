"""Batches laid out beside the work on those before."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from esan.bags.padded_layout.batches import Batches
from esan.bags.padded_layout.padder import Padder
from esan.train.captured import Captured

#: How many pieces may wait to be worked on.
_AHEAD = 1


@dataclass(frozen=True, eq=False)
class Steps:
    """Steps of one shape that follow one another.

    Attributes:
        step: the work on each.
        ids: their graphs, of each network, on the device.
        size: how many batches are laid out at a time.
    """

    step: Captured
    ids: Tensor
    size: int

    def pieces(self, soon: bool) -> Iterator[Tensor]:
        """The graphs of batches that are laid out at a time; few in the first piece, if the work is to begin soon."""
        first = max(1, self.size // 4) if soon else self.size
        for begin, end in pairwise([0, *range(first, len(self.ids), self.size), len(self.ids)]):
            yield self.ids[begin:end]


def laid_out(
    padder: Padder, parts: Sequence[Steps], stream: torch.cuda.Stream, aside: torch.cuda.Stream
) -> Iterator[tuple[Captured, Batches]]:
    """The batches of these steps, some at a time; the next ones are laid out beside the work on those that were given.

    Args:
        padder: lays them out.
        parts: the steps.
        stream: where the work is done.
        aside: where they are laid out.
    """
    aside.wait_stream(stream)
    ready: tuple[Captured, Batches] | None = None
    worked: deque[torch.cuda.Event] = deque()
    for step, ids in ((part.step, ids) for n, part in enumerate(parts) for ids in part.pieces(soon=n == 0)):
        with torch.cuda.stream(aside):
            laid = step.lay_out(padder, ids)
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
        ready = step, laid
    if ready is not None:
        yield ready
