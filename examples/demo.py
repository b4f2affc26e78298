"""`make demo`: three networks learn to tell circulant graphs apart; two of them see subgraphs, and only they succeed.

The ten graphs CSL(41, R) all have 41 nodes of degree 4, so that a plain message-passing network gives every one of them
the same answer. Each comes in 15 random numberings of its nodes (the CSL benchmark). In each of five folds a network
is trained on 12 of the 15 and tested on the other 3; what counts is its accuracy after the last epoch.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from matplotlib.figure import Figure
from matplotlib.image import imread
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from torch.nn.functional import cross_entropy
from torch.optim.swa_utils import update_bn
from torch_geometric.data import Data

import esan

NODES, SKIPS, COPIES, FOLDS = 41, (2, 3, 4, 5, 6, 9, 11, 12, 13, 16), 15, 5
LAYERS, WIDTH, RATE = 4, 32, 0.01
LARGER = (41, 100, 300, 1000, 3000)


@dataclass
class Run:
    """A network, and its accuracy on the held-out graphs of each fold: untrained, and after each epoch."""

    name: str
    build: Callable[..., torch.nn.Module]
    policy_name: str
    bag: esan.Bag
    folds: list[list[float]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def curve(self) -> list[float]:
        """The mean over the folds, epoch by epoch."""
        return [100 * sum(epoch) / len(epoch) for epoch in zip(*self.folds, strict=True)]


def csl(generator: torch.Generator) -> list[Data]:
    """150 graphs of 10 classes; the first 10 are the first copies of all, and so on."""
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


def train(run: Run, fold: int, epochs: int, seed: int, progress: Progress, task: TaskID) -> None:
    """Train on four fifths of the copies of each class, and note the accuracy on the last fifth after each epoch."""
    copy = torch.arange(len(run.bag)) // len(SKIPS)
    training, held_out = run.bag[copy % FOLDS != fold], run.bag[copy % FOLDS == fold]
    torch.manual_seed(seed + fold)
    model = run.build(None, WIDTH, LAYERS, len(SKIPS), marked=run.bag.marked, jk="cat")
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)
    loader = esan.Loader(training, batch_size=len(SKIPS))  # in the order of `csl`: every class once in each batch
    run.folds.append([accuracy(model, held_out)])
    for _ in range(epochs):
        model.train()
        for bag in loader:
            optimiser.zero_grad()
            loss = cross_entropy(model(bag), bag.y)
            loss.backward()
            optimiser.step()
        schedule.step()
        # The nodes of these graphs look so much alike that the running averages of batch norm, which lag behind the
        # weights, would drown what tells the graphs apart. Recompute them from the training graphs.
        update_bn(loader, model)
        run.folds[-1].append(accuracy(model, held_out))
        progress.update(task, advance=1, fold=fold + 1, loss=loss.item(), accuracy=100 * run.folds[-1][-1])


def warm_up(runs: list[Run]) -> None:
    """A step of each network on a few graphs: what is compiled and imported at the first one is in no one's time."""
    with Progress(disable=True) as progress:
        task = progress.add_task("")
        for run in runs:
            few = replace(run, bag=run.bag[: 2 * len(SKIPS)], folds=[])
            train(few, fold=0, epochs=1, seed=0, progress=progress, task=task)


def show(runs: list[Run], console: Console) -> None:
    table = Table(title=f"CSL: {len(SKIPS)} classes, {len(runs[0].bag)} graphs of {NODES} nodes; {FOLDS} folds")
    for heading in ("network", "policy", "subgraphs", "pairs", "rows", "accuracy", "seconds"):
        table.add_column(heading, justify="left" if heading in ("network", "policy") else "right")
    for run in runs:
        sizes = (run.bag.num_subgraphs, run.bag.num_pairs, run.bag.num_rows)
        result = (f"{run.curve[-1]:.1f} %", f"{run.seconds:.0f}")
        table.add_row(run.name, run.policy_name, *(f"{size:,}" for size in sizes), *result)
    console.print(table)


