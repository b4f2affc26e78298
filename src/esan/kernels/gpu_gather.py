"""Triton kernels as one differentiable block: sums of messages into rows, and a pool of the same rows beside them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from esan.kernels.gpu_sums import Pooled, edges_backward, messages_backward, sum_lines

if TYPE_CHECKING:
    from esan.bags.arcs import Arcs
    from esan.bags.sums import Grouping


class Pool:
    """A pool that is taken beside the sums of messages, so that the rows get one gradient from both.

    Args:
        group: which rows are pooled together.
        weight: of each row; None for 1.
    """

    def __init__(self, group: "Grouping", weight: Tensor | None) -> None:
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
    """

    arcs: "Arcs"
    weight: Tensor | None
    kinds: tuple[Tensor, Tensor] | None
    pool: Pool | None


class Gather(torch.autograd.Function):
    r""":math:`y_v = o\, x_v + \sum_{u \to v} w_{uv}\, f(x_u)`, f adds a line of e and takes the ReLU if there is one.

    With a pool, its lines come second; they are empty without.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, e: Tensor | None, own: Tensor | None, along: Along) -> tuple[Tensor, Tensor]:
        x, arcs, pool = x.contiguous(), along.arcs, along.pool
        # Without a ReLU, only the gradient of o takes x again.
        ctx.save_for_backward(x if e is not None or ctx.needs_input_grad[2] else None, e, own)
        ctx.along, ctx.networks = along, 1 if own is None else own.numel()
        into, messages = arcs.into, None
        if e is not None:
            messages = (e, arcs.arc) if along.kinds is None else (_tables(e), along.kinds[0])
        y = sum_lines(
            x, arcs.edge_index[0], into.first, into.count, weight=along.weight, own=own, messages=messages,
            networks=ctx.networks,
        )  # fmt: skip
        if pool is None:
            return y, x.new_empty(0)
        group = pool.group
        return y, sum_lines(x, group.order, group.first, group.count, line_weight=pool.weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, of_pool: Tensor) -> tuple[Tensor | None, ...]:
        x, e, own = ctx.saved_tensors
        along: Along = ctx.along
        arcs, weight, kinds, pool = along.arcs, along.weight, along.kinds, along.pool
        out_of, copies = arcs.out_of, arcs.copies
        pooled = None if pool is None else Pooled(of_pool, pool.group.owner, pool.weight)
        table = e if e is None or kinds is None else _tables(e)
        grad_x, grad_own, grad_e = messages_backward(
            grad, x, table, own, arcs.out_target, None if e is None else kinds[1] if kinds else arcs.out_arc,
            out_of.first, out_of.count, None if weight is None else weight[out_of.order], ctx.networks, pooled,
        )  # fmt: skip
        if e is not None and kinds is None:
            by_copy = None if weight is None else weight[copies.order]
            grad_e = edges_backward(grad, x, e, *arcs.copy_ends, copies.first, copies.count, by_copy)
        return grad_x, grad_e if grad_e is None else grad_e.view(e.shape), grad_own, None


def _tables(table: Tensor) -> Tensor:
    """A table a network."""
    return table if table.dim() == 3 else table[None]


def gather(x: Tensor, e: Tensor | None, own: Tensor | None, along: Along) -> Tensor:
    """The sums; the pool beside them, if there is one, gets its lines."""
    y, lines = Gather.apply(x, e, own, along)
    if along.pool is not None:
        along.pool.lines = lines
    return y
