"""What compiled loops are written with: their entry, tables at an address, and the next piece of work to do."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

from llvmlite import ir
from numba import carray, cfunc, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from esan.ops.numba.stale import forget_older
from esan.ops.waiting import LOOPS

forget_older()

#: Sums may be regrouped within a piece, but a number that is not finite stays what it is.
MATHS = {"contract", "reassoc", "nsz", "arcp"}


class Entry:
    """Where a loop is entered from outside: compiled, or read from what numba has kept, when it is first entered.

    Compiling takes far longer than a step of training, and few have use for both precisions.
    """

    def __init__(self, function: Callable[[Any], None]) -> None:
        self._function = function

    @cached_property
    def _code(self) -> Any:
        LOOPS.begin()
        read = False
        try:
            code = cfunc("void(voidptr)", cache=True)(self._function)
            read = code.cache_hits > 0
        finally:
            LOOPS.end(read)
        return code

    @cached_property
    def ctypes(self) -> Callable[[int], None]:
        """What takes the address of its arguments."""
        return self._code.ctypes

    @cached_property
    def address(self) -> int:
        return self._code.address


@intrinsic
def _pointer(typing: Any, address: Any) -> Any:  # noqa: ARG001
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        return builder.inttoptr(args[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), code


@intrinsic
def _count_up(typing: Any, address: Any) -> Any:  # noqa: ARG001
    """The number at an address, which is one more for whoever asks next."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        place = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.atomic_rmw("add", place, ir.Constant(ir.IntType(64), 1), "monotonic")

    return types.int64(types.int64), code


@intrinsic
def gemm(
    typing: Any,  # noqa: ARG001
    entry: Any,  # noqa: ARG001
    ta: Any,  # noqa: ARG001
    tb: Any,  # noqa: ARG001
    m: Any,  # noqa: ARG001
    n: Any,  # noqa: ARG001
    k: Any,  # noqa: ARG001
    a: Any,  # noqa: ARG001
    lda: Any,  # noqa: ARG001
    b: Any,  # noqa: ARG001
    ldb: Any,  # noqa: ARG001
    beta: Any,
    c: Any,  # noqa: ARG001
    ldc: Any,  # noqa: ARG001
) -> Any:
    """C = op(A) op(B) + beta C by the BLAS whose entry this is; columns first, addresses and counts as there."""
    i = types.int64
    signature = types.void(i, i, i, i, i, i, i, i, i, i, beta, i, i)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        byte, whole = ir.IntType(8), ir.IntType(32)
        real = ir.FloatType() if beta == types.float32 else ir.DoubleType()

        def held(kind: Any, value: Any) -> Any:
            place = cgutils.alloca_once(builder, kind)
            builder.store(value, place)
            return place

        entry, ta, tb, m, n, k, a, lda, b, ldb, factor, c, ldc = args
        letters = [held(byte, builder.trunc(x, byte)) for x in (ta, tb)]
        m, n, k, lda, ldb, ldc = (held(whole, builder.trunc(x, whole)) for x in (m, n, k, lda, ldb, ldc))
        a, b, c = (builder.inttoptr(x, real.as_pointer()) for x in (a, b, c))
        given = [*letters, m, n, k, held(real, ir.Constant(real, 1.0)), a, lda, b, ldb, held(real, factor), c, ldc]
        kind = ir.FunctionType(ir.VoidType(), [x.type for x in given])
        builder.call(builder.inttoptr(entry, kind.as_pointer()), given)
        return context.get_dummy_value()

    return signature, code


@njit(inline="always")
def table(address, lines, width, real):
    """The lines of numbers at an address."""
    return carray(_pointer(address), (lines, width), real)


@njit(inline="always")
def vector(address, length, kind):
    """The numbers at an address."""
    return carray(_pointer(address), (length,), kind)


@njit(inline="always")
def before_relu(grad, after, relu):
    """The gradient before a ReLU, if there is one, from what it gave and the gradient behind it.

    Both are read by then, whatever they are: what is read on a condition is not read by vectors on every processor.
    """
    zero = type(grad)(0)
    return zero if (after <= zero) & relu else grad


@njit(inline="always")
def next_piece(block):
    """A piece that no other thread does, or one past the last."""
    return _count_up(block.ctypes.data)
