"""What compiled loops are written with: argument records, entry points, arrays at an address, and chunks of work."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import carray, cfunc, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from esan.ops.compile_progress import NUMBA
from esan.ops.numba.runtime import drop_stale_cache

drop_stale_cache()

#: Sums may be reassociated within a chunk, but NaN and infinity are respected.
MATHS = {"contract", "reassoc", "nsz", "arcp"}


def arguments(names: str) -> Any:
    """The record type of a loop's arguments: the next chunk, the number of chunks, and these integers and addresses."""
    return np.dtype([(name, np.int64) for name in ("next_chunk", "chunks", *names.split())])


class CompiledLoop:
    """The entry point of a loop for one precision, compiled or read from numba's cache on its first call.

    Compiling takes far longer than a training step, and few programs use both precisions.
    """

    def __init__(self, function: Callable[[Any], None]) -> None:
        self._function = function

    @cached_property
    def _code(self) -> Any:
        NUMBA.begin()
        from_cache = False
        try:
            code = cfunc("void(voidptr)", cache=True)(self._function)
            from_cache = code.cache_hits > 0
        finally:
            NUMBA.end(from_cache)
        return code

    @cached_property
    def ctypes(self) -> Callable[[int], None]:
        """A function of the address of the argument record."""
        return self._code.ctypes

    @cached_property
    def address(self) -> int:
        return self._code.address


class Loop(NamedTuple):
    """A loop for both precisions, and the record type of its arguments."""

    single: CompiledLoop
    double: CompiledLoop
    arguments: Any


@intrinsic
def _pointer(typing: Any, address: Any) -> Any:  # noqa: ARG001
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        return builder.inttoptr(args[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), code


@intrinsic
def _count_up(typing: Any, address: Any) -> Any:  # noqa: ARG001
    """The integer at an address, which is incremented atomically."""

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
    """C = op(A) op(B) + beta C by the BLAS function at this address; column-major, addresses and counts as there."""
    i = types.int64
    signature = types.void(i, i, i, i, i, i, i, i, i, i, beta, i, i)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        byte, whole = ir.IntType(8), ir.IntType(32)
        scalar = ir.FloatType() if beta == types.float32 else ir.DoubleType()

        def on_stack(kind: Any, value: Any) -> Any:
            slot = cgutils.alloca_once(builder, kind)
            builder.store(value, slot)
            return slot

        entry, ta, tb, m, n, k, a, lda, b, ldb, factor, c, ldc = args
        letters = [on_stack(byte, builder.trunc(x, byte)) for x in (ta, tb)]
        m, n, k, lda, ldb, ldc = (on_stack(whole, builder.trunc(x, whole)) for x in (m, n, k, lda, ldb, ldc))
        a, b, c = (builder.inttoptr(x, scalar.as_pointer()) for x in (a, b, c))
        values = [
            *letters,
            m,
            n,
            k,
            on_stack(scalar, ir.Constant(scalar, 1.0)),
            a,
            lda,
            b,
            ldb,
            on_stack(scalar, factor),
            c,
            ldc,
        ]
        kind = ir.FunctionType(ir.VoidType(), [x.type for x in values])
        builder.call(builder.inttoptr(entry, kind.as_pointer()), values)
        return context.get_dummy_value()

    return signature, code


@njit(inline="always")
def matrix(address, rows, width, dtype):
    """The matrix at an address."""
    return carray(_pointer(address), (rows, width), dtype)


@njit(inline="always")
def vector(address, length, dtype):
    """The vector at an address."""
    return carray(_pointer(address), (length,), dtype)


@njit(inline="always")
def before_relu(grad, after, relu):
    """The gradient before a ReLU, if there is one, from its output and the gradient after it.

    Both are loaded unconditionally: conditional loads are not vectorised on every processor.
    """
    zero = type(grad)(0)
    return zero if (after <= zero) & relu else grad


@njit(inline="always")
def next_chunk(block):
    """A chunk that no other thread works on, or one past the last."""
    return _count_up(block.ctypes.data)
