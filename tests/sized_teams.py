"""What a team must give where layers work on filler, so that batches that need less have smaller rooms."""

from typing import Any

import torch

import esan
import teams
from esan.testing.compare import check_close
from esan.train.engine import EagerEngine


def trial(device: torch.device | str, count: int, largest: int, width: int, **options: Any) -> teams.Trial:
    """Paths and cycles of very different sizes, one a step, and a DS network of one layer."""
    graphs = teams._graphs(count, largest)
    options = {"set_encoder": "mean"} | options
    return teams._trial(
        device, esan.NodeDeletion(), graphs, 1, lambda: teams._network(esan.ds_gnn, width, 1, **options), count // 2
    )


def check_sized(t: teams.Trial, tolerance: float) -> None:
    """Two networks give what batch after batch gives; what they have captured has rooms of several sizes."""
    ours, theirs = t.engines([0, 1]), t.engines([0, 1], EagerEngine)
    orders = [t.order(s, 0) for s in (0, 1)]
    pairs = zip(teams.epoch(ours, orders, t.valid), teams.epoch(theirs, orders, t.valid), strict=True)
    for (loss, answer), (other, expected) in pairs:
        check_close(loss, other, "loss", tolerance=tolerance)
        check_close(answer, expected, "predictions", tolerance=20 * tolerance)
    (team,) = {id(seat.team): seat.team for seat in teams.seats(ours)}.values()
    rooms = {shape.rows for work, shape in team._captures._known if work == "_train_step"}
    assert len(rooms) > 1
    # A larger batch than any before: what had less room is forgotten.
    most = team._rooms.known[t.batch_size]
    team._rooms.known[t.batch_size] = most.smaller(0.5)
    largest = t.bag.graphs.num_nodes.argmax().cpu()[None]
    answer, expected = (engines[0].predict(largest).cpu() for engines in (ours, theirs))
    check_close(answer, expected, "predictions that need more room", tolerance=20 * tolerance)
    assert not {shape.rows for work, shape in team._captures._known if work == "_train_step"}
