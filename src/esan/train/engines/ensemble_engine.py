"""`EnsembleEngine`: like networks trained on a GPU as one `Ensemble`; `MemberEngine`: the engine of one of them."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from esan.bags import Bag
from esan.bags.padded.bag import PaddedBag
from esan.bags.padded.batches import PaddedBatches
from esan.bags.padded.shapes import FINE, KnownShapes
from esan.nn import Ensemble, SubgraphGNN
from esan.nn.linear import exceeds_kernel_width
from esan.ops.dispatch import implementation
from esan.policies import Sampled
from esan.steps import Step
from esan.train.engines.engine import bag_on, literal_bag, needs_literal_bag
from esan.train.engines.objective import Objective, loss_gradient
from esan.train.engines.recalibrate import NormRecalibration
from esan.train.engines.subgraph_sampling import BagSampler, GraphSampler, SampleNumbers, sampler_for

#: Rows of all members from which on several batch shapes save more than they cost, where a library's matrix product
#: would also work on padding.
FINE_FROM_ROWS = 2**14


def ensemble_batches(orders: list[Tensor], batch_size: int) -> np.ndarray:
    """The graphs of every step of an epoch, `[steps, members, batch_size]`, −1 after the last graph of a member."""
    steps = -(-max(len(ids) for ids in orders) // batch_size)
    batches = np.full((len(orders), steps * batch_size), -1, dtype=np.int64)
    for row, ids in zip(batches, orders, strict=True):
        row[: len(ids)] = ids.cpu().numpy()
    return np.ascontiguousarray(batches.reshape(len(orders), steps, batch_size).swapaxes(0, 1))


class EnsembleEngine:
    """Trains an `Ensemble` with `esan.step` on padded batches; its members call it through a `MemberEngine` each.

    Calls are collected until all members have made them, or one of them needs the result. Where a library's matrix
    products would work on padding, those of wide layers, batches have a few shapes, each the smallest that holds it.

    Args:
        bag: the bag of the whole dataset, on the CPU; with a `Sampled` policy it goes to the GPU and is sampled there.
        objective: the loss of all members.
        batch_size: graphs per step and member.
        device: the GPU.
    """

    def __init__(self, bag: Bag, objective: Objective, batch_size: int, device: torch.device) -> None:
        self.bag = bag_on(bag, device) if isinstance(bag.policy, Sampled) else bag
        self.device, self.objective, self.batch_size = device, objective.to(device), batch_size
        self.members: list[MemberEngine] = []
        self.is_built = False
        #: Epochs that members have called for and that have not run: their graphs, and batch sizes of recalibration.
        self._pending: dict[MemberEngine, Tensor] = {}
        self._pending_recalibration: dict[MemberEngine, int] = {}
        self._losses = torch.zeros(0, device=device)
        #: For each prediction since the last epoch, the graphs of every member and what all of them predict.
        self._predictions: dict[int, tuple[list[Tensor], Tensor]] = {}
        self._sampler: BagSampler | GraphSampler | None = None
        self._batches: PaddedBatches | None = None
        self._known_shapes = KnownShapes()

    # -- members -------------------------------------------------------------------------------------------------

    def build(self, members: "list[MemberEngine]") -> None:
        """Stack the networks of these members; the others leave with their state."""
        states = {member: member.state_dict() for member in self.members}
        models = [member.initial_model for member in members]
        self.is_built, self.members = True, members
        self.ensemble = Ensemble(models).to(self.device)
        self.model = self.ensemble.network
        self.lr = torch.zeros(len(members), device=self.device)
        self.optimiser = implementation("adam", self.lr).FlatAdam(list(self.model.parameters()), len(members), self.lr)
        self._sums = torch.zeros(2, len(members), device=self.device)
        self._seeds = torch.zeros(len(members), dtype=torch.int64, device=self.device)
        self._recalibration = NormRecalibration(self.model)
        self._train_step = Step(self._train_batch)
        self._recalibration_step = Step(self._recalibrate_batch)
        self._predict_step = Step(self._predict_batch)
        self._batches = None
        for index, member in enumerate(members):
            member.index = index
            member.write(states[member])

    @property
    def is_open(self) -> bool:
        """Whether more members may join: none of them has been called."""
        return not self.is_built and not self._pending

    def empty_copy(self) -> "EnsembleEngine":
        """Another engine for the same work, without members."""
        return EnsembleEngine(self.bag, self.objective, self.batch_size, self.device)

    def is_pending(self, member: "MemberEngine") -> bool:
        """Whether this member has called for an epoch that has not run."""
        return member in self._pending

    def forget_predictions(self) -> None:
        """Drop predictions computed in advance, because a network has changed."""
        self._predictions.clear()

    # -- calls ---------------------------------------------------------------------------------------------------

    def request_epoch(self, member: "MemberEngine", ids: Tensor, recalibration_batch_size: int) -> Tensor:
        """Take the call of a member for an epoch; it runs when all members have called, or one needs a result."""
        if self.is_pending(member):
            self.flush()
        if not self._pending:
            # Not written here: that would happen on another stream than the losses.
            self._losses = torch.empty(len(self.members), device=self.device)
            self._predictions.clear()
        self._pending[member] = ids
        if recalibration_batch_size:
            self._pending_recalibration[member] = recalibration_batch_size
        loss = self._losses[self.members.index(member)]
        if len(self._pending) == len(self.members) and self.is_built:
            self.flush()
        return loss

    def flush(self) -> None:
        """Run the epochs that members have called for."""
        if not self._pending:
            return
        pending, self._pending = self._pending, {}
        recalibrating, self._pending_recalibration = self._pending_recalibration, {}
        losses, positions = self._losses, [self.members.index(member) for member in pending]
        if not self.is_built:
            self.build(self.members)
        elif 2 * len(pending) <= len(self.members):
            # Most members have finished: the rest continue as a smaller ensemble.
            self.build(list(pending))
        for member in self.members:
            member.restart_counts()
        # Members that have not called get empty batches, which change nothing.
        nothing = next(iter(pending.values()))[:0]
        batches, orders = self._prepared([pending.get(member, nothing) for member in self.members], 0)
        for member in pending:
            self._advance_numbers(member, 0)
            member.restart_counts()
        self.model.train()
        self._sums.zero_()
        if self.model.encoder.dropout:
            for member in pending:
                self._seeds[member.index] = member.draw_seed()
        self._train_step.over(batches(list(ensemble_batches(orders, self.batch_size))))
        mean = self._sums[0] / self._sums[1].clamp(min=1)
        # One by one: indexing with a list would copy it to the device and wait.
        for position, member in zip(positions, pending, strict=True):
            losses[position].copy_(mean[member.index])
        if self._recalibration.needed:
            for size in sorted(set(recalibrating.values())):
                pairs = zip(self.members, orders, strict=True)
                chosen = [order if recalibrating.get(member) == size else nothing for member, order in pairs]
                with self._recalibration.over_batches():
                    self._recalibration_step.over(batches(list(ensemble_batches(chosen, size))))

    def predict(self, member: "MemberEngine", ids: Tensor) -> Tensor:
        """The predictions of one member; those that the others will probably call for next are computed with them."""
        self.flush()
        if not self.is_built:
            self.build(self.members)
        call, member.calls = member.calls, member.calls + 1
        member.predicted_ids[call] = ids
        known = self._predictions.get(call)
        if known is None or not torch.equal(known[0][member.index], ids):
            wanted = [other.predicted_ids.get(call, ids) for other in self.members]
            known = self._predictions[call] = (wanted, self._predict_all(wanted, call))
        self._advance_numbers(member, call)
        return known[1][member.index, : ids.numel()]

    def weights(self, index: int) -> dict[str, Tensor]:
        """A copy of the state_dict of one member, which shares no memory with the others."""
        return {name: tensor.clone() for name, tensor in self.ensemble.member(index).items()}

    def _predict_all(self, wanted: list[Tensor], call: int) -> Tensor:
        with torch.no_grad():
            batches, orders = self._prepared(wanted, call)
            same = all(torch.equal(ids, orders[0]) for ids in orders)
            steps = ensemble_batches(orders[:1] if same else orders, self.batch_size)
            self.model.eval()
            return self.objective.unscale(torch.cat(self._predict_step.over(batches(list(steps))), 1))

    # -- steps ---------------------------------------------------------------------------------------------------

    def _train_batch(self, bag: PaddedBag) -> None:
        self.optimiser.zero_grad()
        prediction = self.model(replace(bag, step_seeds=self._seeds, keeps_padding=True))
        y = bag.graphs.y
        assert y is not None
        grad, live = loss_gradient(self.objective, prediction.detach(), y, bag.graph_multiplicity, self._sums)
        prediction.backward(grad)
        self.optimiser.step(live)
        if self.model.encoder.dropout:
            self._seeds += (live > 0).long()

    def _recalibrate_batch(self, bag: PaddedBag) -> None:
        graphs = bag.graph_multiplicity.view(len(self.members), -1)[:, :-1].sum(1)
        self._recalibration.add_batch(lambda: self.ensemble(bag), graphs)

    def _predict_batch(self, bag: PaddedBag) -> Tensor:
        return self.ensemble(bag)

    # -- batches -------------------------------------------------------------------------------------------------

    def _prepared(self, orders: list[Tensor], call: int) -> tuple[PaddedBatches, list[Tensor]]:
        """The padded batches of the next pass, and for each member the ids of its graphs in their bag.

        Args:
            orders: per member, its graphs.
            call: for samples, which pass of each member since `MemberEngine.restart_counts`.
        """
        if needs_literal_bag(self.model):  # predictions use the same bag
            self.bag = literal_bag(self.bag)
        bag = self.bag
        if isinstance(bag.policy, Sampled):
            if self._sampler is None:
                self._sampler = sampler_for(bag)
            # The last sample is released first: memory may not hold two.
            fields, self._batches = set() if self._batches is None else self._batches.fields_read, None
            numbers = [member.numbers.peek(call, self._sampler.count) for member in self.members]
            bag, orders = self._sampler.sample(orders, numbers)
            self._batches = self._padded_batches(bag, fields)
        if self._batches is None:
            self._batches = self._padded_batches(bag, set())
        return self._batches, orders

    def _padded_batches(self, bag: Bag, fields: set[str]) -> PaddedBatches:
        members = len(self.members)
        rows = members * self.batch_size * bag.num_rows / len(bag)
        sizes = FINE if exceeds_kernel_width(self.model.encoder) and rows >= FINE_FROM_ROWS else None
        return PaddedBatches(
            bag,
            self.device,
            members,
            sizes,
            at_once=self._sampler is not None,
            known_shapes=self._known_shapes,
            fields_read=fields,
        )

    def _advance_numbers(self, member: "MemberEngine", call: int) -> None:
        """The member has made this pass: its random numbers are used up."""
        if self._sampler is not None:
            member.numbers.advance(call)


class MemberEngine:
    """The engine of one job in an ensemble; see `esan.train.engines.engine.Engine`."""

    def __init__(self, ensemble: EnsembleEngine, model: SubgraphGNN, lr: float, generator: torch.Generator) -> None:
        self.ensemble, self.generator, self.index = ensemble, generator, len(ensemble.members)
        #: The number of predictions since the last epoch, and their graphs.
        self.calls = 0
        self.predicted_ids: dict[int, Tensor] = {}
        self.numbers = SampleNumbers(generator)
        self.initial_model: SubgraphGNN = model
        self._lr = lr
        #: The state while this member is not part of the stacked network.
        self._state: dict[str, Any] = {
            "model": model.state_dict(),
            "optimiser": torch.optim.Adam(model.parameters(), lr=lr).state_dict(),
        }
        ensemble.members.append(self)

    def train_epoch(self, ids: Tensor, recalibration_batch_size: int = 0) -> Tensor:
        return self._joined().request_epoch(self, ids, recalibration_batch_size)

    def flush(self) -> None:
        self.ensemble.flush()

    def predict(self, ids: Tensor) -> Tensor:
        self.ensemble.flush()
        return self._joined().predict(self, ids)

    def set_lr(self, lr: float) -> None:
        if self.ensemble.is_pending(self):
            self.ensemble.flush()
        self._lr = lr
        if self._is_stacked:
            self.ensemble.lr[self.index] = lr

    def weights(self) -> dict[str, Tensor]:
        self.ensemble.flush()
        return self.ensemble.weights(self.index) if self._is_stacked else self.state_dict()["model"]

    def state_dict(self) -> dict[str, Any]:
        self.ensemble.flush()
        if self._is_stacked:
            self._state = self._read()
        return self._state | {"generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.ensemble.flush()
        self.generator.set_state(state["generator"])
        self.restart_counts()
        self._lr = float(state["optimiser"]["param_groups"][0]["lr"])
        self._state = {"model": state["model"], "optimiser": state["optimiser"]}
        if self._is_stacked:
            self.write(self._state)
            self.ensemble.forget_predictions()

    @property
    def _is_stacked(self) -> bool:
        """Whether this member is part of the stacked network."""
        return self.ensemble.is_built and self in self.ensemble.members

    def _joined(self) -> EnsembleEngine:
        """The ensemble; a new one if the others have continued without this member."""
        if self not in self.ensemble.members:
            self.ensemble, self.index = self.ensemble.empty_copy(), 0
            self.ensemble.members.append(self)
        return self.ensemble

    def restart_counts(self) -> None:
        """Count predictions and samples from 0 again."""
        self.calls = 0
        self.numbers.restart()

    def draw_seed(self) -> int:
        """The seed of dropout in an epoch."""
        return int(torch.randint(2**62, (), generator=self.generator))

    def write(self, state: dict[str, Any]) -> None:
        """Copy a state into this member's slice of the stacked tensors."""
        ensemble, index = self.ensemble, self.index
        with torch.no_grad():
            for name, tensor in ensemble.model.state_dict().items():
                tensor[index].copy_(state["model"][name])
            entries, optimiser = state["optimiser"]["state"], ensemble.optimiser
            steps = [float(entry["step"]) for entry in entries.values()]
            optimiser.step_count[index] = max(steps, default=0.0)
            for position, (mean, square) in enumerate(zip(optimiser.means, optimiser.squares, strict=True)):
                # A parameter without an entry has had no gradient yet.
                entry = entries.get(position, {"exp_avg": 0.0, "exp_avg_sq": 0.0})
                mean[index], square[index] = entry["exp_avg"], entry["exp_avg_sq"]
            ensemble.lr[index] = self._lr

    def _read(self) -> dict[str, Any]:
        """A copy of this member's slice of the stacked tensors, as the state of a network and its Adam."""
        ensemble, index = self.ensemble, self.index
        optimiser = ensemble.optimiser
        step = optimiser.step_count[index].cpu()
        pairs = enumerate(zip(optimiser.means, optimiser.squares, strict=True))
        entries = {
            position: {"step": step.clone(), "exp_avg": mean[index].clone(), "exp_avg_sq": square[index].clone()}
            for position, (mean, square) in pairs
        }
        group = self._state["optimiser"]["param_groups"][0] | {"lr": self._lr}
        return {"model": ensemble.weights(index), "optimiser": {"state": entries, "param_groups": [group]}}
