"""Seconds to build the bags of ZINC12k on one core, for every policy of the paper and 4 layers.

    python benchmarks/build.py [--repeats 3] [--out benchmarks/figures/build.json]

From graphs in memory to a compact bag; the fastest of some runs, of the processor's time and by the clock. The data are
read from $ESAN_DATA.
"""

import argparse
import json
import time
from pathlib import Path

import torch

from esan import Bag, policy_named
from esan.data import load
from report import machine, markdown, print_table

NOTE = "Written by `benchmarks/build.py`: the compact bags of ZINC12k (12,000 graphs) for 4 layers, on one core."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "figures" / "build.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    graphs = load("zinc").graphs
    lines = []
    for name in ("ED", "ND", "EGO(3)", "EGO+(3)", "NM"):
        taken = []
        for _ in range(arguments.repeats):
            processor, clock = time.process_time(), time.perf_counter()
            bag = Bag.of(graphs, policy_named(name), 4)
            taken.append((time.process_time() - processor, time.perf_counter() - clock))
        lines.append(
            {
                "policy": name,
                "processor, s": min(p for p, _ in taken),
                "by the clock, s": min(c for _, c in taken),
                "the first time, s": taken[0][1],
                "rows": bag.num_rows,
                "pairs": bag.num_pairs,
            }
        )
    print_table("Building bags", lines)
    record = {"machine": machine(), "rows": lines}
    arguments.out.write_text(json.dumps(record, indent=1) + "\n")
    arguments.out.with_suffix(".md").write_text(markdown("Building bags", record["machine"], NOTE, lines))


if __name__ == "__main__":
    main()
