"""Samples of bags for networks that train together: each network has its own, and all of them are one bag."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from esan import ragged
from esan.bags import Bag
from esan.policies import Sampled

#: How many choices of graphs are remembered: those of training, validation and test take turns.
_REMEMBERED = 3
#: Most bytes of the copies of a bag that samples of several networks are taken from.
_MOST_BYTES = 2**31


def most_together(bag: Bag) -> int:
    """How many networks may have samples of this bag at once."""
    return max(1, _MOST_BYTES // bag.nbytes)


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
        while len(self._known) <= place:
            if self._known:
                self._generator.set_state(self._known[-1][1])
            numbers = Sampled.numbers(count, self._generator)
            self._known.append((numbers, self._generator.get_state()))
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
    """

    def __init__(self, bag: Bag) -> None:
        assert isinstance(bag.policy, Sampled)
        assert bag.whole is not None
        self._policy, self._whole = bag.policy, bag.whole
        counts = bag.whole.selection.num_subgraphs.cpu()
        self._subgraphs = ragged.Segments(ragged.starts(counts), counts)
        self._parts: dict[bytes, _Part] = {}

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
        graphs = [order.cpu().unique() for order in orders]
        part = self._part(graphs)
        drawn = torch.cat([of[places] for of, places in zip(numbers, part.places, strict=True)])
        kept = self._policy.kept_by(drawn, part.whole.selection.num_subgraphs)
        begins, moved = 0, []
        for order, own in zip(orders, graphs, strict=True):
            moved.append(begins + torch.searchsorted(own, order.cpu()))
            begins += own.numel()
        return replace(part.whole.only(kept), policy=self._policy, whole=part.whole), moved

    def _part(self, graphs: list[Tensor]) -> _Part:
        key = b"|".join(own.numpy().tobytes() for own in graphs)
        part = self._parts.pop(key, None)
        if part is None:
            while len(self._parts) >= _REMEMBERED:
                del self._parts[next(iter(self._parts))]
            places = [self._subgraphs.take(own).places for own in graphs]
            part = _Part(self._whole[torch.cat(graphs)], graphs, places)
        # Behind the others: those that were not asked for longest are forgotten first.
        self._parts[key] = part
        return part
