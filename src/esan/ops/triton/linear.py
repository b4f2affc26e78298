"""Triton: linear layers of one network or several."""

from typing import Any

import torch
from torch import Tensor

from esan.ops.dispatch import first_order
from esan.ops.triton.kernels.linear import linear
from esan.ops.triton.kernels.linear_grads import linear_backward
from esan.ops.triton.kernels.matrix import Matrix


class LinearFunction(torch.autograd.Function):
    """:math:`y = W x + b`, with or without b."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
        x, ctx.biased = x.contiguous(), bias is not None
        bias = matrix.new_zeros(matrix.shape[:-1]) if bias is None else bias
        (operand,) = Matrix.of(matrix)
        ctx.save_for_backward(x, operand.weight, operand.operand)
        return linear(x, operand, bias.contiguous(), None, None, moments=False)[0]

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        x, *matrix = ctx.saved_tensors
        grads = linear_backward(grad.contiguous(), x, Matrix(*matrix), None)
        return grads.grad_x, grads.matrix, grads.bias if ctx.biased else None
