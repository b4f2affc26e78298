"""`Seat`: the engine of one job whose network is trained in a team."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from esan.nn import SubgraphGNN

if TYPE_CHECKING:
    from esan.train.team import Team


class Seat:
    """The engine of one job in a team; see `esan.train.engine.Engine`."""

    def __init__(self, team: "Team", model: SubgraphGNN, lr: float, generator: torch.Generator) -> None:
        self.team, self.generator, self.number = team, generator, len(team.seats)
        #: How many predictions were asked for since the last training, and for which graphs.
        self.calls = 0
        self.asked: dict[int, Tensor] = {}
        self._lr = lr
        self._alone: SubgraphGNN = model
        self._kept: dict[str, Any] = {"model": model.state_dict(), "optimiser": _fresh(model, lr)}
        team.seats.append(self)

    def train_epoch(self, ids: Tensor) -> Tensor:
        return self.team.ask(self, ids)

    def issue(self) -> None:
        self.team.train()

    def predict(self, ids: Tensor) -> Tensor:
        return self.team.predict(self, ids)

    def set_lr(self, lr: float) -> None:
        self._lr = lr
        if self.team.closed:
            with torch.cuda.stream(self.team.stream):
                self.team.lr[self.number] = lr

    def weights(self) -> dict[str, Tensor]:
        if not self.team.closed or self not in self.team.seats:
            return self.state_dict()["model"]
        return {name: tensor[self.number] for name, tensor in self.team.snapshot().items()}

    def state_dict(self) -> dict[str, Any]:
        self.team.train()
        if self.team.closed and self in self.team.seats:
            self._kept = self._read()
        return self._kept | {"generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.generator.set_state(state["generator"])
        self._lr = float(state["optimiser"]["param_groups"][0]["lr"])
        self._kept = {"model": state["model"], "optimiser": state["optimiser"]}
        if self.team.closed:
            with torch.cuda.stream(self.team.stream):
                self.write(self._kept)

    def network(self) -> SubgraphGNN:
        """The network alone, as it was built."""
        return self._alone

    def write(self, state: dict[str, Any]) -> None:
        """Put a state into this seat's part of the team's network, into the tensors that are there."""
        team, number = self.team, self.number
        with torch.no_grad():
            for name, tensor in team.model.state_dict().items():
                tensor[number].copy_(state["model"][name])
            entries = state["optimiser"]["state"]
            for place in range(len(team.optimiser.parameters)):
                entry = entries.get(place)
                if entry is not None:
                    team.optimiser.means[place][number].copy_(entry["exp_avg"])
                    team.optimiser.squares[place][number].copy_(entry["exp_avg_sq"])
                    team.optimiser.step_count[number] = float(entry["step"])
            team.lr[number] = self._lr

    def _read(self) -> dict[str, Any]:
        """This seat's part of the team's network; copies."""
        team, number = self.team, self.number
        optimiser = team.optimiser
        model = {name: tensor[number].clone() for name, tensor in team.model.state_dict().items()}
        step = optimiser.step_count[number].cpu()
        entries = {
            place: {"step": step.clone(), "exp_avg": mean[number].clone(), "exp_avg_sq": square[number].clone()}
            for place, (mean, square) in enumerate(zip(optimiser.means, optimiser.squares, strict=True))
        }
        fresh = self._kept["optimiser"]["param_groups"][0] | {"lr": self._lr}
        return {"model": model, "optimiser": {"state": entries, "param_groups": [fresh]}}


def _fresh(model: SubgraphGNN, lr: float) -> dict[str, Any]:
    return torch.optim.Adam(model.parameters(), lr=lr).state_dict()
