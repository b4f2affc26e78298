"""`make demo`: three networks learn to tell circulant graphs apart; two of them see subgraphs, and only they succeed.

The ten graphs CSL(41, R) all have 41 nodes of degree 4, so that a plain message-passing network gives every one of them
the same answer. Each comes in 15 random numberings of its nodes (the CSL benchmark). A network is trained on 12 of
them and tested on the other 3, once, after the last epoch.
"""

import argparse
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
from matplotlib.figure import Figure
from matplotlib.image import imread
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data

import esan

NODES, SKIPS, COPIES, FOLDS = 41, (2, 3, 4, 5, 6, 9, 11, 12, 13, 16), 15, 5
LAYERS, WIDTH, RATE = 4, 32, 0.01


@dataclass
class Run:
    """What became of a network."""

    name: str
    policy: esan.Policy
    bag: esan.Bag
    accuracy: float = 0.0
    seconds: float = 0.0
    curve: list[float] = field(default_factory=list)


def csl(generator: torch.Generator) -> list[Data]:
    """150 graphs of 10 classes. The classes take turns, so that any ten graphs in a row hold each of them once."""
    data = []
    for _ in range(COPIES):
        for label, skip in enumerate(SKIPS):
            graph = esan.graphs.permuted(esan.graphs.csl(NODES, skip), generator)
            graph.y = torch.tensor([label])
            data.append(graph)
    return data


def accuracy(model: torch.nn.Module, bag: esan.Bag) -> float:
    model.eval()
    with torch.no_grad():
        return float((model(bag).argmax(1) == bag.y).float().mean())


def train(run: Run, model: torch.nn.Module, epochs: int, fold: int, progress: Progress) -> None:
    copy = torch.arange(len(run.bag)) // len(SKIPS)
    training, held_out = run.bag[copy % FOLDS != fold], run.bag[copy % FOLDS == fold]
    loader = esan.Loader(training, batch_size=2 * len(SKIPS))
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.StepLR(optimiser, step_size=max(epochs // 8, 1), gamma=0.5)
    task = progress.add_task(run.name, total=epochs, loss=float("nan"), accuracy=float("nan"))
    start = time.perf_counter()
    for _ in range(epochs):
        model.train()
        for bag in loader:
            optimiser.zero_grad()
            loss = cross_entropy(model(bag), bag.y)
            loss.backward()
            optimiser.step()
        schedule.step()
        run.curve.append(accuracy(model, held_out))
        progress.update(task, advance=1, loss=loss.item(), accuracy=100 * run.curve[-1])
    run.accuracy, run.seconds = run.curve[-1], time.perf_counter() - start


def show(runs: list[Run], console: Console) -> None:
    table = Table(title=f"CSL: {len(SKIPS)} classes of {NODES} nodes, held-out graphs")
    for heading in ("network", "policy", "subgraphs a graph", "pairs", "rows in layers 1 … 4", "accuracy", "seconds"):
        table.add_column(heading, justify="left" if heading in ("network", "policy") else "right")
    for run in runs:
        rows = " ".join(f"{run.bag.stage(t).num_rows:,}" for t in range(1, LAYERS + 1))
        m = run.bag.num_subgraphs // run.bag.num_graphs
        result = f"{100 * run.accuracy:.1f} %"
        table.add_row(run.name, repr(run.policy), str(m), f"{run.bag.num_pairs:,}", rows, result, f"{run.seconds:.0f}")
    console.print(table)


def grow(sizes: tuple[int, ...]) -> list[esan.Bag]:
    """Larger and larger graphs of the same kind; their bags are compact, the literal ones would have a row a pair."""
    return [esan.Bag.of(esan.graphs.csl(n, 9), esan.NodeDeletion(), LAYERS) for n in sizes]


def largest_difference(data: list[Data]) -> float:
    """Between the predictions on the literal and on the compact bag, in double precision."""
    model = esan.dss_gnn(None, WIDTH, LAYERS, len(SKIPS)).double()
    compact = esan.Bag.of(data, esan.NodeDeletion(), LAYERS)
    return float((model(compact) - model(compact.to_literal())).abs().max())


def picture(runs: list[Run], larger: list[esan.Bag], folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    esan.Bag.of(esan.graphs.csl(NODES, 9), esan.NodeDeletion(), LAYERS).draw(most=5, path=folder / "bag.png")
    figure = Figure(figsize=(11, 6.4), layout="constrained")
    axes = figure.subplot_mosaic([["curves", "sizes"], ["bag", "bag"]], height_ratios=[1.45, 1])
    curves, sizes, bag = axes["curves"], axes["sizes"], axes["bag"]
    for run, colour in zip(runs, ("#8a94a3", "#2a78b5", "#e4572e"), strict=True):
        epochs = range(1, len(run.curve) + 1)
        curves.plot(epochs, [100 * value for value in run.curve], color=colour, label=run.name, linewidth=2)
    curves.set(
        xlabel="epoch", ylabel="held-out graphs told apart, %", ylim=(0, 105), title="Only subgraphs tell them apart"
    )
    nodes = [int(one.graphs.num_nodes) for one in larger]
    sizes.loglog(nodes, [one.num_pairs for one in larger], "o--", color="#8a94a3", label="pairs: rows of a literal bag")
    sizes.loglog(nodes, [one.num_rows for one in larger], "o-", color="#e4572e", label="rows of the compact bag")
    sizes.set(xlabel="nodes of CSL(n, 9)", ylabel="stored", title="Same answer, linear in n")
    for panel in (curves, sizes):
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(color="#eceff3")
        panel.legend(frameon=False)
    bag.imshow(imread(folder / "bag.png"))
    bag.set_axis_off()
    figure.savefig(folder / "demo.png", dpi=150)
    return folder / "demo.png"


def main(epochs: int, seed: int, fold: int, folder: Path) -> list[Run]:
    console = Console()
    data = csl(torch.Generator().manual_seed(seed))
    whole, policy = esan.Whole(), esan.NodeDeletion()
    bag = esan.Bag.of(data, policy, LAYERS)
    plans = [
        (Run("plain GIN", whole, esan.Bag.of(data, whole, LAYERS)), esan.ds_gnn),
        (Run("DS-GNN (GIN)", policy, bag), esan.ds_gnn),
        (Run("DSS-GNN (GIN)", policy, bag), esan.dss_gnn),
    ]
    columns = ("{task.description:>14}", "loss {task.fields[loss]:.3f}", "accuracy {task.fields[accuracy]:5.1f} %")
    with Progress(*map(TextColumn, columns), BarColumn(), TimeRemainingColumn(), console=console) as progress:
        for run, build in plans:
            torch.manual_seed(seed)
            train(run, build(None, WIDTH, LAYERS, len(SKIPS)), epochs, fold, progress)
    runs = [run for run, _ in plans]
    show(runs, console)
    larger = grow((41, 100, 300, 1000, 3000))
    last = larger[-1]
    console.print(f"CSL({int(last.graphs.num_nodes)}, 9): {last.num_pairs:,} pairs in {last.num_rows:,} rows.")
    console.print(f"Literal and compact bags: predictions differ by {largest_difference(data[:10]):.0e} at most.")
    console.print(f"Picture: {picture(runs, larger, folder)}")
    return runs


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fold", type=int, default=0, choices=range(FOLDS))
    parser.add_argument("--folder", type=Path, default=Path("demo"))
    given = parser.parse_args()
    main(given.epochs, given.seed, given.fold, given.folder)
