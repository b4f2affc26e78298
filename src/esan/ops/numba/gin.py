"""A whole branch of a layer on a CPU: sum of messages, GIN's MLP and the norm behind it, rows staying in the cache."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from esan.ops.numba.messages import Onward, messages_backward
from esan.ops.numba.norm import Norm, Parts, applied, grad_sums
from esan.ops.numba.runtime import blas, pieces, run, tiles
from esan.ops.numba.workspace import empty_table

#: The numbers of a table that a piece of rows is to have, so that three such tables stay in a core's cache.
_CACHED = 32768
#: The gradients of matrices are summed in so many parts at most.
_PARTS = 16


@dataclass(frozen=True, eq=False)
class Branch:
    """What a branch is made of besides its tensors.

    Attributes:
        arcs: the arcs into the rows, from the rows of x, an `Arcs`.
        code: the edge line of each arc of the graph; None where each has a line of its own.
        factor: a factor a message; None for 1.
        weight: how many pairs each row stands for, in the precision of the rows; None for 1.
        norms: the `BatchNorm` inside the MLP and the one behind it.
        relu: whether ReLU comes last.
        groups: which rows each added line belongs to; None where none is added.
        onward: how rows go on from those of x; None where x has all rows.
    """

    arcs: Any
    code: Tensor | None
    factor: Tensor | None
    weight: Tensor | None
    norms: tuple[Any, Any]
    relu: bool
    groups: Any = None
    onward: Onward | None = None


def fits(x: Tensor, matrices: tuple[Tensor, Tensor]) -> bool:
    """Whether there is a matrix product for these rows; `esan.ops.numba.runtime.fits` is for the rest."""
    return (
        x.size(0) > 2
        and all(w.dtype == x.dtype and w.dim() == 2 and w.numel() > 0 for w in matrices)
        and all(tiles(w) or blas(x.dtype) != 0 for w in matrices)
    )


def _product(matrix: Tensor) -> int:
    """What multiplies rows by a matrix: the entry of a BLAS, 0 for tiles of our own."""
    return 0 if tiles(matrix) else blas(matrix.dtype)


class Layer(torch.autograd.Function):
    r""":math:`y = \sigma(\mathrm{norm}_2(W_2 \mathrm{ReLU}(\mathrm{norm}_1(W_1 a))) + s)`, a the sum of messages.

    The biases of both matrices are taken out again by the norms: they matter for the running means alone, and their
    gradient is 0.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        e: Tensor | None,
        own: Tensor | None,
        w1: Tensor,
        b1: Tensor,
        gamma1: Tensor | None,
        beta1: Tensor | None,
        w2: Tensor,
        b2: Tensor,
        gamma2: Tensor | None,
        beta2: Tensor | None,
        added: Tensor | None,
        branch: Branch,
    ) -> Tensor:
        from esan.ops.numba import gin_loops as layer_loops

        x, w1, w2, (known, d) = x.contiguous(), w1.contiguous(), w2.contiguous(), x.shape
        e, added = (None if t is None else t.contiguous() for t in (e, added))
        (o1, o2), arcs, code, weight = (w1.size(0), w2.size(0)), branch.arcs, branch.code, branch.weight
        n, size = arcs.num_rows, _piece(max(d, o1, o2))
        count = pieces(n, size)

        a, z, c = empty_table(x, n, d), empty_table(x, n, o1), empty_table(x, n, o2)
        part, source = Parts.empty(x, count, o1), arcs.ends[0]
        lines, num_arcs, onward = 0 if e is None else e.size(0), source.numel(), branch.onward
        run(
            layer_loops.first, x, count, n, d, o1, lines, num_arcs, size, x, e, a, source, arcs.arc, arcs.into.first,
            branch.factor, own, code, 0 if code is None else code.numel(), w1, z, weight, part.total, part.mean,
            part.square, _product(w1), known, n if onward is None else onward.kept,
            None if onward is None else onward.rows.owner,
        )  # fmt: skip
        norm1 = Norm.of(part, branch.norms[0], gamma1, beta1, b1)
        part = Parts.empty(x, count, o2)
        run(
            layer_loops.second, x, count, n, o1, o2, size, z, w2, c, norm1.mean, norm1.scale, norm1.shift, weight,
            part.total, part.mean, part.square, _product(w2),
        )  # fmt: skip
        norm2 = Norm.of(part, branch.norms[1], gamma2, beta2, b2)
        y = applied(c, norm2, branch.relu, added, branch.groups)
        ctx.save_for_backward(x, e, own, w1, w2, a, z, c, y if branch.relu else None)
        ctx.branch, ctx.norm1, ctx.norm2, ctx.size = branch, norm1, norm2, size
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from esan.ops.numba import gin_loops as layer_loops

        x, e, own, w1, w2, a, z, c, y = ctx.saved_tensors
        branch, norm1, norm2, size, grad = ctx.branch, ctx.norm1, ctx.norm2, ctx.size, grad.contiguous()
        y = c if y is None else y
        (n, d), (o1, o2), weight = a.shape, (w1.size(0), w2.size(0)), branch.weight
        parts = min(pieces(n, size), _PARTS)

        plain, times, grad_added = grad_sums(c, y, grad, norm2.mean, branch.relu, branch.groups)
        by_mean, by_var, grad_gamma2, grad_beta2 = norm2.through(plain, times)
        g, part_w = empty_table(z, n, o1), w2.new_empty(parts, *w2.shape)
        plain, times = z.new_empty(2, parts, o1)
        run(
            layer_loops.back_second, x, parts, n, o1, o2, size, branch.relu, c, y, grad, weight, norm2.mean,
            norm2.scale, by_mean, by_var, z, norm1.mean, norm1.scale, norm1.shift, w2, g, part_w, plain, times,
            _product(w2),
        )  # fmt: skip
        grad_w2 = part_w.sum(0)
        by_mean, by_var, grad_gamma1, grad_beta1 = norm1.through(plain, times)
        grad_a, part_w = empty_table(a, n, d), w1.new_empty(parts, *w1.shape)
        run(
            layer_loops.back_first, x, parts, n, d, o1, size, z, g, weight, norm1.mean, norm1.scale, by_mean, by_var,
            a, w1, grad_a, part_w, _product(w1),
        )  # fmt: skip
        grad_w1 = part_w.sum(0)
        grad_x, grad_e, grad_own = messages_backward(
            grad_a, x, e, own, branch.code, branch.arcs, branch.factor, ctx.needs_input_grad[1],
            ctx.needs_input_grad[2], branch.onward,
        )  # fmt: skip
        grads = (
            grad_x, grad_e, grad_own,
            grad_w1, grad_w1.new_zeros(o1), grad_gamma1, grad_beta1,
            grad_w2, grad_w2.new_zeros(o2), grad_gamma2, grad_beta2,
            grad_added, None,
        )  # fmt: skip
        return tuple(g if needed else None for g, needed in zip(grads, ctx.needs_input_grad, strict=True))


def _piece(width: int) -> int:
    return min(max(_CACHED // width, 32), 1024)
