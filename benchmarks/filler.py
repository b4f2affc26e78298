"""How many rows batches of one shape have for each real one: what kernels save that leave filler out.

    python benchmarks/filler.py [--recipes zinc/dss-gin-ego+ nci1/dss-gin-ed ...] [--out benchmarks/figures/filler.json]

The shape is that of a training: room for the largest of a thousand random batches. Data are read from $ESAN_DATA.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from esan.bags.shapes import Counts
from esan.data import load
from esan.train import named, team
from esan.train.fresh import bag_of
from report import machine, markdown, print_table

RECIPES = ["zinc/dss-gin-ego+", "zinc/dss-gin-ed", "nci1/dss-gin-ego+", "nci1/dss-gin-ed"]
RECIPES += [f"{data}/{method}" for data in ("proteins", "imdb-b") for method in ("dss-gin-ego+", "ds-gin-nd")]
NOTE = (
    "Written by `benchmarks/filler.py`. Rows a batch on average, rows of the shape that all batches are filled up to, "
    "and their ratio."
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", nargs="*", default=RECIPES)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "figures" / "filler.json")
    arguments = parser.parse_args()
    lines = [measure(name) for name in arguments.recipes]
    record = {"machine": machine(), "rows": lines}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(record, indent=1) + "\n")
    arguments.out.with_suffix(".md").write_text(markdown("Filler of batches", record["machine"], NOTE, lines))
    print_table("Filler", lines)


def measure(name: str) -> dict[str, Any]:
    recipe = named(name)
    bag = bag_of(load(recipe.data).graphs, recipe.selected, recipe.layers, None)
    room = sum(Counts(bag).tried(recipe.batch_size, team._TRIED).grown(team._MARGIN).rows)
    real = recipe.batch_size * float(bag.rows.num_rows.sum(0).float().mean())
    return {"recipe": name, "batch": recipe.batch_size, "rows": round(real), "room": room, "ratio": room / real}


if __name__ == "__main__":
    main()
