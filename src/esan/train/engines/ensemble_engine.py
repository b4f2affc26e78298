"""`Team`: networks of one kind trained together on a GPU, each as if alone; `Seat`: the engine of one of them."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from esan.bags import Bag
from esan.bags.padded.bag import PaddedBag
from esan.bags.padded.batches import PaddedBatches
from esan.bags.padded.shapes import FINE, Rooms
from esan.nn import Ensemble, SubgraphGNN
from esan.nn.linear import is_wide
from esan.ops.dispatch import implementation
from esan.policies import Sampled
from esan.steps import Step
from esan.train.engines.copies import bag_at, literal_of
from esan.train.engines.engine import trains_literally
from esan.train.engines.losses import loss_backward
from esan.train.engines.objective import Objective
from esan.train.engines.recalibrate import Renewal
from esan.train.engines.resample import FreshSamples
from esan.train.engines.samples import Draws, Samples, samples_of
from esan.train.engines.steps import steps_of

#: Rows of all networks from which on the time that padding takes is worth several shapes, where a library works on it.
_MANY_ROWS = 2**14


class Team:
    """Networks of one kind as an `Ensemble`, whose steps (`esan.step`) run on the padded batches of a loader.

    Where a library's products would work on padding, those of wide layers, there are a few shapes, and each batch has
    the smallest that it fits.

    Args:
        bag: the bag of the whole dataset, on the host; of a `Sampled` policy, it goes to the GPU, to be sampled there.
        objective: the loss of all.
        batch_size: graphs a step and network.
        device: the GPU.
    """

    def __init__(self, bag: Bag, objective: Objective, batch_size: int, device: torch.device) -> None:
        self.bag = bag_at(bag, device) if isinstance(bag.policy, Sampled) else bag
        self.device, self.objective, self.batch_size = device, objective.to(device), batch_size
        self.seats: list[Seat] = []
        self.closed = False
        self._pending: dict[Seat, Tensor] = {}
        self._renewing: dict[Seat, int] = {}
        self._losses = torch.zeros(0, device=device)
        self._answers: dict[int, tuple[list[Tensor], Tensor]] = {}
        self._samples: Samples | FreshSamples | None = None
        self._batches: PaddedBatches | None = None
        self._rooms = Rooms()

    # -- members -------------------------------------------------------------------------------------------------

    def assemble(self, seats: "list[Seat]") -> None:
        """Make one network of these seats'; the others leave, and take what they have learned with them."""
        states = {seat: seat.state_dict() for seat in self.seats}
        models = [seat.network() for seat in seats]
        self.closed, self.seats = True, seats
        self.models = Ensemble(models).to(self.device)
        self.model = self.models.network
        self.lr = torch.zeros(len(seats), device=self.device)
        self.optimiser = implementation("adam", self.lr).FlatAdam(list(self.model.parameters()), len(seats), self.lr)
        self._sums = torch.zeros(2, len(seats), device=self.device)
        self._seeds = torch.zeros(len(seats), dtype=torch.int64, device=self.device)
        self._renewal = Renewal(self.model)
        self._training, self._renewing_step, self._predicting = (
            Step(self._train_step), Step(self._renew_step), Step(self._forward)
        )  # fmt: skip
        self._batches = None
        for number, seat in enumerate(seats):
            seat.number = number
            seat.write(states[seat])

    @property
    def networks(self) -> int:
        return len(self.seats)

    @property
    def open(self) -> bool:
        """Whether more seats may join: nothing has been asked of those that are there."""
        return not self.closed and not self._pending

    def anew(self) -> "Team":
        """Another team for the same work, without seats."""
        return Team(self.bag, self.objective, self.batch_size, self.device)

    def waits_for(self, seat: "Seat") -> bool:
        """Whether this seat has asked for an epoch that others have not asked for yet."""
        return seat in self._pending

    def forget(self) -> None:
        """Forget answers that are known: a network has changed."""
        self._answers.clear()

    def ask(self, seat: "Seat", ids: Tensor, renew_over: int) -> Tensor:
        """Note that a seat wants an epoch of training; it happens when all want it, or one wants something else."""
        if self.waits_for(seat):
            self.train()
        if not self._pending:
            # Nothing is written here: that would happen on another stream than the losses.
            self._losses = torch.empty(len(self.seats), device=self.device)
            self._answers.clear()
        self._pending[seat] = ids
        if renew_over:
            self._renewing[seat] = renew_over
        place = self.seats.index(seat)
        loss = self._losses[place]
        if len(self._pending) == len(self.seats) and self.closed:
            self.train()
        return loss

    def train(self) -> None:
        """Do what was asked for."""
        if not self._pending:
            return
        asked, self._pending = self._pending, {}
        renewing, self._renewing = self._renewing, {}
        losses, places = self._losses, [self.seats.index(seat) for seat in asked]
        if not self.closed:
            self.assemble(self.seats)
        elif 2 * len(asked) <= self.networks:
            # Most have ended: the rest go on without them.
            self.assemble(list(asked))
        for seat in self.seats:
            seat.begin()
        # Who has not asked gets empty batches, which change nothing.
        nothing = next(iter(asked.values()))[:0]
        batches, orders = self._ready([asked.get(seat, nothing) for seat in self.seats], 0)
        for seat in asked:
            self._goes_on(seat, 0)
            seat.begin()
        steps = self._steps(orders)
        self.model.train()
        self._sums.zero_()
        if self.model.encoder.dropout:
            for seat in asked:
                self._seeds[seat.number] = seat.draw()
        for _ in self._each(batches, steps, self._training):
            pass
        mean = self._sums[0] / self._sums[1].clamp(min=1)
        # One by one: a list of places would have to be sent to the device, which waits for it.
        for place, seat in zip(places, asked, strict=True):
            losses[place].copy_(mean[seat.number])
        if self._renewal.needed:
            for size in sorted(set(renewing.values())):
                wanted = zip(self.seats, orders, strict=True)
                parts = [order if renewing.get(seat) == size else nothing for seat, order in wanted]
                self._renew(batches, self._steps(parts, size))

    def predict(self, seat: "Seat", ids: Tensor) -> Tensor:
        """The answers of one network; those of the others, for what they will ask next, are found with them."""
        self.train()
        if not self.closed:
            self.assemble(self.seats)
        call, seat.calls = seat.calls, seat.calls + 1
        seat.asked[call] = ids
        known = self._answers.get(call)
        if known is None or not torch.equal(known[0][seat.number], ids):
            wanted = [other.asked.get(call, ids) for other in self.seats]
            known = self._answers[call] = (wanted, self._predicted(wanted, call))
        self._goes_on(seat, call)
        return known[1][seat.number, : ids.numel()]

    def weights(self, number: int) -> dict[str, Tensor]:
        """The state_dict of one network as it is now; copies of its own, which keep nothing of the others."""
        return {name: tensor.clone() for name, tensor in self.models.member(number).items()}

    def _predicted(self, wanted: list[Tensor], call: int) -> Tensor:
        with torch.no_grad():
            batches, orders = self._ready(wanted, call)
            same = all(torch.equal(ids, orders[0]) for ids in orders)
            steps = self._steps(orders[:1] if same else orders)
            self.model.eval()
            return self.objective.answer(torch.cat([*self._each(batches, steps, self._predicting)], 1))

    def _each(self, batches: PaddedBatches, steps: np.ndarray, work: Step) -> Iterator[Any]:
        """What some work gives for the batch of each step; the network must be in the mode for it."""
        return (work(bag) for bag in batches(list(steps)))

    def _steps(self, orders: list[Tensor], size: int | None = None) -> np.ndarray:
        return steps_of(orders, size or self.batch_size)

    # -- steps ---------------------------------------------------------------------------------------------------

    def _train_step(self, bag: PaddedBag) -> None:
        self.optimiser.zero_grad()
        prediction = self.model(replace(bag, drawn_from=self._seeds, whole_output=True))
        y = bag.graphs.y
        assert y is not None
        grad, live = loss_backward(self.objective, prediction.detach(), y, bag.graph_weight, self._sums)
        prediction.backward(grad)
        self.optimiser.step(live)
        if self.model.encoder.dropout:
            self._seeds += (live > 0).long()

    def _renew(self, batches: PaddedBatches, steps: np.ndarray) -> None:
        with self._renewal.over_batches():
            for _ in self._each(batches, steps, self._renewing_step):
                pass

    def _renew_step(self, bag: PaddedBag) -> None:
        graphs = bag.graph_weight.view(self.networks, -1)[:, :-1].sum(1)
        self._renewal.add(lambda: self.models(bag), graphs)

    def _forward(self, bag: PaddedBag) -> Tensor:
        return self.models(bag)

    def _ready(self, orders: list[Tensor], call: int) -> tuple[PaddedBatches, list[Tensor]]:
        """What lays out the graphs that each network is about to see, and their numbers in its bag.

        Args:
            orders: the graphs.
            call: of samples, which of each network's since `Seat.begin`.
        """
        if trains_literally(self.model):  # predictions use the same bag
            self.bag = literal_of(self.bag)
        bag = self.bag
        if isinstance(bag.policy, Sampled):
            if self._samples is None:
                self._samples = samples_of(bag)
            # What was sampled before is let go first: there is no room for two.
            read, self._batches = self._read(), None
            bag, orders = self._samples.of(orders, [seat.draws.look(call, self._samples.count) for seat in self.seats])
            self._batches = self._batches_of(bag, read)
        if self._batches is None:
            self._batches = self._batches_of(bag, set())
        return self._batches, orders

    def _read(self) -> set[str]:
        return set() if self._batches is None else self._batches.read

    def _batches_of(self, bag: Bag, read: set[str]) -> PaddedBatches:
        rows = self.networks * self.batch_size * bag.num_rows / len(bag)
        sizes = FINE if is_wide(self.model.encoder) and rows >= _MANY_ROWS else None
        return PaddedBatches(
            bag, self.device, self.networks, sizes, at_once=self._samples is not None, rooms=self._rooms, read=read
        )

    def _goes_on(self, seat: "Seat", call: int) -> None:
        """The sample of this call is one that the seat has asked for."""
        if self._samples is not None:
            seat.draws.take(call)


