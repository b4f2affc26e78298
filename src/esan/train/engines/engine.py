"""`Engine`: the part of training that touches the device, one a job; `EagerEngine` runs anywhere."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from esan.bags import Bag, Loader
from esan.nn import SubgraphGNN
from esan.train.engines.copies import bag_at
from esan.train.engines.objective import Objective
from esan.train.engines.recalibrate import Renewal

#: What is done to each batch while training, with random numbers from the generator.
Augment = Callable[[Bag, torch.Generator], Bag]


def device_of(model: SubgraphGNN) -> torch.device:
    """Where a network is, and so where it is trained."""
    return next(model.parameters()).device


def trains_literally(model: SubgraphGNN) -> bool:
    """Whether a network is trained on literal bags: dropout, say, is drawn for every pair."""
    encoder = model.encoder
    return model.why_literal is not None or bool(encoder.dropout and encoder.dropout_on == "pairs")


class Engine(Protocol):
    """Trains one network. Nothing that a method gives has been waited for, so that many engines overlap on a GPU."""

    def train_epoch(self, ids: Tensor, renew_over: int = 0) -> Tensor:
        """One pass over these graphs, in this order; the mean loss, a tensor without dimensions on the device.

        A second pass over the same graphs in batches of `renew_over`, if that is not 0, makes their statistics under
        the weights that have come of the first the running ones of batch norms. It has no part in what is trained.
        """

    def issue(self) -> None:
        """Start what was asked for, if it waits for other engines to be asked too."""

    def predict(self, ids: Tensor) -> Tensor:
        """What the network gives for these graphs in eval mode, a line a graph; of sampled bags, for a new sample."""

    def set_lr(self, lr: float) -> None:
        """Set the learning rate of what follows."""

    def weights(self) -> dict[str, Tensor]:
        """The state_dict of the network as it is now; copies, which later training does not change."""

    def state_dict(self) -> dict[str, Any]:
        """ "model", "optimiser" and "generator": all that continues the training; tensors may be the live ones."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from such a state."""


class MakeEngine(Protocol):
    """Makes the engine of a job, as `EagerEngine` does; the bag may be on the host, and the network elsewhere."""

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
    """What engines share that go batch after batch: a network with its Adam, loader and generator.

    Args:
        model: the network, on the device of the training.
        bag: the bag of the whole dataset, with targets; if it is elsewhere, a copy goes there.
        objective: the loss.
        lr: the learning rate of Adam.
        batch_size: graphs a step.
        generator: on the CPU; draws samples and, a number a pass, what is random in the network.
        augment: what is done to batches while training.
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
        self.device = device_of(model)
        self.model, self.objective, self.generator, self.augment = model, objective.to(self.device), generator, augment
        self.optimiser = torch.optim.Adam(model.parameters(), lr=lr)
        self.loader = Loader(bag_at(bag, self.device), batch_size, generator=generator)

    @abstractmethod
    def train_epoch(self, ids: Tensor, renew_over: int = 0) -> Tensor: ...

    @abstractmethod
    def predict(self, ids: Tensor) -> Tensor: ...

    def issue(self) -> None:
        return  # Nothing waits here.

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

    def renew(self, ids: Tensor, size: int) -> None:
        """Make statistics of these graphs, in batches of `size`, the running ones of batch norms."""
        renewal, state = Renewal(self.model), self.generator.get_state()
        if not renewal.needed:
            return
        with renewal.over_batches(), self._own_randomness():
            for batch in self._batches(ids, size):
                renewal.add(partial(self._given, batch), len(batch))
        # What samples it has drawn is no matter of what comes next.
        self.generator.set_state(state)

    def _batches(self, ids: Tensor, size: int) -> Iterator[Bag]:
        return (self.loader.batch(some) for some in ids.to(self.device).split(size))

    def _given(self, batch: Bag) -> Tensor:
        return self.model(self._fit(batch))

    def _fit(self, batch: Bag) -> Bag:
        """The batch as the network takes it."""
        # Who asked for dropout, say, asked for every pair: there is nothing to warn of. A compact bag that was asked
        # for by name stays one, and the network refuses it.
        return batch if self.model.why_literal is None or batch.strict else batch.to_literal()

    @contextmanager
    def _own_randomness(self, process: int = 0) -> Iterator[None]:
        """Dropout draws from torch's own generator, which all jobs share: each pass seeds it from this job's.

        Args:
            process: which of a training's processes this is; each drops others.
        """
        seed = int(torch.randint(2**62, (), generator=self.generator)) + process
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(seed)
            yield


class EagerEngine(BatchEngine):
    """Batch after batch, as torch runs it, on any device; arguments are those of `BatchEngine`."""

    def train_epoch(self, ids: Tensor, renew_over: int = 0) -> Tensor:
        self.model.train()
        total = torch.zeros((), device=self.device)
        count = torch.zeros((), device=self.device)
        with self._own_randomness():
            for batch in self._batches(ids, self.loader.batch_size):
                if self.augment is not None:
                    batch = self.augment(batch, self.generator)
                assert batch.y is not None
                terms = self.objective.terms(self._given(batch), batch.y)
                self.optimiser.zero_grad()
                terms.mean().backward()
                self.optimiser.step()
                with torch.no_grad():
                    total += (terms.value * terms.there).sum()
                    count += terms.there.sum()
        if renew_over:
            self.renew(ids, renew_over)
        return total / count.clamp(min=1)

    def predict(self, ids: Tensor) -> Tensor:
        self.model.eval()
        with torch.no_grad(), self._own_randomness():
            batches = self._batches(ids, self.loader.batch_size)
            return self.objective.answer(torch.cat([self._given(batch) for batch in batches]))
