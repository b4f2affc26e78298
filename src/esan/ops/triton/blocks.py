"""Triton kernels as differentiable blocks: batch norm, GIN's MLP, and the end of an equivariant layer."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from esan.ops.dispatch import first_order
from esan.ops.real import Real
from esan.ops.triton.ahead import Ahead, Normed
from esan.ops.triton.kernels.linear import linear
from esan.ops.triton.kernels.linear_grads import linear_backward
from esan.ops.triton.kernels.matrix import Matrix
from esan.ops.triton.kernels.moments import Moments, TileMoments, Tracked, finish, frozen, tile_moments
from esan.ops.triton.kernels.normalise import blend, grad_sums, norm_backward
from esan.ops.triton.kernels.tiles import copies
from esan.ops.triton.segments import sum_lines


@dataclass(frozen=True, eq=False)
class Norm:
    """A batch norm as the kernels see it.

    Attributes:
        gamma: its factor.
        beta: its summand.
        eps: added to the variance.
        tracked: the buffers that follow the moments.
        frozen: whether the buffers are used in place of the moments (eval mode).
    """

    gamma: Tensor
    beta: Tensor
    eps: float
    tracked: Tracked
    frozen: bool

    def moments(self, part: TileMoments) -> Moments:
        if self.frozen:
            return frozen(self.gamma, self.beta, self.tracked, self.eps)
        return finish(part, self.gamma, self.beta, self.eps, self.tracked)

    def moments_of(self, x: Tensor, rows: "Rows") -> Moments:
        """The moments of these lines, from what is known of their tiles or from themselves."""
        part = rows.part
        if part is None and not self.frozen:
            part = tile_moments(x, rows.weight, copies(self.gamma), rows.real)
        return self.moments(part)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Rows:
    """Lines to be normalised: their weight (None for 1), and what is known of them if they come from an MLP.

    Attributes:
        weight: how often each line counts.
        part: their moments, tile by tile.
        behind: where the MLP looks for what the norm leaves.
        real: which of them are not filler; None if all are.
        settled: whether lines that count for nothing are 0 behind the ReLU, which must be there, as is their gradient.
    """

    weight: Tensor | None
    part: TileMoments | None = None
    behind: "Behind | None" = None
    real: Real | None = None
    settled: bool = False

    @property
    def kept(self) -> Tensor | None:
        """The weights, if lines without any are 0 behind the ReLU."""
        return self.weight if self.settled else None


@dataclass(frozen=True, eq=False)
class Spread:
    """Which line of the shared branch each row takes, and the rows of each such line, group by group."""

    node: Tensor
    order: Tensor
    first: Tensor
    count: Tensor | None


@dataclass(frozen=True, eq=False)
class Left:
    """What a norm leaves to the MLP before it.

    Attributes:
        norm: the lines that were normalised, their moments, and the sums of the gradient; None if nothing was left.
        gate: the gradient counts only where this is positive; None if it counts everywhere.
    """

    norm: tuple[Tensor, Moments, Tensor] | None = None
    gate: Tensor | None = None


class Behind:
    """What the norm behind an MLP leaves for the MLP's gradient, so that its own is never written out.

    The norm's backward pass gives its gradient on as it got it; the MLP takes it through the norm in its first product.
    """

    def __init__(self) -> None:
        self._left = Left()

    def leave(self, y: Tensor, moments: Moments, sums: Tensor, gate: Tensor | None) -> None:
        """The lines that were normalised, their moments, the sums of the gradient, and where it counts."""
        self._left = Left((y, moments, sums), gate)

    def take(self) -> Left:
        """What was left, for the current stream, which need not be the one where it was left.

        It is not kept: the lines belong to the graph that this belongs to, and neither would ever be freed.
        """
        left, self._left = self._left, Left()
        if left.norm is not None and left.norm[2].is_cuda:
            _, moments, sums = left.norm
            for tensor in (moments.mean, moments.share, sums):
                tensor.record_stream(torch.cuda.current_stream(tensor.device))
        return left


class Normalise(torch.autograd.Function):
    """Batch norm of lines, with ReLU if wanted."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        gamma: Tensor,
        beta: Tensor,  # noqa: ARG004
        norm: Norm,
        rows: Rows,
        relu: bool,
        ahead: Ahead | None = None,
    ) -> Tensor:
        x = x.contiguous()
        moments = norm.moments_of(x, rows)
        y = blend(x, moments, relu, real=rows.real, kept=rows.kept)
        ctx.save_for_backward(x, y if relu else None)
        ctx.moments, ctx.rows, ctx.shape, ctx.ahead = moments, rows, gamma.shape, ahead
        if ahead is not None:
            ahead.normed = Normed(x, moments.mean, moments.inverse)
        return y

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, gate = ctx.saved_tensors
        sums = None if ctx.ahead is None else ctx.ahead.found(grad)
        grad, gate = grad.contiguous(), gate if sums is None else None
        if sums is None:
            sums = grad_sums(grad, gate, x, ctx.moments, ctx.rows.real)
        grad_x = _through(ctx.rows, grad, gate, x, ctx.moments, sums)
        return grad_x, *_of_parameters(sums, ctx.shape), None, None, None, None


