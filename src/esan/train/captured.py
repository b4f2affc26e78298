"""`Captured`: work on a batch as one graph of kernels, captured once and replayed for every batch of its shape."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from esan.bags.laid import Noted
from esan.bags.packing import Batches
from esan.bags.padded import PaddedBag
from esan.bags.padding import Padder
from esan.bags.shapes import Shape

if TYPE_CHECKING:
    from esan.train.team import Team


class Captured:
    """A piece of work captured over the memory of one batch, replayed for each."""

    def __init__(self, team: "Team", padder: Padder, shape: Shape, work: Callable[[PaddedBag], Any]) -> None:
        self.shape, self._networks = shape, team.networks
        #: The fields that the work reads; no others are laid out.
        self._only = _read(team, padder, shape, work)
        batches = padder.blank(shape, team.networks, self._only)
        self._ints, self._floats = batches.ints[0].long(), batches.floats[0]
        #: Bytes of a batch that waits to be worked on.
        self.nbytes = batches.ints.nbytes + batches.floats.nbytes
        fields = batches.views(self._ints, self._floats)
        del batches
        #: What the work gave, in memory that every replay writes anew, and that of other work too.
        self.out: Any = None

        def run() -> None:
            # A new bag each time: what it keeps would otherwise be that of the first batch.
            self.out = work(PaddedBag.over(fields, shape, team.bag, team.networks, team.side))

        run()
        team.optimiser.zero_grad()
        torch.cuda.synchronize(team.device)
        self._replay = record(run, team.stream, team.pool)

    def lay_out(self, padder: Padder, ids: Tensor) -> Batches:
        return padder.lay_out(ids, self.shape, self._networks, self._only)

    def run(self, batches: Batches, k: int) -> None:
        self._ints.copy_(batches.ints[k])
        self._floats.copy_(batches.floats[k])
        self._replay()


def _read(team: "Team", padder: Padder, shape: Shape, work: Callable[[PaddedBag], Any]) -> frozenset[str]:
    """The fields that some work reads, found by asking for all its kernels; these are compiled on the way."""
    from esan.kernels.gpu_compile import compiled_together

    # An empty batch: the runs that warm up leave no trace.
    batches = padder.blank(shape, team.networks)
    noted = Noted(batches.views(batches.ints[0], batches.floats[0]))
    with team.unchanged(), compiled_together():
        work(PaddedBag.over(noted, shape, team.bag, team.networks, team.side))
    return noted.read


def record(run: Callable[[], None], stream: torch.cuda.Stream, pool: Any) -> Callable[[], None]:
    """What launches again all kernels that `run` launches, in one go.

    Args:
        run: launches them.
        stream: where.
        pool: of the memory that they work in. What is recorded in one pool must never run side by side, and what it
            gives holds until something else of that pool runs.
    """
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
        run()
    return graph.replay
