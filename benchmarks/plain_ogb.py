"""OGB's own GIN in plain PyG, on the files that esan reads: do its curves differ from those of the records?

    python benchmarks/plain_ogb.py [--seeds 0 1 2] [--epochs 100] [--device cuda] [--out curves.csv]

Nothing of esan but its reader of the files and its ROC-AUC is used. The network is that of the OGB paper (Hu et al.,
2020): five layers of width 300, a hidden layer of 600 in each, dropout 1/2, mean over nodes, Adam at 0.001, batches of
32. A line of the csv file is an epoch of a seed; a seed that is in the file with all epochs is not run again, one with
fewer is run from the first, and its lines are replaced. Data are read from $ESAN_DATA.
"""

import argparse
import csv
from collections import Counter
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINEConv, global_mean_pool

from esan.data import Dataset, load
from esan.train.runs.metrics import rocauc

WIDTH, LAYERS, DROPOUT, BATCH, RATE = 300, 5, 0.5, 32, 0.001
COLUMNS = ("seed", "epoch", "loss", "valid", "test")


class Embedded(nn.Module):
    """The sum of an embedding a column."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.columns = nn.ModuleList(nn.Embedding(size, WIDTH) for size in sizes)
        for column in self.columns:
            nn.init.xavier_uniform_(column.weight)

    def forward(self, lines: Tensor) -> Tensor:
        return sum(column(lines[:, i]) for i, column in enumerate(self.columns))


class GIN(nn.Module):
    """OGB's network for graphs of molecules."""

    def __init__(self, atoms: tuple[int, ...], bonds: tuple[int, ...], labels: int) -> None:
        super().__init__()
        self.atoms, self.head = Embedded(atoms), nn.Linear(WIDTH, labels)
        self.bonds = nn.ModuleList(Embedded(bonds) for _ in range(LAYERS))
        self.norms = nn.ModuleList(nn.BatchNorm1d(WIDTH) for _ in range(LAYERS))
        self.convs = nn.ModuleList(
            GINEConv(
                nn.Sequential(
                    nn.Linear(WIDTH, 2 * WIDTH), nn.BatchNorm1d(2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH)
                ),
                train_eps=True,
            )
            for _ in range(LAYERS)
        )

    def forward(self, batch: Batch) -> Tensor:
        h = self.atoms(batch.x)
        for i, (conv, bonds, norm) in enumerate(zip(self.convs, self.bonds, self.norms, strict=True)):
            h = norm(conv(h, batch.edge_index, bonds(batch.edge_attr)))
            h = F.dropout(h if i == LAYERS - 1 else h.relu(), DROPOUT, self.training)
        return self.head(global_mean_pool(h, batch.batch))


def as_data(dataset: Dataset) -> list[Data]:
    """The graphs, one by one."""
    graphs = dataset.graphs
    nodes, edge_starts = graphs.node_start.tolist(), graphs.directed_edge_start.tolist()
    counts = zip(graphs.num_nodes.tolist(), graphs.num_directed_edges.tolist(), strict=True)
    return [
        Data(
            x=graphs.x[nodes[i] : nodes[i] + n],
            edge_index=graphs.edge_index[:, edge_starts[i] : edge_starts[i] + m] - nodes[i],
            edge_attr=graphs.edge_attr[edge_starts[i] : edge_starts[i] + m],
            y=dataset.y[i : i + 1],
        )
        for i, (n, m) in enumerate(counts)
    ]


def trained(model: GIN, loader: DataLoader, optimiser: torch.optim.Optimizer, device: str) -> float:
    """An epoch; the mean loss of its batches."""
    model.train()
    losses = []
    for batch in loader:
        batch = batch.to(device)
        known = torch.isfinite(batch.y)
        loss = F.binary_cross_entropy_with_logits(model(batch)[known], batch.y[known].float())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


@torch.no_grad()
def judged(model: GIN, loader: DataLoader, device: str) -> float:
    """The ROC-AUC."""
    model.eval()
    found = [(model(batch.to(device)).cpu(), batch.y.cpu()) for batch in loader]
    return rocauc(*(torch.cat(part) for part in zip(*found, strict=True)))


def lines_to_keep(path: Path, seeds: list[int], epochs: int) -> list[list[str]]:
    """The lines of the file, without those of seeds that run again."""
    rows = [*csv.reader(path.read_text().splitlines())][1:] if path.exists() else []
    ran = Counter(row[0] for row in rows)
    return [row for row in rows if int(row[0]) not in seeds or ran[row[0]] >= epochs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="ogbg-moltox21", help="or ogbg-molhiv")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--device", default="cpu", help="cpu if not given")
    parser.add_argument("--out", type=Path, default=Path("plain_ogb.csv"))
    arguments = parser.parse_args()
    dataset, device = load(arguments.data), arguments.device
    graphs, split = as_data(dataset), dataset.given
    parts = [[graphs[i] for i in ids.tolist()] for ids in (split.train, split.valid, split.test)]
    known = lines_to_keep(arguments.out, arguments.seeds, arguments.epochs)
    with arguments.out.open("w", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerows([COLUMNS, *known])
        for seed in arguments.seeds:
            if str(seed) in {row[0] for row in known}:
                continue
            torch.manual_seed(seed)
            train, valid, test = (DataLoader(part, BATCH, shuffle=i == 0) for i, part in enumerate(parts))
            model = GIN(dataset.in_channels.sizes, dataset.edge_channels.sizes, dataset.y.size(1)).to(device)
            optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
            for epoch in range(1, arguments.epochs + 1):
                loss = trained(model, train, optimiser, device)
                scores = [judged(model, loader, device) for loader in (valid, test)]
                lines.writerow([seed, epoch, f"{loss:.4f}", *(f"{score:.4f}" for score in scores)])
                file.flush()
                print(seed, epoch, f"{loss:.4f}", *(f"{score:.4f}" for score in scores), flush=True)


if __name__ == "__main__":
    main()
