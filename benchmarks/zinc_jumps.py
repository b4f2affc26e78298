"""Why validation jumps in early epochs on ZINC12k: DSS-GNN EGO+(3) and a plain network on the same batches.

    python benchmarks/zinc_jumps.py [--epochs 10] [--plain 10] [--seed 0] [--out benchmarks/figures/zinc_jumps.json]

Both networks begin with the same weights, see the same batches in the same order and are trained by the same Adam. The
plain one is written in PyG over the disjoint union of all subgraphs (`usual.py`, `yardstick.py`) and shares no code
with the library. After each epoch the validation error is measured, for the library's network also

- with the statistics of its norms recomputed over 20 training batches: are running averages that lag the reason?
- with weights averaged over the last steps (decay 0.99), and the statistics for them: is it the noise of single steps?

Data are read from $ESAN_DATA.
"""

import argparse
import copy
import json
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, update_bn
from torch_geometric.data import Batch, Data

import esan
import usual
from esan.data import load
from report import machine, markdown, print_table
from workloads import ATOM_TYPES, BOND_TYPES
from yardstick import Union, Yardstick

POLICY, HOPS, LAYERS, WIDTH, BATCH, RATE = "EGO+", 3, 4, 64, 128, 1e-3
NOTE = (
    "Written by `benchmarks/zinc_jumps.py`. Mean absolute error on the 1,000 validation molecules after each epoch. "
    "plain: the same network in PyG over the disjoint union of all subgraphs, from the same weights, on the same "
    "batches. new statistics: norms recomputed over 20 training batches. averaged: weights averaged over the last "
    "100 steps or so, with statistics for them. Last row: the mean change from epoch to epoch, from the third on."
)
Batches = Callable[[Tensor], Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--plain", type=int, default=10, help="epochs of the plain network")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "figures" / "zinc_jumps.json")
    given = parser.parse_args()
    data = load("zinc")
    assert data.given is not None
    train, valid = data.given.train, data.given.valid
    bag = esan.Bag.of(data.graphs, esan.EgoNets(HOPS, marked=True), LAYERS)
    torch.manual_seed(given.seed)
    model = esan.dss_gnn(
        esan.Categories(ATOM_TYPES), WIDTH, LAYERS, 1, conv="gine", edge_channels=esan.Categories(BOND_TYPES),
        marked=True, readout="mean", set_encoder="mean", jk="last",
    )  # fmt: skip
    plain = Yardstick(WIDTH, LAYERS, True, True)
    plain.load_from(model)
    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.99))
    optimisers = {net: torch.optim.Adam(net.parameters(), lr=RATE) for net in (model, plain)}
    unions = collated(data.graphs, torch.cat([train, valid])) if given.plain else bag.__getitem__
    order = torch.Generator().manual_seed(given.seed)
    lines: list[dict[str, Any]] = []
    for epoch in range(1, given.epochs + 1):
        ids = train[torch.randperm(len(train), generator=order)]
        line: dict[str, Any] = {
            "epoch": epoch,
            "train": epoch_of(model, optimisers[model], ids, bag.__getitem__, averaged),
        }
        line["valid"] = error(model, valid, bag.__getitem__)
        line["new statistics"] = error(measured(model, ids, bag), valid, bag.__getitem__)
        line["averaged"] = error(measured(averaged, ids, bag), valid, bag.__getitem__)
        if epoch <= given.plain:
            line["plain train"] = epoch_of(plain, optimisers[plain], ids, unions)
            line["plain valid"] = error(plain, valid, unions)
        lines.append(line)
        print(json.dumps(line), flush=True)
        record = {"machine": machine(), "seed": given.seed, "rows": lines}
        given.out.write_text(json.dumps(record, indent=1) + "\n")
    shown = [*lines, jumps(lines)]
    given.out.with_suffix(".md").write_text(markdown("Validation in early epochs", record["machine"], NOTE, shown))
    print_table("Validation in early epochs", shown)


def epoch_of(
    net: nn.Module, optimiser: torch.optim.Optimizer, ids: Tensor, make: Batches, averaged: AveragedModel | None = None
) -> float:
    """Train on every graph once; the mean training error."""
    net.train()
    total = 0.0
    for part in ids.split(BATCH):
        batch = make(part)
        loss = (net(batch).squeeze(-1) - batch.y.reshape(-1)).abs().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        total += float(loss.detach()) * len(part)
        if averaged is not None:
            averaged.update_parameters(net)
    return total / len(ids)


def error(net: nn.Module, ids: Tensor, make: Batches) -> float:
    net.eval()
    with torch.no_grad():
        batches = (make(part) for part in ids.split(BATCH))
        return sum(float((net(one).squeeze(-1) - one.y.reshape(-1)).abs().sum()) for one in batches) / len(ids)


def measured(net: nn.Module, ids: Tensor, bag: esan.Bag) -> nn.Module:
    """A copy whose norms have the statistics of 20 training batches."""
    copied = copy.deepcopy(net)
    update_bn((bag[part] for part in ids[: 20 * BATCH].split(BATCH)), copied)
    return copied


def collated(graphs: Any, ids: Tensor) -> Batches:
    """The disjoint union of all subgraphs of some graphs, collated by PyG."""
    unions: dict[int, Data] = {}
    for i in ids.tolist():
        one = graphs[[i]]
        plain = Data(
            x=one.x.reshape(-1), edge_index=one.edge_index, edge_attr=one.edge_attr.reshape(-1), y=one.y,
            num_nodes=int(one.num_nodes),
        )  # fmt: skip
        unions[i] = usual.union(plain, POLICY, HOPS)

    def make(part: Tensor) -> Union:
        b = Batch.from_data_list([unions[i] for i in part.tolist()])
        graph = torch.repeat_interleave(b.num_subgraphs)
        return Union(
            b.x,
            b.edge_index,
            b.edge_attr,
            b.mark,
            b.part,
            b.original,
            graph,
            b.graph_edge_index,
            b.graph_edge_attr,
            b.y,
        )

    return make


def jumps(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """The mean change of each column from epoch to epoch, from the third on."""

    def change(values: Iterable[float]) -> float | str:
        some = list(values)[1:]
        steps = [abs(a - b) for a, b in pairwise(some)]
        return sum(steps) / len(steps) if steps else ""

    names = [name for name in lines[0] if name != "epoch"]
    return {"epoch": "change"} | {name: change(line[name] for line in lines if name in line) for name in names}


if __name__ == "__main__":
    main()
