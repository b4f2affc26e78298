"""The bag of a training, whole or to be sampled, and samplers that draw from it once per network and pass."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from esan.bags import Bag
from esan.bags.build.build_rows import num_possible_pairs, stores_samples_only
from esan.bags.build.on_gpu import bag_built_on
from esan.graphs import Graphs
from esan.ops import ragged
from esan.policies import Policy, Sampled, Whole

#: The most (node, subgraph) pairs of a sample of all graphs that a pass on a GPU stores at once.
MAX_SAMPLED_PAIRS = 200_000_000
#: The most bytes of the copies of a bag that the samples of an ensemble are drawn from.
MAX_BYTES = 2**31


def training_bag(graphs: Graphs, policy: Policy, num_layers: int, device: torch.device | None = None) -> Bag:
    """The compact bag of a training; with a `Sampled` policy one that samples of batches are drawn from.

    Args:
        graphs: the graphs.
        policy: selects the subgraphs.
        num_layers: the number of layers that the bag must be exact for.
        device: where the bag is built, in chunks of graphs; the result is stored where the graphs are. None to build it
            there too.
    """
    if isinstance(policy, Sampled):
        if stores_samples_only(policy, graphs):
            return graphs_only_bag(graphs, policy, num_layers)
        whole = training_bag(graphs, policy.policy, num_layers, device)
        return replace(whole, policy=policy, sampled_from=whole)
    return Bag.of(graphs, policy, num_layers) if device is None else bag_built_on(device, graphs, policy, num_layers)


def graphs_only_bag(graphs: Graphs, policy: Sampled, num_layers: int) -> Bag:
    """A bag without subgraphs, where the whole bag is too large for memory: a `Loader` selects them for each batch."""
    return replace(Bag.of(graphs, Whole(), num_layers), policy=policy)


def sample_fits_memory(policy: Sampled, graphs: Graphs) -> bool:
    """Whether a sample of all graphs fits into memory, for a bag that does not."""
    return policy.fraction * num_possible_pairs(graphs) <= MAX_SAMPLED_PAIRS


def max_members(bag: Bag, literal: bool, max_bytes: int = MAX_BYTES) -> int:
    """How many networks may have samples of this bag at once; with `literal`, of the literal bag it represents."""
    whole = bag.sampled_from
    if whole is None:
        return 1  # one sample of a bag that is too large for memory fills a device
    size = whole.nbytes * max(1, whole.num_pairs // max(whole.num_rows, 1)) if literal else whole.nbytes
    return max(1, max_bytes // size)


def sampler_for(bag: Bag) -> "BagSampler | GraphSampler":
    """The sampler for the bag of a `Sampled` policy, on the device of the bag."""
    return GraphSampler(bag) if bag.sampled_from is None else BagSampler(bag)


@dataclass(frozen=True, eq=False)
class _MemberGraphs:
    """The graphs of each member of an ensemble.

    Attributes:
        whole: their bags, in the order of the members.
        graphs: per member, the ids of its graphs in the dataset, sorted.
        subgraphs: per member, the ids of their subgraphs in the dataset.
    """

    whole: Bag
    graphs: list[Tensor]
    subgraphs: list[Tensor]


class BagSampler:
    """Draws samples of a stored bag for the members of an ensemble; all of them make up one bag.

    Args:
        bag: of a `Sampled` policy, on the device of the samples.
        max_bytes: the size of the cache.
    """

    def __init__(self, bag: Bag, max_bytes: int = MAX_BYTES) -> None:
        assert isinstance(bag.policy, Sampled)
        assert bag.sampled_from is not None
        self._policy, self._whole, self._max_bytes = bag.policy, bag.sampled_from, max_bytes
        counts = bag.sampled_from.selection.num_subgraphs.cpu()
        self._subgraphs = ragged.Segments(ragged.starts(counts), counts)
        #: The last calls, as far as memory allows: training, validation and test take turns.
        self._cache: dict[tuple[bytes, ...], _MemberGraphs] = {}

    @property
    def count(self) -> int:
        """Random numbers per sample: one per subgraph of the dataset, whichever graphs are sampled."""
        return self._subgraphs.total

    def sample(self, orders: Sequence[Tensor], numbers: Sequence[Tensor]) -> tuple[Bag, list[Tensor]]:
        """The samples of all members as one bag, and for each member the ids of its graphs in that bag.

        Args:
            orders: per member, the graphs of its next pass; may be empty.
            numbers: per member, the random numbers that decide on its sample.
        """
        if len(orders) == 1:
            # No copy is needed; the sample of a graph is the same.
            chosen = self._policy.sample_by(numbers[0], self._whole.selection.num_subgraphs)
            return self._selected(self._whole, chosen), list(orders)
        graphs = [order.cpu().unique() for order in orders]
        members = self._members(graphs)
        drawn = torch.cat([of[subgraphs] for of, subgraphs in zip(numbers, members.subgraphs, strict=True)])
        chosen = self._policy.sample_by(drawn, members.whole.selection.num_subgraphs)
        offset, moved = 0, []
        for order, own in zip(orders, graphs, strict=True):
            moved.append(offset + torch.searchsorted(own, order.cpu()))
            offset += own.numel()
        return self._selected(members.whole, chosen), moved

    def _selected(self, whole: Bag, chosen: Tensor) -> Bag:
        return replace(whole.only(chosen), policy=self._policy, sampled_from=whole)

    def _members(self, graphs: list[Tensor]) -> _MemberGraphs:
        key = tuple(own.numpy().tobytes() for own in graphs)
        members = self._cache.pop(key, None)
        if members is None:
            subgraphs = [self._subgraphs.take(own).positions for own in graphs]
            members = _MemberGraphs(self._whole[torch.cat(graphs)], graphs, subgraphs)
        # The least recently used go first; the new entry stays at least until the next call.
        limit = self._max_bytes + self._max_bytes // 4 - members.whole.nbytes
        while self._cache and sum(known.whole.nbytes for known in self._cache.values()) > limit:
            del self._cache[next(iter(self._cache))]
        self._cache[key] = members
        return members


class GraphSampler:
    """Selects the subgraphs of every sample from the graphs, where the whole bag is too large; for one network.

    The interface is that of `BagSampler`.

    Args:
        bag: from `graphs_only_bag`, on the device of the samples.
    """

    #: Random numbers per sample: the seed of the generator that decides on it.
    count = 1

    def __init__(self, bag: Bag) -> None:
        self._bag = bag

    def sample(self, orders: Sequence[Tensor], numbers: Sequence[Tensor]) -> tuple[Bag, list[Tensor]]:
        """The sample for the next pass of the network, and the ids of its graphs in that bag."""
        (order,), (number,) = orders, numbers
        graphs = order.cpu().unique()
        sample = self._bag[graphs].resample(torch.Generator().manual_seed(int(number * 2**53)))
        return sample, [torch.searchsorted(graphs, order.cpu())]


class SampleNumbers:
    """The random numbers of one network's samples, pass by pass.

    The members of an ensemble compute together, so numbers may be needed before their job calls for the pass, or
    although it never does. Looking ahead does not move the generator; it moves when the job makes the pass.

    Args:
        generator: of the job, on the CPU.
    """

    def __init__(self, generator: torch.Generator) -> None:
        self._generator = generator
        #: The numbers of each pass, and the state of the generator after them.
        self._known: list[tuple[Tensor, Tensor]] = []

    def peek(self, index: int, count: int) -> Tensor:
        """The numbers of a pass, which may never be made."""
        before = self._generator.get_state()
        try:
            while len(self._known) <= index:
                if self._known:
                    self._generator.set_state(self._known[-1][1])
                numbers = Sampled.numbers(count, self._generator)
                self._known.append((numbers, self._generator.get_state()))
        finally:
            self._generator.set_state(before)
        return self._known[index][0]

    def advance(self, index: int) -> None:
        """Move the generator behind the numbers of a pass that is made."""
        self._generator.set_state(self._known[index][1])

    def restart(self) -> None:
        """Count passes from 0 again, with the next numbers of the generator."""
        self._known.clear()
