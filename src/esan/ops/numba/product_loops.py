"""The matrix products of `layer_loops`: by a BLAS, or by tiles of our own where that is 0."""

import numpy as np
from numba import njit

from esan.ops.numba import tile_loops
from esan.ops.numba.entry import gemm, table

#: BLAS has columns first, so that a table here is transposed there.
_PLAIN, _TURNED = ord("N"), ord("T")


@njit
def turned(matrix, blas):
    """The matrix with lines for columns, where tiles need it."""
    if blas:
        return np.empty((0, 0), matrix.dtype)
    found = np.empty((matrix.shape[1], matrix.shape[0]), matrix.dtype)
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            found[j, i] = matrix[i, j]
    return found


@njit
def rows_times_turned(blas, rows, depth, columns, a, w, across, c, size, zero):
    """c = a w^T for tables at these addresses, of numbers of so many bytes; `across` is w turned already."""
    if blas:
        gemm(blas, _TURNED, _PLAIN, columns, rows, depth, w, depth, a, depth, zero, c, columns)
    else:
        tile_loops.rows_times(a, across, c, rows, depth, columns, size, zero)


@njit
def rows_times(blas, rows, depth, columns, a, w, c, size, zero):
    """c = a w."""
    if blas:
        gemm(blas, _PLAIN, _PLAIN, columns, rows, depth, w, columns, a, depth, zero, c, columns)
    else:
        tile_loops.rows_times(a, w, c, rows, depth, columns, size, zero)


@njit
def add_product_of_rows(blas, rows, lines, columns, a, b, c, size, beta):
    """c = a^T b + beta c; beta is 0 or 1."""
    if blas:
        gemm(blas, _PLAIN, _TURNED, columns, lines, rows, b, columns, a, lines, beta, c, columns)
        return
    if beta == 0:
        table(c, lines, columns, type(beta))[:] = 0
    tile_loops.add_sum_of_products(a, b, c, rows, lines, columns, size, beta)
