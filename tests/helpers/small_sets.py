"""Small sets that tests of training share, a recipe for them, and where the benchmark sets are found."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from esan import data
from esan.data import Dataset, Split
from esan.graphs import cycle, disjoint_union, path, star
from esan.train import Recipe

ROOT = Path(os.environ.get("ESAN_DATA") or Path(__file__).parents[3] / "shared" / "data")


def needs(*paths: str) -> pytest.MarkDecorator:
    """Skips a test where one of the files or folders below the root is not there."""
    missing = [path for path in paths if not (ROOT / path).exists()]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} is not in {ROOT}: set $ESAN_DATA")


def graphs(count: int = 24) -> list[Data]:
    """Paths, stars, cycles and pairs of cycles in turn, of growing size, with two kinds of nodes."""
    made = []
    for i in range(count):
        n = 4 + i // 4
        kinds = [path(n), star(n - 1), cycle(n), disjoint_union(cycle(3), cycle(n))]
        graph = kinds[i % 4]
        graph.x = (torch.arange(graph.num_nodes) % 2)[:, None]
        made.append(graph)
    return made


def small(kind: str = "classification", count: int = 24) -> Dataset:
    """Whether there is a cycle; how many edges there are; or both as labels, some of them missing."""
    made = graphs(count)
    cyclic = torch.arange(count) % 4 > 1
    size = torch.tensor([float(graph.num_edges) for graph in made])
    if kind == "classification":
        y = cyclic.long()
    elif kind == "regression":
        y = 10 + size[:, None]
    else:
        y = torch.stack([cyclic.float(), (size > 16).float()], 1)
        y[::5, 0] = torch.nan
    ids = torch.arange(count)
    split = Split(ids[ids % 3 == 0], ids[ids % 3 == 1], ids[ids % 3 == 2])
    return data.own(made, labels=y, task=kind, given=split, name=f"small-{kind}")


def quick(**changes: Any) -> Recipe:
    """A recipe that trains in a moment."""
    small_net = {"num_layers": 2, "hidden_channels": 8, "set_channels": 8, "batch_size": 4, "epochs": 4, "lr": 0.01}
    first: dict[str, Any] = {"data": "small", "name": "small/quick", "policy": "ND", "votes": 2}
    return Recipe(**first | small_net | changes)
