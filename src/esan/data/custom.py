"""A user's own graphs as a `Dataset`: from memory or from files, their task and features inferred."""

import reprlib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import torch
from torch import Tensor

from esan.checks import shown, text_value, truth_value, whole_number
from esan.data.csv_files import is_csv, read_labels, read_molecules
from esan.data.dataset import METRICS, Classes, Dataset, SkippedLine, Split, Task, UnusedFeatures
from esan.data.infer_features import Asked, as_asked, inferred
from esan.data.infer_task import TargetCells, Targets, infer_targets
from esan.data.sets.tu_sets import TUFiles, read_tu
from esan.data.sets.verify import check_features
from esan.data.splits import check_split
from esan.graphs import ATOMS, BONDS, Categories, Channels, Graphs, OneHot, Source, load_graphs, read
from esan.graphs.readers.files import exists, is_file

Labels = Tensor | Sequence[Any] | str | Path


@dataclass
class _SourceData:
    """What a source holds, before its task and features are inferred."""

    graphs: Graphs
    x: Asked = "infer"
    edges: Asked = "infer"
    smiles: tuple[str, ...] | None = None
    skipped: tuple[SkippedLine, ...] = ()
    source: str = ""
    cells: TargetCells | None = None


def own(
    source: Source | str | Path,
    *,
    labels: Labels | None = None,
    task: Task | str | None = None,
    in_channels: Asked = "infer",
    edge_channels: Asked = "infer",
    given: Split | None = None,
    smiles: str | None = None,
    targets: Sequence[str] | str | None = None,
    skip_unreadable: bool = False,
    skip_missing: bool = False,
    name: str | None = None,
    classes: Sequence[int | str] | None = None,
) -> Dataset:
    """Your graphs as a dataset; the task and the kinds of features are inferred.

    Node and edge features: none, or the same everywhere → None; integers → `Categories`; other numbers → their count.
    Targets: one column of integers or of words → classification; 0/1 as floating-point numbers or in several columns,
    NaN where one is missing → labels; other numbers → regression.

    Args:
        source: PyG `Data` in a list or dataset, networkx graphs, `Graphs`; or a path: a folder of TU text files, a
            graph6 file (.g6), a table of SMILES (.csv, .tsv, also .gz), arrays (.npz) or a list of PyG data (.pt).
        labels: the targets, one row per graph, in their order: numbers, or words for classes, in a list, a tensor, an
            array of numpy or a table of pandas; or a text file of them. By default `y` of the graphs.
        task: a `Task` or its kind, if it is not to be inferred. A whole `Task` also admits graphs without targets, for
            predictions.
        in_channels: what `x` holds, if it is not to be inferred; None leaves `x` out.
        edge_channels: what `edge_attr` holds, if it is not to be inferred; None leaves it out.
        given: a split that comes with the data.
        smiles: the column of SMILES in a table; by default the one called "smiles".
        targets: the column or columns of targets in a table; by default all others.
        skip_unreadable: whether rows whose SMILES cannot be read are left out with a warning, and listed in `skipped`,
            instead of an error that lists them.
        skip_missing: whether rows of a table that lack a target are left out with a warning, and listed in `skipped`.
        name: what the dataset is called; by default as its file or folder, or "own".
        classes: the classes in the order of their numbers, where some may have no graphs here; by default those that
            are found, sorted.
    """
    _check_words(task, in_channels, edge_channels, given, smiles, targets, name)
    classes = _checked_classes(classes)
    truth_value("skip_unreadable", skip_unreadable, "Leave it out for an error that lists such rows.")
    truth_value("skip_missing", skip_missing, "Leave it out for an error that lists such rows.")
    if name is None:
        name = _stem(Path(source)) if isinstance(source, str | Path) else "own"
    asked = {"smiles": smiles, "targets": targets, "skip_unreadable": skip_unreadable, "skip_missing": skip_missing}
    found = _found(source, asked, task)
    graphs, cells = found.graphs, found.cells
    if labels is not None:
        graphs, cells = _labelled(found.graphs, labels)
    if graphs.y is not None and graphs.y_level != "graph":
        raise ValueError(
            f"Expected one target per graph (got one per {graphs.y_level}). Pass labels=..., with one row per graph; "
            f'to predict {graphs.y_level}s, make a network with output="{graphs.y_level}" (esan.dss_gnn) and train it '
            "in a loop of your own (docs/training.md)."
        )
    found_targets = infer_targets(graphs.y, task, cells, classes)
    if task is None and cells is not None and cells.file is not None:
        _tell_missing(found_targets, cells)
    x = _channels(graphs.x, found.x if in_channels == "infer" else in_channels, "x")
    edges = _channels(graphs.edge_attr, found.edges if edge_channels == "infer" else edge_channels, "edge_attr")
    unused = {
        "x": _unused(graphs.x, x, asked=in_channels != "infer"),
        "edge_attr": _unused(graphs.edge_attr, edges, asked=edge_channels != "infer"),
    }
    dataset = Dataset(
        name=name,
        graphs=replace(graphs, x=as_asked(graphs.x, x), edge_attr=as_asked(graphs.edge_attr, edges), y=found_targets.y),
        task=found_targets.task,
        in_channels=x,
        edge_channels=edges,
        given=given,
        classes=found_targets.classes,
        targets=None if cells is None else cells.names,
        smiles=found.smiles,
        skipped=found.skipped,
        source=found.source,
        unused={part: features for part, features in unused.items() if features is not None},
    )
    where = found.source if isinstance(source, str | Path) else _in_words(source, found.source, name)
    for value, channels, part in ((dataset.graphs.x, x, "x"), (dataset.graphs.edge_attr, edges, "edge_attr")):
        argument = "in_channels" if part == "x" else "edge_channels"
        advice = f"Set {part} on the graphs as {argument} says: for predictions, as the network was trained."
        check_features(value, channels, part, where, advice)
    if given is not None:
        check_split(dataset, given)
    return dataset


