"""`esan bag GRAPHS`: what the bag of some graphs holds, layer by layer, and a picture of it."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from esan.bags import Bag, is_bag_file
from esan.cli import options
from esan.cli.console import console, plainly
from esan.cli.graph_arguments import some_graphs
from esan.cli.tables import plain_table
from esan.wl.drawing.picture_file import picture_file


@plainly
def run(
    source: Annotated[
        str,
        typer.Argument(
            metavar="GRAPHS",
            help=f"{options.SOURCES}; {options.ONE_GRAPH}; or a saved bag.",
        ),
    ],
    policy: options.Policy = None,
    layers: Annotated[
        int | None,
        typer.Option(
            "--num-layers", metavar="N", help="The number of layers of the network (default: 4, or the saved bag's)."
        ),
    ] = None,
    literal: Annotated[bool, typer.Option("--literal", help="Store one row per (node, subgraph) pair.")] = False,
    draw: Annotated[
        Path | None, typer.Option("--draw", metavar="FILE", help="Save a picture of one graph and its bag.")
    ] = None,
    graph: Annotated[int, typer.Option("--graph", metavar="N", help="The graph to draw, by its number.")] = 0,
    most: Annotated[int, typer.Option("--most", metavar="N", help="Draw at most this many subgraphs.")] = 12,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Save the bag, for Bag.load or esan bag.")
    ] = None,
    smiles: options.Smiles = None,
    root: options.Root = None,
    cache: options.Cache = None,
) -> None:
    """Show what a bag holds: subgraphs, (node, subgraph) pairs, and the rows that each layer computes."""
    if draw is not None:
        picture_file(draw)
    if most < 1:
        raise ValueError(f"Expected --most of 1 or more (got {most}). Leave it out for 12.")
    bag = _bag(source, policy, layers, literal, root, cache, smiles)
    if not -len(bag) <= graph < len(bag):
        raise ValueError(f"Expected --graph from 0 to {len(bag) - 1} (got {graph}). Choose one of these.")
    console.print(Text(repr(bag)), soft_wrap=True)
    console.print(_table(bag))
    if draw is not None:
        bag.draw(graph, most, draw)
        console.print(Text(f"Picture: {draw}"), soft_wrap=True)
    if save is not None:
        bag.save(save)
        console.print(Text(f"Saved: {save}"), soft_wrap=True)


def _bag(
    source: str,
    policy: str | None,
    layers: int | None,
    literal: bool,
    root: Path | None,
    cache: Path | None,
    smiles: str | None,
) -> Bag:
    path = Path(source)
    if is_bag_file(path):
        bag = Bag.load(path, policy=policy, num_layers=layers)
        return bag.to_literal() if literal else bag
    graphs = some_graphs(source, root, cache, smiles)
    return Bag.of(graphs, "ED" if policy is None else policy, 4 if layers is None else layers, literal=literal or None)


def _table(bag: Bag) -> Table:
    """One row per layer: the rows of the bag that it computes, and how many pairs they stand for."""
    table = plain_table([], ["layer", "rows", "pairs", "pairs per row"])
    for layer in range(1, (bag.num_layers or 1) + 1):
        rows = bag.layer_view(layer).num_rows
        name = "each" if bag.literal else str(layer)
        table.add_row(name, f"{rows:,}", f"{bag.num_pairs:,}", f"{bag.num_pairs / rows:.1f}")
    return table
