"""`RayCluster`: the pieces of a campaign as tasks of a Ray cluster, on one machine or many; the extra `cluster`."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from esan.checks import whole_number
from esan.train.executors import Done, Failure, Item, tried


class RayCluster:
    """Items as Ray tasks; a task whose worker or machine is gone is started again elsewhere.

    Run folder and data must be on disks that all machines see under one path, and esan installed on all of them.
    Nothing but the news that an item has ended travels through Ray: records are written by the jobs themselves, so
    that losing a machine loses no finished record, and a task started twice writes one record.

    Args:
        address: of a running cluster ("auto" for the one of this machine); None to start one here.
        cpus: how many processors a task takes.
        gpus: how many GPUs a task takes; a fraction lets several share one.
        retries: how often a task is started again when its worker or machine has died.
        options: anything else for `ray.init`.
    """

    def __init__(
        self,
        address: str | None = None,
        cpus: int = 1,
        gpus: float = 0,
        retries: int = 3,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.address, self.gpus, self.options = address, gpus, options or {}
        self.cpus = whole_number("cpus", cpus, 1, "Pass e.g. cpus=1.")
        self.retries = whole_number("retries", retries, 0, "Leave it out for 3.")

    def map(self, work: Callable[[Item], object], items: Sequence[Item]) -> Iterator[Done]:
        ray = _ray()
        ours = not ray.is_initialized()
        if ours:
            ray.init(address=self.address, include_dashboard=None, log_to_driver=False, **self.options)
        try:
            # Exceptions of the work are its answer and not retried; what Ray retries is death.
            task = ray.remote(num_cpus=self.cpus, num_gpus=self.gpus, max_retries=self.retries)(tried)
            running = {task.remote(work, item): index for index, item in enumerate(items)}
            while running:
                (ended, *_), _ = ray.wait(list(running), num_returns=1)
                yield Done(running.pop(ended), _answer(ray, ended))
        finally:
            if ours:
                ray.shutdown()

    def __repr__(self) -> str:
        return f"RayCluster(address={self.address!r}, cpus={self.cpus}, gpus={self.gpus})"


def _answer(ray: Any, ended: Any) -> Failure | None:
    try:
        return ray.get(ended)
    except ray.exceptions.RayError as error:
        return Failure(f"Expected a Ray task that lives to its end (got {type(error).__name__}). {error}")


def _ray() -> Any:
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise ValueError("Expected Ray (got none installed). Run: pip install 'esan[cluster]'.") from None
    return ray
