"""`SyncBatchNorm`: batch norm whose statistics are those of all processes of a distributed training."""

from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from esan.nn.norm import BatchNorm

M = TypeVar("M", bound=nn.Module)


class _AllReduceSum(torch.autograd.Function):
    """The sum over all processes; its gradient is summed too, since every process uses the sum."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        ctx.group = group
        total = x.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        grad = grad.contiguous().clone()
        dist.all_reduce(grad, group=ctx.group)
        return grad, None


class SyncBatchNorm(BatchNorm):
    r"""`esan.nn.BatchNorm` over the pairs of all processes: N, μ and σ² are sums over all of them.

    Parameters, buffers and state_dict are those of `BatchNorm`, the same in all processes.

    Attributes:
        sync: False for a batch that every process has whole, and normalises by itself; so it does without a process
            group.
    """

    def __init__(self, *args: Any, group: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group, self.sync = group, True

    def forward(self, x: Tensor, multiplicity: Tensor | None = None, relu: bool = False) -> Tensor:
        if not (self.training and self.sync and dist.is_available() and dist.is_initialized()):
            return super().forward(x, multiplicity, relu)
        share = torch.ones_like(x[:, 0]) if multiplicity is None else multiplicity.to(x.dtype)
        total = share.sum()
        dist.all_reduce(total, group=self.group)
        share = share / total
        mean = _AllReduceSum.apply(share @ x, self.group)
        centred = x - mean
        var = _AllReduceSum.apply(share @ centred.square(), self.group)
        self.state.track(mean.detach(), var.detach(), total)
        y = centred * torch.rsqrt(var + self.eps)
        y = torch.addcmul(self.bias, y, self.weight) if self.affine else y
        return y.relu() if relu else y


def convert_sync_batch_norm(model: M, group: Any = None) -> M:
    """Replace every batch norm of the model by a `SyncBatchNorm` with the same parameters and buffers.

    Args:
        model: changed in place.
        group: of processes; None for all.

    Returns:
        the model.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"Expected a network (got {type(model).__name__}). Pass the model whose norms are replaced.")
    for module in list(model.modules()):
        for name, norm in module.named_children():
            if type(norm) is not BatchNorm:
                continue
            new = SyncBatchNorm(norm.num_features, norm.eps, norm.momentum, norm.affine, group=group)
            # The same tensors, so that optimisers that hold them still train this model.
            new._parameters, new._buffers = norm._parameters, norm._buffers
            new.track_running_stats, new.training = norm.track_running_stats, norm.training
            setattr(module, name, new)
    return model
