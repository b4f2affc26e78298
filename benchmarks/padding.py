"""How many rows batches of one shape have for each real one: what kernels save that leave padding out.

    python benchmarks/padding.py [--recipes zinc/dss-gin-ego+ nci1/dss-gin-ed ...] [--out FILE]

The shape is that of a training: the capacity of the largest of many random batches, and of all batches in 400 epochs of
ten networks, each of which trains on all graphs. Data are read from $ESAN_DATA.
"""

import argparse
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from esan.bags.padded.shapes import GraphCounts, KnownShapes, smallest_shapes
from esan.data import load
from esan.train import named
from esan.train.engines.ensemble_engine import ensemble_batches
from esan.train.engines.subgraph_sampling import training_bag
from report import machine, markdown, print_table

RECIPES = ["zinc/dss-gin-ego+", "zinc/dss-gin-ed", "nci1/dss-gin-ego+", "nci1/dss-gin-ed"]
RECIPES += [f"{data}/{method}" for data in ("proteins", "imdb-b") for method in ("dss-gin-ego+", "ds-gin-nd")]
RECIPES += ["ogbg-moltox21/gin", "ogbg-moltox21/ds-gin-ego"]
NOTE = (
    "Written by `benchmarks/padding.py`. Rows per batch on average, rows of the shape that batches are filled up to at "
    "first, and their ratio; the same ratio where batches that need less have smaller shapes, as they do for wide "
    "networks, for one network, three and ten; and in how many of 400 epochs of ten networks, each on all graphs in "
    "an order of its own, a batch outgrew the shape, so that a step would be recorded again. Bags are those that are "
    "trained on: literal with dropout, else compact."
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", nargs="*", default=RECIPES)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "figures" / "padding.json")
    arguments = parser.parse_args()
    lines = [measure(name) for name in arguments.recipes]
    record = {"machine": machine(), "rows": lines}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(record, indent=1) + "\n")
    arguments.out.with_suffix(".md").write_text(markdown("Padding of batches", record["machine"], NOTE, lines))
    print_table("Padding", lines)


def measure(name: str) -> dict[str, Any]:
    recipe = named(name)
    bag = training_bag(load(recipe.data).graphs, recipe.policy, recipe.num_layers, None)
    bag = bag.to_literal() if recipe.dropout else bag
    counts, known, draw = GraphCounts(bag), KnownShapes(), torch.Generator().manual_seed(0)
    met = []
    for _ in range(400):
        orders = [torch.randperm(len(bag), generator=draw) for _ in range(10)]
        met.append(known.holding(ensemble_batches(orders, recipe.batch_size).reshape(-1, recipe.batch_size), counts))
    capacity, outgrown = sum(met[0].rows), sum(one != other for one, other in pairwise(met))
    real = recipe.batch_size * float(bag.rows.num_rows.sum(0).float().mean())
    line = {"recipe": name, "batch": recipe.batch_size, "rows": round(real)}
    line |= {"capacity": capacity, "ratio": capacity / real}
    for networks in (1, 3, 10):
        steps = ensemble_batches([torch.randperm(len(bag), generator=draw) for _ in range(networks)], recipe.batch_size)
        most = KnownShapes().holding(steps.reshape(-1, recipe.batch_size), counts)
        rows = sum(
            sum(shape.rows) * len(range(len(steps))[place]) for shape, place in smallest_shapes(most, steps, counts)
        )
        line[f"sized, {networks}"] = rows / (real * len(bag) / recipe.batch_size)
    return line | {"outgrown": outgrown}


if __name__ == "__main__":
    main()
