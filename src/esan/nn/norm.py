"""Norms that know how many pairs a row stands for."""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

#: On a CPU rows are worked on in pieces of this many, so that what is between two steps stays in the cache.
_PIECE = 4096


def _pieces(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    size = _PIECE if tensors[0].device.type == "cpu" else max(tensors[0].size(0), 1)
    return zip(*(tensor.split(size) for tensor in tensors), strict=True)


class _WeightedNorm(torch.autograd.Function):
    """Normalise by the weighted mean and variance of the lines; the gradient of both in closed form."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, mean: Tensor, var: Tensor, gamma: Tensor, beta: Tensor, eps: float
    ) -> Tensor:
        ctx.save_for_backward(x, weight, mean, torch.rsqrt(var + eps), gamma)
        return F.batch_norm(x, mean, var, gamma, beta, training=False, eps=eps)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, inverse, gamma = ctx.saved_tensors
        grad_beta, grad_gamma = torch.zeros_like(mean), torch.zeros_like(mean)
        for some, g in _pieces(x, grad):
            grad_beta += g.sum(0)
            grad_gamma += (some - mean).mul_(g).sum(0)
        grad_gamma *= inverse
        # d mean / d x_i = w_i and d var / d x_i = 2 w_i (x_i - mean), with weights that sum to 1.
        scale = gamma * inverse
        through_mean, through_var = -scale * grad_beta, -scale * inverse * grad_gamma
        grad_x = torch.empty_like(x)
        for some, g, w, out in _pieces(x, grad, weight[:, None], grad_x):
            torch.sub(some, mean, out=out).mul_(through_var).add_(through_mean).mul_(w).addcmul_(g, scale)
        return grad_x, None, None, None, grad_gamma, grad_beta, None


def _weighted_variance(x: Tensor, share: Tensor, mean: Tensor) -> Tensor:
    # Two passes: the mean of squares less the square of the mean cancels badly in single precision.
    var = torch.zeros_like(mean)
    for some, w in _pieces(x, share):
        var += w @ (some - mean).square_()
    return var


class BatchNorm(nn.BatchNorm1d):
    r"""Batch normalisation over pairs: each row counts as often as the pairs that it stands for.

    .. math:: \mu = \tfrac1N \sum_r w_r x_r, \quad \sigma^2 = \tfrac1N \sum_r w_r (x_r - \mu)^2, \quad N = \sum_r w_r

    Parameters, buffers and state_dict are those of `torch.nn.BatchNorm1d`, and without weights so is the result; with
    weights it is what `torch.nn.BatchNorm1d` gives when each row is repeated `w_r` times.
    """

    def forward(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        if weight is None or not (self.training or self.running_mean is None):
            return super().forward(x)
        share = weight.to(x.dtype)
        total = share.sum()
        # One pair has two rows at most: itself, and a background that stands for none.
        if x.size(0) <= 2 and int(total) == 1:
            raise ValueError(
                "Expected more than one pair to normalise over while training (got one). "
                "Use larger batches, or call model.eval()."
            )
        share = share / total
        with torch.no_grad():
            mean = share @ x
            var = _weighted_variance(x, share, mean)
            self._track(mean, var, total)
        gamma = self.weight if self.affine else torch.ones_like(mean)
        beta = self.bias if self.affine else torch.zeros_like(mean)
        return _WeightedNorm.apply(x, share, mean, var, gamma, beta, self.eps)

    def _track(self, mean: Tensor, var: Tensor, total: Tensor) -> None:
        if not self.training or self.running_mean is None or self.running_var is None:
            return
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        share = self.momentum if self.momentum is not None else 1.0 / float(self.num_batches_tracked)
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        self.running_var.lerp_((var * (total / (total - 1))).to(self.running_var.dtype), share)


class LayerNorm(nn.LayerNorm):
    """Normalisation of each row by itself, for which weights do not matter."""

    def forward(self, x: Tensor, weight: Tensor | None = None) -> Tensor:  # noqa: ARG002
        return super().forward(x)


class NoNorm(nn.Identity):
    """No normalisation; takes its width, and weights, as the others do."""

    def forward(self, x: Tensor, weight: Tensor | None = None) -> Tensor:  # noqa: ARG002
        return x


NORMS: dict[str | None, type[nn.Module]] = {"batch_norm": BatchNorm, "layer_norm": LayerNorm, None: NoNorm}
