"""Triton: the gradients of sums of messages with respect to what arcs carry; nothing is written out a message."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from esan.ops.triton.kernels.tiles import cdiv, columns
from esan.ops.triton.segments import ends_of, tuning_of


@triton.jit(do_not_specialize=["groups", "total"])
def _edges_backward_kernel(
    grad, x, e, source, target, first, count, weight, out,
    groups, total, width,
    GROUPS: tl.constexpr, WIDTH: tl.constexpr, UNROLL: tl.constexpr, COUNTED: tl.constexpr, WEIGHTED: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(0).to(tl.int64) * GROUPS + tl.arange(0, GROUPS)
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    inside = group < groups
    there = column[None, :] < width
    keep = inside[:, None] & there
    here = group[:, None] * width + column[None, :]
    bond = tl.load(e + here, mask=keep, other=0.0)
    start, number = ends_of(first, count, group, inside, groups, total, COUNTED)
    acc = tl.zeros((GROUPS, WIDTH), tl.float32)
    for begin in range(0, tl.max(number, 0), UNROLL):
        for j in tl.static_range(UNROLL):
            k = begin + j
            more = k < number
            mask = more[:, None] & there
            at = tl.load(source + start + k, mask=more, other=0)
            to = tl.load(target + start + k, mask=more, other=0)
            value = tl.load(x + at[:, None] * width + column[None, :], mask=mask, other=0.0)
            g = tl.load(grad + to[:, None] * width + column[None, :], mask=mask, other=0.0)
            if WEIGHTED:
                g = g * tl.load(weight + start + k, mask=more, other=0.0)[:, None]
            acc += tl.where(value + bond > 0, g, 0.0)
    tl.store(out + here, acc, mask=keep)


def edges_backward(
    grad: Tensor,
    x: Tensor,
    e: Tensor,
    source: Tensor,
    target: Tensor,
    first: Tensor,
    count: Tensor | None,
    weight: Tensor | None,
) -> Tensor:
    r"""The gradient of e: :math:`\sum w\, g_v\, [x_u + e > 0]` over the arcs u → v that carry each line of e.

    Args:
        grad: g, a line a row.
        x: as in the forward pass.
        e: as in the forward pass.
        source: u of each arc, the arcs by the line of e that they carry.
        target: v of each of these arcs.
        first: where the arcs of each line begin.
        count: how many there are, or None for all up to the next line.
        weight: w of each of these arcs, or None.
    """
    grad, x, e = grad.contiguous(), x.contiguous(), e.contiguous()
    out = torch.empty_like(e)
    if out.numel():
        wide = columns(x.size(1))
        tuning = tuning_of(source.numel(), e.size(0)).of(x.size(1), wide)
        _edges_backward_kernel[(cdiv(e.size(0), tuning.groups), cdiv(x.size(1), wide))](
            grad, x, e, source, target, first, count if count is not None else first,
            weight if weight is not None else x, out, e.size(0), source.numel(), x.size(1),
            GROUPS=tuning.groups, WIDTH=wide, UNROLL=tuning.unroll, COUNTED=count is not None,
            WEIGHTED=weight is not None, num_warps=tuning.warps,
        )  # fmt: skip
    return out
