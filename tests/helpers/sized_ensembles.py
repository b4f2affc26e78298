"""Ensembles of wide networks, whose matrix products work on padding: small batches have smaller shapes."""

from dataclasses import replace
from typing import Any

import torch

import ensemble_cases
import ensembles
import esan
from esan.nn.linear import Linear
from esan.testing.compare import check_close
from esan.train.engines.engine import EagerEngine
from esan.train.engines.ensemble_engine import EnsembleEngine


def trial(
    device: torch.device | str,
    count: int,
    largest: int,
    width: int,
    *,
    sampled: float | None = None,
    tf32: bool = False,
    **options: Any,
) -> ensemble_cases.Trial:
    """Paths and cycles of very different sizes, one a step, and a DSS network of one layer."""
    policy = ensemble_cases.sampled_or_whole(esan.NodeDeletion(), sampled)

    def build() -> esan.nn.SubgraphGNN:
        network = ensemble_cases.network(esan.dss_gnn, width, 1, **options)
        for layer in network.modules():
            if isinstance(layer, Linear):
                layer.tf32 = tf32
        return network

    return ensemble_cases.trial_of(
        device, policy, ensemble_cases.paths_and_cycles(count, largest), 1, build, count // 2
    )


def _shapes(ensemble: EnsembleEngine) -> set[tuple[int, ...]]:
    assert ensemble._batches is not None
    return {shape.rows for shape in ensemble._batches._bytes}


def check_sized(t: ensemble_cases.Trial, tolerance: float) -> None:
    """Two networks give what batch after batch gives; their batches have several shapes.

    They learn slowly: with a rate of 1e-3, weights that differ by 1e-7 give losses that differ by 1e-3 an epoch later.
    """
    t = replace(t, rate=1e-6)
    ours, theirs = t.engines([0, 1]), t.engines([0, 1], EagerEngine)
    orders = [t.order(s, 0) for s in (0, 1)]
    pairs = zip(ensembles.epoch(ours, orders, t.valid), ensembles.epoch(theirs, orders, t.valid), strict=True)
    for (loss, answer), (other, expected) in pairs:
        check_close(loss, other, "loss", tolerance=tolerance)
        check_close(answer, expected, "predictions", tolerance=20 * tolerance)
    for engines in zip(ours, theirs, strict=True):
        _check_gradients(*engines, tolerance)
    (ensemble,) = {id(member.ensemble): member.ensemble for member in ensembles.members(ours)}.values()
    assert len(_shapes(ensemble)) > 1
    # A larger batch than any before: the capacity grows.
    most = ensemble._known_shapes.known[t.batch_size]
    ensemble._known_shapes.known[t.batch_size] = most.smaller(0.5)
    largest = t.bag.graphs.num_nodes.argmax().cpu()[None]
    answer, expected = (engines[0].predict(largest).cpu() for engines in (ours, theirs))
    check_close(answer, expected, "predictions that need a larger capacity", tolerance=20 * tolerance)
    assert ensemble._known_shapes.known[t.batch_size].holds(most.smaller(0.5))
    assert ensemble._known_shapes.known[t.batch_size] != most.smaller(0.5)


def check_near_alone(t: ensemble_cases.Trial, tolerance: float) -> None:
    """Two networks give what each gives alone, but for rounding: a library may add up in another order.

    They learn so slowly that rounding does not grow from step to step.
    """
    t = replace(t, rate=1e-6)
    ensemble, alone = t.engines([0, 1]), [t.engines([s])[0] for s in (0, 1)]
    orders = [t.order(s, 0) for s in (0, 1)]
    together = ensembles.epoch(ensemble, orders, t.valid)
    for seed, engine in enumerate(alone):
        ((loss, answer),) = ensembles.epoch([engine], [orders[seed]], t.valid)
        check_close(together[seed][0], loss, f"loss of network {seed}", tolerance=tolerance)
        check_close(together[seed][1], answer, f"predictions of network {seed}", tolerance=20 * tolerance)
        _check_gradients(ensemble[seed], engine, tolerance)
    assert len(_shapes(ensembles.members(ensemble)[0].ensemble)) > 1


def _check_gradients(ours: Any, theirs: Any, tolerance: float) -> None:
    """Two engines have the same means of gradients, which do not become small with the rate as errors of weights do."""
    states = [engine.state_dict()["optimiser"]["state"] for engine in (ours, theirs)]
    for place, (mine, other) in enumerate(zip(*(state.values() for state in states), strict=True)):
        of = f"the mean gradient of parameter {place}"
        check_close(mine["exp_avg"].cpu(), other["exp_avg"].cpu(), of, scale=1e-2, tolerance=20 * tolerance)
