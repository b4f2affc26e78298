"""Triton kernels as one differentiable block: sums of messages into rows, and a pool of the same rows beside them."""

from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from esan.ops.dispatch import first_order
from esan.ops.edges import Arcs, Coded
from esan.ops.limits import SMALL_TABLE
from esan.ops.segments import Grouping
from esan.ops.triton.ahead import Ahead
from esan.ops.triton.kernels.edge_grads import edges_backward
from esan.ops.triton.kernels.message_grads import Pooled, messages_backward
from esan.ops.triton.kernels.tiles import copies
from esan.ops.triton.segments import sum_lines


class PoolBeside:
    """A pool that is taken beside the sums of messages, so that the rows get one gradient from both.

    Args:
        group: which rows are pooled together.
        weight: of each row; None for 1.
    """

    def __init__(self, group: Grouping, weight: Tensor | None) -> None:
        self.group, self.weight = group, weight
        #: What the pool gives, a line a group, once the sums are taken.
        self.lines: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Along:
    """What messages are sent along.

    Attributes:
        arcs: from row to row.
        weight: a factor a message, or None for 1.
        kinds: if e is a table: the line of it that each arc has, as the arcs are, and in the order of `arcs.out_of`.
        pool: what is pooled beside, or None.
        ahead: what is known of the rows, or None.
    """

    arcs: Arcs
    weight: Tensor | None
    kinds: tuple[Tensor, Tensor] | None
    pool: PoolBeside | None
    ahead: Ahead | None = None


class Gather(torch.autograd.Function):
    r""":math:`y_v = o\, x_v + \sum_{u \to v} w_{uv}\, f(x_u)`, f adds a line of e and takes the ReLU if there is one.

    With a pool, its lines come second; they are empty without.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, e: Tensor | None, own: Tensor | None, along: Along) -> tuple[Tensor, Tensor]:
        x, arcs, pool = x.contiguous(), along.arcs, along.pool
        # Without a ReLU, here or before, only the gradient of o takes x again.
        again = e is not None or along.ahead is not None or ctx.needs_input_grad[2]
        ctx.save_for_backward(x if again else None, e, own)
        ctx.of_own = ctx.needs_input_grad[2]
        # Not the pool itself: it gets the lines, whose graph holds this context, and the two would never be freed.
        ctx.pooled = None if pool is None else (pool.group.owner, pool.weight)
        ctx.along, ctx.networks = replace(along, pool=None), 1 if own is None else own.numel()
        into, messages = arcs.into, None
        if e is not None:
            messages = (e, arcs.arc) if along.kinds is None else (_tables(e), along.kinds[0])
        y = sum_lines(
            x, arcs.source, into.first, into.count, weight=along.weight, own=own, messages=messages,
            networks=ctx.networks, real=arcs.real,
        )  # fmt: skip
        if pool is None:
            return y, x.new_empty(0)
        group = pool.group
        return y, sum_lines(x, group.order, group.first, group.count, line_weight=pool.weight)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor, of_pool: Tensor) -> tuple[Tensor | None, ...]:
        x, e, own = ctx.saved_tensors
        along: Along = ctx.along
        arcs, weight, kinds = along.arcs, along.weight, along.kinds
        out_of, copies = arcs.out_of, arcs.copies
        pooled = None if ctx.pooled is None else Pooled(of_pool, *ctx.pooled)
        table = e if e is None or kinds is None else _tables(e)
        ahead = along.ahead
        found = messages_backward(
            grad, x, table, own, arcs.out_target, None if e is None else kinds[1] if kinds else arcs.out_arc,
            out_of.first, out_of.count, None if weight is None else weight[out_of.order], ctx.networks, pooled,
            None if ahead is None else ahead.normed, ctx.of_own, arcs.real,
        )  # fmt: skip
        if ahead is not None and found.sums is not None:
            ahead.leave(found.x, found.sums)
        grad_e = found.table
        if e is not None and kinds is None:
            by_copy = None if weight is None else weight[copies.order]
            grad_e = edges_backward(grad, x, e, *arcs.copy_ends, copies.first, copies.count, by_copy)
        return found.x, grad_e if grad_e is None else grad_e.view(e.shape), found.own, None


def message_sum(
    x: Tensor,
    edges: Arcs,
    e: Tensor | Coded | None,
    own: Tensor | None,
    factor: Tensor | None,
    pool: PoolBeside | None = None,
) -> Tensor:
    """`esan.ops.edges.message_sum`, with a pool of x beside it if wanted."""
    kinds = None
    if isinstance(e, Coded):
        small = e.table.size(-2) <= SMALL_TABLE
        e, kinds = (e.table, edges.types_of(e.code)) if small else (e.expanded(), None)
    # Rows may be padded with zeros to a width that is read in whole vectors.
    extra = 0 if e is None else x.size(-1) - e.size(-1)
    e = F.pad(e, (0, extra)) if e is not None and extra else e
    return gather(x, e, own, Along(edges, factor, kinds, pool))


def _tables(table: Tensor) -> Tensor:
    """A table a network."""
    return table if table.dim() == 3 else table[None]


def gather(x: Tensor, e: Tensor | None, own: Tensor | None, along: Along) -> Tensor:
    """The sums; the pool beside them, if there is one, gets its lines."""
    ahead = Ahead.of(x)
    if ahead is not None and (ahead.normed is None or copies(ahead.normed.mean) != (1 if own is None else own.numel())):
        ahead = None  # of as many networks as the factors of the rows' own are, or of none
    y, lines = Gather.apply(x, e, own, replace(along, ahead=ahead))
    if along.pool is not None:
        along.pool.lines = lines
    return y
