"""A user's own graphs: every source, every kind of feature and target, and errors that say what to do."""

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.datasets import FakeDataset

from esan import data
from esan.data import Task
from esan.graphs import Categories, OneHot, cycle, path, to_graph6


def _graph(n: int = 4, **fields: Any) -> Data:
    return Data(edge_index=cycle(n).edge_index, num_nodes=n, **fields)


def _with(x: torch.Tensor) -> data.Dataset:
    """Two graphs that share the rows of x."""
    half = len(x) // 2
    return data.own([_graph(half, x=x[:half], y=0), _graph(half, x=x[half:], y=1)])


def test_features_of_every_kind_are_understood() -> None:
    plain = data.own([_graph(y=0), _graph(y=1)])
    assert (plain.in_channels, plain.graphs.x) == (None, None)
    for constant in (torch.ones(8, 1), torch.zeros(8, 3), torch.full((8,), 7)):
        same = _with(constant)
        assert (same.in_channels, same.graphs.x) == (None, None), "the same everywhere is nothing"
    categories = _with(torch.tensor([0, 1, 2, 5, 0, 0, 0, 0]))
    assert categories.in_channels == Categories(6)
    assert categories.graphs.x is not None
    assert categories.graphs.x.shape == (8, 1)
    columns = _with(torch.tensor([[0, 3], [1, 0]] * 4, dtype=torch.uint8))
    assert columns.in_channels == Categories(2, 4)
    assert _with(torch.tensor([True, False] * 4)).in_channels == Categories(2)
    numbers = _with(torch.rand(8, 3, dtype=torch.float64))
    assert numbers.in_channels == 3
    assert numbers.graphs.x is not None
    assert numbers.graphs.x.dtype == torch.float32


def test_features_may_be_named() -> None:
    graphs = [_graph(x=torch.tensor([0, 1, 2, 1]), edge_attr=torch.rand(8, 2), y=y) for y in (0, 1)]
    assert data.own(graphs).edge_channels == 2
    named = data.own(graphs, in_channels=OneHot(9), edge_channels=None)
    assert (named.in_channels, named.edge_channels, named.graphs.edge_attr) == (OneHot(9), None, None)
    numbers = data.own(graphs, in_channels=1)
    assert numbers.graphs.x is not None
    assert numbers.graphs.x.is_floating_point()
    with pytest.raises(ValueError, match=r"Expected x of OneHot\(2\), from 0 to below \(2,\) \(got \[0\] to \[2\]"):
        data.own(graphs, in_channels=OneHot(2))
    with pytest.raises(ValueError, match="Expected x with 7 columns"):
        data.own(graphs, in_channels=7)
    with pytest.raises(ValueError, match=r"Expected x with 3 columns \(got none"):
        data.own([_graph(y=0), _graph(y=1)], in_channels=3)


def test_features_that_cannot_be_meant_are_refused() -> None:
    with pytest.raises(ValueError, match=r"categories from 0 on in x.*got -1"):
        _with(torch.tensor([-1, 1] * 4))
    with pytest.raises(ValueError, match=r"fewer than 10,000 categories .*got 123,456"):
        _with(torch.tensor([0, 123456] * 4))
    with pytest.raises(ValueError, match="x of one or two dimensions"):
        _with(torch.rand(8, 2, 2))
    with pytest.raises(ValueError, match="Expected finite numbers in x"):
        _with(torch.tensor([0.0, torch.nan] * 4))


