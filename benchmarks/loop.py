"""Seconds per training epoch of a user's own loop on ZINC12k, beside PyG's: what the library gives without its trainer.

    python benchmarks/loop.py --device cuda [--loops step eager ensemble ...] [--out benchmarks/figures/loop.json]

Every loop is written as in the README: a loader, a model, a loss, torch's Adam; batches of 128, 4 layers of width 64.
"first" is the first epoch, with all that is compiled (once per machine) and captured; the other number is the median of
the epochs after the second, the device waited for at the end of each. The rival is a plain GIN of PyG with its own
loader. Data are read from $ESAN_DATA.
"""

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

import esan
from esan.data import load
from report import machine, markdown, print_table
from workloads import ATOM_TYPES, BOND_TYPES, zinc

LAYERS, WIDTH, BATCH = 4, 64, 128
NOTE = (
    "Written by `benchmarks/loop.py`. Seconds per training epoch of ZINC12k (10,000 graphs, batches of 128, 4 layers "
    "of width 64) in loops of a user's own, without the trainer; `first` is the first epoch, with everything that is "
    "compiled and captured. MiB: what torch held on the device at most."
)


def network(policy: esan.Policy, shares: bool, conv: Any = "gine") -> nn.Module:
    bonds = esan.Categories(BOND_TYPES) if conv == "gine" or callable(conv) else None
    make = esan.dss_gnn if shares else esan.ds_gnn
    return make(
        esan.Categories(ATOM_TYPES), WIDTH, LAYERS, 1, conv=conv, edge_channels=bonds, marked=policy.marked,
        readout="mean", set_encoder="mean", jk="last",
    )  # fmt: skip


@cache
def bag_of(policy: str, literal: bool | None, more: bool = False) -> esan.Bag:
    if more:
        graphs = [with_more(graph, k) for k, graph in enumerate(zinc(10_000))]
        return esan.Bag.of(graphs, policy, LAYERS, literal=literal)
    data = load("zinc")
    assert data.given is not None
    return esan.Bag.of(data.graphs[data.given.train], policy, LAYERS, literal=literal)


def with_more(graph: Data, k: int) -> Data:
    """A graph with what users keep beside features: positions, a name, an index, and a target in double precision."""
    graph.pos, graph.smiles, graph.idx = torch.randn(graph.num_nodes, 3), f"molecule {k}", k
    graph.y = graph.y.double()
    return graph


def esan_loop(
    device: torch.device, policy: str, shares: bool, conv: Any = "gine", literal: bool | None = None,
    step: bool = False, members: int = 1, hooked: bool = False, more: bool = False,
) -> Callable[[], None]:  # fmt: skip
    selected, bag = esan.policy_named(policy), bag_of(policy, literal, more)
    torch.manual_seed(0)
    models = [network(selected, shares, conv) for _ in range(members)]
    model = (models[0] if members == 1 else esan.Ensemble(models)).to(device)
    if hooked:
        for layer in models[0].encoder.layers:
            layer.inside.register_forward_hook(count_call)
            layer.shared.register_forward_hook(count_call)
    loader = esan.Loader(bag, BATCH, shuffle=True, device=device, members=members)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)

    def train(batch: esan.Bag) -> torch.Tensor:
        optimiser.zero_grad()
        loss = (model(batch).squeeze(-1) - batch.y.squeeze(-1)).abs().mean(-1).sum()
        loss.backward()
        optimiser.step()
        return loss.detach()

    run = esan.step(loader)(train) if step else train

    def epoch() -> None:
        for batch in loader:
            run(batch)

    return epoch


class GIN(nn.Module):
    """A plain GIN of PyG with bond embeddings, on the graphs alone."""

    def __init__(self) -> None:
        super().__init__()
        self.atoms, self.bonds = nn.Embedding(ATOM_TYPES, WIDTH), nn.Embedding(BOND_TYPES, WIDTH)
        mlps = [
            nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
            for _ in range(LAYERS)
        ]
        self.convs = nn.ModuleList(pyg.GINEConv(mlp, train_eps=True) for mlp in mlps)
        self.norms = nn.ModuleList(nn.BatchNorm1d(WIDTH) for _ in mlps)
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, data: Any) -> torch.Tensor:
        h, e = self.atoms(data.x.reshape(-1)), self.bonds(data.edge_attr.reshape(-1))
        for conv, norm in zip(self.convs, self.norms, strict=True):
            h = norm(conv(h, data.edge_index, e)).relu()
        return self.head(pyg.global_mean_pool(h, data.batch))


def pyg_loop(device: torch.device) -> Callable[[], None]:
    loader = DataLoader(zinc(10_000), batch_size=BATCH, shuffle=True)
    model = GIN().to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)

    def epoch() -> None:
        for batch in loader:
            batch = batch.to(device)
            optimiser.zero_grad()
            (model(batch).squeeze(-1) - batch.y.squeeze(-1)).abs().mean().backward()
            optimiser.step()

    return epoch


def gat(i: int, o: int) -> nn.Module:
    return pyg.GATConv(i, o, edge_dim=WIDTH)


