"""How benchmarks say what they measured: the machine, a table, a date."""

import datetime as dt
import json
import platform
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch_geometric
from rich.console import Console
from rich.table import Table


def machine() -> dict[str, str]:
    """What a figure was measured on, and when."""
    return {
        "date": dt.date.today().isoformat(),
        "processor": _processor(),
        "threads": str(torch.get_num_threads()),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch-geometric": torch_geometric.__version__,
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    # The kernel gives ARM processors numbers only; lscpu knows what they are called.
    if shutil.which("lscpu"):
        listed = subprocess.run(["lscpu", "--json"], capture_output=True, text=True, check=True).stdout
        names = [entry["data"] for entry in json.loads(listed)["lscpu"] if entry["field"] == "Model name:"]
        if names:
            return f"{names[0]} ({platform.machine()})"
    return platform.processor() or platform.machine()


def markdown(title: str, where: dict[str, str], note: str, lines: Sequence[dict[str, Any]]) -> str:
    """A page with one table, and what it was measured on."""
    measured = ", ".join(f"{name} {value}" for name, value in where.items())
    rows = ["| " + " | ".join(lines[0]) + " |", "| " + " | ".join("---" for _ in lines[0]) + " |"]
    rows += ["| " + " | ".join(_shown(value) for value in line.values()) + " |" for line in lines]
    return "\n".join([f"# {title}", "", f"Measured on: {measured}.", "", note, "", *rows, ""])


def _shown(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def print_table(title: str, lines: Sequence[dict[str, Any]]) -> None:
    table = Table(title=title)
    for name in lines[0]:
        table.add_column(name, justify="left" if isinstance(lines[0][name], str) else "right")
    for line in lines:
        table.add_row(*(_shown(value) for value in line.values()))
    Console().print(table)
