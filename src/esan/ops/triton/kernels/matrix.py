"""Triton kernels: matrices split into bfloat16 numbers, whose products are as exact as single precision."""

from dataclasses import dataclass
from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from esan.ops.triton.kernels.tiles import cdiv

#: Entries that a program splits.
_BLOCK = 1024


@cache
def _precision() -> str:
    """Six products of the tensor cores' bfloat16 numbers, or three of their longer ones, are as exact as single."""
    new = tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 4)
    return "bf16x6" if new and torch.cuda.is_available() else "tf32x3"


@triton.jit
def split_bf16(x):
    """Three bfloat16 numbers whose sum is x."""
    a = x.to(tl.bfloat16)
    rest = x - a.to(tl.float32)
    b = rest.to(tl.bfloat16)
    return a, b, (rest - b.to(tl.float32)).to(tl.bfloat16)


@triton.jit
def add_products(acc, x, y1, y2, y3):
    """acc + x (y1 + y2 + y3), of bfloat16 numbers; terms below single precision are left out."""
    x1, x2, x3 = split_bf16(x)
    acc = tl.dot(x1, y3, tl.dot(x3, y1, tl.dot(x2, y2, acc)))
    return tl.dot(x1, y1, tl.dot(x1, y2, tl.dot(x2, y1, acc)))


@triton.jit
def load_operand(matrix, at, there, apart, PRECISION: tl.constexpr):
    """Entries of `Matrix.operand`: three bfloat16 numbers, `apart` from one another; or the entry itself, thrice."""
    y1 = tl.load(matrix + at, mask=there, other=0.0)
    y2, y3 = y1, y1
    if PRECISION == "bf16x6":
        y2 = tl.load(matrix + apart + at, mask=there, other=0.0)
        y3 = tl.load(matrix + 2 * apart + at, mask=there, other=0.0)
    return y1, y2, y3


@triton.jit
def add_product(acc, x, y1, y2, y3, PRECISION: tl.constexpr):
    """acc + x y, where y is the result of `load_operand`."""
    if PRECISION == "bf16x6":
        acc = add_products(acc, x, y1, y2, y3)
    else:
        acc += tl.dot(x, y1, input_precision=PRECISION)
    return acc


@triton.jit
def _split_kernel(first, second, out_first, out_second, size_first, size_second, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < size_first
    a, b, c = split_bf16(tl.load(first + at, mask=mask, other=0.0))
    tl.store(out_first + at, a, mask=mask)
    tl.store(out_first + size_first + at, b, mask=mask)
    tl.store(out_first + 2 * size_first + at, c, mask=mask)
    mask = at < size_second
    a, b, c = split_bf16(tl.load(second + at, mask=mask, other=0.0))
    tl.store(out_second + at, a, mask=mask)
    tl.store(out_second + size_second + at, b, mask=mask)
    tl.store(out_second + 2 * size_second + at, c, mask=mask)


@dataclass(frozen=True, eq=False)
class Matrix:
    """W of a linear layer, and the form in which kernels read it.

    Attributes:
        weight: W, with a leading dimension if there are several networks.
        operand: three bfloat16 numbers whose sum is each entry, all the first ones first; W itself where those are not
            used. Split once, not by every program that multiplies by it.
    """

    weight: Tensor
    operand: Tensor

    @property
    def precision(self) -> str:
        """The precision of products with it."""
        return "bf16x6" if self.operand.dtype == torch.bfloat16 else "tf32x3"

    @staticmethod
    def of(*weight: Tensor) -> "tuple[Matrix, ...]":
        """One or two matrices, split in one launch."""
        weight = tuple(w.contiguous() for w in weight)
        if _precision() != "bf16x6":
            return tuple(Matrix(w, w) for w in weight)
        operand = [w.new_empty(3, *w.shape, dtype=torch.bfloat16) for w in weight]
        sizes = [w.numel() for w in weight]
        _split_kernel[(cdiv(max(sizes), _BLOCK),)](
            weight[0], weight[-1], operand[0], operand[-1], sizes[0], sizes[-1], BLOCK=_BLOCK
        )
        return tuple(Matrix(w, p) for w, p in zip(weight, operand, strict=True))
