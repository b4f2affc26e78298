"""`Loader`: shuffled batches of a bag, gathered on the device where it lives, with no Python loop over graphs."""

from collections.abc import Iterator

import torch

from esan.bags.bag import Bag
from esan.policies import Sampled


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
        if batch_size < 1:
            raise ValueError(f"Expected a batch_size of at least 1 (got {batch_size}).")
        self.bag, self.batch_size, self.shuffle = bag, batch_size, shuffle
        self.drop_last, self.generator = drop_last, generator

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
            yield self._batch(order[batch * self.batch_size : (batch + 1) * self.batch_size])

    def _batch(self, ids: torch.Tensor) -> Bag:
        policy, whole = self.bag.policy, self.bag.whole
        if isinstance(policy, Sampled) and whole is not None:
            batch = whole[ids]
            return batch.only(policy.draw(batch.selection.num_subgraphs, self.generator))
        if not isinstance(policy, str | None) and policy.random:
            graphs, bag = self.bag.graphs.take(ids), self.bag
            literal = bag.literal or (False if bag.strict else None)
            return Bag.of(graphs, policy, bag.num_layers, literal=literal, generator=self.generator)
        return self.bag[ids]
