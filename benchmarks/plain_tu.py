"""The paper's GIN in plain PyG on a TU set, with and without DropEdge: does it differ from the records?

    python benchmarks/plain_tu.py [--data mutag] [--epochs 350] [--folds 10] [--out benchmarks/figures/plain_tu.json]

Nothing of esan but its reader of the files and its folds is used. The network and the protocol are those of the recipe
`mutag/gin`: four layers of width 32, their concatenation with the input, a sum over nodes, one linear layer; Adam at
0.01, halved every 50 epochs, batches of 32, seed 0 in every fold. DropEdge deletes a fifth of the undirected edges of a
batch, while training or also while validating. Data are read from $ESAN_DATA. A network takes some five minutes on one
core.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINConv, global_add_pool
from torch_geometric.utils import dropout_edge

from esan.data import Dataset, load, stratified_folds
from report import machine, markdown, print_table

WIDTH, LAYERS, BATCH, RATE, SHARE = 32, 4, 32, 0.01, 0.2
#: Whether edges are dropped while training, and while validating.
WAYS = {"GIN": (False, False), "DropEdge": (True, False), "DropEdge, also in validation": (True, True)}
NOTE = (
    "Written by `benchmarks/plain_tu.py`: plain PyG on {}, {} folds, accuracy in per cent. Best: at the epoch of best "
    "mean validation, mean ± standard deviation over folds, as the tables report it. Late: the mean over folds and all "
    "epochs after the hundredth."
)


class GIN(nn.Module):
    """The paper's plain GIN for two classes."""

    def __init__(self, in_channels: int, drops: tuple[bool, bool]) -> None:
        super().__init__()
        widths = [in_channels] + [WIDTH] * LAYERS
        self.drops = drops
        self.norms = nn.ModuleList(nn.BatchNorm1d(WIDTH) for _ in range(LAYERS))
        self.convs = nn.ModuleList(
            GINConv(nn.Sequential(nn.Linear(i, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)))
            for i in widths[:-1]
        )
        self.head = nn.Linear(sum(widths), 1)

    def forward(self, batch: Batch) -> Tensor:
        edges, h = batch.edge_index, batch.x
        if self.drops[0] if self.training else self.drops[1]:
            edges, _ = dropout_edge(edges, SHARE, force_undirected=True)
        layers = [h]
        for conv, norm in zip(self.convs, self.norms, strict=True):
            h = norm(conv(h, edges)).relu()
            layers.append(h)
        return self.head(global_add_pool(torch.cat(layers, 1), batch.batch, batch.num_graphs)).squeeze(1)


def as_data(dataset: Dataset) -> list[Data]:
    """The graphs with one-hot labels of nodes, one by one."""
    graphs, labels = dataset.graphs, dataset.in_channels.size
    found = []
    for i in range(len(graphs)):
        one = graphs.take(torch.tensor([i]))
        x = F.one_hot(one.x.reshape(-1).long(), labels).float()
        found.append(Data(x=x, edge_index=one.edge_index, y=dataset.y[i : i + 1].float()))
    return found


def curve(graphs: list[Data], train: Tensor, valid: Tensor, epochs: int, drops: tuple[bool, bool]) -> list[float]:
    """The accuracy on the validation graphs after each epoch."""
    torch.manual_seed(0)
    model = GIN(graphs[0].x.size(1), drops)
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.StepLR(optimiser, 50, 0.5)
    loader = DataLoader([graphs[i] for i in train.tolist()], BATCH, shuffle=True)
    held_out = Batch.from_data_list([graphs[i] for i in valid.tolist()])
    found = []
    for _ in range(epochs):
        model.train()
        for batch in loader:
            optimiser.zero_grad()
            F.binary_cross_entropy_with_logits(model(batch), batch.y).backward()
            optimiser.step()
        schedule.step()
        model.eval()
        with torch.no_grad():
            found.append(float(((model(held_out) > 0) == (held_out.y > 0)).float().mean()))
    return found


def measured(graphs: list[Data], dataset: Dataset, folds: int, epochs: int, way: str) -> dict[str, Any]:
    """A row of the table."""
    curves = torch.tensor([
        curve(graphs, split.train, split.valid, epochs, WAYS[way]) for split in stratified_folds(dataset, folds)
    ])  # fmt: skip
    mean = 100 * curves.double().mean(0)
    best = int(mean.argmax())
    spread = 100 * float(curves[:, best].double().std(correction=0))
    return {
        "network": way,
        "best": f"{float(mean[best]):.1f} ± {spread:.1f}",
        "epoch": best + 1,
        "late": float(mean[min(100, epochs - 1) :].mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="mutag", help="a set with two classes and labels of nodes")
    parser.add_argument("--epochs", type=int, default=350)
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--only", nargs="*", choices=WAYS, default=[*WAYS])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "figures" / "plain_tu.json")
    arguments = parser.parse_args()
    dataset = load(arguments.data)
    graphs = as_data(dataset)
    rows = [measured(graphs, dataset, arguments.folds, arguments.epochs, way) for way in arguments.only]
    print_table(f"Plain PyG on {arguments.data}", rows)
    record = {"machine": machine(), "data": arguments.data, "rows": rows}
    arguments.out.write_text(json.dumps(record, indent=1) + "\n")
    note = NOTE.format(arguments.data, arguments.folds)
    arguments.out.with_suffix(".md").write_text(markdown("Plain PyG on a TU set", record["machine"], note, rows))


if __name__ == "__main__":
    main()
