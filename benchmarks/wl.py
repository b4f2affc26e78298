"""How long Weisfeiler-Leman tests take: the atlas, every graph of 8 nodes, and pairs of large sparse graphs.

    python benchmarks/wl.py [--quick] [--out benchmarks/figures]

Every graph of 8 nodes is made from those of 7 by one more node of least degree, and sorted out by DSS-WL with node
marking; that leaves 12,346, which is how many there are. networkx's `weisfeiler_lehman_graph_hash` on the same graphs,
one hash a graph, is the yardstick for 1-WL (it hashes, so it may collide; esan's classes are exact). It is run for n
rounds, which always suffice, and for the 3 that it runs by default, which need not; esan stops when colours are stable,
and its ratio is to n rounds. Both are given their graphs ready made, `Graphs` and a list of `networkx.Graph`:
converting is not timed. Both have one thread. Times, of networkx too, are the best of three after one run to warm up;
pairs of graphs run once. Written are `wl.json` and `wl.md`, which also say how loaded the machine was.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import networkx as nx
import torch
from torch import Tensor
from torch_geometric.data import Data

from esan import wl
from esan.graphs import Graphs, atlas, permuted, random_regular, read
from report import machine, print_table

CASES = (
    ("1", None),
    ("ds", "ND"),
    ("ds", "ED"),
    ("dss", "ND"),
    ("dss", "ED"),
    ("dss", "EGO+(2)"),
    ("dss", "NM"),
    ("2-fwl", None),
)
PAIRS = (("ds", "ND"), ("dss", "ND"), ("ds", "ED"), ("dss", "ED"), ("dss", "EGO+(2)"), ("dss", "NM"))
#: How many graphs of 8 nodes there are, up to isomorphism.
GRAPHS_OF_8 = 12_346


def timed(run: Callable[[], Any], repeats: int = 3) -> tuple[float, Any]:
    """The least seconds of `repeats` runs, and what the last gave; several are preceded by one to warm up."""
    best = float("inf")
    if repeats > 1:
        run()
    for _ in range(repeats):
        start = time.perf_counter()
        given = run()
        best = min(best, time.perf_counter() - start)
    return best, given


def graphs_of_8() -> Graphs:
    """Every graph of 8 nodes once."""
    seven = [graph for graph in atlas() if graph.num_nodes == 7]
    small = torch.zeros(len(seven), 7, 7, dtype=torch.bool)
    for place, graph in enumerate(seven):
        small[place, graph.edge_index[0], graph.edge_index[1]] = True
    joined = (torch.arange(128)[:, None] >> torch.arange(7) & 1).bool()
    # Each graph of 8 nodes is one of 7 and a node of least degree.
    least = (small.sum(-1)[:, None] + joined).amin(-1) >= joined.sum(-1)
    which, mask = least.nonzero(as_tuple=True)
    large = torch.zeros(which.numel(), 8, 8, dtype=torch.bool)
    large[:, :7, :7] = small[which]
    large[:, 7, :7] = large[:, :7, 7] = joined[mask]
    candidates = read([Data(edge_index=one.nonzero().t(), num_nodes=8) for one in large])
    found = candidates.take(_first_of_each(wl.classes(candidates, "dss", "NM")))
    if len(found) != GRAPHS_OF_8:
        raise RuntimeError(f"Expected {GRAPHS_OF_8} graphs of 8 nodes (got {len(found)}): a test is broken.")
    return found


def _first_of_each(found: Tensor) -> Tensor:
    first = torch.full((int(found.max()) + 1,), found.numel())
    return first.scatter_reduce(0, found, torch.arange(found.numel()), "amin")


def collections(quick: bool) -> list[dict[str, Any]]:
    lines = []
    sets = {"atlas, up to 7 nodes": read(atlas())}
    if not quick:
        sets["every graph of 8 nodes"] = graphs_of_8()
    for name, graphs in sets.items():
        converted = _in_networkx(graphs)
        for rounds in (3, None):
            yardstick, hashes = timed(partial(_networkx_hashes, converted, rounds))
            hashed = f"networkx 1-WL hash, {rounds or 'n'} rounds"
            lines.append(_line(name, len(graphs), hashed, "", len(set(hashes)), yardstick, None))
        for test, policy in CASES:
            seconds, found = timed(partial(wl.classes, graphs, test, policy))
            ratio = yardstick / seconds if test == "1" else None
            lines.append(_line(name, len(graphs), test, policy or "", int(found.max()) + 1, seconds, ratio))
    return lines


def _in_networkx(graphs: Graphs) -> list[nx.Graph]:
    ends = (graphs.edges - graphs.node_start[graphs.edge_graph]).t()
    converted = []
    for n, edges in zip(graphs.num_nodes.tolist(), ends.split(graphs.num_edges.tolist()), strict=True):
        graph = nx.empty_graph(n)
        graph.add_edges_from(edges.tolist())
        converted.append(graph)
    return converted


def _networkx_hashes(graphs: list[nx.Graph], rounds: int | None) -> list[str]:
    """The hash of each graph after `rounds` rounds, or after as many as it has nodes."""
    return [nx.weisfeiler_lehman_graph_hash(graph, iterations=rounds or len(graph)) for graph in graphs]


def _line(
    name: str, size: int, test: str, policy: str, found: int, seconds: float, ratio: float | None
) -> dict[str, Any]:
    return {
        "graphs": name,
        "number": size,
        "test": test,
        "policy": policy,
        "classes": found,
        "seconds": round(seconds, 3),
        "× networkx": "" if ratio is None else f"{ratio:.1f}",
    }


def pairs(quick: bool) -> list[dict[str, Any]]:
    lines = []
    generator = torch.Generator().manual_seed(0)
    for n in (200,) if quick else (200, 1000):
        first, second = random_regular(3, n, seed=0), random_regular(3, n, seed=1)
        copy = permuted(first, generator)
        for test, policy in PAIRS:
            seconds, verdict = timed(partial(wl.separates, first, second, test, policy), 1)
            lines.append(_pair(f"two 3-regular, n = {n}", test, policy, verdict, seconds))
        seconds, verdict = timed(partial(wl.separates, first, copy, "dss", "EGO+(2)"), 1)
        lines.append(_pair(f"isomorphic, n = {n}", "dss", "EGO+(2)", verdict, seconds))
    return lines


def _pair(name: str, test: str, policy: str, verdict: wl.Verdict, seconds: float) -> dict[str, Any]:
    said = "inconclusive" if verdict.iteration is None else f"separated in round {verdict.iteration}"
    return {"pair": name, "test": test, "policy": policy, "verdict": said, "seconds": round(seconds, 3)}


def markdown(title: str, lines: list[dict[str, Any]]) -> str:
    head = f"## {title}\n\n| {' | '.join(lines[0])} |\n|{' --- |' * len(lines[0])}\n"
    return head + "".join(f"| {' | '.join(str(value) for value in line.values())} |\n" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the atlas and small pairs only")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "figures")
    options = parser.parse_args()
    # networkx has one thread; and threads of torch wait for each other as soon as anything else wants a core.
    torch.set_num_threads(1)
    on_this = machine() | {"load when started": f"{os.getloadavg()[0]:.1f}"}
    found = {"machine": on_this, "collections": collections(options.quick), "pairs": pairs(options.quick)}
    # This run by itself makes a load of about 1; more means that something else ran beside it.
    on_this["load when finished"] = f"{os.getloadavg()[0]:.1f}"
    print_table("classes of a collection", found["collections"])
    print_table("two graphs", found["pairs"])
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "wl.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    on = ", ".join(f"{name} {value}" for name, value in found["machine"].items())
    text = [
        "# Weisfeiler-Leman tests",
        f"Written by `python benchmarks/wl.py`. Measured on: {on}.",
        markdown("Classes of a collection", found["collections"]),
        markdown("Two graphs", found["pairs"]),
    ]
    (options.out / "wl.md").write_text("\n\n".join(part.rstrip() for part in text) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
