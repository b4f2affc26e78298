"""Samples of bags that are too large to hold: each batch, or pass, selects anew, and stores its sample alone."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from esan.bags import Bag
from esan.bags.build.large import never_whole, pairs_of
from esan.bags.build.on_device import bag_built_on
from esan.graphs import Graphs
from esan.policies import Policy, Sampled, Whole

#: Most (node, subgraph) pairs of a sample of all graphs that a pass on a GPU stores at once.
MOST_SAMPLED = 200_000_000


def sample_fits(policy: Sampled, graphs: Graphs) -> bool:
    """Whether the sample of all graphs is small enough to hold, if their bag is not."""
    return policy.fraction * pairs_of(graphs) <= MOST_SAMPLED


def fresh_bag(graphs: Graphs, policy: Sampled, num_layers: int) -> Bag:
    """The graphs as a bag that a `Loader` draws samples of batches from; by itself it holds no subgraphs."""
    return replace(Bag.of(graphs, Whole(), num_layers), policy=policy)


def bag_of(graphs: Graphs, policy: Policy, num_layers: int, device: torch.device | None = None) -> Bag:
    """The compact bag; of a `Sampled` policy one to draw samples of batches from, whole or not.

    Args:
        graphs: the graphs.
        policy: how subgraphs are selected.
        num_layers: the layers that the bag must be exact for.
        device: where it is built, some graphs at a time; it is then kept where the graphs are. None for there.
    """
    if isinstance(policy, Sampled):
        if never_whole(policy, graphs):
            return fresh_bag(graphs, policy, num_layers)
        whole = bag_of(graphs, policy.policy, num_layers, device)
        return replace(whole, policy=policy, whole=whole)
    return Bag.of(graphs, policy, num_layers) if device is None else bag_built_on(device, graphs, policy, num_layers)


class FreshSamples:
    """Takes samples of a bag that is not there whole, for one network: what `esan.train.engines.samples.Samples` does.

    Args:
        bag: as `fresh_bag` gives it, where the samples are to be.
    """

    #: Random numbers of a sample: the seed of those that decide on it.
    count = 1

    def __init__(self, bag: Bag) -> None:
        self._bag = bag

    def of(self, orders: Sequence[Tensor], numbers: Sequence[Tensor]) -> tuple[Bag, list[Tensor]]:
        """The sample of the graphs that the network is about to see, and these as they are numbered there."""
        (order,), (number,) = orders, numbers
        graphs = order.cpu().unique()
        sample = self._bag[graphs].resample(torch.Generator().manual_seed(int(number * 2**53)))
        return sample, [torch.searchsorted(graphs, order.cpu())]
