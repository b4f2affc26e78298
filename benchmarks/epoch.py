"""Seconds a training epoch: {GIN, DS, DSS} × policies × {ZINC, NCI1}, this library and the usual way beside it.

    python benchmarks/epoch.py --device cuda [--sets zinc nci1] [--some 1280] [--out benchmarks/figures/epoch.json]

The library is measured as `esan train` runs it: whole epochs over all training graphs with everything that header to
them (batches, forward, backward, Adam, the loss), after a warm-up that is reported. The usual way (`usual.py`: PyG's
DataLoader over ready-made disjoint unions of subgraphs) is measured on the first `--some` training graphs and counted
up to a whole epoch, as making all its subgraphs takes minutes; so is its preprocessing. Data are read from $ESAN_DATA.
"""

import argparse
import gc
import json
import time
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch_geometric.loader import DataLoader

import usual
from esan.data import load
from esan.graphs import Graphs
from esan.policies import EgoNets, policy_name
from esan.report.reproduction.timing import measure
from esan.train import named
from esan.train.engines.subgraph_sampling import training_bag
from report import machine, markdown, print_table

NOTE = (
    "Written by `benchmarks/epoch.py`. Seconds for one training epoch, everything included. The usual way: PyG's "
    "DataLoader over the disjoint union of all subgraphs, measured on some graphs and counted up; the ratio is to the "
    "library's epoch of the same run. Peak memory: what torch held on the device while training."
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--sets", nargs="*", default=["zinc", "nci1"])
    parser.add_argument("--methods", nargs="*", default=["gin", *_methods()])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--some", type=int, default=1280)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "figures" / "epoch.json")
    arguments = parser.parse_args()
    lines: list[dict[str, Any]] = []
    for data in arguments.sets:
        for method in arguments.methods:
            lines.append(compare(f"{data}/{method}", arguments.device, arguments.epochs, arguments.some))
            print(json.dumps(lines[-1]), flush=True)
            write(lines, arguments.out)
    print_table("A training epoch", lines)


def _methods() -> list[str]:
    return [f"{kind}-gin-{policy.lower()}" for kind in ("ds", "dss") for policy in usual.POLICIES]


def write(lines: list[dict[str, Any]], out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    record = {"machine": machine(), "rows": lines}
    out.write_text(json.dumps(record, indent=1) + "\n")
    out.with_suffix(".md").write_text(markdown("A training epoch", record["machine"], NOTE, lines))


def compare(name: str, device: str, epochs: int, some: int) -> dict[str, Any]:
    bag_seconds = build(name, device)
    _forget_peak(device)
    ours = measure(name, device, epochs)
    memory = _peak(device)
    theirs = the_usual(name, device, some)
    seconds = sorted(ours.seconds)[len(ours.seconds) // 2]
    return {
        "recipe": name,
        "esan, s": seconds,
        "usual, s": theirs["seconds"],
        "ratio": theirs["seconds"] / seconds,
        "esan, MiB": memory,
        "usual, MiB": theirs["memory"],
        "esan bag, s": bag_seconds,
        "usual subgraphs, s": theirs["preprocessing"],
        "esan warm-up, s": ours.warm_seconds,
    }


@cache
def build(name: str, device: str) -> float:
    """Seconds to build the bag of a recipe as a training does, its second time."""
    recipe, place = named(name), torch.device(device)
    graphs = load(recipe.data).graphs
    for _ in range(2):
        since = time.perf_counter()
        training_bag(graphs, recipe.policy, recipe.num_layers, place if place.type == "cuda" else None)
    return time.perf_counter() - since


def the_usual(name: str, device: str, some: int) -> dict[str, float]:
    """The usual way, on some of the training graphs, counted up to all of them."""
    recipe, dataset = named(name), load(name.partition("/")[0])
    count = len(dataset.given.train) if dataset.given is not None else round(0.9 * len(dataset))
    policy = None if recipe.model == "gnn" else policy_name(recipe.policy).partition("(")[0]
    hops = recipe.policy.hops if isinstance(recipe.policy, EgoNets) else 0
    # Whole batches: a last one that is not full would count for more than it is.
    graphs = _data(dataset.graphs, min(max(some // recipe.batch_size, 1) * recipe.batch_size, count))
    share = len(graphs) / count
    since = time.perf_counter()
    unions = [usual.union(graph, policy, hops) for graph in graphs]
    preprocessing = (time.perf_counter() - since) / share
    zinc = name.startswith("zinc")
    network = usual.Network(
        atoms=dataset.in_channels.sizes[0] if zinc else dataset.in_channels.size,
        bonds=4 if zinc else 0,
        width=recipe.hidden_channels,
        layers=recipe.num_layers,
        out=dataset.task.out_channels,
        marked=policy == "EGO+",
        shares=recipe.model == "dss",
        every=recipe.jk != "last",
        sets={"mean": "mean", "deepsets": "deepsets", "invariant-deepsets": "phi-rho"}[recipe.set_encoder],
        set_width=recipe.set_channels,
        readout=recipe.readout,
    ).to(device)
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
    loader = DataLoader(unions, recipe.batch_size, shuffle=True)
    _forget_peak(device)
    seconds = []
    for _ in range(3):
        since = time.perf_counter()
        total = torch.zeros((), device=device)
        for batch in loader:
            batch = batch.to(device)
            given = network(batch)
            loss = (given.squeeze(-1) - batch.y.reshape(-1)).abs().mean() if zinc else _classes(given, batch.y)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += loss.detach()
        float(total)
        seconds.append((time.perf_counter() - since) / share)
    return {"seconds": min(seconds[1:]), "preprocessing": preprocessing, "memory": _peak(device)}


def _classes(given: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(given, y.reshape(-1))


def _data(graphs: Graphs, count: int) -> list[usual.Data]:
    """The first graphs as PyG data."""
    starts, edge_starts = graphs.node_start.tolist(), graphs.directed_edge_start.tolist()
    found = []
    for i in range(count):
        nodes = slice(starts[i], starts[i] + int(graphs.num_nodes[i]))
        edges = slice(edge_starts[i], edge_starts[i] + int(graphs.num_directed_edges[i]))
        attr = None if graphs.edge_attr is None else graphs.edge_attr[edges]
        index = graphs.edge_index[:, edges] - starts[i]
        y = graphs.y[i : i + 1]
        found.append(
            usual.Data(x=graphs.x[nodes], edge_index=index, edge_attr=attr, y=y, num_nodes=len(graphs.x[nodes]))
        )
    return found


def _forget_peak(device: str) -> None:
    gc.collect()  # an ensemble and its recorded steps refer to each other
    if device.startswith("cuda"):
        torch._C._cuda_clearCublasWorkspaces()  # else those of one row would count in the next
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def _peak(device: str) -> float:
    return torch.cuda.max_memory_allocated() / 2**20 if device.startswith("cuda") else float("nan")


if __name__ == "__main__":
    main()
