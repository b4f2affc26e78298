"""How many rows of a batch differ at all: what a bag would save that computed rows which cannot differ once.

    python benchmarks/classes.py [--batches 4] [--out benchmarks/figures/classes.json]

Rows that colour refinement does not tell apart after t rounds have the same features after t layers, in whichever
subgraph or graph they are. Batches of 128 of ZINC12k, four layers: pairs (literal rows), rows of the compact bag, and
colours of pairs, within each graph and within the batch, added up over the layers. For DSS, pairs are refined with what
their nodes share over the bag. Data are read from $ESAN_DATA.
"""

import argparse
import json
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch

import esan
from esan.data import load
from report import machine, markdown, print_table

POLICIES, LAYERS, BATCH = ("ED", "ND", "EGO(3)", "EGO+(3)", "NM"), 4, 128
NOTE = (
    "Written by `benchmarks/classes.py`: batches of 128 of ZINC12k, rows of four layers added up, in thousands, and "
    "how many times fewer than compact rows the colours are: those of each graph by itself, and those of the batch."
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "figures" / "classes.json")
    arguments = parser.parse_args()
    graphs = load("zinc").graphs
    draw = np.random.default_rng(0)
    ids = [torch.from_numpy(draw.permutation(len(graphs))[:BATCH]) for _ in range(arguments.batches)]
    lines = [
        line
        for name in POLICIES
        for line in measure(name, [esan.Bag.of(graphs.take(i), esan.policy_named(name), LAYERS) for i in ids])
    ]
    record = {"machine": machine(), "batch": BATCH, "layers": LAYERS, "batches": arguments.batches, "rows": lines}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(record, indent=1) + "\n")
    arguments.out.with_suffix(".md").write_text(markdown("Rows that differ", record["machine"], NOTE, lines))
    print_table("Rows that differ", lines)


def measure(name: str, bags: list[esan.Bag]) -> list[dict[str, Any]]:
    compact = mean(sum(bag.layer_view(t).num_rows for t in range(1, LAYERS + 1)) for bag in bags) / 1000
    pairs = mean(LAYERS * bag.num_pairs for bag in bags) / 1000
    lines = []
    for shares in (False, True):
        found = [colours(bag.to_literal(), shares) for bag in bags]
        graph, batch = (mean(sum(counts) for counts in part) / 1000 for part in zip(*found, strict=True))
        line: dict[str, Any] = {
            "network": "DSS" if shares else "DS",
            "policy": name,
            "pairs": pairs,
            "compact": compact,
        }
        line |= {"of graphs": graph, "of the batch": batch}
        lines.append(line | {"fewer, graphs": compact / graph, "fewer, batch": compact / batch})
    return lines


def colours(bag: esan.Bag, shares: bool) -> tuple[list[int], list[int]]:
    """How many colours the pairs of a literal bag have after each layer: of each graph, added up, and of the batch."""
    view, graphs = bag.layer_view(1), bag.graphs
    assert graphs.x is not None
    assert graphs.edge_attr is not None
    node, (source, target) = view.node.numpy(), view.edges.edge_index.numpy()
    bond, atom = graphs.edge_attr.reshape(-1).numpy(), graphs.x.reshape(-1).numpy()
    of_edge, graph = bond[view.edges.copies.owner.numpy()], graphs.node_graph.numpy()[node]
    marked = view.marked.numpy() if bag.marked else np.zeros(len(node), bool)
    colour = _numbered(atom[node], marked)
    within, across = [], []
    for _ in range(LAYERS):
        parts = [colour, _bags_of(_numbered(of_edge, colour[source]), target, len(node))]
        if shares:
            pooled = _bags_of(colour, node, len(atom))
            heard = _bags_of(
                _numbered(bond, pooled[graphs.edge_index[0].numpy()]), graphs.edge_index[1].numpy(), len(atom)
            )
            parts.append(_numbered(pooled, heard)[node])
        colour = _numbered(*parts)
        within.append(len(np.unique(np.stack([graph, colour]), axis=1).T))
        across.append(int(colour.max()) + 1)
    return within, across


def _numbered(*parts: np.ndarray) -> np.ndarray:
    """A number for each tuple, the same for the same."""
    return np.unique(np.stack(parts, 1), axis=0, return_inverse=True)[1].reshape(-1)


def _bags_of(colour: np.ndarray, owner: np.ndarray, owners: int) -> np.ndarray:
    """A number for the colours that each owner has, counted: those of a random number a colour, added up."""
    keys = np.random.default_rng(1).integers(2**63, size=int(colour.max()) + 1, dtype=np.uint64)
    total = np.zeros(owners, np.uint64)
    np.add.at(total, owner, keys[colour])
    return np.unique(total, return_inverse=True)[1].reshape(-1)


if __name__ == "__main__":
    main()
