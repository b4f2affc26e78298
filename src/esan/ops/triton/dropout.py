"""Triton: dropout whose mask follows from a seed of each network, so that it is drawn alike alone and beside others."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from esan.ops.dispatch import first_order
from esan.ops.real import Real
from esan.ops.triton.kernels.tiles import cdiv, columns, lines_of, tiles

#: Lines that a program works on at once.
_TILE = 16
#: Seeds of different layers are this far apart.
_APART = 0x9E3779B97F4A7C15 >> 2


@triton.jit(do_not_specialize=["rows", "p", "shift"])
def _dropout_kernel(
    x, seeds, y, real, rows, width, p, shift, TILE: tl.constexpr, WIDTH: tl.constexpr, SLOTS: tl.constexpr
):
    network = tl.program_id(1)
    first, end = lines_of(tl.program_id(0), rows, real, network, TILE, SLOTS)
    if SLOTS > 0 and first >= end:
        return
    line, column = first + tl.arange(0, TILE), tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)
    mask = (line < end)[:, None] & (column < width)[None, :]
    place = line[:, None] * width + column[None, :]
    at = network.to(tl.int64) * rows * width + place
    seed = tl.load(seeds + network) + shift
    kept = tl.rand(seed, place) >= p
    value = tl.load(x + at, mask=mask, other=0.0)
    tl.store(y + at, tl.where(kept, value / (1.0 - p), 0.0), mask=mask)


class Dropout(torch.autograd.Function):
    """Each number is 0 with probability p, else 1 / (1 − p) times itself; the gradient alike.

    The lines are those of as many networks as there are seeds, one network's behind the other's. What is drawn depends
    on the seed of the network, on the layer, and on the place among the network's own numbers.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float, seeds: Tensor, layer: int, real: Real | None = None) -> Tensor:
        ctx.given = p, seeds, layer, real
        return Dropout.dropped(x, *ctx.given)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None]:
        return Dropout.dropped(grad, *ctx.given), None, None, None, None

    @staticmethod
    def dropped(x: Tensor, p: float, seeds: Tensor, layer: int, real: Real | None = None) -> Tensor:
        """The numbers that are left, the others 0; filler is not written."""
        x = x.contiguous()
        y = torch.empty_like(x)
        size = x.numel() // seeds.numel()
        if size >= 2**31:
            raise ValueError(f"Expected fewer than 2^31 numbers a network (got {size}). Use smaller batches.")
        if size:
            rows, wide = size // x.size(1), columns(x.size(1))
            ranges, slots = Real.given(real, x)
            _dropout_kernel[(tiles(rows, real, _TILE), seeds.numel(), cdiv(x.size(1), wide))](
                x, seeds, y, ranges, rows, x.size(1), p, layer * _APART % 2**62, TILE=_TILE, WIDTH=wide, SLOTS=slots
            )
        return y
