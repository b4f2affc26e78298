"""A small set on disk and recipes for it, for tests of campaigns; importable by the processes that they start."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path

from esan.graphs import csl, cycle
from esan.train.campaigns.campaign import TrainGroup
from esan.train.recipes.recipe import Recipe
from esan.train.runs.job import Job
from esan.train.runs.records import Epoch, Record
from esan.train.runs.run import Run

GRAPHS = 16


def write_set(folder: Path) -> Path:
    """Cycles and circular skip links as a folder of TU text files."""
    place = folder / "SMALL"
    place.mkdir(parents=True)
    edges, graph_of, first = [], [], 1
    for i in range(GRAPHS):
        graph = csl(7 + i // 4, 2) if i % 2 else cycle(6 + i // 4)
        edges += [f"{a + first}, {b + first}" for a, b in graph.edge_index.t().tolist()]
        graph_of += [str(i + 1)] * graph.num_nodes
        first += graph.num_nodes
    (place / "SMALL_A.txt").write_text("\n".join(edges) + "\n")
    (place / "SMALL_graph_indicator.txt").write_text("\n".join(graph_of) + "\n")
    (place / "SMALL_graph_labels.txt").write_text("\n".join(str(i % 2) for i in range(GRAPHS)) + "\n")
    return place


def recipe(place: Path, name: str = "small/ds", **changes: object) -> Recipe:
    common = {
        "model": "ds",
        "conv": "gin",
        "policy": "ED",
        "num_layers": 2,
        "hidden_channels": 4,
        "set_channels": 4,
        "epochs": 3,
    }
    protocol = {"batch_size": 4, "split": "folds", "folds": 2, "select": "mean-valid", "lr": 0.01, "seeds": 2}
    return Recipe(data=str(place), name=name, **{**common, **protocol, **changes})  # type: ignore[arg-type]


class Deadly:
    """The work of a campaign, in a process that dies the first time, once a job has ended well."""

    def __init__(self, work: TrainGroup, mark: str) -> None:
        self.work, self.mark = work, Path(mark)

    def __call__(self, jobs: Sequence[Job]) -> None:
        self.work(jobs[:1])
        if not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        self.work(jobs)


class InterruptedTrainingError(Exception):
    pass


class Interrupting:
    """A logger that ends a training after some epochs, as a crash would."""

    def __init__(self, after: int) -> None:
        self.after = after

    def on_start(self, runs: list[Run]) -> None:
        pass

    def on_epoch(self, run: Run, epoch: Epoch) -> None:
        if epoch.epoch == self.after:
            raise InterruptedTrainingError

    def on_finish(self, run: Run, record: Record) -> None:
        pass

    def close(self) -> None:
        pass


def fingerprints(runs: Path) -> dict[str, int]:
    """When each record was last written, to see that it was written once."""
    return {str(path.relative_to(runs)): path.stat().st_mtime_ns for path in sorted(runs.rglob("record.json"))}
