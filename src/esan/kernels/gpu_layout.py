"""Triton: where the lines of padded batches come from, and their numbers there, each in one pass."""

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 1024


@triton.jit(do_not_specialize=["total", "in_batch"])
def _locate_kernel(segment, old, begin, graph_out, line_out, total, in_batch, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    of = tl.load(segment + at, mask=inside, other=0)
    graph = of % in_batch
    line = tl.load(old + of, mask=inside, other=0) + at - tl.load(begin + of, mask=inside, other=0)
    tl.store(graph_out + at, graph, mask=inside)
    tl.store(line_out + at, tl.where(graph == in_batch - 1, 0, line), mask=inside)


def locate(segment: Tensor, old: Tensor, begin: Tensor, in_batch: int) -> tuple[Tensor, Tensor]:
    """The graph of each line of a batch, and its line in the dataset; the last graph is the filler, whose line is 0.

    Args:
        segment: which (batch, slot, graph) each line belongs to.
        old: where the lines of each of these begin in the dataset.
        begin: where they begin here.
        in_batch: graphs of a batch, the filler with them.
    """
    graph, line = torch.empty_like(segment), torch.empty_like(segment)
    grid = (triton.cdiv(segment.numel(), _BLOCK),)
    _locate_kernel[grid](segment, old, begin, graph, line, segment.numel(), in_batch, BLOCK=_BLOCK)
    return graph, line


@triton.jit(do_not_specialize=["size", "in_batch", "per_batch", "filler"])
def _refer_kernel(
    values, line, graph, shift, slot, fillers, out, size, in_batch, per_batch, filler,
    BLOCK: tl.constexpr, SLOTTED: tl.constexpr, FILLERS: tl.constexpr,
):  # fmt: skip
    batch = tl.program_id(1).to(tl.int64)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < size
    at = batch * size + place
    which = tl.load(line + at, mask=inside, other=0)
    of = tl.load(graph + at, mask=inside, other=0)
    entry = of
    if SLOTTED:
        entry += tl.load(slot + which, mask=inside, other=0) * in_batch
    value = tl.load(values + which, mask=inside, other=0)
    value += tl.load(shift + batch * per_batch + entry, mask=inside, other=0)
    empty = tl.load(fillers + place, mask=inside, other=0) if FILLERS else filler
    tl.store(out + at, tl.where(of == in_batch - 1, empty, value), mask=inside)


def refer(
    values: Tensor,
    line: Tensor,
    graph: Tensor,
    shift: Tensor,
    slot: Tensor | None,
    filler: int | Tensor,
) -> Tensor:
    """The values of lines, which are numbers of other lines, with the shift of their graph (and slot) added.

    Args:
        values: of each line of the dataset.
        line: the line of the dataset, `[K, size]`.
        graph: the graph of each line; the last one is the filler.
        shift: `[K, slots, graphs]`.
        slot: which slot each value is in; None if there is one.
        filler: the value of the filler, one for all or one a place in the batch.
    """
    batches, size = line.shape
    out = torch.empty_like(line)
    if out.numel():
        one = isinstance(filler, Tensor)
        _refer_kernel[(triton.cdiv(size, _BLOCK), batches)](
            values, line, graph, shift.contiguous(), slot if slot is not None else values,
            filler if isinstance(filler, Tensor) else values, out, size, shift.size(2), shift.size(1) * shift.size(2),
            0 if isinstance(filler, Tensor) else filler, BLOCK=_BLOCK, SLOTTED=slot is not None, FILLERS=one,
        )  # fmt: skip
    return out
