"""`FabricEngine`: one training over several processes or devices, through Lightning Fabric; the extra `fabric`."""

from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor

from esan.bags import Bag
from esan.nn import SubgraphGNN
from esan.policies import Policy
from esan.train.engines.engine import Augment, BatchEngine
from esan.train.engines.objective import Objective
from esan.train.engines.synced_norm import synced

if TYPE_CHECKING:
    from lightning.fabric import Fabric


class FabricEngine(BatchEngine):
    r"""An engine whose batches are split among processes; what it gives is the same in all of them.

    Every process holds the whole bag and is asked for the same graphs. Of each batch it takes a contiguous part, and
    the gradients are those of the loss of the whole batch:

    .. math:: \nabla \frac{\sum_p \sum_{i \in p} \ell_i}{N} = \frac1P \sum_p \nabla \frac{P \sum_{i \in p} \ell_i}{N}

    where P processes hold N targets together and DDP takes the mean. With `sync_norms`, batch norms count the pairs of
    all processes, and training is that of one process up to rounding, save for dropout, which draws anew in each.
    Without, each process normalises its part, and the running statistics of the first are used.

    Args:
        fabric: launched.
        model: with the same weights in every process.
        bag: the bag of the whole dataset, with targets; it goes to the device of the network.
        objective: the loss.
        lr: the learning rate of Adam.
        batch_size: graphs a step, of all processes together.
        generator: on the CPU, in the same state in every process.
        augment: what is done to batches while training.
        sync_norms: whether batch norms see all processes.
    """

    def __init__(
        self,
        fabric: "Fabric",
        model: SubgraphGNN,
        bag: Bag,
        objective: Objective,
        lr: float,
        batch_size: int,
        generator: torch.Generator,
        augment: Augment | None = None,
        sync_norms: bool = True,
    ) -> None:
        self.fabric, self.many = fabric, fabric.world_size > 1
        # A group of their own: sums of norms must not stand in line between DDP's.
        self.norms = synced(model, dist.new_group()) if sync_norms and self.many else []
        super().__init__(model, bag, objective, lr, batch_size, generator, augment)
        self.wrapped, self.stepping = fabric.setup(model, self.optimiser, move_to_device=False)

    def train_epoch(self, ids: Tensor, renew_over: int = 0) -> Tensor:
        self.wrapped.train()
        sums = torch.zeros(2, device=self.device, dtype=torch.float64)
        with self._own_randomness(self.fabric.global_rank):
            for some in self._split(ids):
                shared = self._shared(some)
                for norm in self.norms:
                    norm.together = shared
                batch = self._fit(self._part(some, shared, self.augment))
                assert batch.y is not None
                terms = self.objective.terms(self.wrapped(batch), batch.y)
                value, count = (terms.value * terms.there).sum(), terms.there.sum()
                both = torch.stack([value.detach(), count]).double()
                if shared:
                    dist.all_reduce(both)
                processes = self.fabric.world_size if shared else 1
                self.stepping.zero_grad()
                self.fabric.backward(value * (processes / both[1].clamp(min=1)).to(value.dtype))
                self.stepping.step()
                sums += both
        if renew_over:
            # Every process does all batches whole, so that the statistics are the same in all, and those of one.
            for norm in self.norms:
                norm.together = False
            self.renew(ids, renew_over)
        return sums[0] / sums[1].clamp(min=1)

    def predict(self, ids: Tensor) -> Tensor:
        self.wrapped.eval()
        given, places = [], []
        with torch.no_grad(), self._own_randomness(self.fabric.global_rank):
            for some, place in zip(self._split(ids), self._split(torch.arange(len(ids))), strict=True):
                shared = self._shared(some)
                # The network itself: DDP's wrapper would bring the buffers in line before every pass.
                given.append(self._given(self._part(some, shared)))
                places.append(self._mine(place, shared))
        return self.objective.answer(self._gathered(torch.cat(given), torch.cat(places), len(ids)))

    # -- which graphs are whose ----------------------------------------------------------------------------------

    def _split(self, ids: Tensor) -> tuple[Tensor, ...]:
        return ids.split(self.loader.batch_size)

    def _shared(self, some: Tensor) -> bool:
        """Whether a batch is split; one of fewer graphs than processes is done whole by each of them."""
        return self.many and len(some) >= self.fabric.world_size

    def _mine(self, some: Tensor, shared: bool) -> Tensor:
        return some.tensor_split(self.fabric.world_size)[self.fabric.global_rank] if shared else some

    def _part(self, some: Tensor, shared: bool, augment: Augment | None = None) -> Bag:
        """This process's part of a batch; what is random is drawn for the whole batch, alike in every process."""
        policy, device = self.loader.bag.policy, self.device
        if augment is None and not (isinstance(policy, Policy) and policy.random):
            return self.loader.batch(self._mine(some, shared).to(device))
        batch = self.loader.batch(some.to(device))
        batch = batch if augment is None else augment(batch, self.generator)
        return batch[self._mine(torch.arange(len(some)), shared).to(device)] if shared else batch

    def _gathered(self, given: Tensor, places: Tensor, count: int) -> Tensor:
        """The predictions of all processes, in the order that was asked for."""
        lines = given.new_zeros(count, given.size(1))
        if not self.many:
            return lines.index_copy(0, places.to(given.device), given)
        # A line that several have (of a batch done whole by each) is divided by how many.
        often = given.new_zeros(count)
        lines[places.to(given.device)], often[places.to(given.device)] = given, 1.0
        dist.all_reduce(lines)
        dist.all_reduce(often)
        return lines / often[:, None]
