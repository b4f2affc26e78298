"""`run_over`: jobs trained each over several processes or devices, with the records and files of `run_jobs`."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from esan.checks import whole_number
from esan.data import Dataset
from esan.train.engines.fabric import FabricEngine
from esan.train.runs.job import Job
from esan.train.runs.loop import run_jobs
from esan.train.runs.records import Record

if TYPE_CHECKING:
    from lightning.fabric import Fabric


def run_over(
    jobs: Sequence[Job],
    runs: str | Path,
    *,
    processes: int = 2,
    accelerator: str = "cpu",
    nodes: int = 1,
    sync_norms: bool = True,
    dataset: Dataset | None = None,
    root: str | Path | None = None,
    cache: str | Path | None = None,
) -> list[Record]:
    """Train jobs, each of them split among processes: every batch, and every set that is predicted.

    With `sync_norms` (see `FabricEngine`) the records are those of one process, up to rounding and dropout. Under
    torchrun or Slurm, the processes that those started are used; else they are started here, and a script needs
    `if __name__ == "__main__":`.

    Args:
        jobs: what is trained, one after another.
        runs: the folder of all runs, on a disk that all nodes see.
        processes: how many on each node; with GPUs, one a GPU.
        accelerator: "cpu", "cuda", or what else Fabric knows.
        nodes: how many machines.
        sync_norms: whether batch norms see all processes.
        dataset: the data of all jobs, in place of what their recipes name.
        root: the folder of the data.
        cache: the folder of cached bags.
    """
    try:
        from lightning.fabric import Fabric
    except ImportError:
        raise ValueError("Expected Lightning (got none installed). Run: pip install 'esan[fabric]'.") from None
    whole_number("processes", processes, 1, "Pass e.g. processes=2.")
    strategy = "ddp" if "RANK" in os.environ or "SLURM_NTASKS" in os.environ else "ddp_spawn"
    fabric = Fabric(accelerator=accelerator, devices=processes, num_nodes=nodes, strategy=strategy)
    work = partial(_in_each, jobs=list(jobs), runs=Path(runs), sync=sync_norms, dataset=dataset, root=root, cache=cache)
    fabric.launch(work)
    return [Record.load(job.folder(runs) / "record.json") for job in jobs]


def _in_each(
    fabric: "Fabric",
    jobs: list[Job],
    runs: Path,
    sync: bool,
    dataset: Dataset | None,
    root: str | Path | None,
    cache: str | Path | None,
) -> None:
    make = partial(FabricEngine, fabric, sync_norms=sync)
    for job in jobs:
        with _own_folder(fabric, job, runs) as folder:
            run_jobs([job], folder, dataset=dataset, root=root, cache=cache, device=fabric.device, make_engine=make)
    fabric.barrier()


@contextmanager
def _own_folder(fabric: "Fabric", job: Job, runs: Path) -> Iterator[Path]:
    """The folder of the runs for the first process; the others start from the same files and throw theirs away."""
    if fabric.global_rank == 0:
        fabric.barrier()
        yield runs
        return
    with tempfile.TemporaryDirectory(prefix="esan-") as scratch:
        if job.folder(runs).is_dir():
            shutil.copytree(job.folder(runs), job.folder(scratch))
        fabric.barrier()
        yield Path(scratch)