def _check_words(
    task: Any, in_channels: Any, edge_channels: Any, given: Any, smiles: Any, targets: Any, name: Any
) -> None:
    """Refuse arguments of the wrong type."""
    if task is not None and not isinstance(task, Task) and not (isinstance(task, str) and task in METRICS):
        raise TypeError(f"Expected a task of {', '.join(METRICS)} (got {shown(task)}). Pass one of these, or a Task.")
    for what, value in (("in_channels", in_channels), ("edge_channels", edge_channels)):
        if value is None or (isinstance(value, str) and value == "infer") or isinstance(value, Categories | OneHot):
            continue
        whole_number(what, value, 1, "Pass e.g. 7, esan.Categories(28), or None to leave them out.", 2**31)
    if given is not None and not isinstance(given, Split):
        raise TypeError(f"Expected given to be a Split (got {shown(given)}). Pass esan.data.Split(train, valid, test).")
    for what, value in (("smiles", smiles), ("name", name)):
        if value is not None:
            text_value(what, value, "Leave it out for the default.")
    if targets is not None and not isinstance(targets, str):
        many = list(targets) if isinstance(targets, Sequence) else None
        if many is None or not all(isinstance(column, str) for column in many):
            raise TypeError(f"Expected targets to name columns (got {shown(targets)}). Pass e.g. targets=['a', 'b'].")
        if len(set(many)) < len(many):
            raise ValueError(f"Expected every target once (got {shown(targets)}). Name each column once.")


def _checked_classes(classes: Any) -> Classes | None:
    if classes is None:
        return None
    found = tuple(classes) if isinstance(classes, Sequence) and not isinstance(classes, str) else ()
    plain = all(isinstance(label, int | str) and not isinstance(label, bool) for label in found)
    if len(found) < 2 or not plain or len(set(found)) != len(found):
        raise TypeError(
            f"Expected at least two different numbers or words as classes (got {shown(classes)}). Pass "
            "e.g. ['no', 'yes']."
        )
    return found


def _found(source: Any, asked: dict[str, Any], task: Task | str | None) -> _SourceData:
    is_table = isinstance(source, str | Path) and is_csv(Path(source))
    if not is_table and (given := [key for key, value in asked.items() if value not in (None, False)]):
        what = repr(str(source)) if isinstance(source, str | Path) else f"a {type(source).__name__}"
        raise ValueError(
            f"Expected a table of SMILES, a .csv or .tsv, for {', '.join(given)} (got {what}). Leave them out."
        )
    if not isinstance(source, str | Path):
        _refuse_text(source)
        return _SourceData(read(source).to("cpu"), source=type(source).__name__)
    path = Path(source)
    if not exists(path):
        raise FileNotFoundError(
            f"Expected a file or folder of graphs (got {shown(str(path))}, which is not there). Check the path."
        )
    if is_table:
        kind = task.kind if isinstance(task, Task) else task
        table = read_molecules(path, **asked, classes=kind == "classification")
        graphs = replace(table.arrays.to_graphs(str(path)), y=table.y)
        return _SourceData(graphs, ATOMS, BONDS, table.smiles, table.skipped, str(path), table.cells)
    if path.is_dir():
        kind = task.kind if isinstance(task, Task) else task
        width = task.out_channels if isinstance(task, Task) else 0
        numbers = width if kind == "regression" else None
        arrays = read_tu(TUFiles.of(path), attributes=True, edge_labels=True, numbers=numbers)
        return _SourceData(arrays.to_graphs(str(path)), source=str(path))
    return _SourceData(read(load_graphs(path)), source=str(path))


def _stem(path: Path) -> str:
    """The name of a folder, or of a file without its endings."""
    path = path.resolve()
    return path.name if path.is_dir() else Path(path.name.removesuffix(".gz")).stem


def _in_words(source: Any, kind: str, name: str) -> str:
    """What graphs of no file are called: by their name, or else by what they are held in."""
    if name != "own":
        return name
    return "the graphs" if isinstance(source, Graphs) else f"a {kind} of graphs"