class Own(pyg.MessagePassing):
    """A convolution as a user may write it, of which nothing is known but that it reads neighbours."""

    lookahead = 0

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(aggr="add")
        self.lin, self.edges = nn.Linear(in_channels, out_channels), nn.Linear(WIDTH, in_channels)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, edge_attr: torch.Tensor) -> torch.Tensor:
        return self.lin(self.propagate(edge_index, x=x, edge_attr=self.edges(edge_attr)) + x)

    def message(self, x_j: torch.Tensor, edge_attr: torch.Tensor) -> torch.Tensor:
        return (x_j + edge_attr).relu()


def own_calls_loop(device: torch.device) -> Callable[[], None]:
    """What a user's convolution takes by itself: its calls of a step, and their gradients, nothing around them."""
    bag = bag_of("EGO+(3)", None)
    model = network(esan.policy_named("EGO+(3)"), True, Own).to(device)
    loader = esan.Loader(bag, BATCH, shuffle=True, device=device)
    calls: list[tuple[nn.Module, list[Any], dict[str, Any]]] = []

    def note(conv: nn.Module, given: tuple[Any, ...], named: dict[str, Any], _: Any) -> None:
        x, *others = given
        calls.append((conv, [x.detach().requires_grad_(), *others], {k: v.detach() for k, v in named.items()}))

    hooks = [conv.register_forward_hook(note, with_kwargs=True) for conv in model.modules() if isinstance(conv, Own)]
    model(next(iter(loader)))
    for hook in hooks:
        hook.remove()

    def epoch() -> None:
        for _ in range(len(loader)):
            outs = [conv(*given, **named) for conv, given, named in calls]
            model.zero_grad()
            torch.autograd.backward(outs, outs)

    return epoch


class OwnCapturable(Own):
    """The same, declared to be replayed: its Python does not run in every step."""

    capturable = True


CALLS = [0]


def count_call(*_: Any) -> None:
    """A forward hook."""
    CALLS[0] += 1


LOOPS: dict[str, Callable[[torch.device], Callable[[], None]]] = {
    "PyG GIN": pyg_loop,
    "DSS EGO+(3), step": lambda d: esan_loop(d, "EGO+(3)", True, step=True),
    "DSS EGO+(3), eager": lambda d: esan_loop(d, "EGO+(3)", True),
    "DSS EGO+(3), more fields, step": lambda d: esan_loop(d, "EGO+(3)", True, step=True, more=True),
    "DSS EGO+(3), more fields, eager": lambda d: esan_loop(d, "EGO+(3)", True, more=True),
    "DSS EGO+(3), literal, step": lambda d: esan_loop(d, "EGO+(3)", True, literal=True, step=True),
    "DSS EGO+(3), literal, eager": lambda d: esan_loop(d, "EGO+(3)", True, literal=True),
    "DSS EGO+(3), ten networks, step": lambda d: esan_loop(d, "EGO+(3)", True, step=True, members=10),
    "DS EGO+(3), step": lambda d: esan_loop(d, "EGO+(3)", False, step=True),
    "DS EGO+(3), eager": lambda d: esan_loop(d, "EGO+(3)", False),
    "DSS ED, step": lambda d: esan_loop(d, "ED", True, step=True),
    "DSS ND, step": lambda d: esan_loop(d, "ND", True, step=True),
    "DSS ED, eager": lambda d: esan_loop(d, "ED", True),
    "DSS ND, eager": lambda d: esan_loop(d, "ND", True),
    "DSS EGO+(3), GraphConv, step": lambda d: esan_loop(d, "EGO+(3)", True, "graphconv", step=True),
    "DSS EGO+(3), GraphConv, eager": lambda d: esan_loop(d, "EGO+(3)", True, "graphconv"),
    "DSS EGO+(3), GATConv, eager": lambda d: esan_loop(d, "EGO+(3)", True, gat),
    "DSS EGO+(3), own conv, eager": lambda d: esan_loop(d, "EGO+(3)", True, Own),
    "own conv, its calls of an epoch alone": own_calls_loop,
    "DSS EGO+(3), own conv, capturable, eager": lambda d: esan_loop(d, "EGO+(3)", True, OwnCapturable),
    "DSS EGO+(3), hooks on convs, eager": lambda d: esan_loop(d, "EGO+(3)", True, hooked=True),
}


def measured(name: str, device: torch.device, epochs: int) -> dict[str, Any]:
    if device.type == "cuda":
        # What earlier loops have captured lives in cycles.
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    epoch = LOOPS[name](device)
    times = []
    for _ in range(epochs + 2):
        start = time.perf_counter()
        epoch()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else float("nan")
    return {"loop": name, "s per epoch": statistics.median(times[2:]), "first, s": times[0], "MiB": peak}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--loops", nargs="*", default=list(LOOPS), help="names, or beginnings of them")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "figures" / "loop.json")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    rows = []
    for name in LOOPS:
        if any(name.startswith(asked) for asked in arguments.loops):
            rows.append(measured(name, device, arguments.epochs))
            print(json.dumps(rows[-1]), flush=True)
            write(rows, machine(), arguments.out)
    print_table("A training epoch in a user's own loop", rows)


def write(rows: list[dict[str, Any]], measured_on: dict[str, str], out: Path) -> None:
    """What was measured so far."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"machine": measured_on, "rows": rows}, indent=1) + "\n")
    out.with_suffix(".md").write_text(markdown("A user's own loop", measured_on, NOTE, rows))


if __name__ == "__main__":
    main()
