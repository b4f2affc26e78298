"""Prints, for a few networks, the estimated and the measured bytes of a training step; run by `test_memory.py`.

Measured is the peak of the resident memory. The C library is told to return all freed memory
(`MALLOC_MMAP_THRESHOLD_`), and the tables that compiled loops keep for the next step are forgotten before each.
"""

import ctypes
import gc
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data
from torch_geometric.nn import GATConv

import esan
from esan.ops.numba import workspace

COUNT, NODES = 60, 24


def resident(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def step(model: Any, bag: esan.Bag) -> None:
    model.zero_grad()
    model(bag).square().mean().backward()


def measured(model: Any, graphs: list[Data], policy: esan.Policy, literal: bool) -> int:
    workspace._pool._buffers.clear()
    workspace._pool.unused = 0
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    step(model, esan.Bag.of(graphs, policy, model.num_layers + model.encoder.lookahead, literal=literal))
    return resident("VmHWM") - before


def main() -> None:
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    graphs = []
    for k in range(COUNT):
        graph = esan.graphs.csl(NODES, 2 + k % 3)
        graph.x = torch.randn(NODES, 8)
        graphs.append(graph)
    policy = esan.NodeDeletion()
    networks: dict[str, Any] = {
        "ds gin": esan.ds_gnn(8, 64, 3, 1),
        "dss gat": esan.dss_gnn(8, 48, 3, 1, conv=lambda i, o: GATConv(i, o)),
        "ds gin dropout": esan.ds_gnn(8, 64, 3, 1, dropout=0.5),
    }
    bag = esan.Bag.of(graphs, policy, 4)
    for name, model in networks.items():
        step(model, bag[:2])
        expected = esan.estimate(bag, model)
        for kind, cost in (("literal", expected.literal), ("compact", expected.compact)):
            if cost is not None:
                peak = measured(model, graphs, policy, kind == "literal")
                sys.stdout.write(f"{name},{kind},{cost.bytes},{peak}\n")


if __name__ == "__main__":
    main()
