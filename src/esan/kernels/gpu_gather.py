"""Triton kernels as one differentiable block: sums of messages into rows, and a pool of the same rows beside them."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from esan.kernels.gpu_sums import Normed, Pooled, edges_backward, messages_backward, sum_lines

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


class Ahead:
    """What the end of a layer lets the next one know: what its rows are the ReLU of.

    The next layer finds the gradient of the rows; it takes it through the ReLU on the way, with the sums over it that
    the norm's gradient needs, and leaves both here. Where the rows have other uses too, autograd adds their gradients
    to another tensor, and what was left is not used.

    Gradients of parameters are what they would be otherwise. Who looks at the gradient of the rows themselves, by a
    hook or `retain_grad`, finds 0 where the ReLU gave 0.
    """

    def __init__(self) -> None:
        self.normed: Normed | None = None
        self._left: tuple[Tensor, Tensor] | None = None

    def leave(self, grad: Tensor, sums: Tensor) -> None:
        """The gradient as it is given on, and its sums."""
        self._left = grad, sums

    def found(self, grad: Tensor) -> Tensor | None:
        """The sums, if this is the gradient that they are of."""
        left, self._left = self._left, None
        return left[1] if left is not None and left[0] is grad else None

    @staticmethod
    def of(rows: Tensor) -> "Ahead | None":
        """What is known of these rows."""
        return getattr(rows, "_esan_ahead", None)

    def attach(self, rows: Tensor) -> Tensor:
        """The rows, for which `of` will give this."""
        rows._esan_ahead = self  # type: ignore[attr-defined]
        return rows


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

    arcs: "Arcs"
    weight: Tensor | None
    kinds: tuple[Tensor, Tensor] | None
    pool: Pool | None
    ahead: Ahead | None = None


class Gather(torch.autograd.Function):
    r""":math:`y_v = o\, x_v + \sum_{u \to v} w_{uv}\, f(x_u)`, f adds a line of e and takes the ReLU if there is one.

    With a pool, its lines come second; they are empty without.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, e: Tensor | None, own: Tensor | None, along: Along) -> tuple[Tensor, Tensor]:
        x, arcs, pool = x.contiguous(), along.arcs, along.pool
        known = along.ahead is not None and along.ahead.normed is not None
        # Without a ReLU, only the gradient of o takes x again.
        ctx.save_for_backward(x if e is not None or known or ctx.needs_input_grad[2] else None, e, own)
        ctx.of_own = ctx.needs_input_grad[2]
        # Not the pool itself: it gets the lines, whose graph holds this context, and the two would never be freed.
        ctx.pooled = None if pool is None else (pool.group.owner, pool.weight)
        ctx.along, ctx.networks = replace(along, pool=None), 1 if own is None else own.numel()
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
        arcs, weight, kinds = along.arcs, along.weight, along.kinds
        out_of, copies = arcs.out_of, arcs.copies
        pooled = None if ctx.pooled is None else Pooled(of_pool, *ctx.pooled)
        table = e if e is None or kinds is None else _tables(e)
        ahead = along.ahead
        found = messages_backward(
            grad, x, table, own, arcs.out_target, None if e is None else kinds[1] if kinds else arcs.out_arc,
            out_of.first, out_of.count, None if weight is None else weight[out_of.order], ctx.networks, pooled,
            None if ahead is None else ahead.normed, ctx.of_own,
        )  # fmt: skip
        if ahead is not None and found.sums is not None:
            ahead.leave(found.x, found.sums)
        grad_e = found.table
        if e is not None and kinds is None:
            by_copy = None if weight is None else weight[copies.order]
            grad_e = edges_backward(grad, x, e, *arcs.copy_ends, copies.first, copies.count, by_copy)
        return found.x, grad_e if grad_e is None else grad_e.view(e.shape), found.own, None


def _tables(table: Tensor) -> Tensor:
    """A table a network."""
    return table if table.dim() == 3 else table[None]


def gather(x: Tensor, e: Tensor | None, own: Tensor | None, along: Along) -> Tensor:
    """The sums; the pool beside them, if there is one, gets its lines."""
    y, lines = Gather.apply(x, e, own, replace(along, ahead=Ahead.of(x)))
    if along.pool is not None:
        along.pool.lines = lines
    return y
