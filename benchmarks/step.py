"""A training step on batches of 128 molecules: literal and compact bags against the yardstick, as ratios.

    python benchmarks/step.py [--graphs zinc] [--width 64] [--repeats 15] [--out benchmarks/figures/step.json]

The molecules are those of ZINC12k (`--graphs zinc`; read from $ESAN_DATA), or made at random in ZINC's sizes with atoms
and bonds of every kind equally often (`--graphs like`), among which few rows are alike.

Forward, backward and Adam step, the batch ready in memory, every batch new to the network (nothing is cached from an
earlier step). All take turns, and a ratio is that of medians. "row-layers" is how many rows all layers together
have, literal over compact: what the compact bag saves by construction. "alike" is how many times fewer of these are
computed, since rows that are alike are computed once in DS-GNN, and its "gain" how many times slower the step is
without that (they are looked for in either). "graphs alone" is what a network of the same kind takes on the
graphs themselves (identity policy), as a part of the compact step: the shared branch, Adam and all that is done once a
batch, which no bag saves, and one row a node. "reachable" is how much faster the compact bag would be if that stayed
and all the rest shrank by the row-layers. The yardstick has the same weights; its prediction is compared first.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

import esan
from esan.bags.dedup import dedup_limits
from esan.nn.execution import dedup as deduplicating
from report import machine, markdown, print_table
from workloads import ATOM_TYPES, BOND_TYPES, zinc, zinc_like
from yardstick import Union, Yardstick

POLICIES = ("ED", "ND", "EGO(3)", "EGO+(3)", "NM")
LAYERS, BATCH = 4, 128
#: What graphs are called, and how they are made.
GRAPHS = {"zinc": ("molecules of ZINC12k", zinc), "like": ("ZINC-like molecules", zinc_like)}
NOTE = (
    "Written by `benchmarks/step.py`: batches of 128 {}, 4 layers of width {}, forward, backward and Adam, the "
    "batch in memory. Ratios of times; more is better for esan. Row-layers: the rows that all layers have, literal "
    "over compact; alike: how many times fewer are computed, as those that are alike are computed once in DS-GNN; "
    "gain: the compact step without that over the step with it. Graphs "
    "alone: what the same kind of network takes on the graphs themselves, as a part of the "
    "compact step; reachable: compact vs literal, if that part stays and the rest shrinks by the row-layers."
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", choices=GRAPHS, default="like")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--policies", nargs="*", default=POLICIES)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "figures" / "step.json")
    arguments = parser.parse_args()
    kinds = [(name, shares) for name in arguments.policies for shares in (False, True)]
    words, make = GRAPHS[arguments.graphs]
    graphs = make(2 * BATCH)
    lines = [measure(graphs, name, shares, arguments.width, arguments.repeats) for name, shares in kinds]
    print_table("A training step, as ratios of times (more is better for esan)", lines)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    record = {"machine": machine(), "batch": BATCH, "layers": LAYERS, "width": arguments.width}
    record |= {"graphs": arguments.graphs, "rows": lines}
    arguments.out.write_text(json.dumps(record, indent=1) + "\n")
    page = markdown("A training step", record["machine"], NOTE.format(words, arguments.width), lines)
    arguments.out.with_suffix(".md").write_text(page)


def measure(graphs: list[Data], name: str, shares: bool, width: int, repeats: int) -> dict[str, Any]:
    policy = esan.policy_named(name)
    torch.manual_seed(0)
    build, jk = (esan.dss_gnn, "last") if shares else (esan.ds_gnn, "cat")
    model, alone = (
        build(
            esan.Categories(ATOM_TYPES), width, LAYERS, 1, conv="gine", edge_channels=esan.Categories(BOND_TYPES),
            marked=marked, jk=jk, readout="mean", set_encoder="mean",
        )
        for marked in (policy.marked, False)
    )  # fmt: skip
    plain = Yardstick(width, LAYERS, policy.marked, shares)
    plain.load_from(model)
    batches = {kind: esan.Bag.of(graphs, policy, LAYERS, literal=kind == "literal") for kind in ("literal", "compact")}
    batches["graphs"] = esan.Bag.of(graphs, esan.policy_named("identity"), LAYERS)
    union = Union.of(graphs[:BATCH], policy)
    with torch.no_grad():
        model.eval(), plain.eval()
        first = batches["compact"][:BATCH]
        torch.testing.assert_close(model(first), plain(union), rtol=1e-3, atol=1e-4)
        model.train(), plain.train()

    optimisers = {m: torch.optim.Adam(m.parameters(), lr=1e-3, fused=True) for m in (model, plain, alone)}

    def step(network: torch.nn.Module, batch: Any) -> float:
        start = time.perf_counter()
        loss = (network(batch).squeeze(-1) - batch.y).abs().mean()
        optimisers[network].zero_grad()
        loss.backward()
        optimisers[network].step()
        return time.perf_counter() - start

    def fresh(kind: str) -> esan.Bag:
        return batches[kind][torch.arange(BATCH)]

    def without_representatives(batch: esan.Bag) -> float:
        with dedup_limits(first=0, overall=0):
            return step(model, batch)

    turns: dict[str, Callable[[], float]] = {
        "yardstick": lambda: step(plain, union),
        "literal": lambda: step(model, fresh("literal")),
        "compact": lambda: step(model, fresh("compact")),
        "rows": lambda: without_representatives(fresh("compact")),
        "graphs": lambda: step(alone, fresh("graphs")),
    }
    times: dict[str, list[float]] = {kind: [] for kind in turns}
    for repeat in range(repeats + 2):
        for kind, turn in turns.items():
            taken = turn()
            if repeat >= 2:
                times[kind].append(taken)
    middle = {kind: statistics.median(values) for kind, values in times.items()}
    rows = {kind: sum(fresh(kind).layer_view(t).num_rows for t in range(1, LAYERS + 1)) for kind in batches}
    saved, alone_part = rows["literal"] / rows["compact"], middle["graphs"] / middle["compact"]
    views = deduplicating.views(model.features, model.encoder, fresh("compact"), next(model.parameters()))
    computed = rows["compact"] if views is None else sum(view.num_rows for view in views[1:])
    return {
        "network": "DSS" if shares else "DS",
        "policy": name,
        "literal vs yardstick": middle["yardstick"] / middle["literal"],
        "compact vs literal": middle["literal"] / middle["compact"],
        "row-layers": saved,
        "alike": rows["compact"] / computed,
        "gain": middle["rows"] / middle["compact"],
        "compact vs yardstick": middle["yardstick"] / middle["compact"],
        "graphs alone": alone_part,
        "reachable": alone_part + (1 - alone_part) * saved,
    }


if __name__ == "__main__":
    main()
