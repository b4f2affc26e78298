"""Triton: matrices taken apart into short floats, whose products are as exact as single precision."""

from dataclasses import dataclass
from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from esan.ops.triton.kernels.tiles import cdiv

#: Numbers that a program takes apart.
_BLOCK = 1024


@cache
def _precision() -> str:
    """Six products of the tensor cores' short floats, or three of their longer ones, are as exact as single."""
    new = tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 4)
    return "bf16x6" if new and torch.cuda.is_available() else "tf32x3"


@triton.jit
def short(x):
    """Three short floats whose sum is x."""
    a = x.to(tl.bfloat16)
    rest = x - a.to(tl.float32)
    b = rest.to(tl.bfloat16)
    return a, b, (rest - b.to(tl.float32)).to(tl.bfloat16)


@triton.jit
def add_products(acc, x, y1, y2, y3):
    """acc + x (y1 + y2 + y3), of short floats; what is smaller than single precision is left out."""
    x1, x2, x3 = short(x)
    acc = tl.dot(x1, y3, tl.dot(x3, y1, tl.dot(x2, y2, acc)))
    return tl.dot(x1, y1, tl.dot(x1, y2, tl.dot(x2, y1, acc)))


@triton.jit
def pieces_at(matrix, at, there, apart, PRECISION: tl.constexpr):
    """What `matrix` has at these places: the three of `Matrix.pieces`, `apart` from one another; or itself, thrice."""
    y1 = tl.load(matrix + at, mask=there, other=0.0)
    y2, y3 = y1, y1
    if PRECISION == "bf16x6":
        y2 = tl.load(matrix + apart + at, mask=there, other=0.0)
        y3 = tl.load(matrix + 2 * apart + at, mask=there, other=0.0)
    return y1, y2, y3


@triton.jit
def add_product(acc, x, y1, y2, y3, PRECISION: tl.constexpr):
    """acc + x y, where y is what `pieces_at` gave."""
    if PRECISION == "bf16x6":
        acc = add_products(acc, x, y1, y2, y3)
    else:
        acc += tl.dot(x, y1, input_precision=PRECISION)
    return acc


@triton.jit
def _pieces_kernel(first, second, out_first, out_second, size_first, size_second, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < size_first
    a, b, c = short(tl.load(first + at, mask=mask, other=0.0))
    tl.store(out_first + at, a, mask=mask)
    tl.store(out_first + size_first + at, b, mask=mask)
    tl.store(out_first + 2 * size_first + at, c, mask=mask)
    mask = at < size_second
    a, b, c = short(tl.load(second + at, mask=mask, other=0.0))
    tl.store(out_second + at, a, mask=mask)
    tl.store(out_second + size_second + at, b, mask=mask)
    tl.store(out_second + 2 * size_second + at, c, mask=mask)


@dataclass(frozen=True, eq=False)
class Matrix:
    """W of a linear layer, and what the kernels read of it.

    Attributes:
        whole: W, with a leading dimension if it is of several networks.
        pieces: three short floats in place of each number, all the first ones first; W itself where those are not
            used. Taken apart once, not by every program that multiplies by it.
    """

    whole: Tensor
    pieces: Tensor

    @property
    def precision(self) -> str:
        """How products with it are taken."""
        return "bf16x6" if self.pieces.dtype == torch.bfloat16 else "tf32x3"

    @staticmethod
    def of(*whole: Tensor, precision: str | None = None) -> "tuple[Matrix, ...]":
        """One or two matrices, taken apart in one pass.

        Args:
            whole: the matrices.
            precision: of products with them, "bf16x6" or "tf32x3"; None for what suits the device.
        """
        whole = tuple(w.contiguous() for w in whole)
        if (precision or _precision()) != "bf16x6":
            return tuple(Matrix(w, w) for w in whole)
        pieces = [w.new_empty(3, *w.shape, dtype=torch.bfloat16) for w in whole]
        sizes = [w.numel() for w in whole]
        _pieces_kernel[(cdiv(max(sizes), _BLOCK),)](
            whole[0], whole[-1], pieces[0], pieces[-1], sizes[0], sizes[-1], BLOCK=_BLOCK
        )
        return tuple(Matrix(w, p) for w, p in zip(whole, pieces, strict=True))
