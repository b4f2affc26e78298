"""A user's own graphs as a `Dataset`: from memory or from files, with their task and features understood."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import networkx as nx
import torch
from torch import Tensor

from esan.data.dataset import Dataset, Skipped, Split, Task
from esan.data.features import Asked, as_asked, inferred
from esan.data.splits import check_split
from esan.data.tables import read_labels, read_molecules
from esan.data.targets import understood
from esan.data.tu import TUFiles, read_tu
from esan.data.verify import check_lines
from esan.graphs import ATOMS, BONDS, Channels, Graphs, Source, load_graphs, read

Labels = Tensor | Sequence[Any] | str | Path


@dataclass
class _Given:
    """What a source holds, before it is understood."""

    graphs: Graphs
    x: Asked = "infer"
    edges: Asked = "infer"
    smiles: tuple[str, ...] | None = None
    skipped: tuple[Skipped, ...] = ()
    source: str = ""


def own(
    source: Source | str | Path,
    *,
    labels: Labels | None = None,
    task: Task | str | None = None,
    in_channels: Asked = "infer",
    edge_channels: Asked = "infer",
    given: Split | None = None,
    smiles: str | None = None,
    targets: Sequence[str] | None = None,
    skip_unreadable: bool = False,
    name: str = "own",
) -> Dataset:
    """Your graphs, with what is to be predicted and what their features hold read off them.

    Node and edge features: none, or the same everywhere → None; integers → `Categories`; other numbers → their count.
    Targets: one column of integers → classification; 0/1 as floating-point numbers or in several columns, NaN where
    one is missing → labels; other numbers → regression.

    Args:
        source: PyG `Data` in a list or dataset, networkx graphs, `Graphs`; or a path: a folder of TU text files, a
            graph6 file (.g6), a table of SMILES (.csv, .tsv, also .gz), arrays (.npz) or a list of PyG data (.pt).
        labels: the targets, a line a graph, or a text file of them; by default `y` of the graphs.
        task: what the task is, if that is to be said: a `Task` or its kind. A whole `Task` also admits graphs without
            targets, which only await predictions.
        in_channels: what `x` holds, if that is to be said; None leaves `x` out.
        edge_channels: what `edge_attr` holds, if that is to be said; None leaves it out.
        given: a split that comes with the data.
        smiles: the column of SMILES in a table; by default the one called so.
        targets: the columns of targets in a table; by default all others.
        skip_unreadable: whether rows whose SMILES cannot be read are left out with a warning, and listed in `skipped`,
            instead of an error that lists them.
        name: what the dataset is called.
    """
    found = _found(source, smiles, targets, skip_unreadable)
    graphs = found.graphs if labels is None else _labelled(found.graphs, labels)
    if graphs.y is not None and graphs.y_level != "graph":
        raise ValueError(
            f"Expected a target a graph (got one a{'n' if graphs.y_level == 'edge' else ''} {graphs.y_level}). "
            "Pass labels=..., a line a graph."
        )
    told = understood(graphs.y, task)
    x = _channels(graphs.x, found.x if in_channels == "infer" else in_channels, "x")
    edges = _channels(graphs.edge_attr, found.edges if edge_channels == "infer" else edge_channels, "edge_attr")
    dataset = Dataset(
        name=name,
        graphs=replace(graphs, x=as_asked(graphs.x, x), edge_attr=as_asked(graphs.edge_attr, edges), y=told.y),
        task=told.task,
        in_channels=x,
        edge_channels=edges,
        given=given,
        classes=told.classes,
        smiles=found.smiles,
        skipped=found.skipped,
        source=found.source,
    )
    check_lines(dataset.graphs.x, x, "x", name)
    check_lines(dataset.graphs.edge_attr, edges, "edge_attr", name)
    if given is not None:
        check_split(dataset, given)
    return dataset


def _found(source: Any, smiles: str | None, targets: Sequence[str] | None, skip: bool) -> _Given:
    is_table = isinstance(source, str | Path) and _is_table(Path(source))
    if not is_table and (smiles is not None or targets is not None or skip):
        raise ValueError(
            f"Expected a table of SMILES, a .csv or .tsv, for smiles, targets and skip_unreadable (got "
            f"{str(source)[:60]!r}). Leave them out."
        )
    if not isinstance(source, str | Path):
        _refuse_text(source)
        return _Given(read(source).to("cpu"), source=type(source).__name__)
    path = Path(source)
    if not path.exists():
        raise FileNotFoundError(f"Expected a file or folder of graphs (got {str(path)!r}, which is not there).")
    if is_table:
        table = read_molecules(path, smiles, targets, skip)
        graphs = replace(table.laid.graphs(str(path)), y=table.y)
        return _Given(graphs, ATOMS, BONDS, table.smiles, table.skipped, str(path))
    if path.is_dir():
        return _Given(read_tu(TUFiles.of(path), attributes=True, edge_labels=True).graphs(str(path)), source=str(path))
    return _Given(read(load_graphs(path)), source=str(path))


def _is_table(path: Path) -> bool:
    return path.name.lower().removesuffix(".gz").endswith((".csv", ".tsv"))


def _refuse_text(source: Any) -> None:
    """Text is easily put on networkx nodes, and torch's own complaint about it names neither node nor remedy."""
    for place, graph in enumerate(source if isinstance(source, list | tuple) else [source]):
        if isinstance(graph, nx.Graph):
            for node, x in graph.nodes(data="x"):
                if isinstance(x, str):
                    raise TypeError(
                        f"Expected numbers as x of nodes (got {x!r} on node {node!r} of graph {place}). "
                        "Number the categories 0, 1, 2, ..."
                    )


def _labelled(graphs: Graphs, labels: Labels) -> Graphs:
    if isinstance(labels, str | Path):
        if not Path(labels).is_file():
            raise FileNotFoundError(f"Expected a file of labels (got {str(labels)!r}, which is not there).")
        y = read_labels(Path(labels))
    else:
        try:
            y = torch.as_tensor(labels)
        except (TypeError, ValueError, RuntimeError):
            raise TypeError(
                f"Expected labels that are numbers (got {str(labels)[:60]}). Encode classes as 0, 1, 2, ..."
            ) from None
    if y.dim() == 0 or y.size(0) != len(graphs):
        raise ValueError(
            f"Expected a label a graph, {len(graphs)} in all (got {y.size(0) if y.dim() else 'one number'}). "
            "Give every graph its own, in the same order."
        )
    return replace(graphs, y=y, y_level="graph")


def _channels(value: Tensor | None, asked: Asked, name: str) -> Channels:
    return inferred(value, name) if isinstance(asked, str) else asked
