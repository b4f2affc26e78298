"""`Linear`: torch's linear layer, which may also be that of several networks at once."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from esan import ops as kernels
from esan.ops.dispatch import WIDEST

#: Lines of a network that are few, and pieces of a matrix: of graphs, and of a head.
_FEW, _FEW_PIECES = 1024, 4


def is_wide(network: nn.Module) -> bool:
    """Whether a library does products of some layer on a GPU: one that is wider than the kernels take."""
    layers = (module for module in network.modules() if isinstance(module, Linear))
    return any(max(layer.in_features, layer.out_features) > WIDEST for layer in layers)


#: Held while products round: backward passes of several devices have threads of their own, and the switch is one.
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
        # What is inherited is not to be fixed here.
        before = "none" if new and before == getattr(torch.backends, "fp32_precision", None) else before
        setattr(products, switch, on)
        try:
            yield
        finally:
            setattr(products, switch, before)


class Products(torch.autograd.Function):
    """The lines of some networks times their matrices, by a library; also backwards, rounded or not."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, tf32: bool) -> Tensor:
        """x `[S, n, in]`, weight `[S, out, in]`, bias `[S, out]`."""
        ctx.save_for_backward(x, weight)
        ctx.tf32 = tf32
        across = weight.transpose(1, 2)
        with _rounding(tf32):
            return torch.bmm(x, across) if bias is None else torch.baddbmm(bias[:, None], x, across)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        # Under autocast the gradient may be of another precision.
        x, weight = (tensor.to(grad.dtype) for tensor in ctx.saved_tensors)
        needs_x, needs_weight, needs_bias, _ = ctx.needs_input_grad
        with _rounding(ctx.tf32):
            grad_x = torch.bmm(grad, weight) if needs_x else None
            grad_weight = torch.bmm(grad.transpose(1, 2), x) if needs_weight else None
        return grad_x, grad_weight, grad.sum(1) if needs_bias else None, None


class Linear(nn.Linear):
    r""":math:`y = W x + b`.

    With a leading dimension in W and b, it is the layer of as many networks: the lines of x are theirs, one network's
    behind the other's, each with as many (see `esan.nn.stack`).

    Attributes:
        tf32: whether products that a library does on a GPU, those of layers wider than the kernels take, round their
            factors to TF32 (10 bits behind the point); how much faster that is: benchmarks/figures/wide.md.
    """

    tf32 = False

    def forward(self, x: Tensor) -> Tensor:
        stacked = self.weight.dim() > 2
        if not stacked and not (self.tf32 and is_wide(self) and x.is_cuda and not torch.is_autocast_enabled()):
            return super().forward(x)
        networks = self.weight.size(0) if stacked else 1
        pieces = math.prod(-(-width // WIDEST) for width in self.weight.shape[-2:])
        few = x.size(0) <= networks * _FEW and pieces <= _FEW_PIECES
        if stacked and kernels.on_gpu(x) and (few or pieces == 1):
            return self._in_pieces(x)
        bias = self.bias if self.bias is None or stacked else self.bias[None]
        weight = self.weight if stacked else self.weight[None]
        y = Products.apply(x.reshape(networks, -1, x.size(-1)), weight, bias, self.tf32)
        return y.reshape(*x.shape[:-1], y.size(2))

    def extra_repr(self) -> str:
        return super().extra_repr() + (", tf32=True" if self.tf32 else "")

    def _in_pieces(self, x: Tensor) -> Tensor:
        """By the kernels, as many columns at once as they take.

        For few lines of a wide head too: a library's product would keep more memory for itself than the network takes,
        and may add up in another order for many networks than for one. A layer of many pieces would be many kernels.
        """
        from esan.ops.triton.blocks import Affine

        given, found = x.split(WIDEST, 1), []
        for matrix, bias in zip(self.weight.split(WIDEST, 1), self._biases(), strict=True):
            first, *others = zip(given, matrix.split(WIDEST, 2), strict=True)
            y = Affine.apply(*first, bias)
            for lines, piece in others:
                y = y + Affine.apply(lines, piece, None)
            found.append(y)
        return found[0] if len(found) == 1 else torch.cat(found, 1)

    def _biases(self) -> Sequence[Tensor | None]:
        """That of each piece of columns, if there are any."""
        pieces = -(-self.weight.size(1) // WIDEST)
        return [None] * pieces if self.bias is None else self.bias.split(WIDEST, 1)
