"""The graphs that a command line names, the same for every command: data sets, files, folders, and single graphs."""

import re
from pathlib import Path

import networkx as nx
from torch_geometric.data import Data

from esan import data
from esan.checks import shown
from esan.data import Task
from esan.data.csv_files import is_csv
from esan.graphs import Graphs, graph_of, holds_graphs, load_graphs, read
from esan.graphs.readers.files import exists
from esan.train.recipes.recipe_fields import columns_of
from esan.train.runs.prepare_data import find_data, is_dataset_name

#: "mutag[3]": a source and the number of one of its graphs. No graph6 text ends so: it has no digits.
_NUMBERED = re.compile(r"(?P<source>.+)\[(?P<number>[0-9]{1,12})\]")
_MOST_HEADER = 100_000


def all_graphs(
    source: str,
    root: Path | None = None,
    cache: Path | None = None,
    smiles: str | None = None,
    targets: str | None = None,
    skip_unreadable: bool = False,
) -> Graphs:
    """The graphs of a data set, file or folder, with targets where it has some.

    Args:
        source: the name of a data set, or a path.
        root: the folder of data sets.
        cache: the folder of downloads.
        smiles: the SMILES column of a CSV file.
        targets: the target columns of a CSV file, with commas between; None for no targets.
        skip_unreadable: whether to leave out rows of a CSV file that cannot be read.
    """
    path = Path(source)
    table = is_csv(path)
    for option, value in (("--smiles", smiles), ("--targets", targets), ("--skip-unreadable", skip_unreadable)):
        if value and not table:
            raise ValueError(f"Expected a CSV file with {option} (got {shown(source)}). Leave {option} out.")
    if not exists(path):  # as for predict, what lies here comes before a data set of that name
        return find_data(source, root, cache).graphs
    if not table:
        return read(load_graphs(path))
    if targets:
        return find_data(
            source, root, cache, targets=columns_of(targets), smiles=smiles, skip_unreadable=skip_unreadable
        ).graphs
    # Graphs alone: the task stands for targets that nobody reads.
    alone = Task("regression", 1)
    return data.own(source, task=alone, targets=[], smiles=smiles, skip_unreadable=skip_unreadable).graphs


def some_graphs(source: str, root: Path | None = None, cache: Path | None = None, smiles: str | None = None) -> Graphs:
    """The graphs of a data set, file or folder, or the one graph that is named."""
    if (one := _numbered(source, root, cache)) is not None:
        return one
    if is_collection(source):
        return all_graphs(source, root, cache, smiles)
    return read(graph_of(source))


def one_graph(source: str, root: Path | None = None, cache: Path | None = None) -> Data | nx.Graph:
    """The one graph that is named: by itself, as one of a data set, or as the only one of a file."""
    if (one := _numbered(source, root, cache)) is not None:
        return _as_data(one)
    if not is_collection(source):
        return graph_of(source)
    graphs = all_graphs(source, root, cache)
    if len(graphs) != 1:
        raise ValueError(
            f"Expected one graph (got {len(graphs):,} in {shown(source)}). Name one by its number, e.g. {source}[0]."
        )
    return _as_data(graphs)


def _as_data(graphs: Graphs) -> Data:
    held = {"x": graphs.x, "edge_attr": graphs.edge_attr}
    there = {name: value for name, value in held.items() if value is not None}
    return Data(edge_index=graphs.edge_index, num_nodes=int(graphs.num_nodes[0]), **there)


def is_collection(source: str) -> bool:
    """Whether this names a data set, or a file or folder of graphs; a table of edges is one graph."""
    path = Path(source)
    if is_csv(path):
        return _has_smiles(path)
    return is_dataset_name(source) or holds_graphs(path)


def _numbered(source: str, root: Path | None, cache: Path | None) -> Graphs | None:
    match = _NUMBERED.fullmatch(source)
    if match is None or not is_collection(match["source"]):
        return None
    graphs, number = all_graphs(match["source"], root, cache), int(match["number"])
    if number >= len(graphs):
        raise ValueError(
            f"Expected a graph of {match['source']} from 0 to {len(graphs) - 1} (got {source}). Choose one of these."
        )
    return graphs[number]


def _has_smiles(path: Path) -> bool:
    if path.suffix.lower() == ".gz":
        return True
    try:
        with path.open("rb") as file:
            return b"smiles" in file.readline(_MOST_HEADER).lower()
    except OSError:
        return False
