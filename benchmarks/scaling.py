"""Time and memory of a training step on one graph against its size: literal and compact bags.

    python benchmarks/scaling.py [--quick] [--out benchmarks/figures]

DSS-GIN, 4 layers of width 64, forward and backward, on random 3-regular graphs, 2-D grids and molecule-like trees with
rings. Every point runs in a process of its own, so that peak memory is its own. The largest ND, ED and marking bags run
forward only: "mode" says so. glibc gives every large tensor back to the system at once and takes it again page by
page, which costs more than the arithmetic; the processes run with `ENVIRONMENT`, which turns that off. Written are
`scaling.json`, `scaling.md` and `scaling.png`; times are relative to the smallest compact bag of the same line, slopes
are log-log between the ends of the line.
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
LAYERS, WIDTH = 4, 64
ENVIRONMENT = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40), "MALLOC_TOP_PAD_": str(2**28)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one kind of graph, up to 10,000 nodes")
    parser.add_argument(
        "--point", nargs=4, metavar=("KIND", "POLICY", "BAG", "N"), help="measure one point and print it"
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "figures")
    arguments = parser.parse_args()
    if arguments.point:
        kind, policy, bag, n = arguments.point
        print(json.dumps(point(kind, policy, bag, int(n))))
        return
    kinds = ["3-regular"] if arguments.quick else list(KINDS)
    sizes = SIZES[:2] if arguments.quick else SIZES
    points = []
    for kind in kinds:
        for policy in POLICIES:
            for bag, line in (("literal", LITERAL_SIZES), ("compact", sizes)):
                for n in line:
                    points.append(_in_own_process(kind, policy, bag, n))
                    print(json.dumps(points[-1]), flush=True)
    _write(points, arguments.out)


def _in_own_process(kind: str, policy: str, bag: str, n: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--point", kind, policy, bag, str(n)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | ENVIRONMENT)
    if done.returncode:
        return {"kind": kind, "policy": policy, "bag": bag, "n": n, "failed": done.stderr.strip()[-200:] or "killed"}
    return json.loads(done.stdout.splitlines()[-1])


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
    forward_only = bag.num_rows > FORWARD_ONLY
    seconds = []
    for _ in range(2 if bag.num_rows > 300_000 else 5):
        fresh = bag[0] if bag.num_rows <= 300_000 else bag  # nothing cached from an earlier step, where that is cheap
        start = time.perf_counter()
        if forward_only:
            with torch.no_grad():
                model(fresh)
        else:
            model.zero_grad()
            model(fresh).sum().backward()
        seconds.append(time.perf_counter() - start)
    return {
        "kind": kind,
        "policy": policy_name,
        "bag": kind_of_bag,
        "n": int(graph.num_nodes),
        "mode": "forward" if forward_only else "forward and backward",
        "pairs": bag.num_pairs,
        "rows": bag.num_rows,
        "build seconds": built,
        "step seconds": min(seconds),
        "MiB": (_peak() - before) / 2**20,
    }


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


def _lines(points: list[dict[str, Any]]) -> dict[tuple[str, str, str, str], list[dict[str, Any]]]:
    """Points by kind, policy, bag and mode, those that failed left out."""
    lines = defaultdict(list)
    for p in points:
        if "failed" not in p:
            lines[p["kind"], p["policy"], p["bag"], p["mode"]].append(p)
    return lines


def _slopes(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    slopes = []
    for (kind, policy, bag, mode), line in _lines(points).items():
        first, last = line[0], line[-1]
        if last["n"] == first["n"]:
            continue
        span = math.log(last["n"] / first["n"])
        slopes.append({
            "graphs": kind,
            "policy": policy,
            "bag": bag,
            "mode": mode,
            "from n": first["n"],
            "to n": last["n"],
            "time": math.log(last["step seconds"] / first["step seconds"]) / span,
            "memory": math.log(max(last["MiB"], 1) / max(first["MiB"], 1)) / span,
            "build / step": last["build seconds"] / last["step seconds"],
        })  # fmt: skip
    return slopes


def _write_table(record: dict[str, Any], path: Path) -> None:
    where = ", ".join(f"{name} {value}" for name, value in record["machine"].items())
    lines = [
        "# Cost against size",
        "",
        f"Written by `benchmarks/scaling.py`. Measured on: {where}.",
        "",
        "| graphs | policy | bag | mode | n | pairs | rows | time, relative | MiB | build / step |",
        "| --- | --- | --- | --- | --: | --: | --: | --: | --: | --: |",
    ]
    base = {}
    for p in record["points"]:
        if "failed" in p:
            lines.append(f"| {p['kind']} | {p['policy']} | {p['bag']} | failed | {p['n']:,} | | | | | |")
            continue
        if p["bag"] == "compact":
            base.setdefault((p["kind"], p["policy"]), p["step seconds"])
    for p in record["points"]:
        if "failed" not in p:
            relative = p["step seconds"] / base[p["kind"], p["policy"]]
            lines.append(
                f"| {p['kind']} | {p['policy']} | {p['bag']} | {p['mode']} | {p['n']:,} | {p['pairs']:,} "
                f"| {p['rows']:,} | {relative:.3g} | {p['MiB']:,.0f} | {p['build seconds'] / p['step seconds']:.2f} |"
            )
    path.write_text("\n".join(lines) + "\n")


def _draw(points: list[dict[str, Any]], path: Path) -> None:
    from matplotlib.figure import Figure

    kinds = list(dict.fromkeys(p["kind"] for p in points))
    figure = Figure(figsize=(4.2 * len(kinds), 7), layout="constrained")
    axes = figure.subplots(2, len(kinds), squeeze=False, sharex=True)
    colours = dict(zip(POLICIES, ("#4477aa", "#ee6677", "#228833", "#aa3377"), strict=True))
    base = min(p["step seconds"] for p in points if "failed" not in p and p["bag"] == "compact")
    for (kind, policy, bag, mode), line in _lines(points).items():
        style = {"literal": ":", "compact": "-"}[bag]
        marker = "o" if mode == "forward and backward" else "^"
        name = policy if bag == "compact" and marker == "o" else None
        sizes = [p["n"] for p in line]
        column = kinds.index(kind)
        for row, values in enumerate(([p["step seconds"] / base for p in line], [p["MiB"] for p in line])):
            axes[row, column].loglog(
                sizes, values, style, marker=marker, markersize=4, color=colours[policy], label=None if row else name
            )
    for column, kind in enumerate(kinds):
        axes[0, column].set_title(kind)
        axes[1, column].set_xlabel("nodes of the graph")
    axes[0, 0].set_ylabel("time of a step, relative")
    axes[1, 0].set_ylabel("peak memory, MiB")
    axes[0, 0].legend(title="solid: compact, dotted: literal\ntriangle: forward only", fontsize=8, title_fontsize=8)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main()
