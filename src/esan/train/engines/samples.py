"""Samples of bags for networks that train together: each network has its own, and all of them are one bag."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from esan.bags import Bag
from esan.ops import ragged
from esan.policies import Sampled
from esan.train.engines.resample import FreshSamples

#: Most bytes of the copies of a bag that the samples of a team are taken from.
MOST_BYTES = 2**31


def samples_of(bag: Bag) -> "Samples | FreshSamples":
    """Takes samples of the bag of a `Sampled` policy, where it is."""
    return FreshSamples(bag) if bag.whole is None else Samples(bag)


def most_together(bag: Bag, literal: bool, most_bytes: int = MOST_BYTES) -> int:
    """How many networks may have samples of this bag at once, or of the literal bag that it stands for."""
    whole = bag.whole
    if whole is None:
        return 1  # the sample of a bag too large to hold is enough for a device
    size = whole.nbytes * max(1, whole.num_pairs // max(whole.num_rows, 1)) if literal else whole.nbytes
    return max(1, most_bytes // size)


class Draws:
    """The random numbers of one network's samples, in the order of its passes.

    Networks that train together are worked on together, so that numbers may be needed before their job asks for the
    pass, or though it never does. Drawn ahead, they do not move the generator: it moves when the job asks.

    Args:
        generator: of the job, on the CPU.
    """

    def __init__(self, generator: torch.Generator) -> None:
        self._generator = generator
        #: The numbers of each pass, and the state of the generator behind them.
        self._known: list[tuple[Tensor, Tensor]] = []

    def look(self, place: int, count: int) -> Tensor:
        """The numbers of a pass, which need not take place."""
        before = self._generator.get_state()
        try:
            while len(self._known) <= place:
                if self._known:
                    self._generator.set_state(self._known[-1][1])
                numbers = Sampled.numbers(count, self._generator)
                self._known.append((numbers, self._generator.get_state()))
        finally:
            self._generator.set_state(before)
        return self._known[place][0]

    def take(self, place: int) -> None:
        """Go on behind the numbers of a pass: it takes place."""
        self._generator.set_state(self._known[place][1])

    def forget(self) -> None:
        """Count passes anew, with what the generator gives next."""
        self._known.clear()


@dataclass(frozen=True, eq=False)
class _Part:
    """Some graphs for each network.

    Attributes:
        whole: their bags, one network's graphs behind the other's.
        graphs: their numbers in the dataset, sorted, of each network.
        places: the numbers of their subgraphs in the dataset, of each network.
    """

    whole: Bag
    graphs: list[Tensor]
    places: list[Tensor]


class Samples:
    """Takes samples of a bag for several networks.

    Args:
        bag: of a `Sampled` policy, where the samples are to be.
        most_bytes: of the bags that samples were taken from, as far as they are remembered.
    """

    def __init__(self, bag: Bag, most_bytes: int = MOST_BYTES) -> None:
        assert isinstance(bag.policy, Sampled)
        assert bag.whole is not None
        self._policy, self._whole, self._most_bytes = bag.policy, bag.whole, most_bytes
        counts = bag.whole.selection.num_subgraphs.cpu()
        self._subgraphs = ragged.Segments(ragged.starts(counts), counts)
        #: What was asked for last, as far as there is room: training, validation and test take turns.
        self._parts: dict[tuple[bytes, ...], _Part] = {}

    @property
    def count(self) -> int:
        """Random numbers of a sample: one a subgraph of the dataset, whichever graphs are asked for."""
        return self._subgraphs.total

    def of(self, orders: Sequence[Tensor], numbers: Sequence[Tensor]) -> tuple[Bag, list[Tensor]]:
        """The sample of each network, as one bag, and the graphs of its order as they are numbered there.

        Args:
            orders: the graphs that each network is about to see; of those who see none, nothing is sampled.
            numbers: what decides on the sample of each.
        """
        if len(orders) == 1:
            # No copy is needed; what is kept of a graph is the same.
            kept = self._policy.kept_by(numbers[0], self._whole.selection.num_subgraphs)
            return self._sample(self._whole, kept), list(orders)
        graphs = [order.cpu().unique() for order in orders]
        part = self._part(graphs)
        drawn = torch.cat([of[places] for of, places in zip(numbers, part.places, strict=True)])
        kept = self._policy.kept_by(drawn, part.whole.selection.num_subgraphs)
        begins, moved = 0, []
        for order, own in zip(orders, graphs, strict=True):
            moved.append(begins + torch.searchsorted(own, order.cpu()))
            begins += own.numel()
        return self._sample(part.whole, kept), moved

    def _sample(self, whole: Bag, kept: Tensor) -> Bag:
        return replace(whole.only(kept), policy=self._policy, whole=whole)

    def _part(self, graphs: list[Tensor]) -> _Part:
        key = tuple(own.numpy().tobytes() for own in graphs)
        part = self._parts.pop(key, None)
        if part is None:
            places = [self._subgraphs.take(own).places for own in graphs]
            part = _Part(self._whole[torch.cat(graphs)], graphs, places)
        # Those that were not asked for longest are forgotten first, and this one not before the next call.
        room = self._most_bytes + self._most_bytes // 4 - part.whole.nbytes
        while self._parts and sum(known.whole.nbytes for known in self._parts.values()) > room:
            del self._parts[next(iter(self._parts))]
        self._parts[key] = part
        return part
