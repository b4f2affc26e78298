"""`FabricEngine`: one training over several processes or devices with Lightning Fabric (the extra `fabric`)."""

from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor

from esan.bags import Bag
from esan.nn import SubgraphGNN
from esan.policies import Policy
from esan.train.engines.engine import Augment, BatchEngine
from esan.train.engines.objective import Objective
from esan.train.engines.sync_batch_norm import SyncBatchNorm, convert_sync_batch_norm

if TYPE_CHECKING:
    from lightning.fabric import Fabric


class FabricEngine(BatchEngine):
    r"""An engine whose batches are split among processes; every process returns the same results.

    Every process holds the whole bag and is called with the same graphs. It takes a contiguous chunk of each batch, and
    the gradients are those of the loss of the whole batch:

    .. math:: \nabla \frac{\sum_p \sum_{i \in p} \ell_i}{N} = \frac1P \sum_p \nabla \frac{P \sum_{i \in p} \ell_i}{N}

    where P processes hold N targets together and DDP takes the mean. With `sync_norms`, batch norms count the pairs of
    all processes, and training is that of one process up to rounding and dropout, which every process draws for itself.
    Without, each process normalises its own chunk, and the running statistics of the first are used.

    Args:
        fabric: launched.
        model: with the same weights in every process.
        bag: the bag of the whole dataset, with targets; it is copied to the device of the network.
        objective: the loss.
        lr: the learning rate of Adam.
        batch_size: graphs per step, of all processes together.
        generator: on the CPU, in the same state in every process.
        augment: applied to batches during training.
        sync_norms: whether the statistics of batch norms are those of all processes.
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
        self.fabric, self.distributed = fabric, fabric.world_size > 1
        # A process group of their own: the sums of norms must not interleave with those of DDP.
        if sync_norms and self.distributed:
            convert_sync_batch_norm(model, dist.new_group())
        self.norms = [module for module in model.modules() if isinstance(module, SyncBatchNorm)]
        super().__init__(model, bag, objective, lr, batch_size, generator, augment)
        self.ddp_model, self.ddp_optimiser = fabric.setup(model, self.optimiser, move_to_device=False)

    def train_epoch(self, ids: Tensor, recalibration_batch_size: int = 0) -> Tensor:
        self.ddp_model.train()
        sums = torch.zeros(2, device=self.device, dtype=torch.float64)
        with self._seeded(self.fabric.global_rank):
            for batch_ids in self._split(ids):
                split = self._is_split(batch_ids)
                for norm in self.norms:
                    norm.sync = split
                batch = self._suitable(self._own_chunk(batch_ids, split, self.augment))
                assert batch.y is not None
                losses = self.objective.losses(self.ddp_model(batch), batch.y)
                value, count = (losses.value * losses.mask).sum(), losses.mask.sum()
                both = torch.stack([value.detach(), count]).double()
                if split:
                    dist.all_reduce(both)
                processes = self.fabric.world_size if split else 1
                self.ddp_optimiser.zero_grad()
                self.fabric.backward(value * (processes / both[1].clamp(min=1)).to(value.dtype))
                self.ddp_optimiser.step()
                sums += both
        if recalibration_batch_size:
            # Every process runs all batches whole, so that all have the statistics of a single process.
            for norm in self.norms:
                norm.sync = False
            self.recalibrate(ids, recalibration_batch_size)
        return sums[0] / sums[1].clamp(min=1)

    def predict(self, ids: Tensor) -> Tensor:
        self.ddp_model.eval()
        outputs, positions = [], []
        with torch.no_grad(), self._seeded(self.fabric.global_rank):
            for batch_ids, position in zip(self._split(ids), self._split(torch.arange(len(ids))), strict=True):
                split = self._is_split(batch_ids)
                # The network itself: DDP's wrapper would synchronise the buffers before every pass.
                outputs.append(self._forward(self._own_chunk(batch_ids, split)))
                positions.append(self._own_ids(position, split))
        return self.objective.unscale(self._gathered(torch.cat(outputs), torch.cat(positions), len(ids)))

    # -- which process has which graphs ----------------------------------------------------------------------------

    def _split(self, ids: Tensor) -> tuple[Tensor, ...]:
        return ids.split(self.loader.batch_size)

    def _is_split(self, batch_ids: Tensor) -> bool:
        """Whether a batch is split; one with fewer graphs than processes is computed whole by each of them."""
        return self.distributed and len(batch_ids) >= self.fabric.world_size

    def _own_ids(self, batch_ids: Tensor, split: bool) -> Tensor:
        return batch_ids.tensor_split(self.fabric.world_size)[self.fabric.global_rank] if split else batch_ids

    def _own_chunk(self, batch_ids: Tensor, split: bool, augment: Augment | None = None) -> Bag:
        """This process's chunk of a batch; random choices are made for the whole batch, alike in every process."""
        policy, device = self.loader.bag.policy, self.device
        if augment is None and not (isinstance(policy, Policy) and policy.random):
            return self.loader.batch(self._own_ids(batch_ids, split).to(device))
        batch = self.loader.batch(batch_ids.to(device))
        batch = batch if augment is None else augment(batch, self.generator)
        return batch[self._own_ids(torch.arange(len(batch_ids)), split).to(device)] if split else batch

    def _gathered(self, outputs: Tensor, positions: Tensor, count: int) -> Tensor:
        """The predictions of all processes, in the order of the call."""
        rows = outputs.new_zeros(count, outputs.size(1))
        if not self.distributed:
            return rows.index_copy(0, positions.to(outputs.device), outputs)
        # A row that several processes have (of a batch that is not split) is divided by their number.
        processes = outputs.new_zeros(count)
        rows[positions.to(outputs.device)], processes[positions.to(outputs.device)] = outputs, 1.0
        dist.all_reduce(rows)
        dist.all_reduce(processes)
        return rows / processes[:, None]
