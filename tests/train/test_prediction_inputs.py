"""What new graphs bring is read as in training, or refused; categories that were never trained on are named."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data
from typer.testing import CliRunner

import esan
from esan import data
from esan.cli.main import app
from esan.train import Job, Predictor, fit, run_jobs
from esan.train.runs.checkpoints import load_checkpoint, save_checkpoint
from small_campaign import InterruptedTrainingError, Interrupting
from small_sets import graphs, quick, small

QUICK: dict[str, Any] = {"epochs": 1, "hidden_channels": 4, "num_layers": 1, "progress": False}


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESAN_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def made(x: Any = None, edge_attr: Any = None) -> list[Data]:
    """Graphs with two classes; x and edge_attr are values for each node and edge, or the kind "kinds"."""
    found = graphs()
    for number, graph in enumerate(found):
        graph.y = torch.tensor([number % 4 // 2])
        nodes, edges = graph.num_nodes, graph.num_edges
        graph.x = (torch.arange(nodes) % 2)[:, None] if x == "kinds" else x if x is None else torch.full((nodes, 1), x)
        both = (graph.edge_index.sum(0) % 3)[:, None]
        if edge_attr is not None:
            graph.edge_attr = both if edge_attr == "kinds" else torch.full((edges, 1), edge_attr)
    return found


@pytest.mark.parametrize("name", ["x", "edge_attr"])
def test_features_that_the_training_data_lacked_are_refused(name: str, tmp_path: Path) -> None:
    fitted = fit(made(), folder=tmp_path / "runs", **QUICK)
    new = made(**{name: "kinds"})
    words = rf"Expected graphs without {name}, as the network was trained \(got {name} with 1 column in the graphs\)\. "
    for use in (fitted.predict, fitted.score):
        with pytest.raises(ValueError, match=words + rf"Delete it \(data\.{name} = None\) or pass"):
            use(new)
        with pytest.raises(ValueError, match=words):
            use(data.own(new))
    argument = {"x": "in_channels", "edge_attr": "edge_channels"}[name]
    left_out: dict[str, Any] = {argument: None}
    assert torch.equal(fitted.predict(data.own(new, **left_out)).number, fitted.predict(made()).number)
    assert fitted.score(new, **left_out) == fitted.score(made())
    torch.save(new, tmp_path / "new.pt")
    command = ["predict", str(tmp_path / "runs" / "fit"), str(tmp_path / "new.pt")]
    done = CliRunner().invoke(app, command, env={"COLUMNS": "300"})
    assert done.exit_code == 2
    assert f"Expected graphs without {name}, as the network was trained (got {name} with 1 column" in done.stderr


@pytest.mark.parametrize("name", ["x", "edge_attr"])
def test_constant_features_are_accepted_as_they_were_in_training(name: str, tmp_path: Path) -> None:
    what = {"x": "node", "edge_attr": "edge"}[name]
    words = rf"{name} of own is 2\.0 on every {what}: it says nothing and is not used"
    with pytest.warns(UserWarning, match=words) as caught:
        fitted = fit(made(**{name: 2.0}), **QUICK)
    assert len(caught) == 1
    fitted.save(tmp_path / "net.pt")
    again = Predictor.load(tmp_path / "net.pt")
    expected = fitted.predict(made()).probability
    for new in (made(**{name: 2.0}), made(**{name: 2}), data.own(made(**{name: 2.0}))):
        assert torch.equal(again.predict(new).probability, expected)  # type: ignore[arg-type]
        assert again.score(new) == fitted.score(made())
    for other in (3.0, "kinds"):
        with pytest.raises(
            ValueError, match=rf"Expected {name} to be \[2\.0\] everywhere.*\(got other values in the gra"
        ):
            again.predict(made(**{name: other}))


@pytest.mark.exhaustive
def test_features_that_settings_leave_out_may_be_anything() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for settings in ({"edge_features": False}, {"edge_features": False, "node_features": False}):
            fitted = fit(made(x="kinds", edge_attr=1.0), **QUICK | settings)
            assert len(fitted.predict(made(x="kinds", edge_attr="kinds"))) == 24
        fitted = fit(data.own(made(x="kinds"), in_channels=None), **QUICK)
        assert len(fitted.predict(made(x=5.0))) == 24


def test_networks_that_do_not_say_what_they_were_given_warn(tmp_path: Path) -> None:
    """As those of version 0.1."""
    fit(made(), **QUICK).save(tmp_path / "net.pt")
    header, state = load_checkpoint(tmp_path / "net.pt")
    object.__setattr__(header.model_spec, "unused", None)
    save_checkpoint(tmp_path / "old.pt", header, state)
    old = Predictor.load(tmp_path / "old.pt")
    with pytest.warns(UserWarning, match="x of the graphs is not used: the network does not read it") as caught:
        old.predict(made(x="kinds"))
    assert len(caught) == 1


def test_categories_that_no_training_graph_had_are_named(tmp_path: Path) -> None:
    train = made(x="kinds", edge_attr="kinds")
    for graph in train:
        graph.x = torch.tensor([1, 8])[graph.x]
    fitted = fit(train, **QUICK)
    fitted.save(tmp_path / "net.pt")
    fitted = Predictor.load(tmp_path / "net.pt")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        fitted.predict(train)
    train[3].x[0], train[5].x[:2] = 5, torch.tensor([[5], [6]])
    words = r"2 of 24 graphs have categories that no training graph had: 5, 6 of x\. What"
    for use in (fitted.predict, fitted.score):
        with pytest.warns(UserWarning, match=words) as caught:
            use(train)
        assert len(caught) == 1


def test_what_counts_are_the_graphs_that_train() -> None:
    """Not those of validation and test; also in one-hot columns, and behind counts of walks."""
    labels = [number % 4 // 2 for number in range(24)]
    given = data.Split(*(torch.arange(24)[torch.arange(24) % 3 == part] for part in range(3)))
    train = made(x="kinds", edge_attr="kinds")
    train[1].x[0] = 2
    for channels in (esan.OneHot(3), esan.Categories(3)):
        dataset = data.own(train, labels=labels, given=given, in_channels=channels)
        for walks in (0, 3):
            fitted = fit(dataset, walk_features=walks, **QUICK)
            with pytest.warns(UserWarning, match=r"1 of 24 graphs has categories .*: 2 of x\. "):
                fitted.predict(dataset)


def test_an_unfinished_run_of_another_split_is_refused(tmp_path: Path) -> None:
    dataset = small()
    with pytest.raises(InterruptedTrainingError):
        run_jobs([Job(quick())], tmp_path, dataset=dataset, every=0, loggers=[Interrupting(2)])
    part = dataset.given
    assert part is not None
    other = replace(dataset, given=data.Split(part.test, part.valid, part.train))
    with pytest.raises(ValueError, match=r"Expected a checkpoint of the same training.*SHA-256 of the data and split"):
        run_jobs([Job(quick())], tmp_path, dataset=other)
