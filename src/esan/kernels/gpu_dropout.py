"""Triton: dropout whose mask follows from a seed of each network, so that it is drawn alike alone and beside others."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 1024
#: Seeds of different layers are this far apart.
_APART = 0x9E3779B97F4A7C15 >> 2


@triton.jit(do_not_specialize=["size", "p", "shift"])
def _dropout_kernel(x, seeds, y, size, p, shift, BLOCK: tl.constexpr):
    network = tl.program_id(1)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = network.to(tl.int64) * size + place
    seed = tl.load(seeds + network) + shift
    kept = tl.rand(seed, place) >= p
    value = tl.load(x + at, mask=place < size, other=0.0)
    tl.store(y + at, tl.where(kept, value / (1.0 - p), 0.0), mask=place < size)


class Dropout(torch.autograd.Function):
    """Each number is 0 with probability p, else 1 / (1 − p) times itself; the gradient alike.

    The lines are those of as many networks as there are seeds, one network's behind the other's. What is drawn depends
    on the seed of the network, on the layer, and on the place among the network's own numbers.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float, seeds: Tensor, layer: int) -> Tensor:
        ctx.given = p, seeds, layer
        return Dropout.dropped(x, *ctx.given)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        return Dropout.dropped(grad, *ctx.given), None, None, None

    @staticmethod
    def dropped(x: Tensor, p: float, seeds: Tensor, layer: int) -> Tensor:
        """The numbers that are left, the others 0."""
        x = x.contiguous()
        y = torch.empty_like(x)
        size = x.numel() // seeds.numel()
        if size >= 2**31:
            raise ValueError(f"Expected fewer than 2^31 numbers a network (got {size}). Use smaller batches.")
        if size:
            grid = (triton.cdiv(size, _BLOCK), seeds.numel())
            _dropout_kernel[grid](x, seeds, y, size, p, layer * _APART % 2**62, BLOCK=_BLOCK)
        return y
