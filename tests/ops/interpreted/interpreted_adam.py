"""Interpreted: Adam."""

import torch
from torch import nn

from esan.ops.triton.adam import FlatAdam
from interpreting import ONLY_INTERPRETED, close

pytestmark = ONLY_INTERPRETED


def test_adam() -> None:
    """Two networks with learning rates of their own, one of which misses a step, as torch has it for each alone."""
    rates, shapes = (1e-2, 3e-3), ((3, 4), (700,), (2, 2))
    together = [nn.Parameter(torch.randn(2, *shape)) for shape in shapes]
    alone = [[nn.Parameter(p[k].detach().clone()) for p in together] for k in range(2)]
    usual = [torch.optim.Adam(parameters, lr=lr) for parameters, lr in zip(alone, rates, strict=True)]
    flat = FlatAdam(together, 2, torch.tensor(rates))
    # Whatever sizes come before: products read memory that is aligned some times as fast.
    begin = min(p.data_ptr() for p in together)
    assert all((p.data_ptr() - begin) % 128 == 0 for p in together)
    for step in range(5):
        live = torch.tensor([1.0, 0.0 if step == 2 else 1.0])
        flat.zero_grad()
        for place, p in enumerate(together):
            # The last parameter is not always used.
            p.grad = torch.randn_like(p) * 10.0 ** (step - 2) if place < 2 or step == 0 else None
            for k in range(2):
                alone[k][place].grad = torch.zeros_like(p[k]) if p.grad is None else p.grad[k].clone()
        flat.step(live)
        for optimiser, there in zip(usual, live, strict=True):
            if there:
                optimiser.step()
        for place, p in enumerate(together):
            for k in range(2):
                close(
                    p[k].detach(),
                    alone[k][place].detach(),
                    f"parameter {place} of network {k}, step {step}",
                    tolerance=2e-6,
                )
    assert flat.step_count.tolist() == [5, 4]
    for place in range(len(shapes)):
        for k in range(2):
            state = usual[k].state[alone[k][place]]
            close(flat.means[place][k], state["exp_avg"], "running mean")
            close(flat.squares[place][k], state["exp_avg_sq"], "running square")
