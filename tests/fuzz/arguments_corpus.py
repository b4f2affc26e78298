"""Arguments of Python functions as one may get them wrong: values of every kind, and what each parameter takes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import torch
from torch_geometric.data import Batch, Data

import esan
from esan import Bag, Loader, graphs, wl
from esan.checks import device_here
from esan.data import Split, Task, own, random, stratified_folds
from esan.train import Recipe
from esan.train.campaigns.campaign import job_groups
from esan.train.campaigns.executors import Processes
from esan.train.campaigns.ray_cluster import RayCluster
from esan.train.runs.job import Job
from esan.train.runs.loggers import ProgressBars


class Odd:
    """A class of the user's whose `repr` fails."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")


BOTH = torch.tensor([[0, 1], [1, 0]])
#: One value of each kind, by what it is called in a case; made again for each, since some can be used up.
VALUES: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "False": lambda: False,
    "-1": lambda: -1,
    "0": lambda: 0,
    "1": lambda: 1,
    "2": lambda: 2,
    "3": lambda: 3,
    "10^20": lambda: 10**20,
    "10^5000": lambda: 10**5000,
    "1.5": lambda: 1.5,
    "2.0": lambda: 2.0,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "numpy 2": lambda: np.int64(2),
    "empty text": lambda: "",
    "text": lambda: "a",
    "null": lambda: "a\0b",
    "surrogate": lambda: "\udcff",
    "long text": lambda: "x" * 5000,
    "bytes": lambda: b"a",
    "list": list,
    "list of lists": lambda: [[0, 1], [1]],
    "dict": dict,
    "set": lambda: {1},
    "object": object,
    "odd": Odd,
    "tensor": lambda: torch.tensor(2),
    "floats": lambda: torch.tensor([0.5, 0.5]),
    "meta": lambda: torch.empty(2, 2, device="meta"),
    "sparse": lambda: torch.eye(2).to_sparse(),
    "quantised": lambda: torch.quantize_per_tensor(torch.ones(2, 2), 0.1, 0, torch.qint8),
    "complex": lambda: torch.ones(2, 2, dtype=torch.cfloat),
    "array of objects": lambda: np.array([object(), None], dtype=object),
    "generator": lambda: (one for one in "ab"),
    "a graph": lambda: graphs.cycle(3),
    "networkx": lambda: nx.path_graph(2),
    "path": lambda: Path("not there"),
}
WHOLE = {"1", "2", "3", "numpy 2"}
TRUTHS = {"True", "False"}


@dataclass(frozen=True)
class Parameter:
    """One parameter of a function.

    Attributes:
        call: the function, of that one value.
        takes: the values that it takes; all others are errors.
    """

    call: Callable[[Any], Any]
    takes: set[str] = field(default_factory=set)


def _ring() -> Data:
    return graphs.cycle(5)


def _bag(**more: Any) -> Bag:
    return Bag.of([_ring(), graphs.path(3)], "ND", 2, **more)


def _labelled(count: int = 8) -> list[Data]:
    data = [graphs.cycle(3 + i % 3) for i in range(count)]
    for place, graph in enumerate(data):
        graph.y = torch.tensor([place % 2])
    return data


def _data(**fields: Any) -> Data:
    data = Data(edge_index=BOTH, num_nodes=2)
    for name, value in fields.items():
        data[name] = value
    return data


def _batch(ptr: Any) -> Batch:
    batch = Batch.from_data_list([_data(), _data()])
    batch.ptr = ptr
    return batch


def _networkx(**attributes: Any) -> nx.Graph:
    graph = nx.path_graph(2)
    if "x" in attributes:
        graph.nodes[0]["x"], graph.nodes[1]["x"] = 1, attributes["x"]
    if "edge_attr" in attributes:
        graph.edges[0, 1]["edge_attr"] = attributes["edge_attr"]
    if "y" in attributes:
        graph.graph["y"] = attributes["y"]
    return graph


def _recipe(**fields: Any) -> Recipe:
    return Recipe(**{"data": "zinc"} | fields)


