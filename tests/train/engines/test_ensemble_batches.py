"""The graphs of each step of an epoch."""

import torch

from esan.train.engines.ensemble_engine import ensemble_batches


def test_networks_with_fewer_graphs_have_empty_batches_at_the_end() -> None:
    found = ensemble_batches([torch.tensor([4, 1, 3]), torch.tensor([0]), torch.tensor([], dtype=torch.long)], 2)
    assert found.tolist() == [[[4, 1], [0, -1], [-1, -1]], [[3, -1], [-1, -1], [-1, -1]]]
    assert found.flags["C_CONTIGUOUS"]
