"""Seconds and memory of a training epoch in two versions of the library, in turns in one run.

    python benchmarks/against.py OLD [--new .] [--device cuda] [--rows zinc/gin ...] [--out FILE]

OLD is a checkout of another version (`git worktree add ../old c211ad2`). Old and new are timed by turns, each in
processes of its own, as `esan train` runs a row. Both train the same network: where a recipe of today has other
settings than version 0.1 had, the new version is given the old ones (`SETTINGS`). Data are read from $ESAN_DATA.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from report import machine, markdown, print_table

#: By the first word of a row's name and its model: what version 0.1 had in place of the settings of today.
SETTINGS: dict[tuple[str, str], dict[str, Any]] = {
    ("zinc", "gin"): {"head": "mlp", "jk": "last", "readout": "mean"},
    ("zinc", "ds"): {"jk": "cat", "readout": "mean"},
    ("zinc", "dss"): {},
    ("nci1", "gin"): {"head": "mlp", "jk": "cat", "one_logit": False},
    ("nci1", "ds"): {"jk": "cat", "one_logit": False},
    ("nci1", "dss"): {"jk": "cat", "one_logit": False},
}
ROWS = [
    f"{data}/{method}"
    for data in ("zinc", "nci1")
    for method in (
        "gin",
        *(f"{model}-gin-{policy}" for model in ("ds", "dss") for policy in ("ed", "nd", "ego", "ego+")),
    )
]
NOTE = (
    "Written by `benchmarks/against.py`. The median of all timed epochs of a row, in seconds, and the peak that torch "
    "held on the device, in MiB; old and new by turns, in fresh processes."
)
#: What a process runs: all rows, in the version that PYTHONPATH names.
CHILD = """
import dataclasses, gc, json, sys
import torch
asked = json.loads(sys.argv[1])
try:
    from esan.report.reproduction import timing
    plain = timing.named
    timing.named = lambda name: dataclasses.replace(plain(name), **settings)
except ImportError:
    from esan.report import timing
cuda = asked["device"] != "cpu"
for row, settings in asked["rows"].items():
    gc.collect()
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    timed = timing.measure(row, asked["device"], asked["epochs"], seeds=asked["seeds"])
    peak = torch.cuda.max_memory_allocated() / 2**20 if cuda else 0.0
    print(json.dumps({"row": row, "seconds": timed.seconds, "warm": timed.warm_seconds, "peak": peak}), flush=True)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("--new", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", nargs="*", default=ROWS)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "figures" / "against.json")
    given = parser.parse_args()
    trees = {"old": given.old, "new": given.new}
    found: dict[str, dict[str, list[dict[str, Any]]]] = {name: {row: [] for row in given.rows} for name in trees}
    for turn in range(given.turns):
        for name in list(trees)[:: 1 if turn % 2 == 0 else -1]:
            for measured in child(trees[name], given):
                found[name][measured["row"]].append(measured)
                print(name, json.dumps(measured), flush=True)
            write([line(row, found) for row in given.rows if all(found[one][row] for one in trees)], given.out)
    print_table("Two versions", [line(row, found) for row in given.rows])


def write(lines: list[dict[str, Any]], out: Path) -> None:
    if lines:
        record = {"machine": machine(), "rows": lines}
        out.write_text(json.dumps(record, indent=1) + "\n")
        out.with_suffix(".md").write_text(markdown("Two versions", record["machine"], NOTE, lines))


def line(row: str, found: dict[str, dict[str, list[dict[str, Any]]]]) -> dict[str, Any]:
    """One row in both versions."""
    old, new = (
        {
            "s": median(s for part in found[name][row] for s in part["seconds"]),
            "MiB": max(part["peak"] for part in found[name][row]),
            "warm": found[name][row][-1]["warm"],
        }
        for name in ("old", "new")
    )
    return {
        "recipe": row,
        "old, s": old["s"],
        "new, s": new["s"],
        "new / old": new["s"] / old["s"],
        "old, MiB": old["MiB"],
        "new, MiB": new["MiB"],
        "old warm-up, s": old["warm"],
        "new warm-up, s": new["warm"],
    }


def child(tree: Path, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The rows in one version, each as soon as it is measured."""
    rows = {}
    for row in given.rows:
        data, _, method = row.partition("/")
        rows[row] = SETTINGS.get((data, method.partition("-")[0]), {})
    asked = {"rows": rows, "device": given.device, "epochs": given.epochs, "seeds": given.seeds}
    command = [sys.executable, "-W", "ignore", "-c", CHILD, json.dumps(asked)]
    environment = os.environ | {"PYTHONPATH": str((tree / "src").resolve())}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for text in process.stdout:
            yield json.loads(text)
    if process.returncode:
        raise SystemExit(f"Expected {tree} to run (got exit code {process.returncode}); see above.")


if __name__ == "__main__":
    main()
