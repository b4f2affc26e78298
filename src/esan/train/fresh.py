"""Samples of bags that are too large to hold: each batch, or pass, selects anew, and stores its sample alone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from esan.bags import Bag
from esan.bags.building import bag_built_on
from esan.bags.large import pairs_of, too_large
from esan.graphs import Graphs
from esan.policies import Policy, Sampled, Selection, Whole

#: Most (node, subgraph) pairs of a sample of all graphs that a pass on a GPU stores at once.
MOST_SAMPLED = 200_000_000


@dataclass(frozen=True)
class Fresh(Policy):
    """A `Sampled` policy of which only the sample is ever stored as rows."""

    policy: Sampled

    random: ClassVar[bool] = True

    @property
    def marked(self) -> bool:  # type: ignore[override]
        return self.policy.marked

    def select(self, graphs: Graphs) -> Selection:
        return self.policy.select(graphs)

    def drawn(self, graphs: Graphs, generator: torch.Generator | None = None) -> Selection:
        return self.policy.drawn(graphs, generator)


def sample_fits(policy: Fresh, graphs: Graphs) -> bool:
    """Whether the sample of all graphs is small enough to hold, if their bag is not."""
    return policy.policy.fraction * pairs_of(graphs) <= MOST_SAMPLED


def fresh_bag(graphs: Graphs, policy: Sampled, num_layers: int) -> Bag:
    """The graphs as a bag that a `Loader` draws samples of batches from; by itself it holds no subgraphs."""
    return replace(Bag.of(graphs, Whole(), num_layers), policy=Fresh(policy))


def bag_of(graphs: Graphs, policy: Policy, num_layers: int, device: torch.device | None = None) -> Bag:
    """The compact bag; of a `Sampled` policy one to draw samples of batches from, whole or not.

    Args:
        graphs: the graphs.
        policy: how subgraphs are selected.
        num_layers: the layers that the bag must be exact for.
        device: where it is built, some graphs at a time; it is then kept where the graphs are. None for there.
    """
    if isinstance(policy, Sampled):
        if too_large(graphs) or policy.policy.random:
            return fresh_bag(graphs, policy, num_layers)
        whole = bag_of(graphs, policy.policy, num_layers, device)
        return replace(whole, policy=policy, whole=whole)
    return Bag.of(graphs, policy, num_layers) if device is None else bag_built_on(device, graphs, policy, num_layers)


class FreshSamples:
    """Takes samples of a bag that is too large to hold, for one network: what `esan.train.samples.Samples` does.

    Args:
        bag: of a `Fresh` policy, where the samples are to be.
    """

    #: Random numbers of a sample: the seed of those that decide on it.
    count = 1

    def __init__(self, bag: Bag) -> None:
        assert isinstance(bag.policy, Fresh)
        self._bag, self._policy = bag, bag.policy

    def of(self, orders: Sequence[Tensor], numbers: Sequence[Tensor]) -> tuple[Bag, list[Tensor]]:
        """The sample of the graphs that the network is about to see, and these as they are numbered there."""
        (order,), (number,) = orders, numbers
        graphs = order.cpu().unique()
        generator = torch.Generator().manual_seed(int(number * 2**53))
        some, bag = self._bag.graphs.take(graphs.to(self._bag.device)), self._bag
        sample = Bag.of(some, self._policy, bag.num_layers, literal=bag.asked, generator=generator)
        return sample, [torch.searchsorted(graphs, order.cpu())]
