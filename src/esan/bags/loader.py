"""`Loader`: batches of a bag, on the device where they are used, padded and prefetched on a GPU."""

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from esan.bags.bag import Bag
from esan.bags.padded.batches import PaddedBatches
from esan.bags.padded.fields import extra_axis
from esan.bags.padded.shapes import Sizes
from esan.checks import device_here, random_source, shown, truth_value, whole_number
from esan.graphs.extra_fields import ListField
from esan.ops.device import in_several_processes, is_gpu
from esan.plural import counted
from esan.policies import Policy, Sampled


class Loader:
    """Batches of a bag, each a bag itself; for a `Sampled` policy, every batch of every epoch is a new sample.

    On a GPU batches come in a few padded shapes (`PaddedBag`) and are prefetched. A model computes the same up to
    rounding, and `esan.step` can replay a step for each shape. The padding is not visible: predictions, `bag.y`, extra
    fields of graphs and `len(bag)` are those of the real graphs. Fields of nodes, such as `bag.pos`, have zeros for
    padding nodes behind those of the real ones.

    Args:
        bag: the bag of the dataset.
        batch_size: the number of graphs per batch.
        shuffle: whether each epoch visits the graphs in a new random order.
        drop_last: whether a last batch of fewer graphs is left out.
        generator: where the order and the samples are drawn from; None for torch's own.
        sampler: the graphs of an epoch, in order, e.g. a `DistributedSampler`; instead of `shuffle`. It is read as
            batches are asked for, padded ones up to 16 ahead, so it may be endless.
        batch_sampler: the graphs of each batch; instead of `batch_size`, `shuffle`, `drop_last` and `sampler`. For an
            ensemble a batch may be one list of graphs per member, `[members, graphs]`.
        device: the device of the batches; None for that of the bag.
        padded: whether batches are padded to a few shapes; None for yes where it is possible and faster.
        members: how many networks of an `esan.Ensemble` each batch is for.
        sizes: how many shapes there are; None for few (see `esan.bags.padded.shapes.FINE`).
    """

    def __init__(
        self,
        bag: Bag,
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        generator: torch.Generator | None = None,
        *,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[object] | None = None,
        device: torch.device | str | None = None,
        padded: bool | None = None,
        members: int = 1,
        sizes: Sizes | None = None,
    ) -> None:
        if not isinstance(bag, Bag):
            raise TypeError(
                f"Expected a Bag (got {type(bag).__name__}). Make one with Bag.of(graphs, policy, num_layers)."
            )
        if bag.sampled_from is not None and isinstance(bag.policy, str):
            raise ValueError(
                f"Expected the policy of a sampled bag (got only its name, {bag.policy}). Read it with "
                "Bag.load(path, policy=...), so that samples can be drawn."
            )
        self.batch_size = whole_number("batch_size", batch_size, 1, "Pass e.g. batch_size=32.", 2**31)
        self.members = whole_number("members", members, 1, "Pass the number of networks of the ensemble.")
        self.shuffle = truth_value("shuffle", shuffle, "Pass shuffle=True, or leave it out.")
        self.drop_last = truth_value("drop_last", drop_last, "Pass drop_last=True, or leave it out.")
        if sampler is not None and shuffle:
            raise ValueError(
                "Expected a sampler or shuffle=True (got both). Leave shuffle out: a sampler has an order."
            )
        if batch_sampler is not None and (sampler is not None or shuffle or drop_last or batch_size != 1):
            raise ValueError(
                "Expected a batch_sampler alone (got it with batch_size, shuffle, drop_last or sampler). Leave these "
                "out: a batch_sampler decides on them."
            )
        self.bag, self.generator = bag, random_source(generator)
        self.sampler, self.batch_sampler = sampler, batch_sampler
        self.device = bag.device if device is None else device_here(device)
        why = _why_not_padded(bag)
        if padded and why:
            raise ValueError(f"Expected a bag whose batches can be padded (got {why}). Leave padded out.")
        if padded is None and why and is_gpu(self.device):
            warnings.warn(
                "Batches are not padded, so models and esan.step run without CUDA graphs, which is slower: the bag has "
                f"{why}. Leave out of the graphs what nothing reads, or pass padded=False to accept it.",
                stacklevel=2,
            )
        self.padded = (
            not why and is_gpu(self.device)
            if padded is None
            else truth_value("padded", padded, "Pass padded=False, or leave it out.")
        )
        if sizes is not None and not isinstance(sizes, Sizes):
            raise TypeError(
                f"Expected sizes of esan.bags.padded.shapes.Sizes (got {shown(sizes)}). Pass FINE or COARSE from there."
            )
        for name, given in (("sampler", sampler), ("batch_sampler", batch_sampler)):
            if given is not None and not isinstance(given, Iterable):
                raise TypeError(f"Expected {name} to yield numbers of graphs (got {shown(given)}). Pass an iterable.")
        self._sizes = sizes
        self._batches: PaddedBatches | None = None

    def __repr__(self) -> str:
        arguments = f"batch_size={self.batch_size}, shuffle={self.shuffle}, drop_last={self.drop_last}"
        return f"Loader({self.bag!r}, {arguments}, device={str(self.device)!r}, padded={self.padded})"

    def __len__(self) -> int:
        if self.batch_sampler is not None:
            return len(self.batch_sampler)  # type: ignore[arg-type]
        count = len(self.bag) if self.sampler is None else len(self.sampler)  # type: ignore[arg-type]
        full, rest = divmod(count, self.batch_size)
        return full + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[Bag]:
        if self.sampler is None and self.batch_sampler is None and in_several_processes():
            warnings.warn(
                "Every process goes through all graphs, since the loader has no sampler. To share them, pass "
                "sampler=torch.utils.data.DistributedSampler(range(len(bag))). Lightning does not add one.",
                stacklevel=2,
            )
        # A sampler is read as batches are asked for: it may be endless, or depend on what was learned so far.
        given = self.sampler is not None or self.batch_sampler is not None
        return self.batches(self._steps() if given else list(self._steps()))

    def batches(self, steps: Iterable[np.ndarray]) -> Iterator[Bag]:
        """The batches of these graphs: one list per batch, or one list per member, `[members, graphs]`."""
        if not self.padded:
            return map(self._unpadded, steps)
        stacked = map(self._of_members, steps)
        return self._padded()(list(stacked) if isinstance(steps, list) else stacked)

    def _of_members(self, ids: np.ndarray) -> np.ndarray:
        """The graphs of a batch, one row per member or one for all."""
        if ids.ndim == 2 and (self.members == 1 or len(ids) != self.members):
            raise ValueError(
                f"Expected one list of graphs per batch, or one per member (got {counted(len(ids), 'list')} for "
                f"{counted(self.members, 'member')}). Pass members=, the number of networks of the ensemble."
            )
        return ids if ids.ndim == 2 else ids[None]

    def _unpadded(self, ids: np.ndarray) -> Bag:
        if ids.ndim > 1:
            raise ValueError(
                "Expected one list of graphs per batch (got one per member, which only padded batches can have). "
                "Train on a GPU, or give all members the same batches."
            )
        return self.batch(torch.from_numpy(ids))

    def batch(self, ids: Tensor) -> Bag:
        """The graphs `ids` as one bag without padding; a random policy draws again."""
        ids = ids.to(self.bag.device)
        return self._drawn(ids).to(self.device)

    def _steps(self) -> Iterator[np.ndarray]:
        if self.batch_sampler is not None:
            yield from map(self._graph_numbers, self.batch_sampler)
        elif self.sampler is not None:
            order = iter(self.sampler)
            some = list(islice(order, self.batch_size))
            if not some:
                self._graph_numbers(some)  # says that there are none
            while len(some) == self.batch_size or (some and not self.drop_last):
                yield self._graph_numbers(some)
                some = list(islice(order, self.batch_size))
        else:
            numbers = self._order()
            for begin in range(0, len(numbers), self.batch_size):
                part = numbers[begin : begin + self.batch_size]
                if len(part) == self.batch_size or not self.drop_last:
                    yield part

    def _graph_numbers(self, some: object) -> np.ndarray:
        """What a sampler gave, as one list or one per member; those below 0 count from the end."""
        try:
            numbers = some.cpu().numpy() if isinstance(some, Tensor) else np.asarray(some)
        except ValueError:
            numbers = np.empty(0)  # lists of several lengths
        most = 1 if self.batch_sampler is None else 2
        if numbers.size == 0 or not 1 <= numbers.ndim <= most or numbers.dtype.kind not in "iu":
            raise ValueError(
                f"Expected the numbers of graphs from a sampler (got {some!r}). Yield integers, or for a "
                "batch_sampler lists of them, of one length for all members."
            )
        count, numbers = len(self.bag), numbers.astype(np.int64)
        wrong = numbers[(numbers < -count) | (numbers >= count)]
        if wrong.size:
            raise IndexError(
                f"Expected the numbers of {counted(count, 'graph')} from a sampler (got {wrong[0]}). Make the sampler "
                "for len(bag) graphs."
            )
        return np.where(numbers < 0, numbers + count, numbers)

    def _order(self) -> np.ndarray:
        if not self.shuffle:
            return np.arange(len(self.bag))
        device = torch.device("cpu") if self.generator is None else self.generator.device
        return torch.randperm(len(self.bag), generator=self.generator, device=device).cpu().numpy()

    def _padded(self) -> PaddedBatches:
        policy, full = self.bag.policy, self.bag.sampled_from
        if isinstance(policy, Sampled) and full is not None:
            mask = policy.sample(full.selection.num_subgraphs, self.generator)
            bag = replace(full.only(mask), policy=policy)
            if self._batches is None:
                self._batches = PaddedBatches(bag, self.device, self.members, self._sizes, at_once=True)
            self._batches = self._batches.of(bag)
        elif self._batches is None:
            self._batches = PaddedBatches(self.bag, self.device, self.members, self._sizes)
        return self._batches

    def _drawn(self, ids: Tensor) -> Bag:
        policy, full = self.bag.policy, self.bag.sampled_from
        if isinstance(policy, Sampled) and full is not None:
            batch = full[ids]
            mask = policy.sample(batch.selection.num_subgraphs, self.generator)
            return replace(batch.only(mask), policy=policy)
        if isinstance(policy, Sampled):
            return self.bag[ids].resample(self.generator)
        if isinstance(policy, Policy) and policy.random:
            graphs, num_layers = self.bag.graphs.take(ids), self.bag.num_layers
            return Bag.of(graphs, policy, num_layers, literal=self.bag.literal_choice, generator=self.generator)
        return self.bag[ids]


def _why_not_padded(bag: Bag) -> str | None:
    """Why batches of a bag are not padded; None if they can be."""
    policy = bag.policy
    if isinstance(policy, Sampled) and bag.sampled_from is None:
        return "a bag of samples whose full bag is too large to build"
    if isinstance(policy, Policy) and policy.random and not isinstance(policy, Sampled):
        return f"the random policy {policy!r}, which selects again for every batch"
    if bag.y is not None and bag.graphs.y_level != "graph":
        return f"targets of {bag.graphs.y_level}s"
    if any(values is not None and values.requires_grad for values in (bag.graphs.x, bag.graphs.edge_attr)):
        return "features that require gradients, which padded batches cut off"
    if bag.graphs.edge_weight is not None:
        return "edge weights, which padded batches do not have"
    fields = bag.graphs.extra.fields.items()
    others = [name for name, one in fields if not isinstance(one, ListField) and extra_axis(bag.graphs, one) is None]
    if others:
        return f"the extra fields {', '.join(others)}, which have entries neither per graph nor per node"
    return None
