"""Time and memory of a training step on one graph against its size: literal and compact bags.

    python benchmarks/scaling.py [--quick] [--out benchmarks/figures]

DSS-GIN, 4 layers of width 64, forward and backward, on random 3-regular graphs, 2-D grids and molecule-like trees with
rings. Every point runs in a process of its own, so that peak memory is its own. Where a backward pass does not fit,
forward alone is measured. glibc gives every large tensor back to the system at once and takes it again page by page,
which costs more than the arithmetic; the processes run with `ENVIRONMENT`, which turns that off. Written are
`scaling.json`, `scaling.md` and `scaling.png`.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import esan
import workloads
from report import machine, print_table

KINDS = {"3-regular": workloads.regular, "grid": workloads.grid, "molecule": workloads.molecule}
POLICIES = ("ED", "ND", "EGO+(2)", "NM")
SIZES = (1_000, 10_000, 100_000)
LITERAL_SIZES = (100, 300, 1_000)
#: Beyond this many rows the backward pass no longer fits in 24 GiB; forward alone does.
FORWARD_ONLY = 2_500_000
#: Beyond this many rows a run is long, and two are enough.
SLOW = 300_000
LAYERS, WIDTH, THREADS = 4, 64, 2
ENVIRONMENT = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40), "MALLOC_TOP_PAD_": str(2**28)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one kind of graph, up to 10,000 nodes")
    parser.add_argument(
        "--point", nargs=4, metavar=("KIND", "POLICY", "BAG", "N"), help="measure one point and print it"
    )
    parser.add_argument("--at-once", type=int, default=1, help="how many points at a time; each uses THREADS cores")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "figures")
    arguments = parser.parse_args()
    torch.set_num_threads(THREADS)
    if arguments.point:
        kind, policy, bag, n = arguments.point
        print(json.dumps(point(kind, policy, bag, int(n))))
        return
    kinds = ["3-regular"] if arguments.quick else list(KINDS)
    sizes = SIZES[:2] if arguments.quick else SIZES
    wanted = [
        (kind, policy, bag, n)
        for kind in kinds
        for policy in POLICIES
        for bag, line in (("literal", LITERAL_SIZES), ("compact", sizes))
        for n in line
    ]
    with ThreadPoolExecutor(arguments.at_once) as workers:
        points = list(workers.map(lambda one: _in_own_process(*one), wanted))
    _write(points, arguments.out)


def _in_own_process(kind: str, policy: str, bag: str, n: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--point", kind, policy, bag, str(n)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | ENVIRONMENT)
    if done.returncode:
        raise SystemExit(f"{kind}, {policy}, {bag}, n = {n} failed: {done.stderr.strip()[-400:] or 'killed'}")
    found = json.loads(done.stdout.splitlines()[-1])
    print(json.dumps(found), flush=True)
    return found


def point(kind: str, policy_name: str, kind_of_bag: str, n: int) -> dict[str, Any]:
    """One graph, one bag, one network: seconds of building and of a step, and the peak memory of the process."""
    graph = KINDS[kind](n)
    policy = esan.policy_named(policy_name)
    torch.manual_seed(0)
    model = esan.dss_gnn(
        esan.Categories(workloads.ATOM_TYPES), WIDTH, LAYERS, 1, marked=policy.marked, readout="mean", jk="last"
    )
    # Once on a small graph, so that nothing measured is the first of its kind.
    model(esan.Bag.of(KINDS[kind](50), policy, LAYERS)).sum().backward()
    before = _peak()
    start = time.perf_counter()
    bag = esan.Bag.of(graph, policy, LAYERS, literal=kind_of_bag == "literal")
    built = time.perf_counter() - start

    def forward() -> None:
        with torch.no_grad():
            model(_fresh(bag))

    def step() -> None:
        model.zero_grad()
        model(_fresh(bag)).sum().backward()

    trains = bag.num_rows <= FORWARD_ONLY
    repeats = 2 if bag.num_rows > SLOW else 5
    return {
        "graphs": kind,
        "policy": policy_name,
        "bag": kind_of_bag,
        "n": int(graph.num_nodes),
        "pairs": bag.num_pairs,
        "rows": bag.num_rows,
        "build": built,
        "forward": min(_seconds(forward) for _ in range(repeats)),
        "step": min(_seconds(step) for _ in range(repeats)) if trains else None,
        "MiB": (_peak() - before) / 2**20,
    }


def _fresh(bag: esan.Bag) -> esan.Bag:
    """The same bag with nothing cached from an earlier step."""
    return replace(bag)


def _seconds(run: Callable[[], None]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def _write(points: list[dict[str, Any]], out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    slopes = _slopes(points)
    record = {
        "machine": machine(),
        "layers": LAYERS,
        "width": WIDTH,
        "environment": ENVIRONMENT,
        "slopes": slopes,
        "points": points,
    }
    (out / "scaling.json").write_text(json.dumps(record, indent=1) + "\n")
    print_table("Log-log slopes of time and memory against n", slopes)
    _write_table(record, out / "scaling.md")
    _draw(points, out / "scaling.png")


def _lines(points: list[dict[str, Any]], what: str) -> dict[str, list[dict[str, Any]]]:
    """The points of each graph family, policy and bag that have a time for `what`."""
    lines = defaultdict(list)
    for p in points:
        if p.get(what) is not None:
            lines[f"{p['graphs']}, {p['policy']}, {p['bag']}"].append(p)
    return lines


def _slopes(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    slopes = []
    for what in ("step", "forward"):
        for name, line in _lines(points, what).items():
            first, last = line[0], line[-1]
            span = math.log(last["n"] / first["n"]) if last["n"] > first["n"] else math.nan
            slopes.append(
                {
                    "line": name,
                    "of": what,
                    "from n": first["n"],
                    "to n": last["n"],
                    "time": math.log(last[what] / first[what]) / span,
                    "memory": math.log(max(last["MiB"], 1) / max(first["MiB"], 1)) / span,
                }
            )
    return slopes


def _write_table(record: dict[str, Any], path: Path) -> None:
    where = ", ".join(f"{name} {value}" for name, value in record["machine"].items())
    text = [
        "# Cost against size",
        "",
        f"Written by `benchmarks/scaling.py`. Measured on: {where}.",
        "",
        "A step is forward and backward. Times are relative to a step on the smallest compact bag of the same graphs",
        "and policy; where no step is given, it does not fit in 24 GiB.",
        "",
        "| graphs | policy | bag | n | pairs | rows | forward | step | build / step | MiB |",
        "| --- | --- | --- | --: | --: | --: | --: | --: | --: | --: |",
    ]
    unit = {(p["graphs"], p["policy"]): p["step"] for p in reversed(record["points"]) if p["bag"] == "compact"}
    for p in record["points"]:
        one = unit[p["graphs"], p["policy"]]
        step = "" if p["step"] is None else f"{p['step'] / one:.3g}"
        built = "" if p["step"] is None else f"{p['build'] / p['step']:.2f}"
        text.append(
            f"| {p['graphs']} | {p['policy']} | {p['bag']} | {p['n']:,} | {p['pairs']:,} | {p['rows']:,} "
            f"| {p['forward'] / one:.3g} | {step} | {built} | {p['MiB']:,.0f} |"
        )
    text += ["", "Log-log slopes against n, between the ends of each line:", ""]
    text += ["| line | of | from n | to n | time | memory |", "| --- | --- | --: | --: | --: | --: |"]
    for s in record["slopes"]:
        ends = f"{s['from n']:,} | {s['to n']:,}"
        text.append(f"| {s['line']} | {s['of']} | {ends} | {s['time']:.2f} | {s['memory']:.2f} |")
    path.write_text("\n".join(text) + "\n")


def _draw(points: list[dict[str, Any]], path: Path) -> None:
    from matplotlib.figure import Figure

    kinds = list(dict.fromkeys(p["graphs"] for p in points))
    figure = Figure(figsize=(4.2 * len(kinds), 7), layout="constrained")
    axes = figure.subplots(2, len(kinds), squeeze=False, sharex=True)
    colours = dict(zip(POLICIES, ("#4477aa", "#ee6677", "#228833", "#aa3377"), strict=True))
    unit = min(p["step"] for p in points if p["step"] is not None and p["bag"] == "compact")
    for column, kind in enumerate(kinds):
        for what, marker in (("step", "o"), ("forward", "^")):
            for line in _lines([p for p in points if p["graphs"] == kind], what).values():
                policy, bag = line[0]["policy"], line[0]["bag"]
                name = policy if bag == "compact" and what == "step" else None
                style = {
                    "color": colours[policy],
                    "marker": marker,
                    "markersize": 4,
                    "alpha": 1 if what == "step" else 0.4,
                }
                dashes = "-" if bag == "compact" else ":"
                sizes = [p["n"] for p in line]
                axes[0, column].loglog(sizes, [p[what] / unit for p in line], dashes, label=name, **style)
                if what == "forward":
                    axes[1, column].loglog(sizes, [p["MiB"] for p in line], dashes, **(style | {"alpha": 1}))
        axes[0, column].set_title(kind)
        axes[1, column].set_xlabel("nodes of the graph")
    axes[0, 0].set_ylabel("time, relative")
    axes[1, 0].set_ylabel("peak memory, MiB")
    title = "solid: compact, dotted: literal\npale: forward only"
    axes[0, 0].legend(title=title, fontsize=8, title_fontsize=8)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main()
