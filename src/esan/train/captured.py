"""`Captured`: work on a batch as one graph of kernels, captured once and replayed for every batch of its shape; and
`Captures`, for the shapes that the batches of a team have."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import numpy as np
import torch
from torch import Tensor

from esan.bags.laid import Noted
from esan.bags.padded import PaddedBag
from esan.bags.padded_layout.batches import Batches
from esan.bags.padded_layout.padder import Padder
from esan.bags.padded_layout.shapes import COARSE, FINE, Rooms, Shape, sized
from esan.nn.linear import is_wide

if TYPE_CHECKING:
    from esan.train.team import Team


#: Rows of all networks from which on the time that filler takes is worth capturing work for smaller rooms too.
_MANY_ROWS = 2**14
#: Rows of a network from which on it is, even where filler is skipped: so many programs that do nothing take time.
_TOO_MANY_ROWS = 2**20


@cache
def streams_of(device: torch.device) -> list[torch.cuda.Stream]:
    """Those of all teams on a device: libraries keep memory for every stream that they have worked on."""
    # Torch's own work in the thread of gradients, so that it has a context: libraries warn where they find none.
    torch.ones(1, device=device, requires_grad=True).sum().backward()
    return [torch.cuda.Stream(device) for _ in range(3)]


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
            self.out = work(PaddedBag.over(fields, shape, padder.bag, team.networks, team.side))

        run()
        team.optimiser.zero_grad()
        torch.cuda.synchronize(team.device)
        self._replay = record(run, team.stream, _pool_of(team.stream))
        _pools[team.stream][1].add(self)

    def lay_out(self, padder: Padder, ids: Tensor) -> Batches:
        return padder.lay_out(ids, self.shape, self._networks, self._only)

    def run(self, batches: Batches, k: int) -> None:
        self._ints.copy_(batches.ints[k])
        self._floats.copy_(batches.floats[k])
        self._replay()


#: The memory that captured work of all teams on a stream shares, as one replay follows another and none needs what one
#: before had; and the work that holds it.
_pools: dict[torch.cuda.Stream, tuple[Any, WeakSet[Captured]]] = {}


def _pool_of(stream: torch.cuda.Stream) -> Any:
    """The pool for what is about to be captured."""
    if stream not in _pools or not _pools[stream][1]:
        # Memory that no captured work holds any more cannot be captured into again.
        _pools[stream] = torch.cuda.graph_pool_handle(), WeakSet()
    return _pools[stream][0]


class Captures:
    """What a team has captured: each kind of work, with each room that its batches have.

    Args:
        team: whose networks work.
        rooms: of its batches.
    """

    def __init__(self, team: "Team", rooms: Rooms) -> None:
        self._team, self._rooms = team, rooms
        self._known: dict[tuple[str, Shape], Captured] = {}

    def of(
        self, work: Callable[[PaddedBag], Any], steps: np.ndarray, padder: Padder
    ) -> Iterator[tuple[Captured, slice]]:
        """This work with the room of these steps, `[K, S, B]`, and which of them have that room, in order."""
        found = [*self._shapes(steps, padder)]
        # The largest first: smaller ones then find room in the memory that it has left.
        for shape in sorted({shape for shape, _ in found}, key=lambda shape: -sum(shape.rows)):
            if (work.__name__, shape) not in self._known:
                self._known[work.__name__, shape] = Captured(self._team, padder, shape, work)
        return ((self._known[work.__name__, shape], place) for shape, place in found)

    def _shapes(self, steps: np.ndarray, padder: Padder) -> Iterator[tuple[Shape, slice]]:
        size = steps.shape[-1]
        before = self._rooms.known.get(size)
        most = self._rooms.holding(steps.reshape(-1, size), padder.counts)
        if most is not before:
            self._forget(size, padder)
        rows = sum(most.rows)
        if is_wide(self._team.model.encoder) and self._team.networks * rows >= _MANY_ROWS:
            return sized(most, steps, padder.counts, FINE)
        if rows >= _TOO_MANY_ROWS:
            return sized(most, steps, padder.counts, COARSE)
        return iter([(most, slice(None))])

    def _forget(self, size: int, padder: Padder) -> None:
        """Let go of what batches of so many graphs had too little room for, before memory for more is taken."""
        self._known = {key: step for key, step in self._known.items() if key[1].graphs != size}
        padder.forget(size)


def _read(team: "Team", padder: Padder, shape: Shape, work: Callable[[PaddedBag], Any]) -> frozenset[str]:
    """The fields that some work reads, found by asking for all its kernels; these are compiled on the way."""
    from esan.ops.triton.compile import compiled_together

    # An empty batch: the runs that warm up leave no trace.
    batches = padder.blank(shape, team.networks)
    noted = Noted(batches.views(batches.ints[0], batches.floats[0]))
    with team.unchanged(), compiled_together():
        work(PaddedBag.over(noted, shape, padder.bag, team.networks, team.side))
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
