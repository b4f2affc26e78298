"""Triton: a layer of GIN convolutions, with norms and ReLU, through the fused kernels."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from esan.ops.dispatch import MAX_WIDTH, first_order
from esan.ops.edges import Edges, check_edge_features
from esan.ops.gin import GINBranch, LayerRows, SharedBranch
from esan.ops.rows import RowView
from esan.ops.segments import RowRanges
from esan.ops.triton import norm as norms
from esan.ops.triton.fused_gradient import FusedGradient
from esan.ops.triton.kernels.linear import linear
from esan.ops.triton.kernels.linear_grads import linear_backward
from esan.ops.triton.kernels.matrix import Matrix
from esan.ops.triton.kernels.moments import TileMoments
from esan.ops.triton.messages import JointPool, message_sum
from esan.ops.triton.norm import DeferredNormGradient, KernelNorm, NormRows, parameter_grads

#: Widths that are multiples of this are read fast.
_VECTOR = 16


def supports(like: Tensor, branches: list[GINBranch], view: LayerRows) -> bool:
    """Whether the kernels compute such a layer: no wider than they are written for, with norms that they support."""
    widest = max(width for branch in branches for matrix in branch.matrices for width in matrix.shape[-2:])
    rows = like.new_empty(1, 1) if view.num_rows else like.new_empty(0, 1)
    return widest <= MAX_WIDTH and all(norms.supports(rows, norm) for branch in branches for norm in branch.norms)


def layer(
    h: Tensor,
    inside: GINBranch,
    shared: SharedBranch | None,
    view: Any,
    given: RowView,  # noqa: ARG001
    chained: bool,
) -> Tensor:
    """`esan.ops.gin.gin_layer`."""
    h = _aligned(view.expand(h))
    multiplicity = view.multiplicity_in(torch.float32)
    inside.outer.refuse_single(h, multiplicity)
    # Without gradients, it would only keep the input of the norm alive.
    fused = FusedGradient() if chained and torch.is_grad_enabled() else None
    if shared is None:
        c, rows = _mlp(inside, _messages(inside, h, view.edges), multiplicity, view.row_ranges)
        outer = inside.outer
        y = norms.BatchNormFunction.apply(c, outer.gamma, outer.beta, KernelNorm.of(outer), rows, True, fused)
        return y if fused is None else fused.attach(y)
    side = view.side
    pool = JointPool(view.by_node, view.pool_factor(shared.pool, torch.float32))
    u = _messages(inside, h, view.edges, pool)
    # The shared branch is small and independent of the other: on a second stream it takes no time.
    pooled = pool.pooled
    assert pooled is not None
    shared.branch.outer.refuse_single(pooled, shared.multiplicity)
    with _on_side_stream(side):
        if side is not None:
            pooled.record_stream(side)  # the work there may finish after the work here
        around = _messages(shared.branch, pooled, shared.edges)
        s, nodes = _mlp(shared.branch, around, shared.multiplicity)
    c, rows = _mlp(inside, u, multiplicity, view.row_ranges)
    if side is not None:
        torch.cuda.current_stream(h.device).wait_stream(side)
    own, other = inside.outer, shared.branch.outer
    y = norms.NormalisedSumFunction.apply(
        c, own.gamma, own.beta, s, other.gamma, other.beta, (KernelNorm.of(own), KernelNorm.of(other)), (rows, nodes),
        view.by_node, fused,
    )  # fmt: skip
    return y if fused is None else fused.attach(y)


def aligned_width(width: int) -> int:
    """The width that rows of this width are padded to, so that they are read in whole vectors."""
    return width if width <= _VECTOR else width + -width % _VECTOR


def _aligned(rows: Tensor) -> Tensor:
    """The rows padded with zeros to such a width: marks add two columns."""
    extra = aligned_width(rows.size(-1)) - rows.size(-1)
    return F.pad(rows, (0, extra)) if extra else rows


@contextmanager
def _on_side_stream(side: "torch.cuda.Stream | None") -> Iterator[None]:
    """Within, work is launched on the side stream, after all work so far on the current one."""
    if side is None:
        yield
        return
    side.wait_stream(torch.cuda.current_stream(side.device))
    with torch.cuda.stream(side):
        yield


def _messages(branch: GINBranch, h: Tensor, edges: Edges, pool: JointPool | None = None) -> Tensor:
    e = None if branch.features is None else branch.features(h)
    check_edge_features(branch.w1.size(-1), edges, e)  # h may be padded with columns of zeros
    return message_sum(h, edges, e, branch.own, edges.weight_like(h), pool)


def _mlp(
    branch: GINBranch, u: Tensor, multiplicity: Tensor | None, row_ranges: RowRanges | None = None
) -> tuple[Tensor, NormRows]:
    """The MLP, and what the norm after it takes."""
    deferred, inner = DeferredNormGradient(), branch.inner
    c, *tiles = MLPFunction.apply(
        u, _aligned(branch.w1), branch.b1, inner.gamma, inner.beta, branch.w2, branch.b2,
        KernelNorm.of(inner), multiplicity, deferred, row_ranges,
    )  # fmt: skip
    return c, NormRows(multiplicity, TileMoments(*tiles), deferred, row_ranges, zero_empty=True)


class MLPFunction(torch.autograd.Function):
    """Linear, norm, ReLU, Linear; also returns the moments of the result, tile by tile, for the norm that follows."""

    @staticmethod
    def forward(
        ctx: Any,
        u: Tensor,
        w1: Tensor,
        b1: Tensor,
        gamma: Tensor,
        beta: Tensor,  # noqa: ARG004 (its gradient is returned here; the norm holds it too)
        w2: Tensor,
        b2: Tensor,
        norm: KernelNorm,
        multiplicity: Tensor | None,
        deferred: DeferredNormGradient,
        row_ranges: RowRanges | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        u = u.contiguous()
        first, second = Matrix.of(w1, w2)
        a, tiles = linear(u, first, b1, None, multiplicity, not norm.frozen, row_ranges)
        moments = norm.moments(tiles)
        c, after = linear(a, second, b2, moments, multiplicity, not norm.frozen, row_ranges)
        ctx.save_for_backward(u, a, first.weight, first.operand, second.weight, second.operand)
        ctx.moments, ctx.multiplicity, ctx.row_ranges = moments, multiplicity, row_ranges
        ctx.shape, ctx.deferred = gamma.shape, deferred
        ctx.mark_non_differentiable(after.weight, after.mean, after.deviation)
        ctx.set_materialize_grads(False)
        return c, after.weight, after.mean, after.deviation

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        u, a, *matrices = ctx.saved_tensors
        w1, w2 = Matrix(*matrices[:2]), Matrix(*matrices[2:])
        of_norm = ctx.deferred.take()
        given: dict[str, Any] = {"multiplicity": ctx.multiplicity, "row_ranges": ctx.row_ranges}
        second = linear_backward(grad.contiguous(), a, w2, ctx.moments, after=of_norm.norm, gate=of_norm.gate, **given)
        assert second.sums is not None
        after = (a, ctx.moments, second.sums)
        first = linear_backward(second.grad_x, u, w1, None, after=after, **given)
        norm = parameter_grads(second.sums, ctx.shape)
        return first.grad_x, first.matrix, first.bias, *norm, second.matrix, second.bias, None, None, None, None
