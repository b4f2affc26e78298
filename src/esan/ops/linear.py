"""Linear layers, also those of several networks at once."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from esan.ops.dispatch import MAX_WIDTH, autocasts, first_order, implementation

#: Up to so many rows per network, and blocks of a matrix, the kernels are used: for the rows of graphs, in a head.
_FEW, _FEW_BLOCKS = 1024, 4


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, tf32: bool = False) -> Tensor:
    r""":math:`y = W x + b`.

    Args:
        x: `[rows, in]`; of several networks, one network's rows after the other's, each with as many.
        weight: W, `[out, in]`, or one per network, `[S, out, in]`.
        bias: b, `[out]` or `[S, out]`; None for 0.
        tf32: whether products of layers wider than the kernels take round their factors to TF32 on a GPU.
    """
    stacked = weight.dim() > 2
    rounds = tf32 and x.is_cuda and max(weight.shape[-2:]) > MAX_WIDTH and not autocasts(x)
    if not stacked and not rounds:
        return F.linear(x, weight, bias)
    networks = weight.size(0) if stacked else 1
    blocks = math.prod(-(-width // MAX_WIDTH) for width in weight.shape[-2:])
    few = x.size(0) <= networks * _FEW and blocks <= _FEW_BLOCKS
    fast = implementation("linear", x, weight) if stacked and (few or blocks == 1) else None
    if fast is not None:
        return _in_blocks(fast, x, weight, bias)
    bias = bias if bias is None or stacked else bias[None]
    y = _Products.apply(x.reshape(networks, -1, x.size(-1)), weight if stacked else weight[None], bias, tf32)
    return y.reshape(*x.shape[:-1], y.size(2))


def _in_blocks(fast: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """By the kernels, as many columns at once as they take.

    Also for few rows of a wide head: a library's product would allocate more workspace than the network takes, and may
    sum in another order for many networks than for one. A layer of many blocks would be many kernels.
    """
    parts, found = x.split(MAX_WIDTH, 1), []
    count = -(-weight.size(1) // MAX_WIDTH)
    biases = [None] * count if bias is None else bias.split(MAX_WIDTH, 1)
    for matrix, own in zip(weight.split(MAX_WIDTH, 1), biases, strict=True):
        first, *others = zip(parts, matrix.split(MAX_WIDTH, 2), strict=True)
        y = fast.LinearFunction.apply(*first, own)
        for rows, block in others:
            y = y + fast.LinearFunction.apply(rows, block, None)
        found.append(y)
    return found[0] if len(found) == 1 else torch.cat(found, 1)


#: Held while products round: backward passes of several devices run in threads of their own, and the switch is global.
_SWITCHING = RLock()


@contextmanager
def _rounding(wanted: bool) -> Iterator[None]:
    """Within, a library's products on a GPU round their factors to TF32, if that is wanted."""
    if not wanted:
        yield
        return
    # One switch alone, and the new one where there is one: torch refuses to mix it with the old ones.
    products = torch.backends.cuda.matmul
    new = hasattr(products, "fp32_precision")
    switch, on = ("fp32_precision", "tf32") if new else ("allow_tf32", True)
    with _SWITCHING:
        before = getattr(products, switch)
        # An inherited setting is restored as inherited.
        before = "none" if new and before == getattr(torch.backends, "fp32_precision", None) else before
        setattr(products, switch, on)
        try:
            yield
        finally:
            setattr(products, switch, before)


class _Products(torch.autograd.Function):
    """The rows of some networks times their matrices, by a library; also backwards, rounded or not."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, tf32: bool) -> Tensor:
        """x `[S, n, in]`, weight `[S, out, in]`, bias `[S, out]`."""
        ctx.save_for_backward(x, weight)
        ctx.tf32 = tf32
        across = weight.transpose(1, 2)
        with _rounding(tf32):
            return torch.bmm(x, across) if bias is None else torch.baddbmm(bias[:, None], x, across)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        # Under autocast the gradient may be of another precision.
        x, weight = (tensor.to(grad.dtype) for tensor in ctx.saved_tensors)
        needs_x, needs_weight, needs_bias, _ = ctx.needs_input_grad
        with _rounding(ctx.tf32):
            grad_x = torch.bmm(grad, weight) if needs_x else None
            grad_weight = torch.bmm(grad.transpose(1, 2), x) if needs_weight else None
        return grad_x, grad_weight, grad.sum(1) if needs_bias else None, None
