"""The matrix products of compiled layers: tiles of our own against the BLAS that torch comes with, as ratios.

    python benchmarks/products.py [--out benchmarks/figures/products.json]

Pieces of 512 rows of width 64 and a matrix of 64 by 64, single precision, on one thread: rows times the matrix turned
(forward), rows times the matrix (their gradient), and the sum of products of rows (the gradient of the matrix). More
than 1: tiles are faster. `esan.ops.numba.runtime.tiles` says which is used where.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numba import njit

from esan.ops.numba.product_loops import add_product_of_rows, rows_times, rows_times_turned, turned
from esan.ops.numba.runtime import blas, tiles
from report import machine, markdown, print_table

ROWS, WIDTH, TIMES = 512, 64, 200
NOTE = (
    "Written by `benchmarks/products.py`: 512 rows of width 64 and a matrix of 64 by 64, single precision, one thread. "
    "How many times as fast as the BLAS that torch comes with tiles of our own are."
)


@njit
def _forward(entry, a, w, across, c, times):
    for _ in range(times):
        rows_times_turned(entry, ROWS, WIDTH, WIDTH, a, w, across, c, 4, np.float32(0))


@njit
def _back(entry, a, w, across, c, times):  # noqa: ARG001
    for _ in range(times):
        rows_times(entry, ROWS, WIDTH, WIDTH, a, w, c, 4, np.float32(0))


@njit
def _matrix(entry, a, w, across, c, times):  # noqa: ARG001
    for _ in range(times):
        add_product_of_rows(entry, ROWS, WIDTH, WIDTH, a, c, w, 4, np.float32(0))


def seconds(loop: Callable[..., None], *arguments: int) -> float:
    """The median over some turns."""
    found = []
    for _ in range(15):
        begin = time.perf_counter()
        loop(*arguments, TIMES)
        found.append(time.perf_counter() - begin)
    return statistics.median(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "figures" / "products.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    entry = blas(torch.float32)
    if not entry:
        raise SystemExit("There is no BLAS here that compiled loops can call: layers use tiles, or plain torch.")
    draw = np.random.default_rng(0)
    a, c = (draw.standard_normal((ROWS, WIDTH)).astype(np.float32) for _ in range(2))
    w = draw.standard_normal((WIDTH, WIDTH)).astype(np.float32)
    across = turned(w, 0)
    at = [table.ctypes.data for table in (a, w, across, c)]
    lines = []
    for name, loop in (("forward", _forward), ("gradient of rows", _back), ("gradient of the matrix", _matrix)):
        loop(entry, *at, 1)
        by_blas, by_tiles = seconds(loop, entry, *at), seconds(loop, 0, *at)
        lines.append({"product": name, "tiles vs BLAS": by_blas / by_tiles})
    print_table("Products of compiled layers (more than 1: tiles are faster)", lines)
    record = {"machine": machine(), "tiles are used": tiles(torch.zeros(WIDTH, WIDTH)), "rows": lines}
    arguments.out.write_text(json.dumps(record, indent=1) + "\n")
    arguments.out.with_suffix(".md").write_text(markdown("Small products", record["machine"], NOTE, lines))


if __name__ == "__main__":
    main()
