"""Batch normalisation weighted by the multiplicities of rows, and the end of a layer: norms, their sum and ReLU."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from esan.ops.device import is_gpu
from esan.ops.dispatch import implementation
from esan.ops.rows import RowView, check_rows, zero_empty_rows
from esan.ops.segments import broadcast
from esan.ops.shape_errors import misfit


@dataclass(frozen=True, eq=False)
class NormState:
    """What a batch norm consists of, as `torch.nn.BatchNorm1d` has it.

    Attributes:
        gamma: its factor, None for 1.
        beta: its summand, None for 0.
        running_mean: None if nothing is tracked.
        running_var: likewise.
        num_batches: how many batches were tracked.
        momentum: None for the mean over all batches.
        eps: added to the variance.
        training: whether it is in training mode.
        unbiased: whether the running variance follows N / (N - 1) times that of the batch, as torch has it.
    """

    gamma: Tensor | None
    beta: Tensor | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches: Tensor | None
    momentum: float | None
    eps: float
    training: bool
    unbiased: bool = True

    @property
    def reads_batch(self) -> bool:
        """Whether mean and variance are those of the rows themselves."""
        return self.training or self.running_mean is None

    def refuse_single(self, x: Tensor, multiplicity: Tensor | None) -> None:
        """Refuse a single row that stands for one pair, unless running statistics normalise it."""
        # Multiplicities are not read here: that would synchronise with a GPU.
        if multiplicity is None and self.reads_batch and x.size(0) == 1:
            raise single_pair()

    def check_width(self, width: int) -> None:
        """Raise unless it is a norm of so many columns: kernels compute addresses from that number."""
        for tensor in (self.gamma, self.beta, self.running_mean, self.running_var):
            if tensor is not None and tensor.size(-1) != width:
                raise misfit(f"a norm of {width} columns, as its input has", f"{tensor.size(-1)}")

    def begin_tracking(self) -> float | None:
        """Count a batch; its weight in the running statistics, or None if there are none to update."""
        if not self.training or self.running_mean is None or self.num_batches is None:
            return None
        if _captured(self.num_batches):
            raise RuntimeError(
                "Expected running statistics that a transform of torch.func may write to (got buffers that its "
                "function captures). Hand buffers to the function as arguments, call "
                "torch.func.replace_all_batch_norm_modules_(model), or call model.eval()."
            )
        self.num_batches.add_(1)
        return self.momentum if self.momentum is not None else 1.0 / float(self.num_batches)

    def track(self, mean: Tensor, var: Tensor, total: Tensor) -> None:
        """Update the running statistics by a batch of `total` pairs with that mean and variance."""
        momentum = self.begin_tracking()
        if momentum is None or self.running_mean is None or self.running_var is None:
            return
        with torch.no_grad():
            # Not by `lerp_`, for which torch.func.vmap has no rule.
            self.running_mean.add_(mean.to(self.running_mean.dtype) - self.running_mean, alpha=momentum)
            var = var * (total / (total - 1).clamp(min=1)) if self.unbiased else var
            self.running_var.add_(var.to(self.running_var.dtype) - self.running_var, alpha=momentum)


def _captured(buffer: Tensor) -> bool:
    """Whether a transform of `torch.func` is running that this buffer is not an argument of."""
    traced = torch._C._functorch.peek_interpreter_stack() is not None
    return traced and not torch._C._functorch.is_functorch_wrapped_tensor(buffer)


def single_pair() -> ValueError:
    return ValueError(
        "Expected more than one pair, or node where subgraphs share, to normalise over while training (got one). "
        "Use larger batches, or call model.eval()."
    )


@dataclass(frozen=True, eq=False)
class Summand:
    """One summand of a layer before its norm.

    Attributes:
        x: rows, `[rows, d]`; of what all subgraphs share, one per node.
        norm: the norm over them.
        multiplicity: how often each row counts; None for once.
    """

    x: Tensor
    norm: NormState
    multiplicity: Tensor | None


def batch_norm(x: Tensor, norm: NormState, multiplicity: Tensor | None, relu: bool = False) -> Tensor:
    r"""The normalised rows, with ReLU in the same pass if wanted.

    .. math:: \mu = \tfrac1N \sum_r w_r x_r, \quad \sigma^2 = \tfrac1N \sum_r w_r (x_r - \mu)^2, \quad N = \sum_r w_r

    Args:
        x: `[rows, d]`.
        norm: the norm; its running statistics follow the batch.
        multiplicity: w, how many pairs each row stands for; None for 1.
        relu: whether ReLU comes last.
    """
    norm.check_width(x.size(-1))
    if multiplicity is not None and multiplicity.numel() != x.size(0):
        raise misfit(f"a multiplicity for each of {x.size(0):,} rows", f"{multiplicity.numel():,}")
    norm.refuse_single(x, multiplicity)
    multiplicity = None if multiplicity is None else multiplicity.to(x.dtype)
    fast = implementation("norm", x)
    if fast is not None and fast.supports(x, norm):
        return fast.batch_norm(x, norm, multiplicity, relu)
    y = _reference(x, norm, multiplicity)
    return F.relu(y) if relu else y


def _reference(x: Tensor, norm: NormState, multiplicity: Tensor | None) -> Tensor:
    if not norm.reads_batch:
        return F.batch_norm(x, norm.running_mean, norm.running_var, norm.gamma, norm.beta, False, 0.0, norm.eps)
    weight = torch.ones_like(x[:, 0]) if multiplicity is None else multiplicity
    total = weight.sum()
    # On a GPU without waiting for it: one pair has two rows at most, itself and a background row of multiplicity 0,
    # and padded batches of one pair are normalised to beta.
    if multiplicity is not None and (x.size(0) <= 2 or not is_gpu(x.device)) and int(total) == 1:
        raise single_pair()
    fraction = (weight / total)[:, None]
    mean = (fraction * x).sum(0)
    centred = x - mean
    # Of the centred rows: the mean of squares less the square of the mean cancels badly in single precision.
    var = (fraction * centred.square()).sum(0)
    norm.track(mean.detach(), var.detach(), total)
    y = centred * torch.rsqrt(var + norm.eps)
    y = y if norm.gamma is None else y * norm.gamma
    return y if norm.beta is None else y + norm.beta


def normalised_sum(rows: Summand, nodes: Summand | None, view: RowView) -> Tensor:
    r"""The end of a layer: :math:`\mathrm{ReLU}(\mathrm{norm}_1(x_{v,s}) + \mathrm{norm}_2(y_v))`, 0 in empty rows.

    Args:
        rows: x, one row per row of the view.
        nodes: y, one row per node; None for no such summand.
        view: whose rows they are.
    """
    fast = implementation("norm", rows.x, None if nodes is None else nodes.x)
    both: list[Any] = [rows] if nodes is None else [rows, nodes]
    check_rows(rows.x, view)
    if nodes is not None:
        width, count = rows.x.size(1), view.by_node.size if view.plain else nodes.x.size(0)
        if nodes.x.shape != (count, width):
            raise misfit(f"{count:,} rows of {width} columns, one for each node", f"{[*nodes.x.shape]}")
    for summand in both:
        summand.norm.check_width(summand.x.size(1))
        summand.norm.refuse_single(summand.x, summand.multiplicity)
    if fast is not None and all(fast.supports(s.x, s.norm) for s in both):
        return fast.normalised_sum(rows, nodes, view)
    total = batch_norm(rows.x, rows.norm, rows.multiplicity)
    if nodes is not None:
        total = total + broadcast(batch_norm(nodes.x, nodes.norm, nodes.multiplicity), view.by_node)
    return zero_empty_rows(F.relu(total), view)