class Seat:
    """The engine of one job in a team; see `esan.train.engines.engine.Engine`."""

    def __init__(self, team: Team, model: SubgraphGNN, lr: float, generator: torch.Generator) -> None:
        self.team, self.generator, self.number = team, generator, len(team.seats)
        #: How many predictions were asked for since the last training, and for which graphs.
        self.calls = 0
        self.asked: dict[int, Tensor] = {}
        self.draws = Draws(generator)
        self._lr = lr
        self._alone: SubgraphGNN = model
        self._kept: dict[str, Any] = {"model": model.state_dict(), "optimiser": _fresh(model, lr)}
        team.seats.append(self)

    def train_epoch(self, ids: Tensor, renew_over: int = 0) -> Tensor:
        return self._seated().ask(self, ids, renew_over)

    def issue(self) -> None:
        self.team.train()

    def predict(self, ids: Tensor) -> Tensor:
        self.team.train()
        return self._seated().predict(self, ids)

    def set_lr(self, lr: float) -> None:
        if self.team.waits_for(self):
            self.team.train()
        self._lr = lr
        if self._there:
            self.team.lr[self.number] = lr

    def weights(self) -> dict[str, Tensor]:
        self.team.train()
        return self.team.weights(self.number) if self._there else self.state_dict()["model"]

    def state_dict(self) -> dict[str, Any]:
        self.team.train()
        if self._there:
            self._kept = self._read()
        return self._kept | {"generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.team.train()
        self.generator.set_state(state["generator"])
        self.begin()
        self._lr = float(state["optimiser"]["param_groups"][0]["lr"])
        self._kept = {"model": state["model"], "optimiser": state["optimiser"]}
        if self._there:
            self.write(self._kept)
            self.team.forget()

    @property
    def _there(self) -> bool:
        """Whether this seat's network is part of the team's."""
        return self.team.closed and self in self.team.seats

    def _seated(self) -> Team:
        """The team; where the others have gone on without this seat, one of its own."""
        if self not in self.team.seats:
            self.team, self.number = self.team.anew(), 0
            self.team.seats.append(self)
        return self.team

    def begin(self) -> None:
        """Count what is asked for anew."""
        self.calls = 0
        self.draws.forget()

    def draw(self) -> int:
        """A seed for what the network draws in an epoch."""
        return int(torch.randint(2**62, (), generator=self.generator))

    def network(self) -> SubgraphGNN:
        """The network alone, as it was built."""
        return self._alone

    def write(self, state: dict[str, Any]) -> None:
        """Put a state into this seat's part of the team's network, into the tensors that are there."""
        team, number = self.team, self.number
        with torch.no_grad():
            for name, tensor in team.model.state_dict().items():
                tensor[number].copy_(state["model"][name])
            entries, optimiser = state["optimiser"]["state"], team.optimiser
            steps = [float(entry["step"]) for entry in entries.values()]
            optimiser.step_count[number] = max(steps, default=0.0)
            for place, (mean, square) in enumerate(zip(optimiser.means, optimiser.squares, strict=True)):
                # A parameter without an entry has had no gradient yet.
                entry = entries.get(place, {"exp_avg": 0.0, "exp_avg_sq": 0.0})
                mean[number], square[number] = entry["exp_avg"], entry["exp_avg_sq"]
            team.lr[number] = self._lr

    def _read(self) -> dict[str, Any]:
        """This seat's part of the team's network; copies."""
        team, number = self.team, self.number
        optimiser = team.optimiser
        step = optimiser.step_count[number].cpu()
        pairs = enumerate(zip(optimiser.means, optimiser.squares, strict=True))
        entries = {
            place: {"step": step.clone(), "exp_avg": mean[number].clone(), "exp_avg_sq": square[number].clone()}
            for place, (mean, square) in pairs
        }
        fresh = self._kept["optimiser"]["param_groups"][0] | {"lr": self._lr}
        return {"model": team.weights(number), "optimiser": {"state": entries, "param_groups": [fresh]}}


def _fresh(model: SubgraphGNN, lr: float) -> dict[str, Any]:
    return torch.optim.Adam(model.parameters(), lr=lr).state_dict()
