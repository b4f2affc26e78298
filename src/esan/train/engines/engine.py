"""`Engine`: the interface of what trains one network; `EagerEngine`: one batch after another, without CUDA graphs."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol
from weakref import ReferenceType, WeakKeyDictionary, WeakValueDictionary, ref

import torch
from torch import Tensor

from esan.bags import Bag, Loader
from esan.nn import SubgraphGNN
from esan.train.engines.objective import Objective
from esan.train.engines.recalibrate import NormRecalibration

#: Changes a batch during training; random numbers come from the generator.
Augment = Callable[[Bag, torch.Generator], Bag]

#: Copies of each bag by device, cached as long as somebody uses them.
_device_copies: WeakKeyDictionary[Bag, WeakValueDictionary[torch.device, Bag]] = WeakKeyDictionary()
#: The literal bag of each bag, cached as long as somebody uses it.
_literal_bags: WeakKeyDictionary[Bag, ReferenceType[Bag]] = WeakKeyDictionary()


def bag_on(bag: Bag, device: torch.device) -> Bag:
    """The bag on a device; all callers share one copy."""
    if bag.device == device:
        return bag
    copies = _device_copies.setdefault(bag, WeakValueDictionary())
    found = copies.get(device)
    if found is None:
        found = copies[device] = bag.to(device)
    return found


def literal_bag(bag: Bag) -> Bag:
    """The literal bag of a bag; all callers share one."""
    known = _literal_bags.get(bag)
    found = known() if known is not None else None
    if found is None:
        found = bag.to_literal()
        _literal_bags[bag] = ref(found)
    return found


def model_device(model: SubgraphGNN) -> torch.device:
    """The device of a network, which is where it is trained."""
    return next(model.parameters()).device


def needs_literal_bag(model: SubgraphGNN) -> bool:
    """Whether a network is trained on literal bags, e.g. because dropout is drawn for every pair."""
    encoder = model.encoder
    return model.why_literal is not None or bool(encoder.dropout and encoder.dropout_on == "pairs")


class Engine(Protocol):
    """Trains one network. Methods are asynchronous: their results may still be computing, so engines overlap on a GPU.

    An engine may collect calls until other engines of the same ensemble are called too; `flush` ends the waiting.
    """

    def train_epoch(self, ids: Tensor, recalibration_batch_size: int = 0) -> Tensor:
        """Train one epoch on these graphs, in this order; returns the mean loss, a 0-dimensional tensor on the device.

        Args:
            ids: the training graphs.
            recalibration_batch_size: if not 0, the running statistics of batch norms are recomputed after the epoch,
                over the same graphs in batches of this size. Nothing else depends on it.
        """

    def flush(self) -> None:
        """Start the calls so far, if they wait for other engines."""

    def predict(self, ids: Tensor) -> Tensor:
        """Predictions in eval mode, one row per graph; with a `Sampled` policy, every call draws a new sample."""

    def set_lr(self, lr: float) -> None:
        """Set the learning rate from the next epoch on."""

    def weights(self) -> dict[str, Tensor]:
        """A copy of the network's state_dict, which later training does not change."""

    def state_dict(self) -> dict[str, Any]:
        """ "model", "optimiser" and "generator": all that continues the training; tensors may be the live ones."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from such a state."""


class MakeEngine(Protocol):
    """Makes the engine of a job; arguments as of `EagerEngine`. The bag may be on the CPU, the network elsewhere."""

    def __call__(
        self,
        model: SubgraphGNN,
        bag: Bag,
        objective: Objective,
        lr: float,
        batch_size: int,
        generator: torch.Generator,
        augment: Augment | None = None,
    ) -> Engine: ...


