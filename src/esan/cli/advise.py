"""`esan advise DATA`: which policy a user's graphs need, if any, as a table, a JSON file and a plot."""

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from esan import wl
from esan.cli.plainly import console, plainly
from esan.counted import counted
from esan.graphs import load_graphs
from esan.wl.advice_plot import plot_advice
from esan.wl.advising import POLICIES


@plainly
def run(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A .g6, .npz or .pt file, or a TU folder.")],
    labels: Annotated[Path | None, typer.Option(help="A number a line, one a graph; default: y of the data.")] = None,
    policy: Annotated[list[str] | None, typer.Option(help="A policy to try; repeat for more.")] = None,
    layers: Annotated[int, typer.Option(help="The depth of the network that rows are counted for.")] = 4,
    node_labels: Annotated[bool, typer.Option(help="Use integer node features as initial colours.")] = True,
    edge_labels: Annotated[bool, typer.Option(help="Use integer edge features as labels.")] = True,
    out: Annotated[Path, typer.Option(help="Folder for advice.json and advice.png.")] = Path(),
) -> None:
    """Say whether your graphs need more than 1-WL, and the cheapest policy that suffices."""
    graphs = load_graphs(data)
    advice = wl.advise(
        graphs,
        None if labels is None else _numbers(labels),
        policies=policy or POLICIES,
        num_layers=layers,
        node_labels=node_labels,
        edge_labels=edge_labels,
    )
    console.print(_table(advice))
    for skipped in advice.skipped:
        console.print(Text(f"Skipped {skipped.policy}: its bags have {skipped.pairs:,} pairs."))
    console.print(Text(advice.text), style="bold")
    out.mkdir(parents=True, exist_ok=True)
    (out / "advice.json").write_text(json.dumps(advice.to_dict(), indent=2) + "\n", encoding="utf-8")
    plot_advice(advice, out / "advice.png")
    console.print(f"Saved: {out / 'advice.json'}, {out / 'advice.png'}")


def _numbers(path: Path) -> np.ndarray:
    try:
        if not path.is_file():
            raise FileNotFoundError(
                f"Expected a file of labels (got {str(path)!r}, which is not there). Check the path."
            )
        if not path.read_bytes().strip():
            raise ValueError("an empty file")
        return np.loadtxt(path, ndmin=1, encoding="utf-8")
    except ValueError as error:
        got = " ".join(str(error).split())[:120]
        raise ValueError(f"Expected a number a line in {path} (got: {got}). Write one label for each graph.") from None


def _table(advice: wl.Advice) -> Table:
    """A line an option, narrow enough for a terminal of 80 columns; columns that would say nothing are left out."""
    plain = advice.options[0]
    labelled = plain.confused_labels is not None
    losing = any(option.lost for option in advice.options)
    notes = ["confused: pairs of graphs in one class", "split: pairs that 1-WL confuses and this does not"]
    notes += ["lost: the reverse"] if losing else []
    notes += ["differ: confused pairs with different labels"] if labelled else []
    table = Table(
        title=f"{advice.graphs:,} graphs",
        caption=f"{'; '.join(notes)}; rows: of compact bags for {counted(advice.num_layers, 'layer')}",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for column in ("test", "policy"):
        table.add_column(column, no_wrap=True)
    for column in ("classes", "confused", "split", *["lost"] * losing, "rows", "×"):
        table.add_column(column, justify="right", no_wrap=True)
    for column in ["differ", "error ≥"] * labelled:
        table.add_column(column, justify="right", no_wrap=True)
    for option in advice.options:
        counts = [option.classes, option.confused, option.split, *[option.lost] * losing, option.rows]
        cells = [*(f"{count:,}" for count in counts), f"{option.rows / plain.rows:.1f}"]
        if labelled:
            cells += [f"{option.confused_labels:,}", f"{option.error_floor:.3f}"]
        name = "1-WL" if option.test == "1" else f"{option.test.upper()}-WL"
        table.add_row(name, Text(option.policy), *cells, style="bold green" if option is advice.best else None)
    return table
