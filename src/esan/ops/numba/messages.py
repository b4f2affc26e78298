"""Numba: sums of messages that are never stored: each message is computed where it is added, and again backward."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from esan.ops.dispatch import first_order
from esan.ops.edges import Edges, EdgeTypeFeatures
from esan.ops.numba.loops import messages as messages_loops
from esan.ops.numba.runtime import num_chunks, run
from esan.ops.numba.workspace import empty_matrix
from esan.ops.segments import CSR

#: Rows of one chunk of work.
_CHUNK = 512
#: With at most so many rows of e, or edge types, the gradient of e is summed with that of x, chunk by chunk.
_FEW = 64


@dataclass(frozen=True, eq=False)
class Expansion:
    """How the rows that are computed relate to the rows of x, where x lacks some of them.

    Attributes:
        unchanged: how many of the first rows are rows of x.
        by_origin: all rows by the row of x that they begin as; the entries of the unchanged rows are not read.
    """

    unchanged: int
    by_origin: CSR


def message_sum(
    x: Tensor, edges: Edges, e: Tensor | EdgeTypeFeatures | None, own: Tensor | None, weight: Tensor | None
) -> Tensor:
    """`esan.ops.edges.message_sum`."""
    e, edge_type = (e.table, e.edge_type) if isinstance(e, EdgeTypeFeatures) else (e, None)
    return _CPUMessageSum.apply(x, e, own, edge_type, edges, weight)


class _CPUMessageSum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        e: Tensor | None,
        own: Tensor | None,
        edge_type: Tensor | None,
        edges: Edges,
        weight: Tensor | None,
    ) -> Tensor:
        x = x.contiguous()
        e, edge_type = (None if t is None else t.contiguous() for t in (e, edge_type))
        (rows, width), y = x.shape, empty_matrix(x, *x.shape)
        run(
            messages_loops.forward, x, num_chunks(rows, _CHUNK), rows=rows, width=width,
            e_rows=0 if e is None else e.size(0), num_edges=edges.edge_index.size(1), chunk_rows=_CHUNK, x=x, e=e, y=y,
            source=edges.ends[0], edge_id=edges.edge_id, ptr=edges.by_target.ptr, weight=weight, own=own,
            edge_type=edge_type, graph_edges=0 if edge_type is None else edge_type.numel(),
        )  # fmt: skip
        ctx.save_for_backward(x if e is not None or ctx.needs_input_grad[2] else None, e, own)
        ctx.edges, ctx.edge_type, ctx.weight = edges, edge_type, weight
        return y

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, e, own = ctx.saved_tensors
        needs = ctx.needs_input_grad
        grads = messages_backward(
            grad.contiguous(), x, e, own, ctx.edge_type, ctx.edges, ctx.weight, needs[1], needs[2]
        )
        return *grads, None, None, None


def messages_backward(
    grad: Tensor,
    x: Tensor | None,
    e: Tensor | None,
    own: Tensor | None,
    edge_type: Tensor | None,
    edges: Edges,
    weight: Tensor | None,
    needs_e: bool,
    needs_own: bool,
    expansion: Expansion | None = None,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The gradients of x, e and own, from that of the sums; x may be None where neither e nor own needs it.

    `expansion` is given where the rows of the sums are not those of x.
    """
    (rows, width), num_edges, e_rows = grad.shape, edges.edge_index.size(1), 0 if e is None else e.size(0)
    x_rows = edges.by_source.size
    unchanged, expanded = (rows, None) if expansion is None else (expansion.unchanged, expansion.by_origin.parent)
    count = num_chunks(x_rows, _CHUNK)
    few = e is not None and (e_rows <= _FEW or edge_type is not None)
    grad_x, part_e = empty_matrix(grad, x_rows, width), grad.new_empty(count, e_rows, width) if few else None
    part_own = grad.new_empty(count, dtype=torch.double) if needs_own else None
    source, target = edges.ends
    run(
        messages_loops.to_rows, grad, count, x_rows=x_rows, width=width, e_rows=e_rows, num_edges=num_edges,
        chunk_rows=_CHUNK, x=x, e=e, grad=grad, target=target, edge_id=edges.edge_id, perm=edges.by_source.perm,
        ptr=edges.by_source.ptr, weight=weight, own=own, grad_x=grad_x, grad_e=part_e, grad_own=part_own,
        edge_type=edge_type, graph_edges=0 if edge_type is None else edge_type.numel(), rows=rows,
        origins=0 if expanded is None else expanded.size, expanded_perm=None if expanded is None else expanded.perm,
        expanded_ptr=None if expanded is None else expanded.ptr,
        expanded_total=0 if expanded is None else expanded.index.numel(), unchanged=unchanged,
    )  # fmt: skip
    grad_e = None
    if part_e is not None:
        grad_e = part_e.sum(0)
    elif e is not None and needs_e:
        grad_e = torch.empty_like(e)
        run(
            messages_loops.to_edges, grad, num_chunks(e_rows, _CHUNK), x_rows=x_rows, width=width, e_rows=e_rows,
            num_edges=num_edges, chunk_rows=_CHUNK, x=x, e=e, grad=grad, source=source, target=target,
            perm=edges.by_edge_id.perm, ptr=edges.by_edge_id.ptr, weight=weight, grad_e=grad_e,
        )  # fmt: skip
    grad_own = None if own is None or part_own is None else part_own.sum().to(own.dtype).reshape(own.shape)
    return grad_x, grad_e, grad_own
