"""Weighted batch normalisation on a CPU: two passes over the rows forward, two back, and nothing between them kept."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from esan.ops.dispatch import first_order
from esan.ops.norm import Normed, NormState
from esan.ops.numba.loops import merge as merge_loops
from esan.ops.numba.loops import norm as norm_loops
from esan.ops.numba.runtime import PIECE, pieces, run
from esan.ops.numba.workspace import empty_table
from esan.ops.rows import RowView, zero_empty_rows


@dataclass(frozen=True, eq=False)
class Parts:
    """The moments of each piece of lines: its weight, its weighted mean, and the weighted squares around that."""

    total: Tensor
    mean: Tensor
    square: Tensor

    @staticmethod
    def empty(like: Tensor, count: int, width: int) -> "Parts":
        mean, square = like.new_empty(2, count, width)
        return Parts(like.new_empty(count, dtype=torch.double), mean, square)

    @staticmethod
    def of(x: Tensor, weight: Tensor | None) -> "Parts":
        (n, d), count = x.shape, pieces(x.size(0))
        part = Parts.empty(x, count, d)
        run(norm_loops.moments, x, count, n, d, PIECE, x, weight, part.total, part.mean, part.square)
        return part


@dataclass(frozen=True, eq=False)
class Norm:
    """The norm of given lines: (x - mean) scale + shift.

    Attributes:
        mean: of the lines.
        scale: gamma over the deviation.
        shift: beta.
        inverse: one over the deviation.
        numbers: eps, momentum, how many pairs there are, and how many fewer the running variance is divided by.
    """

    mean: Tensor
    scale: Tensor
    shift: Tensor
    inverse: Tensor
    numbers: Tensor

    @staticmethod
    def of(part: Parts, norm: Any, gamma: Tensor | None, beta: Tensor | None, bias: Tensor | None = None) -> "Norm":
        """Mean and variance of all lines, which the running statistics of `norm` follow.

        Args:
            part: the moments of the pieces.
            norm: a `BatchNorm`.
            gamma: its factor, None for 1.
            beta: its summand, None for 0.
            bias: what the lines lack: a norm takes it out again, but the running mean has it.
        """
        (count, d), out = part.mean.shape, part.mean.new_empty(4, part.mean.size(1))
        share = norm.begin_tracking()
        running = (None, None) if share is None else (norm.running_mean, norm.running_var)
        spared = 1.0 if norm.unbiased else 0.0
        numbers = torch.tensor([norm.eps, 0.0 if share is None else share, 0.0, spared], dtype=torch.double)
        run(
            merge_loops.merge, part.mean, 1, count, d, part.total, part.mean, part.square,
            *(None if t is None else t.to(out.dtype).contiguous() for t in (gamma, beta, bias)), *running, numbers, out,
        )  # fmt: skip
        mean, scale, shift, inverse = out.unbind()
        return Norm(mean, scale, shift, inverse, numbers)

    def through(self, plain: Tensor, times: Tensor) -> tuple[Tensor, ...]:
        """What reaches each line through the mean and the variance, and the gradients of gamma and beta."""
        (count, d), out = plain.shape, plain.new_empty(4, plain.size(1))
        run(merge_loops.through, plain, 1, count, d, plain, times, self.scale, self.inverse, self.numbers, out)
        return out.unbind()


def takes(x: Tensor, norm: NormState) -> bool:
    """Whether the loops compute this norm: where the rows themselves give mean and variance."""
    own = norm.gamma, norm.beta, norm.running_mean, norm.running_var
    usual = all(t is None or (t.dim() == 1 and t.dtype == x.dtype and t.is_contiguous()) for t in own)
    return norm.reads_batch and usual and x.dim() == 2 and x.size(0) > 2


def batch_norm(x: Tensor, norm: NormState, multiplicity: Tensor | None, relu: bool) -> Tensor:
    """`esan.ops.norm.batch_norm`."""
    return _Normalise.apply(x, norm.gamma, norm.beta, None, multiplicity, norm, relu, None)


def normalised_sum(rows: Normed, nodes: Normed | None, view: RowView) -> Tensor:
    """`esan.ops.norm.normalised_sum`."""
    multiplicity = None if rows.multiplicity is None else rows.multiplicity.to(rows.x.dtype)
    added, groups = None, None
    if nodes is not None:
        of_nodes = None if nodes.multiplicity is None else nodes.multiplicity.to(nodes.x.dtype)
        added, groups = batch_norm(nodes.x, nodes.norm, of_nodes, relu=False), view.by_node
    norm = rows.norm
    y = _Normalise.apply(rows.x, norm.gamma, norm.beta, added, multiplicity, norm, True, groups)
    return zero_empty_rows(y, view)


class _Normalise(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        gamma: Tensor | None,
        beta: Tensor | None,
        added: Tensor | None,
        weight: Tensor | None,
        norm: Any,
        relu: bool,
        groups: Any,
    ) -> Tensor:
        x = x.contiguous()
        known = Norm.of(Parts.of(x, weight), norm, gamma, beta)
        y = applied(x, known, relu, added, groups)
        ctx.save_for_backward(x, y if relu else None)
        ctx.weight, ctx.known, ctx.relu, ctx.groups = weight, known, relu, groups
        return y

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, y = ctx.saved_tensors
        y, known, (n, d), grad = x if y is None else y, ctx.known, x.shape, grad.contiguous()
        into = empty_table(x, n, d)
        plain, times, into_added = grad_sums(x, y, grad, known.mean, ctx.relu, ctx.groups)
        by_mean, by_var, grad_gamma, grad_beta = known.through(plain, times)
        run(
            norm_loops.back, x, pieces(n), n, d, PIECE, ctx.relu, x, y, grad, ctx.weight, known.mean, known.scale,
            by_mean, by_var, into,
        )  # fmt: skip
        gamma, beta = (
            g if t else None for g, t in zip((grad_gamma, grad_beta), ctx.needs_input_grad[1:3], strict=True)
        )
        return into, gamma, beta, into_added, None, None, None, None


def applied(x: Tensor, known: Norm, relu: bool, added: Tensor | None, groups: Any) -> Tensor:
    """The normalised lines, each with the line of its group added, and ReLU of that if wanted."""
    (n, d), y = x.shape, empty_table(x, *x.shape)
    more, owner = (None, None) if added is None else (added.contiguous(), groups.owner)
    run(
        norm_loops.apply, x, pieces(n), n, d, PIECE, 0 if more is None else more.size(0), relu, x, y, known.mean,
        known.scale, known.shift, more, owner,
    )  # fmt: skip
    return y


#: Groups that are one piece of work where rows are summed by group: a node has some ten rows.
_GROUPS = 16


def grad_sums(
    x: Tensor, y: Tensor, grad: Tensor, mean: Tensor, relu: bool, groups: Any
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Of pieces of rows: the sum of the gradient behind ReLU, and of it times (x - mean); and its sum of each group."""
    n, d = x.shape
    if groups is None:
        count = pieces(n)
        plain, times = x.new_empty(2, count, d)
        run(norm_loops.sums, x, count, n, d, PIECE, relu, x, y, grad, mean, plain, times)
        return plain, times, None
    count = pieces(groups.size, _GROUPS)
    plain, times = x.new_empty(2, count, d)
    of_group = empty_table(x, groups.size, d)
    run(
        norm_loops.group_sums, x, count, n, d, _GROUPS, relu, groups.size, x, y, grad, mean, plain, times,
        groups.whole.order, groups.whole.first, of_group, groups.whole.owner.numel(),
    )  # fmt: skip
    return plain, times, of_group
