"""`Team`: networks of one kind trained together on a GPU, each as if it were alone."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from esan.bags import Bag
from esan.bags.padded import PaddedBag
from esan.bags.padded_layout.padder import Padder
from esan.bags.padded_layout.shapes import Rooms
from esan.nn.stack import stack, unstacked
from esan.policies import Sampled
from esan.train.captured import Captured, Captures, streams_of
from esan.train.copies import bag_at, literal_of
from esan.train.engine import trains_literally
from esan.train.fresh import FreshSamples
from esan.train.laying import Steps, laid_out
from esan.train.losses import loss_backward
from esan.train.objective import Objective
from esan.train.renewal import Renewal
from esan.train.samples import Samples, samples_of
from esan.train.steps import steps_of

if TYPE_CHECKING:
    from esan.train.seat import Seat

#: Batches laid out at a time: enough to keep the device busy, few enough to cost little memory; and their bytes, where
#: that makes fewer.
_CHUNK, _CHUNK_BYTES = 4, 2**23


class Team:
    """Networks of one kind as one stacked network, whose step is captured once and replayed for every batch.

    Batches are filled up to one shape with filler that weighs nothing, so that a captured step serves all of them;
    where a batch is larger than any before, the step is captured anew. Where a library's products would work on the
    filler, those of wide layers, or batches are huge, there are a few shapes, and each step has the smallest it fits.

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
        streams = streams_of(device)
        self.stream, self._aside = streams[:2]
        #: Where layers do what does not depend on their main work; many networks fill the device without it.
        self.side = streams[2]
        self._pending: dict[Seat, Tensor] = {}
        self._renewing: dict[Seat, int] = {}
        self._losses = torch.zeros(0, device=device)
        self._answers: dict[int, tuple[list[Tensor], Tensor]] = {}
        self._samples: Samples | FreshSamples | None = None
        self._padder: Padder | None = None
        self._rooms = Rooms()

    # -- members -------------------------------------------------------------------------------------------------

    def assemble(self, seats: "list[Seat]") -> None:
        """Make one network of these seats'; the others leave, and take what they have learned with them."""
        from esan.ops.triton.adam import FlatAdam

        states = {seat: seat.state_dict() for seat in self.seats}
        models = [seat.network() for seat in seats]
        self._default().synchronize()
        with torch.cuda.stream(self.stream):
            self.closed, self.seats = True, seats
            self.model = stack(models).to(self.device)
            self.lr = torch.zeros(len(seats), device=self.device)
            self.optimiser = FlatAdam(list(self.model.parameters()), len(seats), self.lr)
            self._sums = torch.zeros(2, len(seats), device=self.device)
            self._seeds = torch.zeros(len(seats), dtype=torch.int64, device=self.device)
            self._layers = self.model.num_layers + self.model.encoder.lookahead
            self._renewal = Renewal(self.model)
            self._captures = Captures(self, self._rooms)
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
        with torch.cuda.stream(self.stream):
            padder, orders = self._ready([asked.get(seat, nothing) for seat in self.seats], 0)
            for seat in asked:
                self._goes_on(seat, 0)
                seat.begin()
            steps = self._steps(orders)
            self.model.train()
            self._sums.zero_()
            if self.model.encoder.dropout:
                for seat in asked:
                    self._seeds[seat.number] = seat.draw()
            for _ in self._each(padder, steps, self._train_step):
                pass
            mean = self._sums[0] / self._sums[1].clamp(min=1)
            # One by one: a list of places would have to be sent to the device, which waits for it.
            for place, seat in zip(places, asked, strict=True):
                losses[place].copy_(mean[seat.number])
            if self._renewal.needed:
                for size in sorted(set(renewing.values())):
                    wanted = zip(self.seats, orders, strict=True)
                    parts = [order if renewing.get(seat) == size else nothing for seat, order in wanted]
                    self._renew(padder, self._steps(parts, size))
        self.hand_over()

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
        with torch.cuda.stream(self.stream):
            found = {name: self.given(tensor) for name, tensor in unstacked(self.model, number).items()}
        self.hand_over()
        return found

    def given(self, tensor: Tensor) -> Tensor:
        """A copy for the caller, whose memory is not used again before the caller's stream has read it."""
        copy = tensor.clone()
        copy.record_stream(self._default())
        return copy

    def _predicted(self, wanted: list[Tensor], call: int) -> Tensor:
        with torch.cuda.stream(self.stream), torch.no_grad():
            padder, orders = self._ready(wanted, call)
            same = all(torch.equal(ids, orders[0]) for ids in orders)
            steps = self._steps(orders[:1] if same else orders)
            self.model.eval()
            answers = [step.out.clone() for step in self._each(padder, steps, self._forward)]
            answer = self.objective.answer(torch.cat(answers, 1))
        self.hand_over()
        return answer

    def _each(self, padder: Padder, steps: np.ndarray, work: Callable[[PaddedBag], Any]) -> Iterator[Captured]:
        """Do this work on the batch of each step; the network must be in the mode for it."""
        ids, parts = self._moved(steps), []
        for step, place in self._captures.of(work, steps, padder):
            size = max(1, min(_CHUNK // self.networks, _CHUNK_BYTES // step.nbytes))
            parts.append(Steps(step, ids[place], size))
        for step, batches in laid_out(padder, parts, self.stream, self._aside):
            for k in range(len(batches)):
                step.run(batches, k)
                yield step

    def _steps(self, orders: list[Tensor], size: int | None = None) -> np.ndarray:
        return steps_of(orders, size or self.batch_size)

    # -- steps ---------------------------------------------------------------------------------------------------

    def _train_step(self, bag: PaddedBag) -> None:
        bag = replace(bag, drawn_from=self._seeds, whole_output=True)
        self.optimiser.zero_grad()
        prediction = self.model(bag)
        assert bag.graphs.y is not None
        grad, live = loss_backward(self.objective, prediction.detach(), bag.graphs.y, bag.graph_weight, self._sums)
        prediction.backward(grad)
        self.optimiser.step(live)
        if self.model.encoder.dropout:
            self._seeds += (live > 0).long()

    def _renew(self, padder: Padder, steps: np.ndarray) -> None:
        with self._renewal.over_batches():
            for _ in self._each(padder, steps, self._renew_step):
                pass

    def _renew_step(self, bag: PaddedBag) -> None:
        self._renewal.add(
            lambda: self.model(replace(bag, whole_output=True)), self._split(bag.graph_weight)[:, :-1].sum(1)
        )

    def _forward(self, bag: PaddedBag) -> Tensor:
        return self._split(self.model(replace(bag, whole_output=True)))[:, :-1]

    def _split(self, lines: Tensor) -> Tensor:
        return lines.view(self.networks, -1, *lines.shape[1:])

    def _ready(self, orders: list[Tensor], call: int) -> tuple[Padder, list[Tensor]]:
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
            self._padder = None
            bag, orders = self._samples.of(orders, [seat.draws.look(call, self._samples.count) for seat in self.seats])
        if self._padder is None or self._padder.bag is not bag:
            self._padder = Padder(bag, self._layers, self.device, at_once=self._samples is not None)
        return self._padder, orders

    def _goes_on(self, seat: "Seat", call: int) -> None:
        """The sample of this call is one that the seat has asked for."""
        if self._samples is not None:
            seat.draws.take(call)

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Within, a network may be worked on with whatever numbers: in the end all is as before."""
        held = [*self.model.state_dict().values(), *self.optimiser.state, *self._renewal.state]
        held += [self._sums, self._seeds]
        before = [tensor.clone() for tensor in held]
        try:
            yield
        finally:
            self.optimiser.zero_grad()
            for tensor, kept in zip(held, before, strict=True):
                tensor.copy_(kept)

    # -- streams -------------------------------------------------------------------------------------------------

    def _moved(self, ids: np.ndarray) -> Tensor:
        return torch.from_numpy(ids).pin_memory().to(self.device, non_blocking=True)

    def _default(self) -> torch.cuda.Stream:
        return torch.cuda.default_stream(self.device)

    def hand_over(self) -> None:
        """Let what follows on the caller's stream wait for this team's."""
        self._default().wait_stream(self.stream)

    def take_over(self) -> None:
        """Let what follows on this team's stream wait for the caller's."""
        self.stream.wait_stream(self._default())
