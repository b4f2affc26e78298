"""What commands that run many jobs have in common: the executor by its name, and how the outcome is told."""

from collections.abc import Mapping

import typer
from rich.console import Console
from rich.text import Text

from esan.commands.plainly import console
from esan.train.executors import Executor, Failure, Processes, Serial
from esan.train.ray_executor import RayCluster

EXECUTORS = ("serial", "processes", "ray")


def executor_named(name: str, workers: int | None, device: str, address: str | None = None) -> Executor:
    """The executor of a command line.

    Args:
        name: from `EXECUTORS`.
        workers: of "processes", how many; None for one a processor.
        device: where jobs train: with "ray", a GPU each if it is "cuda".
        address: of a Ray cluster; None to start one here.
    """
    if name not in EXECUTORS:
        raise ValueError(f"Expected an executor among {', '.join(EXECUTORS)} (got {name!r}).")
    if name == "processes":
        return Processes(workers)
    if workers is not None:
        raise ValueError(f"Expected --workers with --executor processes alone (got {name!r}). Leave it out.")
    return Serial() if name == "serial" else RayCluster(address, gpus=1 if device.startswith("cuda") else 0)


def tell(failures: Mapping[str, Failure]) -> None:
    """Name what failed and why, each reason once, and end with exit code 1; nothing if nothing did."""
    if not failures:
        return
    reasons: dict[str, list[str]] = {}
    for name, failure in failures.items():
        reasons.setdefault(failure.reason, []).append(name)
    errors = Console(stderr=True)
    for reason, names in reasons.items():
        few = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        errors.print(Text(f"{few}: {reason}"), style="red", soft_wrap=True)
    console.print(Text(f"{len(failures)} runs have no record. The same command tries them again."), style="bold")
    raise typer.Exit(1)