def _tell_missing(found_targets: Targets, cells: TargetCells) -> None:
    """Warn that one blank cell makes a column of classes another task."""
    missing = (
        None if found_targets.y is None or found_targets.task.kind != "labels" else torch.isnan(found_targets.y[:, 0])
    )
    if missing is None or found_targets.task.out_channels > 1 or not cells.whole[0] or not bool(missing.any()):
        return
    lines = [str(cells.lines[graph]) for graph in missing.nonzero()[:, 0].tolist()]
    listed = ", ".join(lines[:10]) + (f" and {len(lines) - 10} more" if len(lines) > 10 else "")
    warnings.warn(
        f"Column {cells.columns[0]} of {cells.file} has 0 and 1 but nothing at line {listed}: read as labels, some "
        "of them missing, and scored by ROC-AUC. For classes fill it or pass skip_missing=True; to confirm labels, "
        'pass task="labels".',
        stacklevel=3,
    )


def _refuse_text(source: Any) -> None:
    """A clear error for text as `x` of networkx nodes."""
    for place, graph in enumerate(source if isinstance(source, list | tuple) else [source]):
        if isinstance(graph, nx.Graph):
            for node, x in graph.nodes(data="x"):
                if isinstance(x, str):
                    raise TypeError(
                        f"Expected numbers as x of nodes (got {x!r} on node {node!r} of graph {place}). "
                        "Number the categories 0, 1, 2, ..."
                    )


def _labelled(graphs: Graphs, labels: Labels) -> tuple[Graphs, TargetCells | None]:
    names = _column_names(labels)
    cells, labels = None, _as_lists(labels)
    if isinstance(labels, str | Path):
        y, cells = _from_file(Path(labels))
    elif _are_words(labels):
        words = tuple(sorted(set(labels)))
        y, cells = torch.tensor([words.index(label) for label in labels]), TargetCells(words=words)
    else:
        try:
            y = torch.as_tensor(labels)
        except (TypeError, ValueError, RuntimeError, OverflowError):
            raise TypeError(
                f"Expected labels that are numbers, or words alone (got {_few(labels)}). Pass one per graph."
            ) from None
        cells = None if names is None else TargetCells(names=names)
    if y.dim() == 0 or y.size(0) != len(graphs):
        raise ValueError(
            f"Expected one label per graph, {len(graphs)} in all (got {y.size(0) if y.dim() else 'one number'}). "
            "Give every graph its own, in the same order."
        )
    return replace(graphs, y=y, y_level="graph"), cells


def _column_names(labels: Any) -> tuple[str, ...] | None:
    """The names of the columns of a table of pandas; None where there is no table, or its columns are numbered."""
    names = tuple(labels.columns) if hasattr(labels, "columns") and hasattr(labels, "to_numpy") else ()
    usable = names and len(set(names)) == len(names) and all(isinstance(name, str) for name in names)
    return names if usable else None


def _as_lists(labels: Any) -> Any:
    """Labels of numpy, pandas or an iterator as a tensor or list; None among numbers is a missing one."""
    labels = list(labels) if isinstance(labels, Iterator) else labels
    labels = labels.to_numpy() if hasattr(labels, "to_numpy") else labels  # pandas; its index is not read
    if isinstance(labels, np.ndarray):
        labels = labels.tolist() if labels.dtype.kind in "OU" else torch.from_numpy(labels.copy())
    return _with_nan(labels) if isinstance(labels, list) else labels


def _with_nan(labels: list[Any]) -> list[Any]:
    return [_with_nan(label) if isinstance(label, list) else nan if label is None else label for label in labels]


def label_file(path: Path) -> Tensor:
    """The labels of a text file, one row per graph; words by their places among all of them."""
    return _from_file(path)[0]


def _from_file(path: Path) -> tuple[Tensor, TargetCells]:
    if not is_file(path):
        raise FileNotFoundError(
            f"Expected a file of labels (got {shown(str(path))}, which is not there). Check the path."
        )
    return read_labels(path)


def _are_words(labels: Any) -> bool:
    return isinstance(labels, Sequence) and bool(labels) and all(isinstance(label, str) for label in labels)


def _few(labels: Any) -> str:
    try:
        return reprlib.repr(labels)
    except ValueError:  # a number of thousands of digits
        return shown(labels)


def _unused(value: Tensor | None, channels: Channels, asked: bool) -> UnusedFeatures | None:
    """What a dataset leaves out of the features of graphs; None for nothing."""
    if channels or value is None or not value.numel():
        return None
    rows = value.reshape(value.size(0), -1)
    row = tuple(rows[0].tolist()) if bool((rows == rows[0]).all()) else None
    return UnusedFeatures(rows.size(1), row, asked)


def _channels(value: Tensor | None, asked: Asked, name: str) -> Channels:
    return inferred(value, name) if isinstance(asked, str) else asked