@pytest.mark.parametrize(
    ("labels", "task", "y"),
    [
        ([0, 1, 2, 1], Task("classification", 3, "accuracy"), [0, 1, 2, 1]),
        ([-1, 1, 1, -1], Task("classification", 2), [0, 1, 1, 0]),
        ([[3], [4], [4], [3]], Task("classification", 2), [0, 1, 1, 0]),
        ([True, False, True, True], Task("classification", 2), [1, 0, 1, 1]),
        ([0.5, 1, 2, 3], Task("regression", 1, "mae"), [[0.5], [1], [2], [3]]),
        ([[0.5, 2], [1, 2], [2, 2], [3, 2]], Task("regression", 2), [[0.5, 2], [1, 2], [2, 2], [3, 2]]),
        ([[1, 0], [0, 0], [1, 1], [0, 1]], Task("labels", 2, "rocauc"), [[1, 0], [0, 0], [1, 1], [0, 1]]),
        ([1.0, 0.0, 0.0, 1.0], Task("labels", 1), [[1], [0], [0], [1]]),
    ],
)
def test_tasks_are_read_off_the_targets(labels: list[Any], task: Task, y: list[Any]) -> None:
    dataset = data.own([_graph()] * 4, labels=labels)
    assert dataset.task == task
    assert dataset.y.tolist() == y


def test_classes_keep_the_labels_of_the_user() -> None:
    assert data.own([_graph()] * 3, labels=[0, 1, 0]).classes is None
    assert data.own([_graph()] * 3, labels=[7, -2, 7]).classes == (-2, 7)
    whole = data.own([_graph()] * 3, labels=[1, 1, 1], task=Task("classification", 3))
    assert whole.y.tolist() == [1, 1, 1], "a whole task needs no members of each class"


def test_classes_may_be_words(tmp_path: Path) -> None:
    graphs = [_graph()] * 4
    dataset = data.own(graphs, labels=["yes", "no", "yes", "no"])
    assert dataset.task == Task("classification", 2)
    assert dataset.classes == ("no", "yes")
    assert dataset.y.tolist() == [1, 0, 1, 0]
    assert "classification of no, yes" in repr(dataset)
    (tmp_path / "labels.txt").write_text("light blue\nred\nred\nnone\n")
    assert data.own(graphs, labels=tmp_path / "labels.txt").classes == ("light blue", "none", "red")
    known = data.own(graphs, labels=["b"] * 4, classes=["a", "b", "c"])
    assert (known.task, known.classes, known.y.tolist()) == (Task("classification", 3), ("a", "b", "c"), [1] * 4)
    with pytest.raises(ValueError, match=r"Expected the classes a, b \(got c for graph 2\)"):
        data.own(graphs, labels=["a", "b", "c", "c"], classes=["a", "b"])
    with pytest.raises(TypeError, match="Expected at least two different numbers or words as classes"):
        data.own(graphs, labels=["a", "b", "a", "b"], classes=["a", "a"])
    with pytest.raises(ValueError, match=r"Expected classes with several members \(got 12 words such as 'm0'"):
        data.own([_graph()] * 12, labels=[f"m{i}" for i in range(12)])
    with pytest.raises(ValueError, match=r"at least 10 graphs of every class.*got 2 of class no"):
        data.stratified_folds(dataset)


