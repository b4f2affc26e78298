"""What ensembles are tried on: networks of one kind, a bag of paths and cycles, and the graphs to train on."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

import esan
import strategies
from esan.train.engines.engine import Engine
from esan.train.engines.engine_factory import EngineFactory
from esan.train.engines.objective import Objective


@dataclass(frozen=True, eq=False)
class Trial:
    """Networks of one kind, for a bag, and what they are trained on.

    Attributes:
        bag: of all graphs, with targets, on the host.
        build: makes a network; torch's generator draws its weights.
        batch_size: graphs per step.
        train: the graphs that networks are trained on.
        valid: the graphs that they predict.
        device: where they are trained.
        objective: the loss.
        rate: the learning rate of the first network; the next has twice that, and so on.
    """

    bag: esan.Bag
    build: Callable[[], esan.nn.SubgraphGNN]
    batch_size: int
    train: Tensor
    valid: Tensor
    device: torch.device
    objective: Objective = field(default_factory=lambda: Objective("regression"))
    rate: float = 1e-3

    def engines(self, seeds: list[int], make: Callable[..., Engine] | None = None) -> list[Engine]:
        """One engine per seed; all of them in one ensemble, unless `make` makes others."""
        make = EngineFactory() if make is None else make
        found = []
        for seed in seeds:
            torch.manual_seed(seed)
            built, generator = self.build().to(self.device), torch.Generator().manual_seed(seed)
            found.append(make(built, self.bag, self.objective, self.lr(seed), self.batch_size, generator))
        return found

    def lr(self, seed: int) -> float:
        return self.rate * (1 + seed)

    def order(self, seed: int, epoch: int, ids: Tensor | None = None) -> Tensor:
        """The graphs of an epoch, in an order of its own."""
        ids = self.train if ids is None else ids
        return ids[torch.randperm(len(ids), generator=torch.Generator().manual_seed(100 * seed + epoch))]


def trial(device: torch.device | str, *, sampled: float | None = None, dropout: float = 0.0) -> Trial:
    """Fifty paths and cycles, and a DSS network of three layers on GINE."""
    policy = sampled_or_whole(esan.EdgeDeletion(), sampled)
    options = {"conv": "gine", "edge_channels": esan.Categories(strategies.BONDS), "dropout": dropout}
    return trial_of(device, policy, paths_and_cycles(50, 12), 8, lambda: network(esan.dss_gnn, 32, 3, **options))


def small_trial(device: torch.device | str, *, sampled: float | None = None, dropout: float = 0.0) -> Trial:
    """Five small graphs, two to train on, and a DS network of one layer on GIN, for where kernels are interpreted."""
    policy = sampled_or_whole(esan.NodeDeletion(), sampled)
    options = {"set_encoder": "mean", "dropout": dropout}
    return trial_of(device, policy, paths_and_cycles(5, 4), 2, lambda: network(esan.ds_gnn, 3, 1, **options), 3)


def sampled_or_whole(policy: esan.Policy, fraction: float | None) -> esan.Policy:
    """A sample of the policy, or for None the policy itself."""
    return policy if fraction is None else esan.Sampled(policy, fraction)


def network(build: Callable[..., esan.nn.SubgraphGNN], width: int, layers: int, **options: Any) -> esan.nn.SubgraphGNN:
    return build(esan.Categories(strategies.ATOMS), width, layers, 1, **options)


def paths_and_cycles(count: int, largest: int) -> list[Data]:
    """Paths, and cycles in between, of 2 to `largest` nodes, with targets."""
    made = []
    for i in range(count):
        n = 2 + i % (largest - 1)
        graph = strategies.from_edges(n, [(v, v + 1) for v in range(n - 1)] + ([(0, n - 1)] if n % 3 == 0 else []), i)
        graph.y = torch.tensor([[n / 10 + i % 3]])
        made.append(graph)
    return made


def trial_of(
    device: torch.device | str,
    policy: esan.Policy,
    graphs: list[Data],
    batch_size: int,
    build: Callable[[], esan.nn.SubgraphGNN],
    held: int = 13,
) -> Trial:
    layers = build().num_layers
    bag = esan.Bag.of(graphs, policy, layers, generator=torch.Generator().manual_seed(0))
    ids = torch.randperm(len(graphs), generator=torch.Generator().manual_seed(0))
    return Trial(bag, build, batch_size, ids[held:], ids[:held], torch.device(device))
