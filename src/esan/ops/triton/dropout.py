"""Triton: dropout whose mask depends on a seed per network, so that it is the same alone and in an ensemble."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from esan.ops.dispatch import first_order
from esan.ops.segments import RowRanges
from esan.ops.triton.kernels.tiles import cdiv, columns, tile_rows, tiles

#: Rows that a program works on at once.
_TILE = 16
#: Seeds of different layers are this far apart.
_APART = 0x9E3779B97F4A7C15 >> 2


@triton.jit(do_not_specialize=["rows", "p", "shift"])
def _dropout_kernel(
    x, seeds, y, ranges, rows, width, p, shift, TILE: tl.constexpr, WIDTH: tl.constexpr, SLOTS: tl.constexpr
):
    network = tl.program_id(1)
    begin, end = tile_rows(tl.program_id(0), rows, ranges, network, TILE, SLOTS)
    if SLOTS > 0 and begin >= end:
        return
    local, column = begin + tl.arange(0, TILE), tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)
    mask = (local < end)[:, None] & (column < width)[None, :]
    place = local[:, None] * width + column[None, :]
    at = network.to(tl.int64) * rows * width + place
    seed = tl.load(seeds + network) + shift
    survives = tl.rand(seed, place) >= p
    value = tl.load(x + at, mask=mask, other=0.0)
    tl.store(y + at, tl.where(survives, value / (1.0 - p), 0.0), mask=mask)


class DropoutFunction(torch.autograd.Function):
    """Each number is 0 with probability p, else 1 / (1 − p) times itself; the gradient alike.

    The rows are those of as many networks as there are seeds, one network's after the other's. The mask depends on the
    seed of the network, on the layer, and on the position among the network's own entries.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, p: float, seeds: Tensor, layer: int, row_ranges: RowRanges | None = None
    ) -> Tensor:
        ctx.arguments = p, seeds, layer, row_ranges
        return DropoutFunction.dropped(x, *ctx.arguments)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None]:
        return DropoutFunction.dropped(grad, *ctx.arguments), None, None, None, None

    @staticmethod
    def dropped(x: Tensor, p: float, seeds: Tensor, layer: int, row_ranges: RowRanges | None = None) -> Tensor:
        """The entries that survive, the others 0; padding is not written."""
        x = x.contiguous()
        y = torch.empty_like(x)
        size = x.numel() // seeds.numel()
        if size >= 2**31:
            raise ValueError(f"Expected fewer than 2^31 entries per network (got {size}). Use smaller batches.")
        if size:
            rows, wide = size // x.size(1), columns(x.size(1))
            ranges, slots = RowRanges.for_kernel(row_ranges, x)
            _dropout_kernel[(tiles(rows, row_ranges, _TILE), seeds.numel(), cdiv(x.size(1), wide))](
                x, seeds, y, ranges, rows, x.size(1), p, layer * _APART % 2**62, TILE=_TILE, WIDTH=wide, SLOTS=slots
            )
        return y
