"""Time of `bag[ids]` relative to building the bag of the same graphs, on one core.

    python benchmarks/take.py [--repeats 30] [--out benchmarks/figures/take.json]

Batches of 128 random graphs, out of bags for 4 layers. Both ways are measured in turn on the same batch, in the
processor's time, and the median of their ratios is reported, which depends little on what else the machine does.
"""

import argparse
import json
import time
from functools import partial
from pathlib import Path
from statistics import median
from timeit import timeit

import torch
from torch_geometric.data import Data

from esan import Bag, graphs, policy_named
from report import machine, markdown, print_table
from workloads import zinc_like

SKIPS = (2, 3, 4, 5, 6, 9, 11, 12, 13, 16)
WORK = [("CSL", "ND"), ("CSL", "EGO+(3)"), ("like ZINC", "ND"), ("like ZINC", "EGO+(3)")]
NOTE = "Written by `benchmarks/take.py`: the time of `bag[ids]` over that of building the same bag, from PyG data "
NOTE += "and from graphs that were read and checked before."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "figures" / "take.json")
    given = parser.parse_args()
    torch.set_num_threads(1)
    draw = torch.Generator().manual_seed(0)
    csl = [graphs.permuted(graphs.csl(41, skip), draw) for skip in 15 * SKIPS]
    sets = {"CSL": csl, "like ZINC": zinc_like(1000)}
    lines = [{"graphs": name, "policy": policy} | ratios(sets[name], policy, given.repeats) for name, policy in WORK]
    record = {"machine": machine(), "rows": lines}
    given.out.write_text(json.dumps(record, indent=1) + "\n")
    given.out.with_suffix(".md").write_text(markdown("Batches out of a bag", record["machine"], NOTE, lines))
    print_table("Batches out of a bag", lines)


def ratios(data: list[Data], name: str, repeats: int) -> dict[str, str | float]:
    policy, draw, found = policy_named(name), torch.Generator().manual_seed(0), []
    bag = Bag.of(data, policy, 4)
    for _ in range(3 + repeats):  # the first ones compile loops and fill caches
        ids = torch.randperm(len(data), generator=draw)[:128]
        sources = [data[i] for i in ids], bag.graphs.take(ids)
        ways = [partial(bag.__getitem__, ids), *(partial(Bag.of, source, policy, 4) for source in sources)]
        taken, *built = (timeit(way, timer=time.process_time, number=1) for way in ways)
        found.append([taken / rebuilt for rebuilt in built])
    of_data, of_read = (median(column) for column in zip(*found[3:], strict=True))
    return {"over PyG data": of_data, "over graphs read": of_read}


if __name__ == "__main__":
    main()
