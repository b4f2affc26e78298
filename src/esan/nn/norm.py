"""Norms that know how many pairs a row stands for."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from esan import ops as kernels
from esan.bags.sums import Grouping, pieces
from esan.ops.numba import runtime as cpu


class _WeightedNorm(torch.autograd.Function):
    """Scale and shift centred lines, with ReLU if wanted; the gradient reaches through their mean and variance."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,  # noqa: ARG004 (where the gradient goes)
        centred: Tensor,
        weight: Tensor,
        inverse: Tensor,
        gamma: Tensor,
        beta: Tensor,
        relu: bool,
    ) -> Tensor:
        y, scale = torch.empty_like(centred), gamma * inverse
        for some, out in pieces(centred, y):
            torch.addcmul(beta, some, scale, out=out)
            if relu:
                out.relu_()
        ctx.save_for_backward(centred, weight, inverse, gamma, y if relu else None)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        centred, weight, inverse, gamma, y = ctx.saved_tensors
        grad_beta, grad_gamma = torch.zeros_like(inverse), torch.zeros_like(inverse)
        if y is not None:
            grad = torch.ops.aten.threshold_backward(grad, y, 0)
        for some, g in pieces(centred, grad):
            grad_beta += g.sum(0)
            grad_gamma += (some * g).sum(0)
        grad_gamma *= inverse
        # d mean / d x_i = w_i and d var / d x_i = 2 w_i (x_i - mean), with weights that sum to 1.
        scale = gamma * inverse
        through_mean, through_var = -scale * grad_beta, -scale * inverse * grad_gamma
        grad_x = torch.empty_like(centred)
        for some, g, w, out in pieces(centred, grad, weight[:, None], grad_x):
            torch.addcmul(through_mean, some, through_var, out=out).mul_(w).addcmul_(g, scale)
        return grad_x, None, None, None, grad_gamma, grad_beta, None


