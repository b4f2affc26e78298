"""What a team of wide networks must give, who would work on filler: steps that need less have smaller rooms."""

from dataclasses import replace
from typing import Any

import torch

import esan
import teams
import trials
from esan.nn.linear import Linear
from esan.testing.compare import check_close
from esan.train.engines.engine import EagerEngine
from esan.train.engines.ensemble_engine import Team


def trial(
    device: torch.device | str,
    count: int,
    largest: int,
    width: int,
    *,
    sampled: float | None = None,
    tf32: bool = False,
    **options: Any,
) -> trials.Trial:
    """Paths and cycles of very different sizes, one a step, and a DSS network of one layer."""
    policy = trials.sampled_or_whole(esan.NodeDeletion(), sampled)

    def build() -> esan.nn.SubgraphGNN:
        network = trials.network(esan.dss_gnn, width, 1, **options)
        for layer in network.modules():
            if isinstance(layer, Linear):
                layer.tf32 = tf32
        return network

    return trials.trial_of(device, policy, trials.paths_and_cycles(count, largest), 1, build, count // 2)


def _rooms(team: Team) -> set[tuple[int, ...]]:
    assert team._batches is not None
    return {shape.rows for shape in team._batches._bytes}


def check_sized(t: trials.Trial, tolerance: float) -> None:
    """Two networks give what batch after batch gives; their batches have several shapes."""
    ours, theirs = t.engines([0, 1]), t.engines([0, 1], EagerEngine)
    orders = [t.order(s, 0) for s in (0, 1)]
    pairs = zip(teams.epoch(ours, orders, t.valid), teams.epoch(theirs, orders, t.valid), strict=True)
    for (loss, answer), (other, expected) in pairs:
        check_close(loss, other, "loss", tolerance=tolerance)
        check_close(answer, expected, "predictions", tolerance=20 * tolerance)
    (team,) = {id(seat.team): seat.team for seat in teams.seats(ours)}.values()
    assert len(_rooms(team)) > 1
    # A larger batch than any before: there is room for it.
    most = team._rooms.known[t.batch_size]
    team._rooms.known[t.batch_size] = most.smaller(0.5)
    largest = t.bag.graphs.num_nodes.argmax().cpu()[None]
    answer, expected = (engines[0].predict(largest).cpu() for engines in (ours, theirs))
    check_close(answer, expected, "predictions that need more room", tolerance=20 * tolerance)
    assert team._rooms.known[t.batch_size].holds(most.smaller(0.5))
    assert team._rooms.known[t.batch_size] != most.smaller(0.5)


def check_near_alone(t: trials.Trial, tolerance: float) -> None:
    """Two networks give what each gives alone, but for rounding: a library may add up in another order.

    They learn so slowly that rounding does not grow from step to step.
    """
    t = replace(t, rate=1e-6)
    team, alone = t.engines([0, 1]), [t.engines([s])[0] for s in (0, 1)]
    orders = [t.order(s, 0) for s in (0, 1)]
    together = teams.epoch(team, orders, t.valid)
    for seed, engine in enumerate(alone):
        ((loss, answer),) = teams.epoch([engine], [orders[seed]], t.valid)
        check_close(together[seed][0], loss, f"loss of network {seed}", tolerance=tolerance)
        check_close(together[seed][1], answer, f"predictions of network {seed}", tolerance=20 * tolerance)
        states = [found.state_dict()["optimiser"]["state"] for found in (team[seed], engine)]
        for place, (mine, theirs) in enumerate(zip(*(state.values() for state in states), strict=True)):
            # Gradients do not become small with the rate: what a step does wrong shows in their means.
            of = f"the mean gradient of parameter {place} of network {seed}"
            check_close(mine["exp_avg"].cpu(), theirs["exp_avg"].cpu(), of, scale=1e-2, tolerance=20 * tolerance)
    assert len(_rooms(teams.seats(team)[0].team)) > 1