def test_a_column_of_words_is_a_column_of_classes(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    file = tmp_path / "mol.csv"
    file.write_text("id,smiles,taste\nm0,CCO,none\nm1,CCC,sweet\nm2,CCN,\nm3,CO,sweet\n")
    with pytest.raises(ValueError, match=r"Expected numbers in column 'id' \(got 'm0' at line 2"):
        data.own(file)
    with pytest.raises(
        ValueError, match=r"Expected a class for every graph \(got none at line 4 of .*, column taste\)"
    ):
        data.own(file, targets="taste")
    with pytest.warns(UserWarning, match="Left out 1 of 4 rows"):
        dataset = data.own(file, targets="taste", skip_missing=True)
    assert dataset.classes == ("none", "sweet"), "none is a word like any other"
    assert dataset.y.tolist() == [0, 1, 1]
    file.write_text("smiles,dose\nCCO,1.5\nCCC,2.5x\nCCN,3\n")
    with pytest.raises(ValueError, match=r"Expected numbers in column 'dose' \(got '2.5x' at line 3"):
        data.own(file)
    file.write_text("smiles,kind\nCCO,1\nCCC,2b\nCCN,1\n")
    assert data.own(file, task="classification").classes == ("1", "2b")


def test_missing_labels_are_missing() -> None:
    y = torch.tensor([[1.0, torch.nan], [torch.nan, 0.0]])
    dataset = data.own([_graph()] * 2, labels=y)
    assert dataset.task == Task("labels", 2)
    assert torch.equal(dataset.y.isnan(), y.isnan())


@pytest.mark.parametrize(
    ("labels", "task", "message"),
    [
        (["a", 1], None, r"Expected labels that are numbers, or words alone \(got \['a', 1\]\)"),
        (["a", "a"], None, r"at least two classes \(got only a\)"),
        (["a", "b"], "regression", r"Expected numbers as targets for regression \(got 'a' for graph 0\)"),
        ([1.5, float("nan")], None, r"Expected finite targets \(got \[nan\] for graph 1\)"),
        ([0.0, float("inf")], None, r"Expected finite targets \(got \[inf\] for graph 1\)"),
        ([1, 1], None, r"at least two classes \(got only 1\)"),
        ([0, 1, 0], None, r"Expected one label per graph, 2 in all \(got 3\)"),
        ([[0, 3], [1, 2]], None, "2 columns of other integers"),
        ([0.5, 1.0], "classification", "got fractions"),
        ([1.0, float("nan")], "classification", r"Expected a class for every graph \(got none for graph 1\)"),
        (["ring", 7] * 12, None, r"\(got \['ring', 7, 'ring', 7, 'ring', 7, \.\.\.\]\). Pass one per graph"),
        ([2.0, 1.0], "labels", r"Expected labels of 0 or 1.*got \[2.0\] for graph 0"),
        ([[1.0, float("nan")]] * 2, "labels", r"known of some graph \(got none in column 1\)"),
        ([0, 5], Task("classification", 3), r"classes from 0 to 2 \(got 0 to 5\)"),
        ([[0.5, 1.0]] * 2, Task("regression", 1), r"Expected 1 targets per graph \(got 2\)"),
        ([0, 1], "ranking", "Expected a task of classification, regression, labels"),
        (None, None, "pass labels=..."),
        (None, "regression", "pass the Task of the model"),
    ],
)
def test_targets_that_cannot_be_meant_are_refused(labels: Any, task: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        data.own([_graph()] * 2, labels=labels, task=task)


def test_quantities_are_not_taken_for_classes() -> None:
    with pytest.raises(ValueError, match=r"all different\). Are they quantities"):
        data.own([_graph()] * 30, labels=list(range(30)))
    assert data.own([_graph()] * 30, labels=list(range(30)), task="regression").task == Task("regression", 1)


def test_targets_of_nodes_are_refused() -> None:
    words = (
        r'one per node.*Pass labels=.*network with output="node" \(esan.dss_gnn\) and train it in a loop of your own'
    )
    with pytest.raises(ValueError, match=r"Expected one target per graph \(got " + words):
        data.own([_graph(y=torch.arange(4))] * 3)


def test_graphs_may_await_their_targets() -> None:
    dataset = data.own([_graph()] * 2, task=Task("regression", 1))
    assert dataset.graphs.y is None
    with pytest.raises(ValueError, match=r"Expected targets in own \(got none\)"):
        _ = dataset.y


def test_pyg_datasets_and_networkx_graphs_are_read() -> None:
    fake = FakeDataset(num_graphs=20, avg_num_nodes=9, num_channels=5, edge_dim=2, num_classes=3)
    dataset = data.own(fake)
    assert (len(dataset), dataset.task, dataset.in_channels) == (20, Task("classification", 3), 5)
    assert dataset.y.tolist() == [int(graph.y) for graph in fake]
    graphs = [nx.cycle_graph(5), nx.star_graph(4)]
    for y, graph in enumerate(graphs):
        nx.set_node_attributes(graph, {node: node % 3 for node in graph}, "x")
        graph.graph["y"] = y
    dataset = data.own(graphs)
    assert dataset.in_channels == Categories(3)
    assert dataset.y.tolist() == [0, 1]
    assert data.own(graphs, labels=[0.5, 0.7]).task.kind == "regression"
    graphs[1].nodes[2]["x"] = "C"
    with pytest.raises(TypeError, match=r"numbers as x of nodes \(got 'C' on node 2 of graph 1\)"):
        data.own(graphs)


def test_graph6_comes_with_a_file_of_labels(tmp_path: Path) -> None:
    file, labels = tmp_path / "graphs.g6", tmp_path / "labels.txt"
    file.write_text("\n".join(to_graph6(graph) for graph in (cycle(5), path(4), cycle(6))) + "\n")
    labels.write_text("0\n1\n\n0\n")
    dataset = data.own(file, labels=labels)
    assert dataset.graphs.num_nodes.tolist() == [5, 4, 6]
    assert dataset.y.tolist() == [0, 1, 0]
    labels.write_text("0.5 1\n0.25 2\n0.5 3\n")
    assert data.own(file, labels=labels).task == Task("regression", 2)
    for text, message in [
        ("0\n1\n", r"3 in all \(got 2\)"),
        ("0\none\n0\n", r"got 'one' at line 2 of .*labels.txt\). Name the target"),
        ("0\n1 2\n0\n", r"Expected 1 labels per line \(got 2 at line 2"),
        ("0\n1\ninf\n", "got 'inf' at line 3"),
        ("", "got an empty file"),
    ]:
        labels.write_text(text)
        with pytest.raises(ValueError, match=message):
            data.own(file, labels=labels)
    with pytest.raises(FileNotFoundError, match="Expected a file of labels"):
        data.own(file, labels=tmp_path / "none.txt")
    with pytest.raises(ValueError, match="pass labels="):
        data.own(file)


def test_a_tu_folder_is_a_dataset(tmp_path: Path) -> None:
    for part, text in {
        "A": "1, 2\n2, 1\n3, 4\n4, 3\n",
        "graph_indicator": "1\n1\n2\n2\n",
        "graph_labels": "5\n3\n",
        "node_labels": "1\n2\n1\n1\n",
        "edge_labels": "0\n0\n1\n1\n",
    }.items():
        (tmp_path / f"MINE_{part}.txt").write_text(text)
    dataset = data.own(tmp_path, name="mine")
    assert dataset.task == Task("classification", 2)
    assert (dataset.classes, dataset.y.tolist()) == ((3, 5), [1, 0])
    assert (dataset.in_channels, dataset.edge_channels) == (Categories(2), Categories(2))
    assert repr(dataset).startswith("Dataset('mine', 2 graphs, classification of 3, 5, x=Categories(2)")


def test_attributes_of_graphs_are_the_targets_of_a_regression(tmp_path: Path) -> None:
    folder = tmp_path / "MINE"
    folder.mkdir()
    for part, text in {
        "A": "1, 2\n2, 1\n3, 4\n4, 3\n",
        "graph_indicator": "1\n1\n2\n2\n",
        "graph_labels": "5\n3\n",
        "graph_attributes": "0.5\n2.25\n",
    }.items():
        (folder / f"MINE_{part}.txt").write_text(text)
    assert data.own(folder).task == Task("classification", 2), "labels, unless something else is said"
    assert data.own(folder, task="regression").y.tolist() == [[0.5], [2.25]]
    assert data.own(folder, task=Task("regression", 1)).y.tolist() == [[0.5], [2.25]]
    (folder / "MINE_graph_attributes.txt").write_text("0.5, 1\n2.25, 2\n")
    assert data.own(folder, task="regression").task == Task("regression", 2)
    assert data.own(folder, task=Task("regression", 1)).y.tolist() == [[5], [3]], "those of as many columns as asked"


def test_a_dataset_is_called_as_its_file_or_folder(tmp_path: Path) -> None:
    file = tmp_path / "rings.g6"
    file.write_text("\n".join(to_graph6(cycle(n)) for n in (5, 6)) + "\n")
    assert data.own(file, labels=[0, 1]).name == "rings"
    assert data.own(file, labels=[0, 1], name="mine").name == "mine"
    assert data.own([_graph(y=0), _graph(y=1)]).name == "own"


def test_a_gap_in_a_file_of_classes_is_reported(tmp_path: Path) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("0\nnan\n1\n")
    with pytest.warns(UserWarning, match=r"Column 1 of .*labels\.txt has 0 and 1 but nothing at line 2"):
        assert data.own([_graph()] * 3, labels=labels).task == Task("labels", 1)


def test_features_that_graphs_lack_are_reported_in_words_for_graphs() -> None:
    with pytest.raises(ValueError, match=r"got none in a list of graphs\). Set x on the graphs as in_channels says"):
        data.own([_graph(y=0), _graph(y=1)], in_channels=3)


def test_a_path_that_leads_nowhere_is_reported(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="which is not there"):
        data.own(tmp_path / "none.csv")
    with pytest.raises(ValueError, match=r"Expected one file NAME_A\.txt"):
        data.own(tmp_path)
    with pytest.raises(ValueError, match=r"Expected a table of SMILES.* Leave them out"):
        data.own([_graph(y=0)], targets=["y"])


def test_tasks_and_metrics_are_checked() -> None:
    with pytest.raises(ValueError, match="Expected a task of"):
        Task("clustering", 2)
    with pytest.raises(ValueError, match="Expected the metric 'mae' for regression"):
        Task("regression", 1, "accuracy")
    with pytest.raises(ValueError, match="out_channels"):
        Task("regression", 0)


@pytest.mark.parametrize("words", [True, False], ids=["words", "numbers"])
@pytest.mark.parametrize("form", ["list", "numpy", "objects", "pandas", "iterator"])
def test_labels_in_other_forms(form: str, words: bool) -> None:
    plain: list[Any] = ["x", "y", "x", "y"] if words else [1, 2, 1, 2]
    make: dict[str, Any] = {
        "list": lambda: plain,
        "numpy": lambda: np.array(plain),
        "objects": lambda: np.array(plain, dtype=object),
        # Rows of a filtered table keep their numbers.
        "pandas": lambda: pytest.importorskip("pandas").Series(plain, index=range(100, 104)),
        "iterator": lambda: iter(plain),
    }
    dataset = data.own([_graph()] * 4, labels=make[form]())
    assert dataset.y.tolist() == [0, 1, 0, 1]
    assert dataset.classes == (("x", "y") if words else (1, 2))


def test_columns_of_pandas_name_the_targets() -> None:
    pandas = pytest.importorskip("pandas")
    rows = [[0.5, 1.5], [2.5, 3.5]]
    named = pandas.DataFrame(rows, columns=["size", "charge"])
    assert data.own([_graph()] * 2, labels=named).targets == ("size", "charge")
    for columns in (None, ["size", "size"]):
        assert data.own([_graph()] * 2, labels=pandas.DataFrame(rows, columns=columns)).targets is None
    named.loc[1, "charge"] = float("inf")
    with pytest.raises(ValueError, match=r"Expected finite targets \(got \[2\.5, inf\] for graph 1\)"):
        data.own([_graph()] * 2, labels=named)


def test_none_among_labels_is_a_missing_one() -> None:
    dataset = data.own([_graph()] * 2, labels=[[0, None], [1, 0]])
    assert dataset.task == Task("labels", 2)
    assert dataset.y.isnan().tolist() == [[False, True], [False, False]]