class BatchEngine(ABC):
    """Base of engines that run one batch after another: a network with its Adam, loader and generator.

    Args:
        model: the network, on the device of the training.
        bag: the bag of the whole dataset, with targets; it is copied to the device of the network.
        objective: the loss.
        lr: the learning rate of Adam.
        batch_size: graphs per step.
        generator: on the CPU; draws samples and, once per pass, the seed of all else that is random in the network.
        augment: applied to batches during training.
    """

    def __init__(
        self,
        model: SubgraphGNN,
        bag: Bag,
        objective: Objective,
        lr: float,
        batch_size: int,
        generator: torch.Generator,
        augment: Augment | None = None,
    ) -> None:
        self.device = model_device(model)
        self.model, self.objective, self.generator, self.augment = model, objective.to(self.device), generator, augment
        self.optimiser = torch.optim.Adam(model.parameters(), lr=lr)
        self.loader = Loader(bag_on(bag, self.device), batch_size, generator=generator, padded=False)

    @abstractmethod
    def train_epoch(self, ids: Tensor, recalibration_batch_size: int = 0) -> Tensor: ...

    @abstractmethod
    def predict(self, ids: Tensor) -> Tensor: ...

    def flush(self) -> None:
        return  # Every call starts at once.

    def set_lr(self, lr: float) -> None:
        for group in self.optimiser.param_groups:
            group["lr"] = lr

    def weights(self) -> dict[str, Tensor]:
        return {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}

    def state_dict(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.generator.set_state(state["generator"])

    def recalibrate(self, ids: Tensor, batch_size: int) -> None:
        """Set the running statistics of batch norms to those of these graphs, see `NormRecalibration`."""
        recalibration, state = NormRecalibration(self.model), self.generator.get_state()
        if not recalibration.needed:
            return
        with recalibration.over_batches(), self._seeded():
            for batch in self._batches(ids, batch_size):
                recalibration.add_batch(partial(self._forward, batch), len(batch))
        # Samples drawn here must not change what is drawn next.
        self.generator.set_state(state)

    def _batches(self, ids: Tensor, size: int) -> Iterator[Bag]:
        return (self.loader.batch(chunk) for chunk in ids.to(self.device).split(size))

    def _forward(self, batch: Bag) -> Tensor:
        return self.model(self._suitable(batch))

    def _suitable(self, batch: Bag) -> Bag:
        """The batch, literal where the network needs that."""
        # The recipe asked for e.g. dropout, so there is nothing to warn of. A strict bag stays compact, and the
        # network refuses it.
        return batch if self.model.why_literal is None or batch.strict else batch.to_literal()

    @contextmanager
    def _seeded(self, rank: int = 0) -> Iterator[None]:
        """Seed torch's global generator, which all jobs share and dropout uses, from this job's generator.

        Args:
            rank: of the process in a distributed training; each has its own dropout.
        """
        seed = int(torch.randint(2**62, (), generator=self.generator)) + rank
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(seed)
            yield


class EagerEngine(BatchEngine):
    """One unpadded batch after another, on any device; arguments as of `BatchEngine`."""

    def train_epoch(self, ids: Tensor, recalibration_batch_size: int = 0) -> Tensor:
        self.model.train()
        total = torch.zeros((), device=self.device)
        count = torch.zeros((), device=self.device)
        with self._seeded():
            for batch in self._batches(ids, self.loader.batch_size):
                if self.augment is not None:
                    batch = self.augment(batch, self.generator)
                assert batch.y is not None
                losses = self.objective.losses(self._forward(batch), batch.y)
                self.optimiser.zero_grad()
                losses.mean().backward()
                self.optimiser.step()
                with torch.no_grad():
                    total += (losses.value * losses.mask).sum()
                    count += losses.mask.sum()
        if recalibration_batch_size:
            self.recalibrate(ids, recalibration_batch_size)
        return total / count.clamp(min=1)

    def predict(self, ids: Tensor) -> Tensor:
        self.model.eval()
        with torch.no_grad(), self._seeded():
            batches = self._batches(ids, self.loader.batch_size)
            return self.objective.unscale(torch.cat([self._forward(batch) for batch in batches]))
