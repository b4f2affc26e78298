"""Numba: one branch of a GIN layer as one operator (message sum, MLP and norm), chunk by chunk in the cache."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from esan.ops.dispatch import first_order
from esan.ops.edges import Edges, EdgeTypeFeatures, check_edge_features
from esan.ops.gin import GINBranch, LayerRows, SharedBranch
from esan.ops.norm import NormState
from esan.ops.numba import norm as norms
from esan.ops.numba.loops import gin as gin_loops
from esan.ops.numba.messages import Expansion, messages_backward
from esan.ops.numba.norm import ChunkMoments, NormCoefficients, centred_grad_sums, normalise
from esan.ops.numba.runtime import blas, num_chunks, run
from esan.ops.numba.workspace import empty_matrix
from esan.ops.segments import CSR

#: Entries of a chunk of a matrix, so that three such chunks stay in a core's cache.
_CACHED = 32768
#: The layer expands its input itself: the input may have the rows of an earlier layer.
READS_EARLIER_ROWS = True
#: The gradients of matrices are summed in so many parts at most.
_PARTS = 16


@dataclass(frozen=True, eq=False)
class BranchRows:
    """The rows that a branch computes, and what it reads for them.

    Attributes:
        edges: the edges into them.
        multiplicity: how many pairs each stands for; None for one.
        expansion: how they relate to the rows that are read; None where these are the same.
        by_node: the rows by their node; None where there is one row per node.
    """

    edges: Edges
    multiplicity: Tensor | None = None
    expansion: Expansion | None = None
    by_node: CSR | None = None

    @staticmethod
    def of(view: Any, h: Tensor) -> "BranchRows":
        """The rows of a view; h has all of them, or the first."""
        x_rows = h.size(0)
        expansion = None if x_rows == view.num_rows else Expansion(x_rows, view.by_node)
        return BranchRows(view.edges_from(x_rows), view.multiplicity_in(h.dtype), expansion, view.by_node)


@dataclass(frozen=True, eq=False)
class BranchSpec:
    """The constants of a branch: all but the tensors that gradients flow to.

    Attributes:
        edges: the edges into the rows, from the rows of x.
        edge_type: the row of e of each edge of the graph; None where e has one row per edge of the graph.
        weight: one factor per message; None for 1.
        multiplicity: how many pairs each row stands for, in the precision of the rows; None for 1.
        norms: the norm inside the MLP and the one after it.
        relu: whether ReLU comes last.
        by_node: the rows by their node; None where no rows of nodes are added.
        expansion: how the rows relate to those of x; None where x has all rows.
    """

    edges: Edges
    edge_type: Tensor | None
    weight: Tensor | None
    multiplicity: Tensor | None
    norms: tuple[NormState, NormState]
    relu: bool
    by_node: CSR | None = None
    expansion: Expansion | None = None


def supports(like: Tensor, branches: list[GINBranch], view: LayerRows) -> bool:
    """Whether the loops compute such a layer: of one network, whose norms read the batch."""
    rows = like.new_empty(3, 1)
    # Norms over so few rows look for a single pair, which is refused; a shared branch has one row per node.
    few = view.num_rows <= 2 or (len(branches) > 1 and view.by_node.size <= 2)
    return view.plain and not few and all(_supports(rows, branch) for branch in branches)


def _supports(rows: Tensor, branch: GINBranch) -> bool:
    matrices = all(w.dtype == rows.dtype and w.dim() == 2 and w.numel() > 0 for w in branch.matrices)
    return (
        matrices
        and branch.eps.numel() == 1
        and all(norms.supports(rows, norm) for norm in branch.norms)
        and blas(rows.dtype) != 0
    )


def layer(
    h: Tensor,
    inside: GINBranch,
    shared: SharedBranch | None,
    view: Any,
    given: Any,
    chained: bool,  # noqa: ARG001
) -> Tensor:
    """`esan.ops.gin.gin_layer`; rows that are new in this layer are read from the rows that they are copies of."""
    added = None
    if shared is not None:
        # The pool over the bag is the same before rows are expanded, when they are fewer.
        h, pooled = given.expand_and_pool(h, shared.pool)
        added = branch(shared.branch, pooled, BranchRows(shared.edges, shared.multiplicity))
    return view.zero_empty_rows(branch(inside, h, BranchRows.of(view, h), relu=True, added=added))


def branch(of: GINBranch, h: Tensor, rows: BranchRows, relu: bool = False, added: Tensor | None = None) -> Tensor:
    """A convolution and the norm after it, plus the row of its node to each row if `added`, and ReLU if wanted."""
    features = None if of.features is None else of.features(h)
    check_edge_features(h.size(-1), rows.edges, features)
    e, edge_type = features, None
    if isinstance(features, EdgeTypeFeatures):
        e, edge_type = features.table, features.edge_type.contiguous()
    by_node = None if added is None else rows.by_node
    multiplicity = None if rows.multiplicity is None else rows.multiplicity.to(h.dtype)
    weight = rows.edges.weight_like(h)
    spec = BranchSpec(rows.edges, edge_type, weight, multiplicity, of.norms, relu, by_node, rows.expansion)
    return _BranchFunction.apply(
        h, e, of.own, of.w1, of.b1, of.inner.gamma, of.inner.beta, of.w2, of.b2, of.outer.gamma, of.outer.beta,
        added, spec,
    )  # fmt: skip


class _BranchFunction(torch.autograd.Function):
    r""":math:`y = \sigma(\mathrm{norm}_2(W_2 \mathrm{ReLU}(\mathrm{norm}_1(W_1 a))) + s)`, a the sum of messages.

    The norms remove the biases of both matrices again: these matter for the running means alone, and their gradient
    is 0.
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
        spec: BranchSpec,
    ) -> Tensor:
        x, w1, w2, (x_rows, width) = x.contiguous(), w1.contiguous(), w2.contiguous(), x.shape
        e, added = (None if t is None else t.contiguous() for t in (e, added))
        (hidden, out_width), edges, expansion = (w1.size(0), w2.size(0)), spec.edges, spec.expansion
        rows, chunk_rows = edges.num_rows, _chunk_rows(max(width, hidden, out_width))
        count, source, edge_type = num_chunks(rows, chunk_rows), edges.ends[0], spec.edge_type

        a, z, c = (empty_matrix(x, rows, w) for w in (width, hidden, out_width))
        moments = ChunkMoments.empty(x, count, hidden)
        run(
            gin_loops.first, x, count, rows=rows, width=width, out_width=hidden, e_rows=0 if e is None else e.size(0),
            num_edges=source.numel(), chunk_rows=chunk_rows, x=x, e=e, a=a, source=source, edge_id=edges.edge_id,
            ptr=edges.by_target.ptr, weight=spec.weight, own=own, edge_type=edge_type,
            graph_edges=0 if edge_type is None else edge_type.numel(), w=w1, z=z, multiplicity=spec.multiplicity,
            total=moments.total, mean=moments.mean, square=moments.square, blas=blas(x.dtype), x_rows=x_rows,
            unchanged=rows if expansion is None else expansion.unchanged,
            origin=None if expansion is None else expansion.by_origin.index,
        )  # fmt: skip
        norm1 = NormCoefficients.of(moments, spec.norms[0], gamma1, beta1, b1)
        moments = ChunkMoments.empty(x, count, out_width)
        run(
            gin_loops.second, x, count, rows=rows, width=hidden, out_width=out_width, chunk_rows=chunk_rows, z=z, w=w2,
            c=c, norm_mean=norm1.mean, norm_scale=norm1.scale, norm_shift=norm1.beta, multiplicity=spec.multiplicity,
            total=moments.total, mean=moments.mean, square=moments.square, blas=blas(x.dtype),
        )  # fmt: skip
        norm2 = NormCoefficients.of(moments, spec.norms[1], gamma2, beta2, b2)
        y = normalise(c, norm2, spec.relu, added, spec.by_node)
        ctx.save_for_backward(x, e, own, w1, w2, a, z, c, y if spec.relu else None)
        ctx.spec, ctx.norm1, ctx.norm2, ctx.chunk_rows = spec, norm1, norm2, chunk_rows
        return y

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, e, own, w1, w2, a, z, c, y = ctx.saved_tensors
        spec, norm1, norm2, grad = ctx.spec, ctx.norm1, ctx.norm2, grad.contiguous()
        y = c if y is None else y
        (rows, width), (hidden, out_width) = a.shape, (w1.size(0), w2.size(0))
        parts = min(num_chunks(rows, ctx.chunk_rows), _PARTS)

        grad_sum, grad_dot, grad_added = centred_grad_sums(c, y, grad, norm2.mean, spec.relu, spec.by_node)
        by_mean, by_var, grad_gamma2, grad_beta2 = norm2.through(grad_sum, grad_dot)
        grad_normed, part_w = empty_matrix(z, rows, hidden), w2.new_empty(parts, *w2.shape)
        grad_sum, grad_dot = z.new_empty(2, parts, hidden)
        run(
            gin_loops.back_second, x, parts, rows=rows, width=hidden, out_width=out_width, chunk_rows=ctx.chunk_rows,
            relu=spec.relu, c=c, y=y, grad=grad, multiplicity=spec.multiplicity, outer_mean=norm2.mean,
            outer_scale=norm2.scale, by_mean=by_mean, by_var=by_var, z=z, inner_mean=norm1.mean,
            inner_scale=norm1.scale, inner_shift=norm1.beta, w=w2, grad_normed=grad_normed, grad_w=part_w,
            grad_sum=grad_sum, grad_dot=grad_dot, blas=blas(x.dtype),
        )  # fmt: skip
        grad_w2 = part_w.sum(0)
        by_mean, by_var, grad_gamma1, grad_beta1 = norm1.through(grad_sum, grad_dot)
        grad_a, part_w = empty_matrix(a, rows, width), w1.new_empty(parts, *w1.shape)
        run(
            gin_loops.back_first, x, parts, rows=rows, width=width, out_width=hidden, chunk_rows=ctx.chunk_rows, z=z,
            grad_normed=grad_normed, multiplicity=spec.multiplicity, mean=norm1.mean, scale=norm1.scale,
            by_mean=by_mean, by_var=by_var, a=a, w=w1, grad_a=grad_a, grad_w=part_w, blas=blas(x.dtype),
        )  # fmt: skip
        grad_w1 = part_w.sum(0)
        grad_x, grad_e, grad_own = messages_backward(
            grad_a, x, e, own, spec.edge_type, spec.edges, spec.weight, ctx.needs_input_grad[1],
            ctx.needs_input_grad[2], spec.expansion,
        )  # fmt: skip
        grads = (
            grad_x, grad_e, grad_own,
            grad_w1, grad_w1.new_zeros(hidden), grad_gamma1, grad_beta1,
            grad_w2, grad_w2.new_zeros(out_width), grad_gamma2, grad_beta2,
            grad_added, None,
        )  # fmt: skip
        return tuple(g if needed else None for g, needed in zip(grads, ctx.needs_input_grad, strict=True))


def _chunk_rows(width: int) -> int:
    return min(max(_CACHED // width, 32), 1024)