class MLP(torch.autograd.Function):
    """Linear, norm, ReLU, Linear; with the result come its moments, tile by tile, for the norm that follows."""

    @staticmethod
    def forward(
        ctx: Any,
        u: Tensor,
        w1: Tensor,
        b1: Tensor,
        gamma: Tensor,
        beta: Tensor,  # noqa: ARG004 (where the gradient goes; the norm holds it too)
        w2: Tensor,
        b2: Tensor,
        norm: Norm,
        weight: Tensor | None,
        behind: Behind,
        real: Real | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        u = u.contiguous()
        first, second = Matrix.of(w1, w2)
        a, part = linear(u, first, b1, None, weight, not norm.frozen, real)
        moments = norm.moments(part)
        c, after = linear(a, second, b2, moments, weight, not norm.frozen, real)
        ctx.save_for_backward(u, a, first.whole, first.pieces, second.whole, second.pieces)
        ctx.moments, ctx.weight, ctx.real, ctx.shape, ctx.behind = moments, weight, real, gamma.shape, behind
        ctx.mark_non_differentiable(after.weight, after.mean, after.deviation)
        ctx.set_materialize_grads(False)
        return c, after.weight, after.mean, after.deviation

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        u, a, *matrices = ctx.saved_tensors
        w1, w2 = Matrix(*matrices[:2]), Matrix(*matrices[2:])
        left = ctx.behind.take()
        second = linear_backward(
            grad.contiguous(), a, w2, ctx.moments, after=left.norm, weight=ctx.weight, gate=left.gate, real=ctx.real
        )
        assert second.sums is not None
        after = (a, ctx.moments, second.sums)
        first = linear_backward(second.grad_x, u, w1, None, after=after, weight=ctx.weight, real=ctx.real)
        norm = _of_parameters(second.sums, ctx.shape)
        return first.grad_x, first.matrix, first.bias, *norm, second.matrix, second.bias, None, None, None, None


class Blend(torch.autograd.Function):
    """ReLU of a normalised line a row, plus the normalised line of its node from the shared branch."""

    @staticmethod
    def forward(
        ctx: Any,
        c: Tensor,
        gamma: Tensor,
        beta: Tensor,  # noqa: ARG004
        s: Tensor,
        shared_gamma: Tensor,  # noqa: ARG004
        shared_beta: Tensor,  # noqa: ARG004
        norms: tuple[Norm, Norm],
        rows: tuple[Rows, Rows],
        spread: Spread,
        ahead: Ahead | None = None,
    ) -> Tensor:
        c, s = c.contiguous(), s.contiguous()
        own, shared = (norm.moments_of(x, r) for norm, x, r in zip(norms, (c, s), rows, strict=True))
        y = blend(c, own, True, (s, shared, spread.node), rows[0].real, rows[0].kept)
        ctx.save_for_backward(c, s, y)
        ctx.own, ctx.shared, ctx.rows, ctx.spread, ctx.shape = own, shared, rows, spread, gamma.shape
        ctx.ahead = ahead
        if ahead is not None:
            ahead.normed = Normed(c, own.mean, own.inverse)
        return y

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        c, s, y = ctx.saved_tensors
        sums = None if ctx.ahead is None else ctx.ahead.found(grad)
        grad, gate, spread = grad.contiguous(), y if sums is None else None, ctx.spread
        if sums is None:
            sums = grad_sums(grad, gate, c, ctx.own, ctx.rows[0].real)
        grad_c = _through(ctx.rows[0], grad, gate, c, ctx.own, sums)
        of_node = sum_lines(grad, spread.order, spread.first, spread.count, gate=gate)
        shared = grad_sums(of_node, None, s, ctx.shared)
        grad_s = _through(ctx.rows[1], of_node, None, s, ctx.shared, shared)
        own = _of_parameters(sums, ctx.shape)
        return grad_c, *own, grad_s, *_of_parameters(shared, ctx.shape), None, None, None, None


def _through(rows: Rows, grad: Tensor, gate: Tensor | None, x: Tensor, moments: Moments, sums: Tensor) -> Tensor:
    """The gradient of the lines that were normalised; or, if an MLP gave them, what the MLP makes it from."""
    if rows.behind is None:
        return norm_backward(grad, gate, x, rows.weight, moments, sums, rows.real)
    rows.behind.leave(x, moments, sums, gate)
    return grad


def _of_parameters(sums: Tensor, shape: torch.Size) -> tuple[Tensor, Tensor]:
    """The gradients of γ and β, from the sums of the gradient of the normalised lines."""
    return sums[1].view(shape), sums[0].view(shape)


class Affine(torch.autograd.Function):
    """A linear layer of one network or several, with or without a bias."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
        x, ctx.biased = x.contiguous(), bias is not None
        bias = matrix.new_zeros(matrix.shape[:-1]) if bias is None else bias
        (read,) = Matrix.of(matrix)
        ctx.save_for_backward(x, read.whole, read.pieces)
        return linear(x, read, bias.contiguous(), None, None, moments=False)[0]

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        x, *matrix = ctx.saved_tensors
        grads = linear_backward(grad.contiguous(), x, Matrix(*matrix), None)
        return grads.grad_x, grads.matrix, grads.bias if ctx.biased else None
