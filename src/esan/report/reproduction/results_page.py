"""The results page in Markdown: every table of the paper with our numbers, run or not."""

import os
from collections.abc import Sequence
from pathlib import Path

from esan.plural import counted
from esan.report.formatting import escape_markdown
from esan.report.gather import gather
from esan.report.reproduced_tables import TABLES
from esan.report.reproduction.deviation import deviation_line
from esan.report.reproduction.grid_results import grid_results_table, load_grid_results
from esan.report.reproduction.provenance_line import provenance_line
from esan.report.reproduction.stored_results import load_results, result_rows
from esan.report.reproduction.timing import load_times, times_table
from esan.report.rows import Row
from esan.report.tables import by_data, by_metric, markdown, rule_line, table

_HEAD = """# All tables

Every row of the paper's tables, beside the paper's number. `esan reproduce` writes this page from the record tables in
[{results}]({link}), which hold every run with its recipe, seed, curve, commit, data, versions, hardware and time; no
number in its tables was typed by hand. The text below each table comes from `notes.md` beside the records.

- A row that was run is **the paper's network**: its recipe is that of today. "with lr=0.001" marks a variant, which
  differs from it in the settings named. Runs of networks that are not the paper's are kept apart, behind a link.
- Numbers are mean ± standard deviation (divided by n, not n − 1).
- **difference** is ours minus the paper's, with its size in the paper's standard deviations (sd). Below each table is
  its mean over all rows that are complete, variants left out, with its standard error.
- **at best validation** is the value at each run's own epoch of best validation, whatever the protocol reports.
- ED^ is ED with the graph itself added to every bag; 5% is a 5 % sample of the bag.
- Where runs were trained together, **time per run** is their total time divided by their number, and **memory** is what
  the device held for all of them.

`esan report {results}` draws the learning curves.
"""
_EARLIER_HEAD = """# {title}: networks of version 0.1

These {runs} were made before version 0.2.0 corrected the recipes. Their networks are not the paper's, or the files were
not, and their numbers do not count in its tables. "with jk=cat" and the like say what differs from the recipe of today;
`recipes.json` has the settings as they were recorded, under that name.
"""
#: The folder of earlier results, beside those of the tables.
EARLIER = "earlier"
#: The file of a table's Markdown.
README = "README.md"
#: In place of a number that is missing.
DASH = "–"


def results_page(results: Path, page: Path) -> str:
    """The whole page.

    Args:
        results: the folder of the results, one folder per table.
        page: where the page will be, for its links.
    """
    link = Path(os.path.relpath(results, page.parent)).as_posix()
    parts = [_HEAD.format(results=results.as_posix(), link=link)]
    parts += [table_text(name, results, link) for name in TABLES]
    return "\n".join(parts)


def table_text(name: str, results: Path, link: str = "..") -> str:
    """One table with its heading, and the notes.md beside its records.

    Args:
        name: of the table.
        results: the folder of the results.
        link: that folder, as links of the page reach it.
    """
    folder = results / name
    if name == "timing":
        parts = [times_table(load_times(folder))]
    else:
        stored, grids = load_results(folder), load_grid_results(folder)
        rows = result_rows(name, stored, [other for grid in grids for other in grid.others])
        own = [row for row in rows if "~" not in row.recipe]
        parts = [rows_text(rows), deviation_line(own), provenance_line(stored.records), grid_results_table(grids)]
        if (results / EARLIER / name).is_dir():
            page = f"{link}/{EARLIER}/{name}/{README}"
            parts.append(f"Runs of networks that are not the paper's: [records of version 0.1]({page}).\n")
    notes = folder / "notes.md"
    parts += [notes.read_text(encoding="utf-8").strip() + "\n"] if notes.is_file() else []
    return f"## {TABLES[name].title}\n\n" + "\n".join(part for part in parts if part)


def earlier_text(name: str, results: Path) -> str:
    """The earlier results of a table, made before its recipes were corrected, with the notes on them."""
    folder = results / EARLIER / name
    found = gather([folder])
    rows = found.rows()
    head = _EARLIER_HEAD.format(title=TABLES[name].title, runs=counted(len(found.records), "run"))
    parts = [head, deviation_line(rows), markdown(rows), provenance_line(found.records)]
    parts.append(grid_results_table(load_grid_results(folder)))
    notes = folder / "notes.md"
    parts += [notes.read_text(encoding="utf-8").strip() + "\n"] if notes.is_file() else []
    return "\n".join(part for part in parts if part)


def rows_text(rows: Sequence[Row]) -> str:
    """How many rows were run; then the rows of one dataset, or for several an overview and the rows that were run."""
    sets, run = by_data(rows), [row for row in rows if row.records]
    whole = [row for row in rows if row.paper is not None and "~" not in row.recipe]
    done = sum(row.is_complete for row in whole)
    unfinished = sum(bool(row.records) and not row.is_complete for row in whole)
    variants = sum(row.paper is not None and "~" in row.recipe for row in run)
    more = sum(row.paper is None for row in run)
    count = f"{done} of the paper's {len(whole)} rows run" if done else f"None of the paper's {len(whole)} rows run yet"
    count += f", {unfinished} more unfinished" * bool(unfinished) + f"; {counted(variants, 'variant')} of them" * bool(
        variants
    )
    count += f"; {more} that the paper does not have" * bool(more) + "."
    if len(sets) == 1:
        return f"{count}\n\n{rule_line(rows)}{table(rows)}"
    parts = [f"{count} Cells: **ours**, paper; {DASH} is not yet run.{_example(rows)}\n\n{overview(rows)}"]
    for title, some in by_metric(run).items():
        parts.append(f"### {escape_markdown(title)}\n\n{rule_line(some)}{table(some)}")
    return "\n".join(parts)


def overview(rows: Sequence[Row]) -> str:
    """Methods down, datasets across."""
    sets = list(by_data(rows))
    cells: dict[str, dict[str, str]] = {}
    for row in rows:
        if "~" not in row.recipe:
            some = "" if row.is_complete else f" ({len(row.records)} of {row.jobs} runs)"
            ours = DASH if row.ours is None else f"**{row.ours}**{some}{_better(row, rows)}"
            cells.setdefault(row.name, {})[row.data] = ours if row.paper is None else f"{ours}, {row.paper}"
    lines = [["method", *map(escape_markdown, sets)], ["---"] * (len(sets) + 1)]
    lines += [[escape_markdown(name), *(found.get(data, "") for data in sets)] for name, found in cells.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _example(rows: Sequence[Row]) -> str:
    """What the first choice that is better than a row means; empty if there is none."""
    found = next((better for row in rows if (better := _better(row, rows))), "")
    words = "the best of other choices that were run, where it is better on validation"
    return f" In brackets, such as{found}: {words}." if found else ""


def _better(row: Row, rows: Sequence[Row]) -> str:
    """The best variant of a row, if it is better; none where numbers are those of test graphs, which choose nothing."""
    if not row.is_complete or row.part != "valid":
        return ""
    variants = [other for other in rows if other.recipe.startswith(f"{row.recipe}~") and other.is_complete]
    # Of equals, the one that changes least: the row itself, or the shortest name. Curves have seven digits.
    best = max([row, *variants], key=lambda some: (round(some.merit, 4), -len(some.recipe)))
    return "" if best is row else f" ({best.ours} {escape_markdown(best.name.removeprefix(f'{row.name} '))})"
