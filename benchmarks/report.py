"""How benchmarks say what they measured: the machine, a table, a date."""

import datetime as dt
import platform
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
    return platform.processor()


def print_table(title: str, lines: Sequence[dict[str, Any]]) -> None:
    table = Table(title=title)
    for name in lines[0]:
        table.add_column(name, justify="left" if isinstance(lines[0][name], str) else "right")
    for line in lines:
        table.add_row(*(f"{value:.3g}" if isinstance(value, float) else f"{value}" for value in line.values()))
    Console().print(table)
