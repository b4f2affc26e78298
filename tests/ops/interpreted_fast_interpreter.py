"""Interpreted: the faster interpreter gives the same bits as Triton's own, and refuses what that refuses.

Nothing of `interpreting` is imported here, since it patches the interpreter on import; nor may it be before.
"""

import os
import sys

import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
pytestmark = pytest.mark.skipif(not INTERPRETED, reason="run by test_gpu_kernels.py, with TRITON_INTERPRET=1")


@triton.jit
def _constants_kernel(x, y, size: tl.constexpr):  # type: ignore[no-untyped-def]
    """Constants that are equal and not the same, numbers of several kinds, and blocks that are stretched."""
    place = tl.arange(0, size)
    line = tl.load(x + place)
    square = (place[:, None] * 2 + place.to(tl.int64)[None, :]) * line[None, :]
    for _ in range(2):  # with what is remembered, too
        tl.store(y + place, line * 0.0)
        tl.store(y + size + place, line * -0.0)
        tl.store(y + 2 * size + place, place * 1 + place * 16777217)
        tl.store(y + 3 * size + place, line * 16777217)  # which single precision does not have
        tl.store(y + 4 * size + place, place * 1.0 * 2000000000 + (place > 1))  # which 32 bits do not hold
        tl.store(y + (5 + place[:, None]) * size + place[None, :], 3 - square)


def found() -> list[Tensor]:
    """Sums, totals and products: blocks of one and two sides, loops, functions that call others."""
    from esan.ops.triton.kernels.linear import linear
    from esan.ops.triton.kernels.matrix import Matrix
    from esan.ops.triton.kernels.tiles import totals
    from esan.ops.triton.segments import sum_rows

    torch.manual_seed(0)
    x, matrix = torch.randn(37, 20), Matrix.of(torch.randn(9, 20))[0]
    terms, first = torch.randint(37, (400,)), torch.tensor([0, 3, 3, 350, 400])
    product = linear(x, matrix, torch.randn(9), None, torch.rand(37))[0]
    constants = torch.full((5 + 4, 4), torch.nan)
    _constants_kernel[(1,)](torch.randn(4), constants, size=4)
    assert bool(constants.isfinite().all())
    signs = constants.signbit()  # -0 is equal to 0
    sums = sum_rows(x, terms, first, weight=torch.rand(400))
    return [sums, totals(torch.randn(2, 530, 20), 10, 7, 3), product, constants, signs]


UNTOUCHED = "fast_interpreter" not in sys.modules
BEFORE = found() if INTERPRETED and UNTOUCHED else []


def test_no_bit_is_another() -> None:
    assert UNTOUCHED, "the interpreter is not as it was: import this file first"
    from fast_interpreter import speed_up_interpreter

    speed_up_interpreter()
    for _ in range(2):  # with what is remembered, too
        for mine, theirs in zip(found(), BEFORE, strict=True):
            assert torch.equal(mine, theirs)


def test_what_is_no_block_is_refused_though_one_like_it_is_known() -> None:
    import triton.language as tl
    from fast_interpreter import speed_up_interpreter

    speed_up_interpreter()
    block = tl.block_type(tl.float32, [16])
    assert tl.block_type(tl.float32, [tl.constexpr(16)]) == block
    assert tl.block_type(tl.int32, [16]) != block
    for shape in ([], [17], [16.0]):
        with pytest.raises((TypeError, ValueError)):
            tl.block_type(tl.float32, shape)


def test_pointers_of_a_block_are_those_that_are_asked_for() -> None:
    import triton.language as tl
    from fast_interpreter import speed_up_interpreter

    speed_up_interpreter()
    first, second = (tl.pointer_type(tl.float32, space) for space in (1, 3))
    assert first.name == second.name
    blocks = [tl.block_type(one, [16]) for one in (first, second)]
    assert [one.element_ty.address_space for one in blocks] == [1, 3]
