"""Arguments that are not what they are called: each is refused with what was expected, what it got and what to do."""

from collections.abc import Callable
from typing import Any

import networkx as nx
import pytest
import torch
from torch_geometric.data import Batch, Data
from typer.testing import CliRunner

import esan
from esan import Bag, Loader, graphs
from esan.cli.main import app
from esan.data import own, random, stratified_folds
from esan.graphs import read
from esan.train import Recipe
from esan.train.runs.job import Job
from esan.train.runs.training_loop import run_jobs

BOTH = torch.tensor([[0, 1], [1, 0]])
QUANTISED = torch.quantize_per_tensor(torch.ones(2, 1), 0.1, 0, torch.qint8)


def _data(**fields: Any) -> Data:
    return Data(**{"edge_index": BOTH, "num_nodes": 2} | fields)


def _batch(ptr: list[int] | torch.Tensor) -> Batch:
    batch = Batch.from_data_list([_data(), _data()])
    batch.ptr = torch.as_tensor(ptr)
    return batch


def _networkx(*x: Any) -> nx.Graph:
    graph = nx.path_graph(len(x))
    nx.set_node_attributes(graph, dict(enumerate(x)), "x")
    return graph


def _labelled() -> list[Data]:
    return [Data(edge_index=BOTH, num_nodes=2, y=torch.tensor([i % 2])) for i in range(8)]


def _bag() -> Bag:
    return Bag.of(graphs.cycle(5), "ED", 2)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: read(_data(x=torch.empty(2, 1, device="meta"))), r"x with numbers in it \(got a tensor on the"),
        (lambda: read(_data(edge_index=BOTH.to("meta"))), r"edge_index with numbers in it \(got a tensor on"),
        (lambda: read(_data(x=QUANTISED)), r"x of plain numbers \(got torch.qint8 in graph 0\)\. Call dequantize"),
        (lambda: read(_data(edge_index=BOTH.to_sparse())), r"edge_index to be a dense tensor \(got sparse_coo in"),
        (lambda: read(_data(y=torch.ones(1, 1).to_sparse())), r"y to be a dense tensor \(got sparse_coo in graph 0"),
        (lambda: read(_data(y=torch.ones(1, dtype=torch.cfloat))), r"y of real numbers \(got torch.complex64 in"),
        (lambda: read(_data(num_nodes=float("nan"))), r"num_nodes of graph 0 to be a whole number \(got nan\)"),
        (lambda: read(_data(num_nodes=-2)), r"num_nodes of graph 0 of at least 0 \(got -2\)"),
        (lambda: read(_networkx("C", "O")), r"x of each node to be numbers, .*\(got 'C' in graph 0\)\. Number cat"),
        (lambda: read(_networkx([1.0], [1.0, 2.0])), r"x of each node .*\(got several shapes on the nodes of graph"),
        (lambda: read(_batch([0, 3, 2])), r"ptr to rise from 0 to how many nodes there are.*where it falls\)"),
        (lambda: read(_batch([1, 2, 4])), r"ptr to rise from 0 .*where it begins with 1\)"),
        (lambda: read(_batch([0, 2, 9])), r"ptr to rise from 0 to how many nodes there are, 4 \(got .* ends with 9\)"),
        (lambda: read(_batch(torch.tensor([0.0, 2, 4]))), r"ptr to be a list of whole numbers.*torch.float32"),
        (lambda: _bag().subgraph("a"), r"a subgraph to be a whole number \(got 'a'\)"),  # type: ignore[arg-type]
        (lambda: _bag().layer_view(9), r"a layer up to 2, which the bag is exact for \(got 9\)\. Build it with num"),
        (lambda: _bag().layer_view(1.5), r"a layer to be a whole number \(got 1.5\)"),  # type: ignore[arg-type]
        (lambda: Loader(_bag(), generator=5), r"generator to be a torch.Generator \(got 5\)"),  # type: ignore[arg-type]
        (lambda: Loader(_bag(), shuffle="yes"), r"shuffle to be True or False \(got 'yes'\)"),  # type: ignore[arg-type]
        (lambda: random(10, None), r"three fractions \(got None\)"),  # type: ignore[arg-type]
        (lambda: random(10, (0.5, 0.5, float("nan"))), r"fractions for training, .* add up to 1 \(got"),
        (lambda: random(10, seed=-1), r"seed of at least 0 \(got -1\)\. Number seeds from 0\."),
        (lambda: random(10, seed=1.5), r"seed to be a whole number \(got 1.5\)"),  # type: ignore[arg-type]
        (lambda: stratified_folds([0, 1] * 4, 2, "a"), r"seed to be a whole number \(got 'a'\)"),  # type: ignore[arg-type]
        (lambda: own(_labelled(), task=5), r"a task of classification, .*\(got 5\)"),  # type: ignore[arg-type]
        (lambda: esan.fit(_labelled(), seed=-1), r"seed of at least 0 \(got -1\)"),
        (lambda: esan.fit(_labelled(), progress="yes"), r"progress to be True or False"),  # type: ignore[arg-type]
        (lambda: Job(Recipe("zinc"), seed=2**40), r"seed of at most 4,294,967,295 \(got 1099511627776\)"),
        (lambda: Bag.of(graphs.cycle(5), "", 2), r"the name of a policy \(got ''\)"),
        (lambda: esan.EgoNets(2, marked="yes"), r"marked to be True or False \(got 'yes'\)"),  # type: ignore[arg-type]
        (lambda: run_jobs([], None, every=float("nan")), r"every of 0 seconds or more \(got nan\)"),
        (lambda: run_jobs([], None, device="meta"), r"a device of this machine: cpu.* \(got 'meta'\)"),
    ],
)  # fmt: skip
def test_python(call: Callable[[], Any], match: str) -> None:
    with pytest.raises((ValueError, TypeError), match=f"^Expected {match}"):
        call()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["bag", "rook", "--graph", "99"], "Expected --graph from 0 to 0 (got 99)."),
        (["bag", "rook", "--policy", ""], "Expected the name of a policy (got '')."),
        (["wl", "rook", "rook", "--policy", ""], "Expected the name of a policy (got '')."),
        (
            ["train", "csl/gin", "--seeds", ""],
            "Expected --seeds as a count (5), a range (0..4) or a list (0,2,5) (got '').",
        ),
        (["train", "csl/gin", "--every", "nan"], "Expected --every of 0 seconds or more (got nan)."),
        (["train", "csl/gin", "--seeds", "0..99999999999"], "Expected at most 100,000 numbers in --seeds (got"),
        (["bag", "rook", "--draw", "a.nothing"], "Expected a picture that ends in one of png, svg,"),
        (
            ["bag", "rook", "--num-layers", "x"],
            "Expected a command line that esan knows (got: Invalid value for '--num-layers'",
        ),
        (
            ["train", "csl/gin", "--epochs", "5"],
            "Expected a command line that esan knows (got: No such option: --epochs). Fields of a recipe are changed "
            "with --set: --set epochs=VALUE.",
        ),
        (
            ["train", "csl/gin", "--no-such-field", "5"],
            "Expected a command line that esan knows (got: No such option: --no-such-field). Run ",
        ),
        (["nothing"], "Expected a command line that esan knows (got: No such command 'nothing'"),
    ],
)
def test_commands(line: list[str], words: str) -> None:
    result = CliRunner().invoke(app, line)
    assert result.exit_code == 2
    assert result.stderr.startswith(words)
    assert len(result.stderr.splitlines()) == 1
