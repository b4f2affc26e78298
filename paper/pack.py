"""Pack records of single runs into record tables, and keep runs of recipes that have changed since apart.

    python paper/pack.py [--results paper/results]

Version 0.1 stored one file per run, RESULTS/<table>/<recipe>/<fold>-<seed>.json. Runs of today's recipes go to
RESULTS/<table>; all others go to RESULTS/earlier/<table>, under names that say how their recipes differ from today's.
Every value of the old files is compared with the packed one before they are removed.
"""

import argparse
import csv
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from esan.report.reproduced_tables import TABLES
from esan.report.reproduction.grid_results import GRIDS
from esan.report.reproduction.results_page import EARLIER
from esan.report.reproduction.stored_results import is_current, name_of_settings
from esan.report.reproduction.timing import TIMES, load_times, save_times
from esan.train.recipes.recipe import Recipe
from esan.train.runs.job import Job
from esan.train.runs.record_table import RECIPES, add_records, read_table
from esan.train.runs.records import Record
from esan.train.runs.run_files import json_line, read_json_lines, write_text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("paper/results"))
    results = parser.parse_args().results
    for table in TABLES:
        packed = pack_times(results / table) if table == "timing" else pack_table(results, table)
        for path in packed:
            path.unlink()
            for folder in list(path.relative_to(results / table).parents)[:-1]:
                if not any((results / table / folder).iterdir()):
                    (results / table / folder).rmdir()
        sys.stdout.write(f"{table}: {len(packed)} files packed\n")


def pack_table(results: Path, table: str) -> list[Path]:
    """Pack the records and grids of a table; the files that are packed now, every value of them compared."""
    source, earlier = results / table, results / EARLIER / table
    paths = [path for path in sorted(source.rglob("*.json")) if path.stem.replace("-", "").isdigit()]
    old: dict[Path, dict[str, Any]] = {path: json.loads(path.read_text(encoding="utf-8")) for path in paths}
    target: dict[str, tuple[Path, Recipe]] = {}
    for values in old.values():
        recipe = Recipe.from_dict(values["recipe"])
        if recipe.name not in target:
            said = name_of_settings(recipe)
            here = said is not None and is_current(recipe)
            named = recipe if here else replace(recipe, name=said or recipe.name)
            target[recipe.name] = (source if here else earlier, named)
    for folder in (source, earlier):
        records: list[Record] = []
        recorded: dict[str, dict[str, Any]] = {}
        for path, values in old.items():
            place, recipe = target[values["recipe"]["name"]]
            if place == folder:
                records.append(replace(Record.load(path), recipe=recipe))
                recorded.setdefault(recipe.name, values["recipe"])
        if records:
            add_records(folder, records, recorded)
    tables = {folder: read_packed(folder) for folder in (source, earlier)}
    for path, values in old.items():
        place, recipe = target[values["recipe"]["name"]]
        compare(path, values, *tables[place], Job(recipe, values["fold"], values["seed"]).name)
    return paths + pack_grids(source, target)


def read_packed(folder: Path) -> tuple[dict[str, Record], dict[str, Any]]:
    """The records of a table by the name of their job, and its recipes as they are stored."""
    found = {Job(one.recipe, one.fold, one.seed).name: one for one in read_table(folder).records}
    path = folder / RECIPES
    return found, json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def compare(path: Path, old: dict[str, Any], packed: dict[str, Record], recipes: dict[str, Any], job: str) -> None:
    """ValueError names the first value of an old file that is not in the packed one."""
    record = packed[job]
    new = record.to_dict() | {"recipe": recipes[record.recipe.name]}
    for name, value in old.items():
        if name == "recipe" and value != new[name]:
            # The runs of one recipe may have been recorded by versions that spell it differently.
            same = replace(Recipe.from_dict(value), name="x") == replace(Recipe.from_dict(new[name]), name="x")
            new[name] = value if same and value.get("seeds") == new[name].get("seeds") else new[name]
        if new[name] != value or type(new[name]) is not type(value):
            raise ValueError(f"Expected {name} of {path} among the packed records (got another value). Compare both.")
    if new["commit"] is not None or new["data_sha256"] is not None:
        raise ValueError(f"Expected no commit or data of {path} (got some, which it did not record).")


def pack_grids(source: Path, target: dict[str, tuple[Path, Recipe]]) -> list[Path]:
    """Pack the scores of grids, beside the records of their rows; the names of configurations stay."""
    paths = sorted(source.glob("*/*/grid.csv"))
    lines: dict[Path, str] = {}
    for path in paths:
        row = path.parent.relative_to(source).as_posix()
        with path.open(encoding="utf-8", newline="") as file:
            scores = list(csv.DictReader(file))
        found = [
            {"name": one["configuration"], "runs": int(one["runs"])}
            | {name: float(one[name]) if one[name] else None for name in ("valid", "std")}
            for one in scores
        ]
        place = target[row][0] if row in target else source
        lines[place] = lines.get(place, "") + json_line({"recipe": row, "configurations": found})
    for place, text in lines.items():
        before = place / GRIDS
        write_text(before, (before.read_text(encoding="utf-8") if before.is_file() else "") + text)
    return paths


def pack_times(folder: Path) -> list[Path]:
    """Pack the times of epochs."""
    paths = sorted(folder.rglob("*.json"))
    old = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    for timed in load_times(folder).values() if paths else ():
        save_times(timed, folder)
    packed = {one["recipe"]: one for one in read_json_lines(folder / TIMES, dict)} if paths else {}
    if any(packed[values["recipe"]] | values != packed[values["recipe"]] for values in old):
        raise ValueError(f"Expected all times of {folder} among the packed ones (got other values). Compare both.")
    return paths


if __name__ == "__main__":
    main()
