"""`Seat`: the engine of one job whose network is trained in a team."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from esan.nn import SubgraphGNN
from esan.train.samples import Draws

if TYPE_CHECKING:
    from esan.train.team import Team


class Seat:
    """The engine of one job in a team; see `esan.train.engine.Engine`."""

    def __init__(self, team: "Team", model: SubgraphGNN, lr: float, generator: torch.Generator) -> None:
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

    def _seated(self) -> "Team":
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
