"""`EngineFactory`: which engine trains a job: on a GPU a member of an ensemble of like jobs, else an `EagerEngine`."""

import torch
from torch import Tensor

from esan.bags import Bag
from esan.nn import SubgraphGNN
from esan.nn.execution.stack_parameters import can_stack, kind_of
from esan.nn.linear import Linear, exceeds_kernel_width
from esan.policies import Policy, Sampled
from esan.train.engines.engine import Augment, EagerEngine, Engine, model_device, needs_literal_bag
from esan.train.engines.ensemble_engine import EnsembleEngine, MemberEngine
from esan.train.engines.objective import Objective
from esan.train.engines.subgraph_sampling import max_members, sample_fits_memory

#: The most networks that train as one ensemble.
_MAX_MEMBERS = 16
#: The most activations per step of an ensemble's widest layer: these fill the device, and since all members have the
#: capacity of the largest batch, more members would only add padding.
MAX_ACTIVATIONS = 2**25


def supports_ensemble(model: SubgraphGNN, bag: Bag) -> bool:
    """Whether training this network on this bag can run as CUDA graphs of an ensemble."""
    if model_device(model).type != "cuda" or model.output != "graph" or not can_stack(model):
        return False
    if any(parameter.dtype != torch.float for parameter in model.parameters()):
        return False
    if bag.strict and needs_literal_bag(model):
        return False
    if bag.graphs.edge_weight is not None:  # padded batches have none
        return False
    random = isinstance(bag.policy, Policy) and bag.policy.random
    if isinstance(bag.policy, Sampled):
        # Without the whole bag, all graphs are sampled at once.
        random = bag.sampled_from is None and not sample_fits_memory(bag.policy, bag.graphs)
    others = any(getattr(layer, "bag_pool", None) == "others" for layer in model.encoder.layers)
    return not random and not others and not isinstance(bag.policy, str) and bag.graphs.y_level == "graph"


class EngineFactory:
    """Makes the engines of jobs; on a GPU, jobs that differ only in seed or fold become members of one ensemble.

    The engines of an ensemble should be called in lock-step: all of them for an epoch of training, then all of them for
    predictions. Each returns what it would return alone.
    """

    def __init__(self) -> None:
        self._open: dict[tuple[object, ...], EnsembleEngine] = {}

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
        if augment is not None or not supports_ensemble(model, bag):
            return EagerEngine(model, bag, objective, lr, batch_size, generator, augment)
        # The scale of targets depends on the fold, so such a job trains alone.
        alone = objective.shift is not None
        device, shift = model_device(model), _values(objective.shift) if alone else ()
        key = (id(bag), device, batch_size, objective.kind, kind_of(model), *shift)
        ensemble = self._open.get(key)
        limit = _max_members(model, bag, batch_size)
        if alone or ensemble is None or not ensemble.is_open or len(ensemble.members) >= limit:
            model.features.check(bag.graphs)
            ensemble = self._open[key] = EnsembleEngine(bag, objective, batch_size, device)
        return MemberEngine(ensemble, model, lr, generator)


def _max_members(model: SubgraphGNN, bag: Bag, batch_size: int) -> int:
    """The most networks like this one that should train as one ensemble."""
    literal = needs_literal_bag(model)
    most = min(_MAX_MEMBERS, max_members(bag, literal)) if isinstance(bag.policy, Sampled) else _MAX_MEMBERS
    if not exceeds_kernel_width(model.encoder):
        return most
    rows = batch_size * (bag.num_pairs if literal else bag.num_rows) / len(bag)
    width = max(layer.out_features for layer in model.encoder.modules() if isinstance(layer, Linear))
    return max(1, min(most, int(MAX_ACTIVATIONS / (rows * width))))


def _values(tensor: Tensor | None) -> tuple[float, ...]:
    return () if tensor is None else tuple(tensor.tolist())
