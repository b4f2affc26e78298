"""Triton: the losses of a batch and the gradients of its predictions, in one kernel."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from esan.ops.triton.kernels.tiles import power_of_2

#: The most predictions of a network, padded to powers of 2, that a program takes.
_MOST = 4096


@triton.jit
def _loss_kernel(
    prediction, y, weight, shift, scale, grad, live, sums, graphs, outputs,
    KIND: tl.constexpr, SCALED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    network, networks = tl.program_id(0), tl.num_programs(0)
    local, column = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    row, inside = network * (graphs + 1) + local, local < graphs
    at = row[:, None] * outputs + column[None, :]
    mask = inside[:, None] & (column < outputs)[None, :]
    counts = tl.load(weight + row, mask=inside, other=0.0) > 0
    x = tl.load(prediction + at, mask=mask & counts[:, None], other=0.0)
    if KIND == "classification":
        target = tl.load(y + network * graphs + local, mask=inside, other=0)
        x = tl.where((column < outputs)[None, :], x, float("-inf"))
        top = tl.max(x, 1)
        power = tl.exp(x - top[:, None])
        chosen = column[None, :] == target[:, None]
        value = top + tl.log(tl.sum(power, 1)) - tl.sum(tl.where(chosen, x, 0.0), 1)
        slope = power / tl.sum(power, 1)[:, None] - tl.where(chosen, 1.0, 0.0)
        total, count = tl.sum(tl.where(counts, value, 0.0), 0), tl.sum(tl.where(counts, 1.0, 0.0), 0)
        slope = tl.where(counts[:, None], slope, 0.0)
    else:
        to = (network * graphs + local)[:, None] * outputs + column[None, :]
        target = tl.load(y + to, mask=mask, other=0.0)
        known = mask & counts[:, None] & (tl.abs(target) < float("inf"))
        if KIND == "labels":
            value = tl.maximum(x, 0.0) - x * target + tl.log(1 + tl.exp(-tl.abs(x)))
            slope = 1 / (1 + tl.exp(-x)) - target
        else:
            if SCALED:
                shifts = tl.load(shift + column, mask=column < outputs, other=0.0)
                scales = tl.load(scale + column, mask=column < outputs, other=1.0)
                target = (target - shifts[None, :]) / scales[None, :]
            value = tl.abs(x - target)
            slope = tl.where(x > target, 1.0, tl.where(x < target, -1.0, 0.0))
        total = tl.sum(tl.sum(tl.where(known, value, 0.0), 1), 0)
        count = tl.sum(tl.sum(tl.where(known, 1.0, 0.0), 1), 0)
        slope = tl.where(known, slope, 0.0)
    tl.store(grad + at, slope / tl.maximum(count, 1.0), mask=(local <= graphs)[:, None] & (column < outputs)[None, :])
    tl.store(live + network, tl.where(count > 0, 1.0, 0.0))
    tl.store(sums + network, tl.load(sums + network) + total)
    tl.store(sums + networks + network, tl.load(sums + networks + network) + count)


def fits(prediction: Tensor, networks: int) -> bool:
    """Whether the kernel takes these predictions: not too many of a network."""
    rows, outputs = prediction.size(0) // networks, prediction.size(1)
    return power_of_2(rows) * power_of_2(outputs) <= _MOST


def loss_gradient(
    kind: str,
    prediction: Tensor,
    y: Tensor,
    weight: Tensor,
    sums: Tensor,
    scaled: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """As `esan.train.engines.objective.loss_gradient`, for predictions that `fits` takes.

    Args:
        kind: of the task, as `Objective` has it.
        scaled: the shift and the scale of targets, `[T]` each; None if they are in their own units.
    """
    networks, outputs = sums.size(1), prediction.size(1)
    graphs = prediction.size(0) // networks - 1
    grad, live = torch.empty_like(prediction), torch.empty_like(sums[0])
    shift, scale = scaled or (prediction, prediction)
    _loss_kernel[(networks,)](
        prediction, y, weight, shift, scale, grad, live, sums, graphs, outputs, KIND=kind, SCALED=scaled is not None,
        ROWS=power_of_2(graphs + 1), COLUMNS=power_of_2(outputs),
    )  # fmt: skip
    return grad, live
