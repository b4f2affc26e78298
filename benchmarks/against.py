"""Seconds and memory of a training epoch in two versions of the library, in turns in one run.

    python benchmarks/against.py OLD [--new .] [--device cuda] [--rows zinc/gin ...] [--out FILE]

OLD is a checkout of another version (`git worktree add ../old c211ad2`). Each row is timed in processes of its own, old
and new by turns, as `esan train` runs it. Both train the same network: where a recipe of today has other settings than
version 0.1 had, the new version is given the old ones (`SETTINGS`). Data are read from $ESAN_DATA.
"""

import argparse
import json
import os
import subprocess
import sys
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
    "held on the device, in MiB; old and new by turns, each in a fresh process."
)
#: What a process runs: one row, in the version that PYTHONPATH names.
CHILD = """
import dataclasses, json, sys
import torch
asked = json.loads(sys.argv[1])
try:
    from esan.report.reproduction import timing
except ImportError:
    from esan.report import timing
settings = asked["settings"]
if settings and hasattr(timing, "EpochTimes"):  # the new version, given the settings of the old one
    plain = timing.named
    timing.named = lambda name: dataclasses.replace(plain(name), **settings)
timed = timing.measure(asked["row"], asked["device"], asked["epochs"], seeds=asked["seeds"])
peak = torch.cuda.max_memory_allocated() / 2**20 if asked["device"] != "cpu" else 0.0
print(json.dumps({"seconds": timed.seconds, "warm": timed.warm_seconds, "peak": peak}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("--new", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", nargs="*", default=ROWS)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "figures" / "against.json")
    given = parser.parse_args()
    lines: list[dict[str, Any]] = []
    for row in given.rows:
        lines.append(compare(row, given))
        print(json.dumps(lines[-1]), flush=True)
        record = {"machine": machine(), "rows": lines}
        given.out.write_text(json.dumps(record, indent=1) + "\n")
        given.out.with_suffix(".md").write_text(markdown("Two versions", record["machine"], NOTE, lines))
    print_table("Two versions", lines)


def compare(row: str, given: argparse.Namespace) -> dict[str, Any]:
    """One row in both versions, by turns."""
    trees = {"old": given.old, "new": given.new}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in trees}
    for turn in range(given.turns):
        for name in list(trees)[:: 1 if turn % 2 == 0 else -1]:
            found[name].append(child(trees[name], row, given))
    seconds = {name: median(s for part in parts for s in part["seconds"]) for name, parts in found.items()}
    peaks = {name: max(part["peak"] for part in parts) for name, parts in found.items()}
    return {
        "recipe": row,
        "old, s": seconds["old"],
        "new, s": seconds["new"],
        "new / old": seconds["new"] / seconds["old"],
        "old, MiB": peaks["old"],
        "new, MiB": peaks["new"],
        "old warm-up, s": found["old"][-1]["warm"],
        "new warm-up, s": found["new"][-1]["warm"],
    }


def child(tree: Path, row: str, given: argparse.Namespace) -> dict[str, Any]:
    data, _, method = row.partition("/")
    settings = SETTINGS.get((data, method.partition("-")[0]), {})
    asked = {"row": row, "settings": settings, "device": given.device, "epochs": given.epochs, "seeds": given.seeds}
    environment = os.environ | {"PYTHONPATH": str((tree / "src").resolve())}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHILD, json.dumps(asked)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


if __name__ == "__main__":
    main()
