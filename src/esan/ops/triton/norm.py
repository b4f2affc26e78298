"""Triton: weighted batch norm, and the norms, sum and ReLU that a layer ends with in one kernel."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from esan.ops.dispatch import first_order
from esan.ops.norm import NormState, Summand
from esan.ops.rows import RowView
from esan.ops.segments import CSR, RowRanges
from esan.ops.triton.fused_gradient import FusedGradient, NormInput
from esan.ops.triton.kernels.moments import Moments, RunningStatistics, TileMoments, finish, frozen, tile_moments
from esan.ops.triton.kernels.normalise import grad_sums, norm_backward, normalise
from esan.ops.triton.kernels.tiles import num_networks_of
from esan.ops.triton.segments import sum_rows


def supports(x: Tensor, norm: NormState) -> bool:
    """Whether the kernels compute this norm: one with parameters and running statistics."""
    usual = norm.gamma is not None and norm.momentum is not None and norm.running_mean is not None
    # In eval mode the kernels do not differentiate.
    return usual and x.size(0) > 0 and (norm.training or not torch.is_grad_enabled())


def batch_norm(x: Tensor, norm: NormState, multiplicity: Tensor | None, relu: bool) -> Tensor:
    """`esan.ops.norm.batch_norm`."""
    return BatchNormFunction.apply(x, norm.gamma, norm.beta, KernelNorm.of(norm), NormRows(multiplicity), relu)


def normalised_sum(rows: Summand, nodes: Summand | None, view: RowView) -> Tensor:
    """`esan.ops.norm.normalised_sum`."""
    own = NormRows(rows.multiplicity, zero_empty=rows.multiplicity is not None)
    norm = rows.norm
    if nodes is None:
        return BatchNormFunction.apply(rows.x, norm.gamma, norm.beta, KernelNorm.of(norm), own, True)
    return NormalisedSumFunction.apply(
        rows.x, norm.gamma, norm.beta, nodes.x, nodes.norm.gamma, nodes.norm.beta,
        (KernelNorm.of(norm), KernelNorm.of(nodes.norm)), (own, NormRows(nodes.multiplicity)), view.by_node,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class KernelNorm:
    """A batch norm as the kernels take it.

    Attributes:
        gamma: its factor.
        beta: its summand.
        eps: added to the variance.
        running: the running statistics.
        frozen: whether the running statistics are used in place of the batch's (eval mode).
    """

    gamma: Tensor
    beta: Tensor
    eps: float
    running: RunningStatistics
    frozen: bool

    @staticmethod
    def of(norm: NormState) -> "KernelNorm":
        assert norm.gamma is not None
        assert norm.beta is not None
        assert norm.running_mean is not None
        assert norm.running_var is not None
        assert norm.num_batches is not None
        assert norm.momentum is not None
        running = RunningStatistics(norm.running_mean, norm.running_var, norm.num_batches, norm.momentum, norm.unbiased)
        return KernelNorm(norm.gamma, norm.beta, norm.eps, running, not norm.training)

    def moments(self, tiles: TileMoments) -> Moments:
        if self.frozen:
            return frozen(self.gamma, self.beta, self.running, self.eps)
        return finish(tiles, self.gamma, self.beta, self.eps, self.running)

    def moments_of(self, x: Tensor, rows: "NormRows") -> Moments:
        """The moments of these rows, from those of their tiles if they are known."""
        tiles = rows.tiles
        if tiles is None and not self.frozen:
            tiles = tile_moments(x, rows.multiplicity, num_networks_of(self.gamma), rows.row_ranges)
        return self.moments(tiles)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class NormRows:
    """Rows to be normalised.

    Attributes:
        multiplicity: how often each row counts; None for once.
        tiles: their moments tile by tile, if they come from an MLP.
        deferred: where the MLP that computed them takes the norm's gradient; None if no MLP did.
        row_ranges: which of them are not padding; None if there is no padding.
        zero_empty: whether rows of multiplicity 0 become 0 after the ReLU, which must be there; so does their gradient.
    """

    multiplicity: Tensor | None
    tiles: TileMoments | None = None
    deferred: "DeferredNormGradient | None" = None
    row_ranges: RowRanges | None = None
    zero_empty: bool = False

    @property
    def zero_mask(self) -> Tensor | None:
        """The multiplicities, if rows of multiplicity 0 become 0."""
        return self.multiplicity if self.zero_empty else None


@dataclass(frozen=True, eq=False)
class NormGradient:
    """What an MLP needs to take its gradient through the norm after it.

    Attributes:
        norm: the rows that were normalised, their moments, and the sums of the gradient; None if there was no norm.
        gate: the gradient counts only where this is positive; None if it counts everywhere.
    """

    norm: tuple[Tensor, Moments, Tensor] | None = None
    gate: Tensor | None = None


class DeferredNormGradient:
    """Hands the gradient of the norm after an MLP to the MLP, so that it is never written out on its own.

    The norm's backward pass passes its gradient on unchanged; the MLP takes it through the norm in its first product.
    """

    def __init__(self) -> None:
        self._stored = NormGradient()

    def store(self, y: Tensor, moments: Moments, sums: Tensor, gate: Tensor | None) -> None:
        """Store the rows that were normalised, their moments, the sums of the gradient, and where it counts."""
        self._stored = NormGradient((y, moments, sums), gate)

    def take(self) -> NormGradient:
        """What was stored, for the current stream, which may be another than that of `store`.

        It is removed here: the rows belong to the graph that this belongs to, and neither would ever be freed.
        """
        stored, self._stored = self._stored, NormGradient()
        if stored.norm is not None and stored.norm[2].is_cuda:
            _, moments, sums = stored.norm
            for tensor in (moments.mean, moments.inverse_count, sums):
                tensor.record_stream(torch.cuda.current_stream(tensor.device))
        return stored


class BatchNormFunction(torch.autograd.Function):
    """Batch norm of rows, with ReLU if wanted."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        gamma: Tensor,
        beta: Tensor,  # noqa: ARG004
        norm: KernelNorm,
        rows: NormRows,
        relu: bool,
        fused: FusedGradient | None = None,
    ) -> Tensor:
        x = x.contiguous()
        moments = norm.moments_of(x, rows)
        y = normalise(x, moments, relu, row_ranges=rows.row_ranges, zero_mask=rows.zero_mask)
        ctx.save_for_backward(x, y if relu else None)
        ctx.moments, ctx.rows, ctx.shape, ctx.fused = moments, rows, gamma.shape, fused
        if fused is not None:
            fused.input = NormInput(x, moments.mean, moments.inverse)
        return y

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, gate = ctx.saved_tensors
        sums = None if ctx.fused is None else ctx.fused.take(grad)
        grad, gate = grad.contiguous(), gate if sums is None else None
        if sums is None:
            sums = grad_sums(grad, gate, x, ctx.moments, ctx.rows.row_ranges)
        grad_x = _through(ctx.rows, grad, gate, x, ctx.moments, sums)
        return grad_x, *parameter_grads(sums, ctx.shape), None, None, None, None