#: By function and parameter. What a value makes of a graph may be odd, but it is that graph: numbers as features.
PARAMETERS: dict[str, Parameter] = {
    "cycle n": Parameter(graphs.cycle, {"3"}),
    "path n": Parameter(graphs.path, WHOLE),
    "star leaves": Parameter(graphs.star, WHOLE),
    "complete n": Parameter(graphs.complete, WHOLE),
    "rook n": Parameter(graphs.rook, WHOLE),
    "csl n": Parameter(lambda v: graphs.csl(v, 2)),
    "csl k": Parameter(lambda v: graphs.csl(12, v), {"2", "3", "numpy 2"}),
    "atlas most_nodes": Parameter(graphs.atlas, WHOLE),
    "random_regular degree": Parameter(lambda v: graphs.random_regular(v, 8, 0), WHOLE | {"0"}),
    "random_regular n": Parameter(lambda v: graphs.random_regular(2, v, 0), {"3"}),
    "random_regular seed": Parameter(lambda v: graphs.random_regular(2, 5, v), WHOLE | {"0"}),
    "disjoint_union": Parameter(lambda v: graphs.disjoint_union(_ring(), v), {"a graph"}),
    "strong_regularity": Parameter(graphs.strong_regularity, {"a graph"}),
    "graph_of": Parameter(graphs.graph_of, {"a graph", "networkx"}),
    "read": Parameter(graphs.read, {"a graph", "networkx"}),
    "read list": Parameter(lambda v: graphs.read([_ring(), v]), {"a graph", "networkx"}),
    "graphs[ids]": Parameter(lambda v: graphs.read([_ring()] * 3)[v], {"-1", "0", "1", "2", "numpy 2", "tensor"}),
    "data.edge_index": Parameter(lambda v: graphs.read(_data(edge_index=v)), {"None"}),
    "data.num_nodes": Parameter(lambda v: graphs.read(_data(num_nodes=v)), {"None", "2", "3", "numpy 2", "tensor"}),
    "data.x": Parameter(lambda v: graphs.read(_data(x=v)), {"None", "floats"}),
    "data.edge_attr": Parameter(lambda v: graphs.read(_data(edge_attr=v)), {"None", "floats"}),
    "data.y": Parameter(
        lambda v: graphs.read(_data(y=v)),
        {"None", "True", "False", "-1", "0", "1", "2", "3", "1.5", "2.0", "nan", "inf", "numpy 2", "tensor", "floats"},
    ),
    "batch.ptr": Parameter(lambda v: graphs.read(_batch(v))),
    "networkx x": Parameter(
        lambda v: graphs.read(_networkx(x=v)),
        {"True", "False", "-1", "0", "1", "2", "3", "1.5", "2.0", "numpy 2", "tensor"},
    ),
    "networkx edge_attr": Parameter(
        lambda v: graphs.read(_networkx(edge_attr=v)),
        {"None", "True", "False", "-1", "0", "1", "2", "3", "1.5", "2.0", "numpy 2", "tensor", "floats", "list"},
    ),
    "networkx y": Parameter(
        lambda v: graphs.read(_networkx(y=v)),
        {"None", "True", "False", "-1", "0", "1", "2", "3", "1.5", "2.0", "nan", "inf", "numpy 2", "tensor", "floats"},
    ),
    "EgoNets hops": Parameter(esan.EgoNets, WHOLE),
    "EgoNets marked": Parameter(lambda v: esan.EgoNets(2, v), TRUTHS),
    "NodeDeletion k": Parameter(esan.NodeDeletion, WHOLE),
    "Sampled policy": Parameter(lambda v: esan.Sampled(v, 0.5)),
    "Sampled fraction": Parameter(lambda v: esan.Sampled(esan.EdgeDeletion(), v), {"1"}),
    "Augmented policy": Parameter(esan.Augmented),
    "policy_named": Parameter(esan.policy_named),
    "policy(data)": Parameter(lambda v: esan.EdgeDeletion()(v), {"a graph"}),
    "Bag.of source": Parameter(lambda v: Bag.of(v, "ED", 2), {"a graph", "networkx"}),
    "Bag.of policy": Parameter(lambda v: Bag.of(_ring(), v, 2)),
    "Bag.of num_layers": Parameter(lambda v: Bag.of(_ring(), "ED", v), WHOLE),
    "Bag.of literal": Parameter(lambda v: Bag.of(_ring(), "ED", 2, literal=v), TRUTHS | {"None"}),
    "Bag.of generator": Parameter(lambda v: Bag.of(_ring(), "ED@0.5", 2, generator=v), {"None"}),
    "bag.resample": Parameter(lambda v: Bag.of(_ring(), "ED@0.5", 2).resample(v), {"None"}),
    "bag.subgraph": Parameter(lambda v: _bag().subgraph(v), {"-1", "0", "1", "2", "3", "numpy 2"}),
    "bag.stage": Parameter(lambda v: _bag().layer_view(v), {"0", "1", "2", "numpy 2"}),
    "bag[ids]": Parameter(lambda v: _bag()[v], {"-1", "0", "1"}),
    "bag.to_compact": Parameter(lambda v: _bag().to_compact(v), WHOLE),
    "bag.to": Parameter(lambda v: _bag().to(v)),
    "device_here": Parameter(device_here),
    "Loader bag": Parameter(Loader),
    "Loader batch_size": Parameter(lambda v: Loader(_bag(), v), WHOLE),
    "Loader shuffle": Parameter(lambda v: Loader(_bag(), shuffle=v), TRUTHS),
    "Loader drop_last": Parameter(lambda v: Loader(_bag(), drop_last=v), TRUTHS),
    "Loader generator": Parameter(lambda v: Loader(_bag(), generator=v), {"None"}),
    "separates first": Parameter(lambda v: wl.separates(v, "rook", "1"), {"a graph", "networkx"}),
    "separates test": Parameter(lambda v: wl.separates("rook", "rook", v, "ED")),
    "separates policy": Parameter(lambda v: wl.separates("rook", "shrikhande", "ds", v)),
    "separates node_labels": Parameter(lambda v: wl.separates("rook", "shrikhande", "1", node_labels=v), TRUTHS),
    "separates edge_labels": Parameter(lambda v: wl.separates("rook", "shrikhande", "1", edge_labels=v), TRUTHS),
    "classes graphs": Parameter(lambda v: wl.classes(v, "1"), {"a graph", "networkx"}),
    "colouring graph": Parameter(lambda v: wl.colouring(v, "1"), {"a graph", "networkx"}),
    "advise labels": Parameter(lambda v: wl.advise(_labelled(2), v, policies=["ND"]), {"None", "floats"}),
    "advise policies": Parameter(lambda v: wl.advise(_labelled(2), policies=v), {"list"}),
    "advise num_layers": Parameter(lambda v: wl.advise(_labelled(2), policies=["ND"], num_layers=v), WHOLE),
    "advise most_pairs": Parameter(
        lambda v: wl.advise(_labelled(2), policies=["ND"], most_pairs=v), WHOLE | {"0", "10^20", "10^5000"}
    ),
    "draw most": Parameter(lambda v: wl.draw_refinement("cycle(6)", "2xcycle(3)", "1", most=v), WHOLE),
    "own task": Parameter(lambda v: own(_labelled(), task=v), {"None"}),
    "own labels": Parameter(lambda v: own(_labelled(), labels=v), {"None"}),
    "own in_channels": Parameter(lambda v: own(_labelled(), in_channels=v), {"None"}),
    "own given": Parameter(lambda v: own(_labelled(), given=v), {"None"}),
    "own smiles": Parameter(lambda v: own(_labelled(), smiles=v), {"None"}),
    "own targets": Parameter(lambda v: own(_labelled(), targets=v), {"None"}),
    "own skip_missing": Parameter(lambda v: own(_labelled(), skip_missing=v), {"False"}),
    "own name": Parameter(
        lambda v: own(_labelled(), name=v), {"None", "text", "empty text", "null", "surrogate", "long text"}
    ),
    "Task kind": Parameter(lambda v: Task(v, 2)),
    "Task out_channels": Parameter(lambda v: Task("regression", v), WHOLE),
    "Split train": Parameter(lambda v: Split(v, torch.tensor([1])), {"list"}),
    "random count": Parameter(lambda v: random(v, (0.5, 0.5, 0)), {"2", "3", "numpy 2"}),
    "random fractions": Parameter(lambda v: random(10, v)),
    "random seed": Parameter(lambda v: random(10, seed=v), WHOLE | {"0"}),
    "stratified_folds y": Parameter(lambda v: stratified_folds(v, 2)),
    "stratified_folds folds": Parameter(lambda v: stratified_folds([0, 1] * 4, v), {"2", "3", "numpy 2"}),
    "stratified_folds seed": Parameter(lambda v: stratified_folds([0, 1] * 4, 2, v), WHOLE | {"0"}),
    "Recipe data": Parameter(lambda v: _recipe(data=v), {"text"}),
    "Recipe name": Parameter(lambda v: _recipe(name=v), {"text", "empty text"}),
    "Recipe policy": Parameter(lambda v: _recipe(policy=v)),
    "Recipe num_layers": Parameter(lambda v: _recipe(num_layers=v), {"1", "2", "3"}),
    "Recipe hidden_channels": Parameter(lambda v: _recipe(hidden_channels=v), {"1", "2", "3"}),
    "Recipe epochs": Parameter(lambda v: _recipe(epochs=v), {"1", "2", "3"}),
    "Recipe split_seed": Parameter(lambda v: _recipe(split_seed=v), {"0", "1", "2", "3"}),
    "Recipe lr": Parameter(lambda v: _recipe(lr=v), {"1", "2", "3", "1.5", "2.0", "10^20"}),
    "Recipe dropout": Parameter(lambda v: _recipe(dropout=v), {"0"}),
    "Recipe model": Parameter(lambda v: _recipe(model=v)),
    "Recipe tf32": Parameter(lambda v: _recipe(tf32=v), TRUTHS),
    "Recipe grid": Parameter(lambda v: _recipe(grid=v), {"list", "dict"}),
    "Recipe.from_dict": Parameter(Recipe.from_dict),
    "Job recipe": Parameter(Job),
    "Job fold": Parameter(lambda v: Job(_recipe(), v), {"0"}),
    "Job seed": Parameter(lambda v: Job(_recipe(), 0, v), WHOLE | {"0"}),
    "groups most": Parameter(lambda v: job_groups([Job(_recipe())], v), WHOLE | {"10^20", "10^5000"}),
    "Processes workers": Parameter(Processes, WHOLE | {"None"}),
    "Processes threads": Parameter(lambda v: Processes(1, v), WHOLE),
    "Processes retries": Parameter(lambda v: Processes(1, 1, v), WHOLE | {"0"}),
    "RayCluster address": Parameter(RayCluster, {"None", "text", "null", "surrogate", "long text"}),
    "RayCluster cpus": Parameter(lambda v: RayCluster(cpus=v), WHOLE),
    "RayCluster gpus": Parameter(lambda v: RayCluster(gpus=v), WHOLE | {"0", "1.5", "2.0"}),
    "RayCluster timeout": Parameter(lambda v: RayCluster(timeout=v), WHOLE | {"1.5", "2.0"}),
    "ProgressBars most": Parameter(lambda v: ProgressBars(most=v), WHOLE | {"0", "10^20", "10^5000"}),
    "ProgressBars test": Parameter(lambda v: ProgressBars(test=v), TRUTHS),
    "fit source": Parameter(lambda v: esan.fit(v, progress=False, epochs=1)),
    "fit policy": Parameter(lambda v: esan.fit(_labelled(), v, progress=False, epochs=1)),
    "fit seed": Parameter(lambda v: esan.fit(_labelled(4)[:1], seed=v, progress=False)),
    "fit device": Parameter(lambda v: esan.fit(_labelled(4)[:1], device=v, progress=False)),
    "fit progress": Parameter(lambda v: esan.fit(_labelled(4)[:1], progress=v)),
    "fit labels": Parameter(lambda v: esan.fit(_labelled(4)[:1], labels=v, progress=False)),
}
