"""`esan bag GRAPHS`: what the bag of some graphs holds, layer by layer, and a picture of it."""

from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from esan.bags import Bag, is_bag_file
from esan.cli.plainly import console, plainly
from esan.counted import counted
from esan.graphs import graph_of, holds_graphs, load_graphs
from esan.wl.pictures import picture_file


@plainly
def run(
    source: Annotated[
        str,
        typer.Argument(
            metavar="GRAPHS",
            help='A name ("rook", "csl(12,3)"), graph6, a .g6, .npz or .pt file, a TU folder, or a saved bag.',
        ),
    ],
    policy: Annotated[
        str | None,
        typer.Option(help='"ND", "ED", "EGO(2)", "EGO+(2)", "SE", "NM"; "^" adds the graph. ED if not given.'),
    ] = None,
    layers: Annotated[
        int | None, typer.Option(help="The depth of the network; 4, or a saved bag's, if not given.")
    ] = None,
    literal: Annotated[bool, typer.Option("--literal", help="A row a pair, as the paper writes it.")] = False,
    draw: Annotated[Path | None, typer.Option(metavar="PNG", help="Save a picture of a graph and its bag.")] = None,
    graph: Annotated[int, typer.Option(help="Which graph is drawn.")] = 0,
    most: Annotated[int, typer.Option(help="Subgraphs in the picture, at most.")] = 12,
    save: Annotated[Path | None, typer.Option(metavar="FILE", help="Save the bag, as Bag.load reads it.")] = None,
) -> None:
    """Show what a bag holds: subgraphs, pairs, and the rows that each layer computes."""
    if draw is not None:
        picture_file(draw)
    if most < 1:
        raise ValueError(f"Expected --most of 1 or more (got {most}). Leave it out for 12.")
    bag = _bag(source, policy, layers, literal)
    if not -len(bag) <= graph < len(bag):
        raise ValueError(f"Expected --graph below {counted(len(bag), 'graph')}, from 0 on (got {graph}). Leave it out.")
    console.print(Text(repr(bag)), soft_wrap=True)
    console.print(_table(bag))
    if draw is not None:
        bag.draw(graph, most, draw)
        console.print(f"Picture: {draw}")
    if save is not None:
        bag.save(save)
        console.print(f"Saved: {save}")


def _bag(source: str, policy: str | None, layers: int | None, literal: bool) -> Bag:
    path = Path(source)
    if is_bag_file(path):
        bag = Bag.load(path, policy=policy, num_layers=layers)
        return bag.to_literal() if literal else bag
    graphs = load_graphs(path) if holds_graphs(path) else graph_of(source)
    return Bag.of(graphs, "ED" if policy is None else policy, 4 if layers is None else layers, literal=literal or None)


def _table(bag: Bag) -> Table:
    """A line a layer: the rows it computes, and how many pairs they stand for."""
    table = Table(box=SIMPLE_HEAD)
    for column in ("layer", "rows", "pairs", "pairs a row"):
        table.add_column(column, justify="right")
    for layer in range(1, (bag.num_layers or 1) + 1):
        rows = bag.layer_view(layer).num_rows
        name = "each" if bag.literal else str(layer)
        table.add_row(name, f"{rows:,}", f"{bag.num_pairs:,}", f"{bag.num_pairs / rows:.1f}")
    return table
