"""`Teams`: engines for a GPU that train the jobs of one kind together, each step one captured graph of kernels."""

import torch
from torch import Tensor

from esan.bags import Bag
from esan.nn import SubgraphGNN
from esan.nn.execution.stack import kind_of, stackable
from esan.nn.linear import Linear, is_wide
from esan.policies import Policy, Sampled
from esan.train.engines.engine import Augment, EagerEngine, Engine, device_of, trains_literally
from esan.train.engines.ensemble_engine import Seat, Team
from esan.train.engines.objective import Objective
from esan.train.engines.resample import sample_fits
from esan.train.engines.samples import most_together

#: Most networks that train together.
_MOST = 16
#: Of wide networks, no more than give so many numbers by their widest layer: these fill the device, and since all have
#: the room of the largest of their batches, more would add filler alone.
_ENOUGH = 2**25


def fits(model: SubgraphGNN, bag: Bag) -> bool:
    """Whether training this network on this bag can be captured."""
    if device_of(model).type != "cuda" or model.output != "graph" or not stackable(model):
        return False
    if any(parameter.dtype != torch.float for parameter in model.parameters()):
        return False
    if bag.strict and trains_literally(model):
        return False
    if bag.graphs.edge_weight is not None:  # padded batches have none
        return False
    random = isinstance(bag.policy, Policy) and bag.policy.random
    if isinstance(bag.policy, Sampled):
        # Of a bag that is not there whole, a sample of all graphs is taken at once.
        random = bag.whole is None and not sample_fits(bag.policy, bag.graphs)
    others = any(getattr(layer, "bag_pool", None) == "others" for layer in model.encoder.layers)
    return not random and not others and not isinstance(bag.policy, str) and bag.graphs.y_level == "graph"


class Teams:
    """Makes the engines of jobs, as `EagerEngine` does; on a GPU, jobs that differ in seed or fold become a team.

    The engines of a team must be asked in lock-step: all of them for an epoch of training, then all of them for
    predictions. What each gives is what it would give alone.
    """

    def __init__(self) -> None:
        self._forming: dict[tuple[object, ...], Team] = {}

    def __call__(
        self,
        model: SubgraphGNN,
        bag: Bag,
        objective: Objective,
        lr: float,
        batch_size: int,
        generator: torch.Generator,
        augment: Augment | None = None,
    ) -> Engine:
        if augment is not None or not fits(model, bag):
            return EagerEngine(model, bag, objective, lr, batch_size, generator, augment)
        # Targets in units of their own are a job's alone.
        alone = objective.shift is not None
        device, shift = device_of(model), _content(objective.shift) if alone else ()
        key = (id(bag), device, batch_size, objective.kind, kind_of(model), *shift)
        team = self._forming.get(key)
        if alone or team is None or not team.open or len(team.seats) >= _most(model, bag, batch_size):
            model.features.check(bag.graphs)
            team = self._forming[key] = Team(bag, objective, batch_size, device)
        return Seat(team, model, lr, generator)


def _most(model: SubgraphGNN, bag: Bag, batch_size: int) -> int:
    """How many networks like this one should train together at most."""
    literal = trains_literally(model)
    most = min(_MOST, most_together(bag, literal)) if isinstance(bag.policy, Sampled) else _MOST
    if not is_wide(model.encoder):
        return most
    rows = batch_size * (bag.num_pairs if literal else bag.num_rows) / len(bag)
    width = max(layer.out_features for layer in model.encoder.modules() if isinstance(layer, Linear))
    return max(1, min(most, int(_ENOUGH / (rows * width))))


def _content(tensor: Tensor | None) -> tuple[float, ...]:
    return () if tensor is None else tuple(tensor.tolist())
