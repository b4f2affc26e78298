"""`Loader`: shuffled batches of a bag, gathered on the device where it lives, with no Python loop over graphs."""

from collections.abc import Iterator
from dataclasses import replace

import torch

from esan.bags.bag import Bag
from esan.checks import random_source, truth_value, whole_number
from esan.policies import Policy, Sampled


class Loader:
    """Batches of a bag, each a bag itself; of a `Sampled` policy, every batch of every epoch is drawn afresh.

    Args:
        bag: the bag of the whole dataset.
        batch_size: how many graphs a batch has.
        shuffle: whether each pass goes through the graphs in a new random order.
        drop_last: whether a last batch of fewer graphs is left out.
        generator: where the order and the samples are drawn from; None for torch's own.
    """

    def __init__(
        self,
        bag: Bag,
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        if not isinstance(bag, Bag):
            raise TypeError(
                f"Expected a Bag (got {type(bag).__name__}). Make one with Bag.of(graphs, policy, num_layers)."
            )
        if bag.whole is not None and isinstance(bag.policy, str):
            raise ValueError(
                f"Expected the policy of a sampled bag (got only its name, {bag.policy}). Read it with "
                "Bag.load(path, policy=...), so that samples can be drawn."
            )
        self.batch_size = whole_number("batch_size", batch_size, 1, "Pass e.g. batch_size=32.", 2**31)
        self.shuffle = truth_value("shuffle", shuffle, "Pass shuffle=True, or leave it out.")
        self.drop_last = truth_value("drop_last", drop_last, "Pass drop_last=True, or leave it out.")
        self.bag, self.generator = bag, random_source(generator)

    def __repr__(self) -> str:
        chosen = f"batch_size={self.batch_size}, shuffle={self.shuffle}, drop_last={self.drop_last}"
        return f"Loader({self.bag!r}, {chosen})"

    def __len__(self) -> int:
        whole, rest = divmod(len(self.bag), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[Bag]:
        count = len(self.bag)
        device = torch.device("cpu") if self.generator is None else self.generator.device
        order = torch.arange(count, device=device)
        if self.shuffle:
            order = torch.randperm(count, generator=self.generator, device=device)
        order = order.to(self.bag.device)
        for batch in range(len(self)):
            yield self.batch(order[batch * self.batch_size : (batch + 1) * self.batch_size])

    def batch(self, ids: torch.Tensor) -> Bag:
        """The graphs `ids` as one bag, drawn afresh where the policy is random."""
        policy, whole = self.bag.policy, self.bag.whole
        if isinstance(policy, Sampled) and whole is not None:
            batch = whole[ids]
            kept = policy.sample(batch.selection.num_subgraphs, self.generator)
            return replace(batch.only(kept), policy=policy)
        if isinstance(policy, Sampled):
            return self.bag[ids].resample(self.generator)
        if isinstance(policy, Policy) and policy.random:
            graphs, num_layers = self.bag.graphs.take(ids), self.bag.num_layers
            return Bag.of(graphs, policy, num_layers, literal=self.bag.asked, generator=self.generator)
        return self.bag[ids]
