"""`run_over`: jobs that are each trained over several processes or devices, with the records of `run_jobs`."""

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
from esan.train.engines.fabric_engine import FabricEngine
from esan.train.runs.job import Job
from esan.train.runs.records import Record
from esan.train.runs.training_loop import run_jobs

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
    """Train jobs, each of them over several processes that share every batch and every prediction.

    With `sync_norms` (see `FabricEngine`) the records are those of one process, up to rounding and dropout. Under
    torchrun or Slurm, the processes that those started are used; else they are started here, and a script needs
    `if __name__ == "__main__":`.

    Args:
        jobs: trained one after another.
        runs: the folder of all runs, on a disk that all nodes can access.
        processes: how many on each node; with GPUs, one per GPU.
        accelerator: "cpu", "cuda", or any other of Fabric.
        nodes: how many machines.
        sync_norms: whether the statistics of batch norms are those of all processes.
        dataset: the data of all jobs, instead of what their recipes name.
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
    work = partial(
        _run_in_process, jobs=list(jobs), runs=Path(runs), sync=sync_norms, dataset=dataset, root=root, cache=cache
    )
    fabric.launch(work)
    return [Record.load(job.folder(runs) / "record.json") for job in jobs]


def _run_in_process(
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
        with _process_folder(fabric, job, runs) as folder:
            run_jobs([job], folder, dataset=dataset, root=root, cache=cache, device=fabric.device, make_engine=make)
    fabric.barrier()


@contextmanager
def _process_folder(fabric: "Fabric", job: Job, runs: Path) -> Iterator[Path]:
    """The folder of the runs for the first process; the others start from a copy of its files, which is deleted."""
    if fabric.global_rank == 0:
        fabric.barrier()
        yield runs
        return
    with tempfile.TemporaryDirectory(prefix="esan-") as scratch:
        if job.folder(runs).is_dir():
            shutil.copytree(job.folder(runs), job.folder(scratch))
        fabric.barrier()
        yield Path(scratch)
