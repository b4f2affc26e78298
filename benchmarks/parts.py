"""Seconds an epoch of networks that train together on a GPU, with one part of the engine left out at a time.

    python benchmarks/parts.py [--recipe zinc/dss-gin-ego+] [--seeds 1 10] [--out benchmarks/figures/parts.json]

What each part of the GPU path gains, measured in one run; the answers are the same but for rounding. Data are read from
$ESAN_DATA.
"""

import argparse
import gc
import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import torch

from esan.bags import kept
from esan.bags.padded.views import PaddedLayerView
from esan.ops.triton import layout as gpu_layout
from esan.ops.triton.kernels import linear as gpu_linear
from esan.report.timing import measure
from report import machine, markdown, print_table

NOTE = (
    "Written by `benchmarks/parts.py`: medians of training epochs with everything included, as `esan bench` measures "
    "them. Each line leaves out one part of the GPU path, or turns one choice around; the others stay as they are."
)


PARTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "as it is": nullcontext,
    "padding is computed too": lambda: patch.object(PaddedLayerView, "real", None),
    "products: a program a tile": lambda: patch.object(gpu_linear, "_KEPT", 0),
    "products: two programs a processor": lambda: patch.object(gpu_linear, "_RUNNING", 264),
    "products: one tile in flight": lambda: patch.object(gpu_linear, "_STAGES", 1),
    "batches gathered over the bus": lambda: patch.object(kept, "_A_NETWORK", 0),
    "all batches gathered from the GPU": lambda: patch.object(kept, "_A_NETWORK", 2**40),
    "laid out by as many programs as there is work": lambda: patch.object(gpu_layout, "_PROGRAMS", 2**30),
    "laid out by a program a processor": lambda: patch.object(gpu_layout, "_PROGRAMS", 132),
    "as it is, again": nullcontext,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="zinc/dss-gin-ego+")
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 10])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "figures" / "parts.json")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("Expected a GPU (got none). benchmarks/step.py measures a CPU.")
    lines: list[dict[str, Any]] = []
    for name, without in PARTS.items():
        line: dict[str, Any] = {"": name}
        for seeds in arguments.seeds:
            gc.collect()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            with without():
                timed = measure(arguments.recipe, "cuda", arguments.epochs, seeds=seeds)
            line[f"{seeds} together, s"] = median(timed.seconds)
            line[f"{seeds} together, MiB"] = torch.cuda.max_memory_allocated() / 2**20
        lines.append(line)
        print(json.dumps(line), flush=True)
        record = {"machine": machine(), "recipe": arguments.recipe, "rows": lines}
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(record, indent=1) + "\n")
        page = markdown(f"Parts of the GPU path: {arguments.recipe}", record["machine"], NOTE, lines)
        arguments.out.with_suffix(".md").write_text(page)
    print_table(arguments.recipe, lines)


if __name__ == "__main__":
    main()