class NormalisedSumFunction(torch.autograd.Function):
    """ReLU of the normalised rows, each plus the normalised row of its node from the shared branch."""

    @staticmethod
    def forward(
        ctx: Any,
        c: Tensor,
        gamma: Tensor,
        beta: Tensor,  # noqa: ARG004
        s: Tensor,
        shared_gamma: Tensor,  # noqa: ARG004
        shared_beta: Tensor,  # noqa: ARG004
        norms: tuple[KernelNorm, KernelNorm],
        rows: tuple[NormRows, NormRows],
        by_node: CSR,
        fused: FusedGradient | None = None,
    ) -> Tensor:
        c, s = c.contiguous(), s.contiguous()
        own, shared = (norm.moments_of(x, r) for norm, x, r in zip(norms, (c, s), rows, strict=True))
        y = normalise(c, own, True, (s, shared, by_node.index), rows[0].row_ranges, rows[0].zero_mask)
        ctx.save_for_backward(c, s, y)
        ctx.own, ctx.shared, ctx.rows, ctx.fused, ctx.shape = own, shared, rows, fused, gamma.shape
        # Read here: a padded batch must know all fields that it needs once the forward pass is over.
        ctx.by_node = by_node.perm, by_node.ptr, by_node.count
        if fused is not None:
            fused.input = NormInput(c, own.mean, own.inverse)
        return y

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        c, s, y = ctx.saved_tensors
        sums = None if ctx.fused is None else ctx.fused.take(grad)
        grad, gate = grad.contiguous(), y if sums is None else None
        if sums is None:
            sums = grad_sums(grad, gate, c, ctx.own, ctx.rows[0].row_ranges)
        grad_c = _through(ctx.rows[0], grad, gate, c, ctx.own, sums)
        node_grad = sum_rows(grad, *ctx.by_node, gate=gate)
        shared = grad_sums(node_grad, None, s, ctx.shared)
        grad_s = _through(ctx.rows[1], node_grad, None, s, ctx.shared, shared)
        own = parameter_grads(sums, ctx.shape)
        return grad_c, *own, grad_s, *parameter_grads(shared, ctx.shape), None, None, None, None


def _through(rows: NormRows, grad: Tensor, gate: Tensor | None, x: Tensor, moments: Moments, sums: Tensor) -> Tensor:
    """The gradient of the rows that were normalised; if an MLP computed them, what the MLP computes it from."""
    if rows.deferred is None:
        return norm_backward(grad, gate, x, rows.multiplicity, moments, sums, rows.row_ranges)
    rows.deferred.store(x, moments, sums, gate)
    return grad


def parameter_grads(sums: Tensor, shape: torch.Size) -> tuple[Tensor, Tensor]:
    """The gradients of γ and β, from the sums of the gradient of the normalised rows."""
    return sums[1].view(shape), sums[0].view(shape)