def largest_difference(data: list[Data], policy: esan.Policy) -> float:
    """Between the predictions on the literal and on the compact bag, in double precision."""
    model = esan.dss_gnn(None, WIDTH, LAYERS, len(SKIPS), marked=policy.marked).double()
    compact = esan.Bag.of(data, policy, LAYERS)
    with torch.no_grad():
        return float((model(compact) - model(compact.to_literal())).abs().max())


def picture(runs: list[Run], larger: list[esan.Bag], folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    esan.Bag.of(esan.graphs.csl(41, 13), esan.EgoNets(hops=2, marked=True), LAYERS).draw(
        most=5, path=folder / "bag.png"
    )
    figure = Figure(figsize=(11, 6.4), layout="constrained")
    axes = figure.subplot_mosaic([["curves", "sizes"], ["bag", "bag"]], height_ratios=[1.45, 1])
    curves, sizes, bag = axes["curves"], axes["sizes"], axes["bag"]
    for run, colour in zip(runs, ("#8a94a3", "#2a78b5", "#e4572e"), strict=True):
        curves.plot(run.curve, "o-", color=colour, label=run.name, linewidth=2)
    curves.set(
        xlabel="epoch",
        ylabel="held-out graphs classified right, %",
        ylim=(0, 105),
        title="Only subgraphs tell them apart",
    )
    nodes = [int(one.graphs.num_nodes) for one in larger]
    sizes.loglog(nodes, [one.num_pairs for one in larger], "o--", color="#8a94a3", label="pairs: rows of a literal bag")
    sizes.loglog(nodes, [one.num_rows for one in larger], "o-", color="#e4572e", label="rows of the compact bag")
    sizes.set(xlabel="nodes of CSL(n, 3)", ylabel="stored", title="Same answer, linear in n")
    for panel in (curves, sizes):
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(color="#eceff3")
        panel.legend(frameon=False)
    bag.imshow(imread(folder / "bag.png"))
    bag.set_title("Some subgraphs of CSL(41, 13), with 2 hops in place of 4: fewer edges to draw")
    bag.set_axis_off()
    figure.savefig(folder / "demo.png", dpi=150)
    return folder / "demo.png"


def main(epochs: int, seed: int, folder: Path) -> list[Run]:
    console = Console()
    data = csl(torch.Generator().manual_seed(seed))
    policy = esan.EgoNets(hops=4, marked=True)
    bag = esan.Bag.of(data, policy, LAYERS)
    runs = [
        Run("plain GIN", esan.ds_gnn, "identity", esan.Bag.of(data, esan.Whole(), LAYERS)),
        Run("DS-GNN", esan.ds_gnn, "EGO+(4)", bag),
        Run("DSS-GNN", esan.dss_gnn, "EGO+(4)", bag),
    ]
    with console.status("The first time, loops are compiled for this machine ..."):
        warm_up(runs)
    columns = "{task.description:>13}", "fold {task.fields[fold]}", "loss {task.fields[loss]:.3f}"
    texts = map(TextColumn, (*columns, "held out {task.fields[accuracy]:5.1f} %"))
    with Progress(*texts, BarColumn(), TimeRemainingColumn(), console=console) as progress:
        for run in runs:
            start = time.perf_counter()
            task = progress.add_task(run.name, total=FOLDS * epochs, fold=1, loss=float("nan"), accuracy=0.0)
            for fold in range(FOLDS):
                train(run, fold, epochs, seed, progress, task)
            run.seconds = time.perf_counter() - start
    show(runs, console)
    larger = [esan.Bag.of(esan.graphs.csl(n, 3), policy, LAYERS) for n in LARGER]
    last = larger[-1]
    console.print(f"CSL({LARGER[-1]}, 3), {policy!r}: {last.num_pairs:,} pairs in {last.num_rows:,} rows.")
    difference = largest_difference(data[: len(SKIPS)], policy)
    console.print(f"Literal and compact bags: predictions differ by {difference:.0e} at most.")
    console.print(f"Picture: {picture(runs, larger, folder)}")
    return runs


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("demo"))
    given = parser.parse_args()
    main(given.epochs, given.seed, given.folder)