class BatchNorm(nn.BatchNorm1d):
    r"""Batch normalisation over pairs: each row counts as often as the pairs that it stands for.

    .. math:: \mu = \tfrac1N \sum_r w_r x_r, \quad \sigma^2 = \tfrac1N \sum_r w_r (x_r - \mu)^2, \quad N = \sum_r w_r

    Parameters, buffers and state_dict are those of `torch.nn.BatchNorm1d`, and without weights so is the result; with
    weights it is what `torch.nn.BatchNorm1d` gives when each row is repeated `w_r` times.

    Attributes:
        unbiased: whether the running variance follows :math:`\sigma^2 N / (N - 1)`, as torch has it, or
            :math:`\sigma^2`, by which the batch itself is divided.
    """

    unbiased = True

    def forward(self, x: Tensor, weight: Tensor | None = None, relu: bool = False) -> Tensor:
        """Normalise, and apply ReLU to the result if `relu` (in the same pass over the rows)."""
        self.refuse_one(x, weight)
        if self.fused and x.size(0) and kernels.on_gpu(x):
            from esan.ops.triton import blocks as gpu_blocks

            rows = gpu_blocks.Rows(None if weight is None else weight.to(x.dtype))
            return gpu_blocks.Normalise.apply(x, self.weight, self.bias, self.for_kernels(), rows, relu)
        if self.compiled(x):
            from esan.ops.numba.norm import normalise

            return normalise(x, None if weight is None else weight.to(x.dtype), self, relu)
        if weight is None and self.training and not self.unbiased:
            weight = torch.ones_like(x[:, 0])
        if weight is None or not (self.training or self.running_mean is None):
            y = super().forward(x)
            # In place: a norm does not need its own result again.
            return y.relu_() if relu else y
        share = weight.to(x.dtype)
        total = share.sum()
        # One pair has two rows at most: itself, and a background that stands for none.
        if x.size(0) <= 2 and int(total) == 1:
            raise _one_alone()
        share = share / total
        with torch.no_grad():
            mean = share @ x
            centred, var = torch.empty_like(x), torch.zeros_like(mean)
            # Of the centred lines: the mean of squares less the square of the mean cancels badly in single precision.
            for some, w, out in pieces(x, share, centred):
                var += w @ torch.sub(some, mean, out=out).square()
            self.track(mean, var, total)
            inverse = torch.rsqrt(var + self.eps)
        gamma = self.weight if self.affine else torch.ones_like(mean)
        beta = self.bias if self.affine else torch.zeros_like(mean)
        return _WeightedNorm.apply(x, centred, share, inverse, gamma, beta, relu)

    def refuse_one(self, x: Tensor, weight: Tensor | None) -> None:
        """Refuse a single row that stands for one pair, unless running statistics normalise it."""
        # What weights say is not asked here: a GPU would have to be waited for.
        if weight is None and (self.training or self.running_mean is None) and x.size(0) == 1:
            raise _one_alone()

    @property
    def fused(self) -> bool:
        """Whether the kernels can take this norm's place in its present mode."""
        usual = self.affine and self.momentum is not None and self.running_mean is not None
        # In eval mode the kernels do not differentiate.
        return usual and (self.training or not torch.is_grad_enabled())

    def for_kernels(self) -> Any:
        """The norm as `esan.ops` takes it."""
        from esan.ops.triton.blocks import Norm
        from esan.ops.triton.moments import Tracked

        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        tracked = Tracked(self.running_mean, self.running_var, self.num_batches_tracked, self.momentum, self.unbiased)
        return Norm(self.weight, self.bias, self.eps, tracked, not self.training)

    def add_and_relu(self, x: Tensor, weight: Tensor | None, added: Tensor, groups: Grouping) -> Tensor:
        """ReLU of the normalised rows plus, for each, the line of its group."""
        if not self.compiled(x, added):
            return torch.relu(groups.add_spread(self(x, weight), added))
        from esan.ops.numba.norm import normalise_and_add

        share = None if weight is None else weight.to(x.dtype)
        return normalise_and_add(x, share, self, True, added, groups)

    def compiled(self, *lines: Tensor) -> bool:
        """Whether compiled loops take the place of the code here: where the rows themselves give mean and variance."""
        if not self.training and self.running_mean is not None:
            return False
        kind, own = lines[0].dtype, (self.weight, self.bias, self.running_mean, self.running_var)
        if any(t is not None and (t.dim() > 1 or t.dtype != kind or not t.is_contiguous()) for t in own):
            return False
        return lines[0].size(0) > 2 and cpu.fits(*lines)

    def begin_tracking(self) -> float | None:
        """Count a batch; the part that it has in the running statistics, None where there are none to follow it."""
        if not self.training or self.running_mean is None:
            return None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        return self.momentum if self.momentum is not None else 1.0 / float(self.num_batches_tracked)

    def track(self, mean: Tensor, var: Tensor, total: Tensor | float) -> None:
        """Let the running statistics follow a batch of `total` pairs with that mean and variance."""
        share = self.begin_tracking()
        if share is None or self.running_mean is None or self.running_var is None:
            return
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        var = var * (total / (total - 1)) if self.unbiased else var
        self.running_var.lerp_(var.to(self.running_var.dtype), share)


def is_just(part: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether a part is what it was built as: a subclass or a hook of the user's may do something else."""
    hooks = part._forward_hooks, part._forward_pre_hooks, part._backward_hooks, part._backward_pre_hooks
    return type(part) is kind and "forward" not in vars(part) and not any(hooks)


def is_relu(act: Any) -> bool:
    """Whether an activation is ReLU, which `BatchNorm` applies in the same pass."""
    return is_just(act, nn.ReLU) if isinstance(act, nn.Module) else act in (torch.relu, F.relu)


def _one_alone() -> ValueError:
    return ValueError(
        "Expected more than one pair, or node where subgraphs share, to normalise over while training (got one). "
        "Use larger batches, or call model.eval()."
    )


class LayerNorm(nn.LayerNorm):
    """Normalisation of each row by itself, for which weights do not matter."""

    def forward(self, x: Tensor, weight: Tensor | None = None) -> Tensor:  # noqa: ARG002
        return super().forward(x)


class NoNorm(nn.Identity):
    """No normalisation; takes its width, and weights, as the others do."""

    def forward(self, x: Tensor, weight: Tensor | None = None) -> Tensor:  # noqa: ARG002
        return x


NORMS: dict[str | None, type[nn.Module]] = {"batch_norm": BatchNorm, "layer_norm": LayerNorm, None: NoNorm}
