"""Every reader of files by name, each giving what it read as plain values; these run in the child process."""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import esan
from esan import data
from esan.data.csv_files import read_labels, read_molecules
from esan.data.sets.expressivity import _from_list
from esan.data.sets.gin_text_format import read_gin
from esan.data.sets.ogb import _read as read_ogb
from esan.data.sets.tu_sets import TUFiles, read_tu
from esan.data.sets.zinc import read_zinc_part
from esan.graphs import Graphs, graph_of, load_graphs, read
from esan.report.gather import gather
from esan.report.page.html_page import html
from esan.report.reproduction.timing import load_times
from esan.report.tables import markdown
from esan.train import Predictor
from esan.train.campaigns.grid import read_scores
from esan.train.recipes.recipe import Recipe
from esan.train.runs.records import Record


def ready() -> str:
    """Nothing but the imports above."""
    return "ready"


def bag(path: str, policy: str) -> list[str]:
    """A bag, and what two networks say of it and of some of its graphs: compiled loops run over all its arrays."""
    loaded = esan.Bag.load(path, policy=policy or None)
    parts = [getattr(loaded, name).fingerprint for name in ("graphs", "selection", "rows")]
    if loaded.sampled_from is not None:
        parts += [getattr(loaded.sampled_from, name).fingerprint for name in ("selection", "rows")]
    return [*parts, *_answers(loaded)]


def forged_bag(path: str) -> str:
    """A bag whose digest was made to fit: it may be another bag, but nothing may read outside its arrays."""
    loaded = esan.Bag.load(path)
    try:
        _answers(loaded)
    except (ValueError, RuntimeError, IndexError) as error:
        return f"a network refused it: {type(error).__name__}"
    return "a bag"


def _answers(loaded: esan.Bag) -> list[str]:
    answers = []
    for build, conv in ((esan.ds_gnn, "gin"), (esan.dss_gnn, "gine")):
        torch.manual_seed(0)
        edges = {"edge_channels": esan.Categories(4)} if conv == "gine" else {}
        network = build(esan.Categories(5), 4, 2, 1, conv=conv, marked=loaded.marked, **edges)  # type: ignore[arg-type]
        out = network(loaded)
        out.sum().backward()
        answers.append(_digest([out.tolist(), *(p.grad.tolist() for p in network.parameters() if p.grad is not None)]))
    some = loaded[[len(loaded) - 1, 0]]
    answers.append(_digest([_plain(some.graphs), some.rows.source.tolist(), some.rows.target.tolist()]))
    answers.append(_digest([one.edge_index.tolist() for one in loaded.subgraphs()]))
    if loaded.sampled_from is not None:
        answers.append(loaded.resample(torch.Generator().manual_seed(0)).rows.fingerprint)
    return answers


def graphs(path: str) -> str:
    return _digest(_plain(read(load_graphs(path))))


def own(path: str) -> str:
    return _digest(_plain(data.own(path).graphs))


def edges(path: str) -> str:
    return _digest(_plain(read(graph_of(Path(path)))))


def gin(path: str) -> str:
    return _digest(_plain(read_gin(Path(path)).to_graphs(path)))


def ogb(folder: str) -> str:
    return _digest(_plain(read_ogb(Path(folder)).to_graphs(folder)))


def labels(path: str) -> list[list[float]]:
    return [[None if value != value else float(value) for value in row] for row in read_labels(Path(path))[0].tolist()]  # type: ignore[misc]


def zinc_pickle(folder: str) -> str:
    return _digest(_plain(read_zinc_part(Path(folder), "train").to_graphs(folder)))


def exp_pickle(path: str) -> str:
    return _digest(_plain(_from_list(Path(path)).to_graphs(path)))


def recipe(path: str) -> dict[str, Any]:
    return Recipe.load(path).to_dict()


def record(path: str) -> dict[str, Any]:
    return Record.load(path).to_dict()


def fitted(path: str) -> str:
    loaded = Predictor.load(path)
    weights = {name: tensor.tolist() for name, tensor in loaded.model.state_dict().items()}
    return _digest([weights, loaded.header.model_spec.to_dict(), loaded.header.fold, loaded.header.seed])


def scores(path: str) -> dict[str, float]:
    return read_scores(Path(path))


def times(folder: str) -> dict[str, list[float]]:
    return {name: list(timed.seconds) for name, timed in load_times(Path(folder)).items()}


def report(folder: str) -> list[int]:
    """How many records a report shows, and how many files it names as not used."""
    found = gather([folder])
    rows = found.rows()
    assert html("Runs", rows, found.problems)
    assert markdown(rows)
    return [sum(len(row.records) for row in rows), len(found.problems)]


def _plain(found: Graphs) -> list[Any]:
    """A list per graph: its nodes, its directed edges with their features, sorted, and x and y."""
    result = []
    for i in range(len(found)):
        one = found[i]
        attributes = _rows(one.edge_attr) or [[]] * one.edge_index.size(1)
        columns = zip(one.edge_index.t().tolist(), attributes, strict=True)
        joined = sorted([u, v, *more] for (u, v), more in columns)
        result.append([int(one.num_nodes[0]), joined, _rows(one.x), _rows(one.y)])
    return result


def _rows(value: Tensor | None) -> list[list[float]]:
    if value is None or not value.size(0):
        return []
    return [[float(number) for number in row] for row in value.double().reshape(value.size(0), -1).tolist()]


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def table(path: str) -> list[Any]:
    """The SMILES and targets of a table, None for one that is missing."""
    read_table = read_molecules(Path(path), None, None, skip_unreadable=False)
    y = [] if read_table.y is None else read_table.y.tolist()
    return [list(read_table.smiles), [[None if v != v else float(v) for v in row] for row in y]]


def tu(folder: str) -> str:
    return _digest(_plain(read_tu(TUFiles.of(Path(folder)), attributes=True, edge_labels=True).to_graphs(folder)))
