"""`esan advise DATA`: which policy a user's graphs need, if any, as a table, and on request as JSON and a plot."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from esan import wl
from esan.cli import options
from esan.cli.console import console, plainly
from esan.cli.graph_arguments import all_graphs, is_collection
from esan.cli.tables import plain_table
from esan.data.csv_files import is_csv, other_columns
from esan.data.custom import label_file
from esan.plural import counted
from esan.train.recipes.recipe_fields import joined
from esan.wl.advising.advice_plot import plot_advice
from esan.wl.advising.advise import POLICIES


@plainly
def run(
    source: Annotated[str, typer.Argument(metavar="DATA", help=f"{options.SOURCES}.")],
    labels: Annotated[
        Path | None,
        typer.Option(
            "--labels",
            metavar="FILE",
            help="A text file with one label per line, numbers or words (default: the targets in DATA).",
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            metavar="NAME",
            help='A policy to try; repeat for more (default: ND, ED, "EGO(2)", "EGO+(2)", NM).',
        ),
    ] = None,
    layers: Annotated[
        int, typer.Option("--num-layers", metavar="N", help="The number of layers that rows are counted for.")
    ] = 4,
    ignore_nodes: Annotated[
        bool, typer.Option("--no-node-labels", help="Ignore node features; else they are initial colours.")
    ] = False,
    ignore_edges: Annotated[
        bool, typer.Option("--no-edge-labels", help="Ignore edge features; else they are labels of edges.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write the table to this JSON file, and a plot beside it (.png)."),
    ] = None,
    smiles: options.Smiles = None,
    targets: options.Targets = None,
    skip_unreadable: options.SkipUnreadable = False,
    root: options.Root = None,
    cache: options.Cache = None,
) -> None:
    """Find out whether your graphs need more than 1-WL, and the cheapest policy that suffices."""
    if out is not None:
        _check_out(out)
    table = is_collection(source) and is_csv(Path(source))
    if table and targets is None and len(others := other_columns(Path(source), smiles)) == 1 and labels is None:
        targets = joined(others)
    graphs = all_graphs(source, root, cache, smiles, targets, skip_unreadable)
    if labels is not None:
        graphs = replace(graphs, y=None)
    advice = wl.advise(
        graphs,
        None if labels is None else label_file(labels),
        policies=policy or POLICIES,
        num_layers=layers,
        node_labels=not ignore_nodes,
        edge_labels=not ignore_edges,
    )
    console.print(_table(advice))
    for skipped in advice.skipped:
        console.print(Text(f"Skipped {skipped.policy}: its bags have {skipped.pairs:,} pairs."))
    console.print(Text(advice.text), style="bold")
    if labels is None and targets is None and table:
        console.print(Text("The table has several other columns. Name the one of the labels with --targets."))
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(advice.to_dict(), indent=2) + "\n", encoding="utf-8")
        plot_advice(advice, out.with_suffix(".png"))
        console.print(Text(f"Saved: {out}, {out.with_suffix('.png')}"), soft_wrap=True)


def _check_out(out: Path) -> None:
    """What would fail after a long computation, refused before it."""
    if out.is_dir() or out.suffix.lower() != ".json":
        got = f"the folder {out}" if out.is_dir() else str(out)
        raise ValueError(f"Expected a file that ends in .json as --out (got {got}). Write e.g. --out advice.json.")
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise ImportError(
            "Expected matplotlib for the plot of --out (got none). Run: pip install 'esan[plot]', or leave --out out."
        ) from None


def _table(advice: wl.Advice) -> Table:
    """One row per option. With labels the columns say what is lost of them, else what 1-WL splits and this does not."""
    plain = advice.options[0]
    labelled = plain.confused_labels is not None
    notes = ["confused: pairs of graphs in one class"]
    if labelled:
        notes += ["differ: those with different labels", "error: the least that any such network makes"]
    else:
        notes += ["split: pairs that 1-WL confuses and this does not", "lost: the reverse"]
    table = plain_table(
        ["test"],
        ["classes", "confused", *(["differ", "error ≥"] if labelled else ["split", "lost"]), "rows", "×"],
        title=f"{advice.graphs:,} graphs",
        caption=f"{'; '.join(notes)}; rows: of compact bags for {counted(advice.num_layers, 'layer')}, × those of 1-WL",
    )
    for option in advice.options:
        cells = [f"{option.classes:,}", f"{option.confused:,}"]
        if option.confused_labels is not None:
            cells += [f"{option.confused_labels:,}", f"{option.error_floor:.3f}"]
        else:
            cells += [f"{option.split:,}", f"{option.lost:,}"]
        cells += [f"{option.rows:,}", f"{option.rows / plain.rows:.1f}"]
        table.add_row(Text(option.name), *cells, style="bold green" if option is advice.best else None)
    return table
