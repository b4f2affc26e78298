"""Triton: sums of messages into rows, jointly with a pool of the same rows, as one differentiable operator."""

from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from esan.ops.dispatch import MAX_FUSED_TABLE, first_order
from esan.ops.edges import Edges, EdgeTypeFeatures
from esan.ops.segments import CSR
from esan.ops.triton.fused_gradient import FusedGradient
from esan.ops.triton.kernels.message_grads import PoolGradient, edges_backward, messages_backward
from esan.ops.triton.kernels.tiles import num_networks_of
from esan.ops.triton.segments import sum_rows


class JointPool:
    """A pool that is taken jointly with the sums of messages, so that the rows get one gradient from both.

    Args:
        csr: which rows are pooled together.
        weight: that of each row; None for 1.
    """

    def __init__(self, csr: CSR, weight: Tensor | None) -> None:
        self.csr, self.weight = csr, weight
        #: The result, one row per group, once the sums are computed.
        self.pooled: Tensor | None = None


@dataclass(frozen=True, eq=False)
class MessageSpec:
    """The constants of a sum of messages: all but the tensors that gradients flow to.

    Attributes:
        edges: between rows.
        weight: one factor per message, or None for 1.
        edge_types: the row of e of each edge, if e is a table: as the edges are, and in the order of `edges.by_source`.
        pool: what is pooled jointly, or None.
        fused: what was attached to the rows, or None.
    """

    edges: Edges
    weight: Tensor | None
    edge_types: tuple[Tensor, Tensor] | None
    pool: JointPool | None
    fused: FusedGradient | None = None


class MessageSum(torch.autograd.Function):
    r""":math:`y_v = o\, x_v + \sum_{u \to v} w_{uv}\, f(x_u)`, f adds a row of e and takes the ReLU if e is given.

    The second result is the joint pool; it is empty without one.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, e: Tensor | None, own: Tensor | None, spec: MessageSpec) -> tuple[Tensor, Tensor]:
        x, edges, pool = x.contiguous(), spec.edges, spec.pool
        # Without a ReLU, here or before, only the gradient of o needs x again.
        needs_x = e is not None or spec.fused is not None or ctx.needs_input_grad[2]
        ctx.save_for_backward(x if needs_x else None, e, own)
        ctx.needs_own = ctx.needs_input_grad[2]
        # Not the pool itself: it holds its result, whose graph holds this context, and the two would never be freed.
        ctx.pool = None if pool is None else (pool.csr.index, pool.weight)
        ctx.spec, ctx.networks = replace(spec, pool=None), 1 if own is None else own.numel()
        by_target, messages = edges.by_target, None
        if e is not None:
            messages = (e, edges.edge_id) if spec.edge_types is None else (_tables(e), spec.edge_types[0])
        y = sum_rows(
            x, edges.source, by_target.ptr, by_target.count, weight=spec.weight, own=own, messages=messages,
            networks=ctx.networks, row_ranges=edges.row_ranges,
        )  # fmt: skip
        if pool is None:
            return y, x.new_empty(0)
        csr = pool.csr
        return y, sum_rows(x, csr.perm, csr.ptr, csr.count, row_weight=pool.weight)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor, grad_pool: Tensor) -> tuple[Tensor | None, ...]:
        x, e, own = ctx.saved_tensors
        spec: MessageSpec = ctx.spec
        edges, weight, edge_types, fused = spec.edges, spec.weight, spec.edge_types, spec.fused
        by_source, by_edge_id = edges.by_source, edges.by_edge_id
        table = e if e is None or edge_types is None else _tables(e)
        e_row = None if e is None else edges.edge_id_by_source if edge_types is None else edge_types[1]
        found = messages_backward(
            grad, x, table, own, edges.target_by_source, e_row, by_source.ptr, by_source.count,
            None if weight is None else weight[by_source.perm], ctx.networks,
            None if ctx.pool is None else PoolGradient(grad_pool, *ctx.pool),
            None if fused is None else fused.input, ctx.needs_own, edges.row_ranges,
        )  # fmt: skip
        if fused is not None and found.sums is not None:
            fused.store(found.x, found.sums)
        grad_e = found.table
        if e is not None and edge_types is None:
            of_edges = None if weight is None else weight[by_edge_id.perm]
            grad_e = edges_backward(grad, x, e, *edges.ends_by_edge_id, by_edge_id.ptr, by_edge_id.count, of_edges)
        return found.x, grad_e if grad_e is None else grad_e.view(e.shape), found.own, None


def message_sum(
    x: Tensor,
    edges: Edges,
    e: Tensor | EdgeTypeFeatures | None,
    own: Tensor | None,
    weight: Tensor | None,
    pool: JointPool | None = None,
) -> Tensor:
    """`esan.ops.edges.message_sum`, jointly with a pool of x if wanted, which gets its result."""
    edge_types = None
    if isinstance(e, EdgeTypeFeatures):
        small = e.table.size(-2) <= MAX_FUSED_TABLE
        e, edge_types = (e.table, edges.types_of(e.edge_type)) if small else (e.expand(), None)
    # Rows may be padded with zeros to a width that is read in whole vectors.
    extra = 0 if e is None else x.size(-1) - e.size(-1)
    e = F.pad(e, (0, extra)) if e is not None and extra else e
    fused = FusedGradient.of(x)
    networks = 1 if own is None else own.numel()
    if fused is not None and (fused.input is None or num_networks_of(fused.input.mean) != networks):
        fused = None
    y, pooled = MessageSum.apply(x, e, own, MessageSpec(edges, weight, edge_types, pool, fused))
    if pool is not None:
        pool.pooled = pooled
    return y


def _tables(table: Tensor) -> Tensor:
    """One table per network."""
    return table if table.dim() == 3 else table[None]
