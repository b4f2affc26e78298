"""Numba: weighted batch normalisation: two passes over the rows forward, two backward, and nothing stored between."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from esan.ops.dispatch import first_order
from esan.ops.norm import NormState, Summand, single_pair
from esan.ops.numba.loops import norm as norm_loops
from esan.ops.numba.runtime import CHUNK, num_chunks, run
from esan.ops.numba.workspace import empty_matrix
from esan.ops.rows import RowView, zero_empty_rows
from esan.ops.segments import CSR

#: Groups of one chunk of work where rows are summed by group: a node has some ten rows.
_GROUP_CHUNK = 16


@dataclass(frozen=True, eq=False)
class ChunkMoments:
    """The moments of each chunk of rows: total multiplicity, weighted mean, weighted sum of squared deviations."""

    total: Tensor
    mean: Tensor
    square: Tensor

    @staticmethod
    def empty(like: Tensor, count: int, width: int) -> "ChunkMoments":
        mean, square = like.new_empty(2, count, width)
        return ChunkMoments(like.new_empty(count, dtype=torch.double), mean, square)

    @staticmethod
    def of(x: Tensor, multiplicity: Tensor | None) -> "ChunkMoments":
        (rows, width), count = x.shape, num_chunks(x.size(0))
        chunks = ChunkMoments.empty(x, count, width)
        run(
            norm_loops.moments, x, count, rows=rows, width=width, chunk_rows=CHUNK, x=x, multiplicity=multiplicity,
            total=chunks.total, mean=chunks.mean, square=chunks.square,
        )  # fmt: skip
        return chunks


@dataclass(frozen=True, eq=False)
class NormCoefficients:
    """The norm of given rows as a map: (x - mean) scale + beta.

    Attributes:
        mean: of the rows.
        scale: gamma over the standard deviation.
        beta: the norm's, 0 if it has none.
        inverse: one over the standard deviation.
        numbers: eps, momentum, the number of pairs, and how many fewer the running variance is divided by.
    """

    mean: Tensor
    scale: Tensor
    beta: Tensor
    inverse: Tensor
    numbers: Tensor

    @staticmethod
    def of(
        chunks: ChunkMoments, norm: NormState, gamma: Tensor | None, beta: Tensor | None, bias: Tensor | None = None
    ) -> "NormCoefficients":
        """From mean and variance of all rows, which the running statistics of `norm` follow.

        Args:
            chunks: the moments of the chunks.
            norm: the norm.
            gamma: its factor, None for 1.
            beta: its summand, None for 0.
            bias: a bias that was left out of the rows: the norm removes it again, but the running mean includes it.
        """
        if float(chunks.total.sum()) == 1.0:
            raise single_pair()
        (parts, width), out = chunks.mean.shape, chunks.mean.new_empty(4, chunks.mean.size(1))
        momentum = norm.begin_tracking()
        mean, var = (None, None) if momentum is None else (norm.running_mean, norm.running_var)
        missing = 1.0 if norm.unbiased else 0.0
        numbers = torch.tensor([norm.eps, momentum or 0.0, 0.0, missing], dtype=torch.double)
        gamma, beta, bias = (None if t is None else t.to(out.dtype).contiguous() for t in (gamma, beta, bias))
        run(
            norm_loops.merge, chunks.mean, 1, parts=parts, width=width, total=chunks.total, mean=chunks.mean,
            square=chunks.square, gamma=gamma, beta=beta, bias=bias, running_mean=mean, running_var=var,
            numbers=numbers, out=out,
        )  # fmt: skip
        mean_out, scale, beta_out, inverse = out.unbind()
        return NormCoefficients(mean_out, scale, beta_out, inverse, numbers)

    def through(self, grad_sum: Tensor, grad_dot: Tensor) -> tuple[Tensor, ...]:
        """The gradients through mean and variance, and those of gamma and beta, from `centred_grad_sums`."""
        (parts, width), out = grad_sum.shape, grad_sum.new_empty(4, grad_sum.size(1))
        run(
            norm_loops.through, grad_sum, 1, parts=parts, width=width, grad_sum=grad_sum, grad_dot=grad_dot,
            scale=self.scale, inverse=self.inverse, numbers=self.numbers, out=out,
        )  # fmt: skip
        return out.unbind()


def supports(x: Tensor, norm: NormState) -> bool:
    """Whether the loops compute this norm: where mean and variance are those of the rows themselves."""
    own = norm.gamma, norm.beta, norm.running_mean, norm.running_var
    usual = all(t is None or (t.dim() == 1 and t.dtype == x.dtype and t.is_contiguous()) for t in own)
    return norm.reads_batch and usual and x.dim() == 2 and x.size(0) > 2


def batch_norm(x: Tensor, norm: NormState, multiplicity: Tensor | None, relu: bool) -> Tensor:
    """`esan.ops.norm.batch_norm`."""
    return _CPUBatchNorm.apply(x, norm.gamma, norm.beta, None, multiplicity, norm, relu, None)


def normalised_sum(rows: Summand, nodes: Summand | None, view: RowView) -> Tensor:
    """`esan.ops.norm.normalised_sum`."""
    multiplicity = None if rows.multiplicity is None else rows.multiplicity.to(rows.x.dtype)
    added, by_node = None, None
    if nodes is not None:
        of_nodes = None if nodes.multiplicity is None else nodes.multiplicity.to(nodes.x.dtype)
        added, by_node = batch_norm(nodes.x, nodes.norm, of_nodes, relu=False), view.by_node
    norm = rows.norm
    y = _CPUBatchNorm.apply(rows.x, norm.gamma, norm.beta, added, multiplicity, norm, True, by_node)
    return zero_empty_rows(y, view)


class _CPUBatchNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        gamma: Tensor | None,
        beta: Tensor | None,
        added: Tensor | None,
        multiplicity: Tensor | None,
        norm: NormState,
        relu: bool,
        by_node: CSR | None,
    ) -> Tensor:
        x = x.contiguous()
        norm_of_rows = NormCoefficients.of(ChunkMoments.of(x, multiplicity), norm, gamma, beta)
        y = normalise(x, norm_of_rows, relu, added, by_node)
        ctx.save_for_backward(x, y if relu else None)
        ctx.multiplicity, ctx.norm, ctx.relu, ctx.by_node = multiplicity, norm_of_rows, relu, by_node
        return y

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, y = ctx.saved_tensors
        y, norm, (rows, width), grad = x if y is None else y, ctx.norm, x.shape, grad.contiguous()
        grad_x = empty_matrix(x, rows, width)
        grad_sum, grad_dot, grad_added = centred_grad_sums(x, y, grad, norm.mean, ctx.relu, ctx.by_node)
        by_mean, by_var, grad_gamma, grad_beta = norm.through(grad_sum, grad_dot)
        run(
            norm_loops.back, x, num_chunks(rows), rows=rows, width=width, chunk_rows=CHUNK, relu=ctx.relu, x=x, y=y,
            grad=grad, multiplicity=ctx.multiplicity, mean=norm.mean, scale=norm.scale, by_mean=by_mean, by_var=by_var,
            grad_x=grad_x,
        )  # fmt: skip
        gamma, beta = (
            g if t else None for g, t in zip((grad_gamma, grad_beta), ctx.needs_input_grad[1:3], strict=True)
        )
        return grad_x, gamma, beta, grad_added, None, None, None, None


def normalise(x: Tensor, norm: NormCoefficients, relu: bool, added: Tensor | None, by_node: CSR | None) -> Tensor:
    """The normalised rows, plus the row of its node to each if `added` is given, and ReLU of that if wanted."""
    (rows, width), y = x.shape, empty_matrix(x, *x.shape)
    added = None if added is None else added.contiguous()
    run(
        norm_loops.apply, x, num_chunks(rows), rows=rows, width=width, chunk_rows=CHUNK,
        groups=0 if added is None else added.size(0), relu=relu, x=x, y=y, mean=norm.mean, scale=norm.scale,
        shift=norm.beta, added=added, index=None if added is None or by_node is None else by_node.index,
    )  # fmt: skip
    return y


def centred_grad_sums(
    x: Tensor, y: Tensor, grad: Tensor, mean: Tensor, relu: bool, by_node: CSR | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Of each chunk of rows: the sum of the gradient before ReLU, and of it times (x - mean); and its sum per node."""
    rows, width = x.shape
    if by_node is None:
        count = num_chunks(rows)
        grad_sum, grad_dot = x.new_empty(2, count, width)
        run(
            norm_loops.sums, x, count, rows=rows, width=width, chunk_rows=CHUNK, relu=relu, x=x, y=y, grad=grad,
            mean=mean, grad_sum=grad_sum, grad_dot=grad_dot,
        )  # fmt: skip
        return grad_sum, grad_dot, None
    count = num_chunks(by_node.size, _GROUP_CHUNK)
    grad_sum, grad_dot = x.new_empty(2, count, width)
    node_grad, parent = empty_matrix(x, by_node.size, width), by_node.parent
    run(
        norm_loops.group_sums, x, count, rows=rows, width=width, chunk_groups=_GROUP_CHUNK, relu=relu,
        groups=by_node.size, x=x, y=y, grad=grad, mean=mean, grad_sum=grad_sum, grad_dot=grad_dot, perm=parent.perm,
        ptr=parent.ptr, group_grad=node_grad, total_rows=parent.index.numel(),
    )  # fmt: skip
    return grad_sum, grad_dot, node_grad
