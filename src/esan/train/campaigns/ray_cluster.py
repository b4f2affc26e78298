"""`RayCluster`: the executor that runs tasks on a Ray cluster of one or many machines (the extra `cluster`)."""

import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from esan.checks import real_number, shown, text_value, whole_number
from esan.train.campaigns.executors import MOST_WORKERS, Failure, Item, TaskResult, run_task

#: Seconds to wait for a running cluster.
TIMEOUT = 20.0


class RayCluster:
    """Items as Ray tasks; a task whose worker or machine is gone is started again elsewhere.

    Runs and data must be on disks that all machines access under the same path, and esan installed on all of them. Jobs
    write their own records; Ray only reports the end of a task. So losing a machine loses no finished record, and a
    task that is started twice writes one record.

    Args:
        address: of a running cluster ("auto" for the one of this machine); None to start one here.
        cpus: processors per task.
        gpus: GPUs per task; with a fraction, several tasks share one.
        retries: how often a task is started again when its worker or machine has died.
        options: other arguments of `ray.init`.
        timeout: seconds to wait for a running cluster; Ray itself waits for many minutes.
    """

    def __init__(
        self,
        address: str | None = None,
        cpus: int = 1,
        gpus: float = 0,
        retries: int = 3,
        options: dict[str, Any] | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        remedy = 'Pass e.g. "10.0.0.1:6379", "auto" for the cluster of this machine, or leave it out to start one.'
        self.address = None if address is None else text_value("address", address, remedy)
        if address is not None and not address.strip():
            raise ValueError(f"Expected the address of a Ray cluster (got {address!r}). {remedy}")
        self.gpus, self.options = real_number("gpus", gpus, "Leave it out for 0."), options or {}
        self.timeout = real_number("timeout", timeout, "Pass seconds, e.g. 20.")
        if not 0 <= self.gpus < 1e6:
            raise ValueError(f"Expected gpus of 0 or more (got {gpus}). Leave it out for 0.")
        if not 0 < self.timeout < 1e6:
            raise ValueError(f"Expected a timeout above 0 seconds (got {timeout}). Pass e.g. 20.")
        self.cpus = whole_number("cpus", cpus, 1, "Pass e.g. cpus=1.", MOST_WORKERS)
        self.retries = whole_number("retries", retries, 0, "Leave it out for 3.", 1000)

    def map(self, work: Callable[[Item], object], items: Sequence[Item]) -> Iterator[TaskResult]:
        ray = _ray()
        ours = not ray.is_initialized()
        if ours:
            self._start(ray)
        try:
            # Ray repeats a task when its process dies; an exception of the task is its result.
            task = ray.remote(num_cpus=self.cpus, num_gpus=self.gpus, max_retries=self.retries)(run_task)
            running = {task.remote(work, item): index for index, item in enumerate(items)}
            while running:
                (ended, *_), _ = ray.wait(list(running), num_returns=1)
                yield TaskResult(running.pop(ended), _result(ray, ended))
        finally:
            if ours:
                ray.shutdown()

    def _start(self, ray: Any) -> None:
        address = _parse_address(self.address)
        if address is not None and not (_listens(address, self.timeout) and _is_ray(address, self.timeout)):
            raise ValueError(
                f"Expected a Ray cluster at {address} (got no answer within {self.timeout:g} s). Check the "
                "address, start the cluster with ray start --head, or leave the address out to start one here."
            )
        try:
            ray.init(**{"address": self.address, "include_dashboard": None, "log_to_driver": False} | self.options)
        except (OSError, RuntimeError, ValueError, TypeError) as error:
            words = " ".join(str(error).split())
            raise ValueError(
                f"Expected a Ray cluster at {self.address or 'this machine'} (got {type(error).__name__}: "
                f"{words[:200]}). Check the address, or leave it out to start one here."
            ) from error

    def __repr__(self) -> str:
        return f"RayCluster(address={self.address!r}, cpus={self.cpus}, gpus={self.gpus})"


@dataclass(frozen=True)
class _Address:
    """Host and port of a cluster; `client` for its server of remote drivers (ray://)."""

    host: str
    port: int
    client: bool

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _parse_address(address: str | None) -> _Address | None:
    """The host and port that Ray would connect to; None where it starts a cluster, or finds one by itself."""
    # None too: Ray takes the address of its environment then.
    address = os.environ.get("RAY_ADDRESS", address) if address in (None, "auto") else address
    if address == "auto":
        # Where Ray stores the address of the last cluster of this machine, running or not.
        file = Path(os.environ.get("RAY_TMPDIR", tempfile.gettempdir()), "ray", "ray_current_cluster")
        try:
            address = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            address = None  # no cluster, which Ray says at once
    if not address or address == "local" or ("://" in address and not address.startswith("ray://")):
        return None
    client = address.startswith("ray://")
    host = r"\[(?P<six>[^\[\]/\s]+)\]|(?P<host>[^\[\]:/\s]+)"
    match = re.fullmatch(rf"({host})(:(?P<port>\d{{1,5}}))?", address.removeprefix("ray://"))
    port = None if match is None else match["port"] or ("10001" if client else None)
    if match is None or port is None or not 0 < int(port) < 2**16:
        raise ValueError(
            f'Expected the address of a Ray cluster as host:port, ray://host:port or "auto" (got {shown(address)}). '
            "Take the one that ray start --head shows."
        )
    return _Address(match["six"] or match["host"], int(port), client)


def _listens(address: _Address, timeout: float) -> bool:
    """Whether a server accepts connections at this address."""
    try:
        socket.create_connection((address.host, address.port), timeout).close()
    except (OSError, UnicodeError):
        return False
    return True


def _is_ray(address: _Address, timeout: float) -> bool:
    """Whether it is a Ray cluster, by Ray's own check in a process that can be stopped."""
    if address.client:
        return True  # a remote driver times out by itself, within half a minute
    command = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", str(address)]
    try:
        # Importing Ray takes some seconds too.
        return subprocess.run(command, capture_output=True, timeout=timeout + 5).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def _result(ray: Any, ended: Any) -> Failure | None:
    try:
        return ray.get(ended)
    except ray.exceptions.RayError as error:
        return Failure(f"Expected the Ray task to finish (got {type(error).__name__}). {error}")


def _ray() -> Any:
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise ValueError("Expected Ray (got none installed). Run: pip install 'esan[cluster]'.") from None
    return ray
