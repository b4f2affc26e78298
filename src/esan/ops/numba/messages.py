"""Sums of messages on a CPU without the messages: each is made where it is added, and made again on the way back."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from esan.ops.dispatch import first_order
from esan.ops.edges import Arcs, Coded
from esan.ops.numba.loops import messages as messages_loops
from esan.ops.numba.runtime import pieces, run
from esan.ops.numba.workspace import empty_table

#: Rows that are one piece of work.
_ROWS = 512
#: Up to this many edge lines, or where they are coded, their gradient is summed with that of the rows, piece by piece.
_FEW = 64


@dataclass(frozen=True, eq=False)
class Onward:
    """How rows go on from those of x, which are others.

    Attributes:
        kept: how many rows of x are the first rows themselves.
        rows: all rows by the row of x that they go on from, a `Grouping`; that of the first is not read.
    """

    kept: int
    rows: Any


def message_sum(x: Tensor, edges: Arcs, e: Tensor | Coded | None, own: Tensor | None, factor: Tensor | None) -> Tensor:
    """`esan.ops.edges.message_sum`."""
    table, code = (e.table, e.code) if isinstance(e, Coded) else (e, None)
    return _SumMessages.apply(x, table, own, code, edges, factor)


class _SumMessages(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        e: Tensor | None,
        own: Tensor | None,
        code: Tensor | None,
        arcs: Any,
        weight: Tensor | None,
    ) -> Tensor:
        x = x.contiguous()
        e, code = (None if t is None else t.contiguous() for t in (e, code))
        (n, d), count, size = x.shape, arcs.edge_index.size(1), 0 if e is None else e.size(0)
        y, source, line, first = empty_table(x, *x.shape), arcs.ends[0], arcs.arc, arcs.into.first
        run(
            messages_loops.forward, x, pieces(n, _ROWS), n, d, size, count, _ROWS, x, e, y, source, line, first,
            weight, own, code, 0 if code is None else code.numel(),
        )  # fmt: skip
        ctx.save_for_backward(x if e is not None or ctx.needs_input_grad[2] else None, e, own)
        ctx.arcs, ctx.code, ctx.weight = arcs, code, weight
        return y

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, e, own = ctx.saved_tensors
        needs = ctx.needs_input_grad
        grads = messages_backward(grad.contiguous(), x, e, own, ctx.code, ctx.arcs, ctx.weight, needs[1], needs[2])
        return *grads, None, None, None


def messages_backward(
    grad: Tensor,
    x: Tensor | None,
    e: Tensor | None,
    own: Tensor | None,
    code: Tensor | None,
    arcs: Any,
    weight: Tensor | None,
    needs_e: bool,
    needs_own: bool,
    onward: Onward | None = None,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The gradients of x, e and own, from that of the sums; x may be None where neither e nor own needs it.

    `onward` is for sums whose rows are not those of x.
    """
    (rows, d), num_arcs, size = grad.shape, arcs.edge_index.size(1), 0 if e is None else e.size(0)
    n = arcs.out_of.size
    kept, later = (rows, None) if onward is None else (onward.kept, onward.rows.whole)
    count = pieces(n, _ROWS)
    few = e is not None and (size <= _FEW or code is not None)
    grad_x, part_e = empty_table(grad, n, d), grad.new_empty(count, size, d) if few else None
    part_own = grad.new_empty(count, dtype=torch.double) if needs_own else None
    (source, target), order, first = arcs.ends, arcs.out_of.order, arcs.out_of.first
    run(
        messages_loops.to_rows, grad, count, n, d, size, num_arcs, _ROWS, x, e, grad, target, arcs.arc, order, first,
        weight, own, grad_x, part_e, part_own, code, 0 if code is None else code.numel(), rows,
        0 if later is None else later.size, None if later is None else later.order,
        None if later is None else later.first, 0 if later is None else later.owner.numel(), kept,
    )  # fmt: skip
    grad_e = None
    if part_e is not None:
        grad_e = part_e.sum(0)
    elif e is not None and needs_e:
        grad_e = torch.empty_like(e)
        order, first = arcs.copies.order, arcs.copies.first
        run(
            messages_loops.to_edges, grad, pieces(size, _ROWS), n, d, size, num_arcs, _ROWS, x, e, grad, source,
            target, order, first, weight, grad_e,
        )  # fmt: skip
    grad_own = None if own is None or part_own is None else part_own.sum().to(own.dtype).reshape(own.shape)
    return grad_x, grad_e, grad_own
