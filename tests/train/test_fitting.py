"""`fit`: from graphs to predictions without a loop; networks in files; predictions for whatever graphs come."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch
from torch.utils.data import Subset
from torch_geometric.data import Data

import esan
from esan.data import Split
from esan.policies import EdgeDeletion, Policy, Sampled, Selection
from esan.train import Job, Predictions, Predictor, fit, run_jobs
from esan.train.runs.prepare_data import hold_out
from small_sets import graphs, quick, small

QUICK: dict[str, Any] = {"epochs": 3, "hidden_channels": 8, "num_layers": 2, "progress": False}


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESAN_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def labelled(labels: torch.Tensor) -> list[Any]:
    made = graphs()
    for graph, label in zip(made, labels, strict=True):
        graph.y = label.reshape(1, -1) if label.is_floating_point() else label.reshape(1)
    return made


def test_classes_keep_the_names_they_have(tmp_path: Path) -> None:
    """Trained on classes 3 and 7, a network predicts 3 and 7, from a file too."""
    data = labelled(torch.where(torch.arange(24) % 4 > 1, 7, 3))
    fitted = fit(data, policy="ED", **QUICK)
    predictions = fitted.predict(data)
    assert set(predictions.value.tolist()) <= {3, 7}
    assert predictions.classes == (3, 7)
    assert predictions.called == predictions.value.tolist()
    assert [predictions.classes[number] for number in predictions.number] == predictions.called
    assert predictions.probability is not None
    torch.testing.assert_close(predictions.probability.sum(1), torch.ones(24))
    assert predictions.spread is None
    right = (predictions.value == torch.cat([graph.y for graph in data])).double().mean()
    assert fitted.score(data) == pytest.approx(float(right))
    fitted.save(tmp_path / "net.pt")
    again = Predictor.load(tmp_path / "net.pt")
    assert torch.equal(again.predict(data).probability, predictions.probability)  # type: ignore[arg-type]
    # The score of a part without one of the classes, and of classes that it never saw.
    sevens = [graph for graph in data if int(graph.y) == 7]
    assert fitted.score(sevens) == pytest.approx(
        float((predictions.value[torch.arange(24) % 4 > 1] == 7).double().mean())
    )
    strange = labelled(torch.where(torch.arange(24) % 4 > 1, 7, 4))
    with pytest.raises(ValueError, match=r"Expected the classes 3, 7 \(got 4 for graph 0\)"):
        fitted.score(strange)


def test_a_class_is_a_place_in_classes_a_value_or_a_word() -> None:
    """Whatever the classes are called, `number` is their place and `called` the class; `value` is never a place."""
    votes = torch.eye(3)[None]
    for classes in [(1, 2, 5), ("acid", "base", "salt"), None]:
        predictions = Predictions.of(votes, "classification", classes)
        assert predictions.number.tolist() == [0, 1, 2]
        assert predictions.called == list(classes or (0, 1, 2))
        assert predictions.columns()["prediction"] == predictions.called
        if classes is not None and "acid" in classes:
            with pytest.raises(ValueError, match=r"\(got the words acid, base, salt\)\. Read called for the class"):
                _ = predictions.value
        else:
            assert predictions.value.tolist() == predictions.called
    with pytest.raises(ValueError, match=r"Expected predictions of classes for number \(got regression\)\. Read value"):
        _ = Predictions.of(votes, "regression").number


def test_numbers_come_in_their_own_units() -> None:
    data = labelled(torch.tensor([1000.0 + graph.num_edges for graph in graphs()]))
    fitted = fit(data, policy="ND", **QUICK | {"epochs": 12})
    assert fitted.task.kind == "regression"
    assert (fitted.predict(data).value - 1000).abs().max() < 100
    assert fitted.score(data) < 10


def test_labels_are_probabilities() -> None:
    labels = torch.stack([(torch.arange(24) % 4 > 1).float(), (torch.arange(24) % 2).float()], 1)
    fitted = fit(labelled(labels), policy="NM", **QUICK)
    predictions = fitted.predict(graphs())
    assert predictions.value.shape == (24, 2)
    assert ((predictions.value > 0) & (predictions.value < 1)).all()
    assert 0 <= fitted.score(labelled(labels)) <= 1


def test_sampled_bags_tell_their_spread(tmp_path: Path) -> None:
    data = labelled(torch.tensor([float(graph.num_edges) + 0.5 for graph in graphs()]))
    fitted = fit(data, policy=Sampled(EdgeDeletion(), 0.3), **QUICK)
    predictions = fitted.predict(data)
    assert predictions.spread is not None
    assert (predictions.spread > 0).any()
    assert torch.equal(fitted.predict(data).value, predictions.value), "the same samples every time"
    predictions.to_csv(tmp_path / "p.csv")
    lines = (tmp_path / "p.csv").read_text().splitlines()
    assert lines[0] == "graph,prediction,spread"
    assert len(lines) == 25


def test_three_lines_with_networkx() -> None:
    cycles = [nx.cycle_graph(n) for n in range(3, 15)]
    paths = [nx.path_graph(n) for n in range(3, 15)]
    for graph in (*cycles, *paths):
        graph.graph["y"] = int(graph in cycles)
    fitted = fit(cycles + paths, policy="EGO+(1)", **QUICK)
    assert len(fitted.predict(nx.cycle_graph(20))) == 1
    assert "Predictor(dss-gin, policy='EGO+(1)'" in repr(fitted)


def test_parts_of_a_dataset() -> None:
    data: Any = labelled(torch.arange(24) % 4 // 2)
    train: Subset[Data] = Subset(data, range(16))
    rest: Subset[Data] = Subset(data, range(16, 24))
    assert 0 <= fit(train, policy="ND", **QUICK).score(rest) <= 1


def test_an_interrupted_fit_continues(tmp_path: Path) -> None:
    data = labelled(torch.arange(24) % 4 // 2)
    one = fit(data, folder=tmp_path, **QUICK)
    file = next(tmp_path.rglob("record.json"))
    before = file.stat().st_mtime_ns
    other = fit(data, folder=tmp_path, **QUICK)
    assert one.record == other.record
    assert file.stat().st_mtime_ns == before


def test_graphs_that_carry_another_policy() -> None:
    plain = labelled(torch.arange(24) % 4 // 2)
    data = [EdgeDeletion()(graph) for graph in plain]
    match = r"Expected graphs without a selection, .*\(got that of EdgeDeletion\(\)\)\. "
    asked: list[dict[str, Any]] = [{"policy": "ND"}, {}]
    for words in asked:
        with pytest.raises(ValueError, match=match + "Pass that policy, or leave it out of their transforms"):
            fit(data, **words, **QUICK)
    assert fit(iter(data), policy="ED", **QUICK).record is not None
    fitted = fit(plain, policy="ND", **QUICK)
    for use in (fitted.predict, fitted.score):
        with pytest.raises(ValueError, match=match + "Leave it out of their transforms: the network was trained with"):
            use(data)


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(EdgeDeletion(), id="whole", marks=pytest.mark.exhaustive),
        pytest.param(Sampled(EdgeDeletion(), 0.5), id="sampled"),
        pytest.param(Sampled(EdgeDeletion(), 1.0), id="sampled whole", marks=pytest.mark.exhaustive),
    ],
)
def test_graphs_that_carry_the_policy_of_a_network(policy: Policy) -> None:
    """What `fit` took, `predict` and `score` take."""
    plain = labelled(torch.arange(24) % 4 // 2)
    data = [policy(graph) for graph in plain]
    fitted = fit(data, policy, **QUICK)
    assert torch.equal(fitted.predict(data).value, fitted.predict(plain).value)
    assert fitted.score(graph for graph in data) == fitted.score(plain)


def test_a_seed_decides_everything() -> None:
    data = labelled(torch.arange(24) % 4 // 2)
    assert fit(data, seed=3, **QUICK).record == fit(data, seed=3, **QUICK).record


def test_a_task_that_is_said() -> None:
    data = labelled(torch.arange(24) % 4)
    assert fit(data, **QUICK).task.kind == "classification"
    assert fit(data, task="regression", **QUICK).task.kind == "regression"


def test_a_table_of_molecules(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    rows = [f"mol{n},{'C' * n}O,{n + 0.5},x" for n in range(1, 21)]
    (tmp_path / "mine.csv").write_text("\n".join(["id,smiles,size,note", *rows]))
    fitted = fit(tmp_path / "mine.csv", targets="size", **QUICK)
    assert fitted.task.kind == "regression"
    assert len(fitted.predict(tmp_path / "mine.csv")) == 20
    assert fitted.score(tmp_path / "mine.csv", targets=["size"]) > 0


def test_several_targets_have_the_names_of_their_columns(tmp_path: Path) -> None:
    """In what is saved and predicted; a table whose columns have another order is read by name."""
    pytest.importorskip("rdkit")
    rows = [("C" * n + "O", n + 0.5, -3.0 * n) for n in range(1, 21)]
    train, swapped = tmp_path / "train.csv", tmp_path / "swapped.csv"
    train.write_text("\n".join(["smiles,size,charge", *(f"{s},{a},{b}" for s, a, b in rows)]))
    swapped.write_text("\n".join(["charge,note,smiles,size", *(f"{b},0.25,{s},{a}" for s, a, b in rows)]))
    fitted = fit(train, folder=tmp_path / "runs", **QUICK)
    (saved,) = (path.read_text().splitlines()[0] for path in (tmp_path / "runs").rglob("predictions.csv"))
    assert saved == "graph,part,target size,target charge,prediction size,prediction charge"
    assert list(fitted.predict(swapped).columns()) == ["prediction size", "prediction charge"]
    fitted.save(tmp_path / "net.pt")
    for one in (fitted, Predictor.load(tmp_path / "net.pt")):
        assert one.header.model_spec.targets == ("size", "charge")
        assert one.score(swapped) == one.score(train) == one.score(esan.data.own(train))
        assert one.score(esan.data.own(swapped, targets=["charge", "size"])) == one.score(train)
    y = esan.data.own(swapped, targets=["charge", "size"])
    for labels in (["size", "weight"], ["note", "charge"]):
        with pytest.raises(ValueError, match=r"Expected the targets \['size', 'charge'\], as in training \(got \["):
            fitted.score(replace(y, targets=tuple(labels)))
    # Other names say nothing: the columns are taken as they come.
    assert fitted.score(replace(y[:], targets=("a", "b"))) == fitted.score(replace(y, targets=None))
    assert fitted.score(replace(y, targets=None)) != fitted.score(y)


def test_edge_features_are_used_where_they_are() -> None:
    data = labelled(torch.arange(24) % 4 // 2)
    for graph in data:
        # The same in both directions.
        graph.edge_attr = (graph.edge_index.sum(0) % 3)[:, None]
    assert fit(data, **QUICK).header.model_spec.conv == "gine"
    with pytest.warns(UserWarning, match="which the convolution gin does not read"):
        plain = fit(data, conv="gin", **QUICK)
    assert len(plain.predict(graphs())) == 24, "and a network that does not use them does not ask for them"


def test_every_class_is_held_out() -> None:
    dataset = small()
    split = hold_out(dataset, seed=0)
    assert set(dataset.y[split.valid].tolist()) == {0, 1}
    assert set(dataset.y[split.test].tolist()) == {0, 1}
    assert torch.cat([split.train, split.valid, split.test]).sort().values.tolist() == list(range(24))
    assert isinstance(split, Split)
    assert hold_out(small("regression"), 0).valid.numel() == hold_out(small("regression"), 0).test.numel() == 2
    assert hold_out(small("labels"), 0).valid.numel() > 0


def test_too_few_graphs_to_hold_any_out() -> None:
    graphs = [esan.graphs.cycle(4), esan.graphs.cycle(5)]
    assert hold_out(esan.data.own(graphs, labels=[0.5, 1.5]), 0).valid.numel() == 1
    with pytest.raises(ValueError, match=r"two graphs, one to train on and one .*\(got 1 graph in own\)\. Add graphs"):
        hold_out(esan.data.own(graphs[:1], labels=[0.5]), 0)
    with pytest.raises(ValueError, match=r"two graphs of the same class, one .*\(got 2 graphs in own\)\. Add graphs"):
        hold_out(esan.data.own(graphs, labels=[0, 1]), 0)


class Own(Policy):
    def select(self, graphs: esan.graphs.Graphs) -> Selection:
        return EdgeDeletion().select(graphs)


def test_what_fit_cannot_do() -> None:
    data = labelled(torch.arange(24) % 4 // 2)
    with pytest.raises(ValueError, match="Expected a policy that esan can name in a file"):
        fit(data, policy=Own(), **QUICK)
    with pytest.raises(ValueError, match=r"Expected fields of a recipe \(got lrr\). Did you mean lr"):
        fit(data, lrr=0.1, **QUICK)
    with pytest.raises(ValueError, match="Expected a target for every graph"):
        fit(graphs(), **QUICK)
    with pytest.raises(ValueError, match="Expected the name of a set, or a file or folder of graphs"):
        fit("nowhere", **QUICK)


def test_graphs_of_another_kind_are_refused() -> None:
    fitted = fit(labelled(torch.arange(24) % 4 // 2), **QUICK)
    strange = graphs()
    for graph in strange:
        graph.x = graph.x + 5
    with pytest.raises(ValueError, match="x"):
        fitted.predict(strange)


def test_the_network_of_a_run(tmp_path: Path) -> None:
    dataset = small("regression")
    jobs = [Job(quick(walk_features=4, scale_targets=True), seed=seed) for seed in (0, 1)]
    records = run_jobs(jobs, tmp_path, dataset=dataset)
    fitted = Predictor.load(jobs[0].folder(tmp_path))
    assert fitted.record == records[0]
    part = dataset.given
    assert part is not None
    error = (fitted.predict(dataset).value - dataset.y)[part.valid].abs().mean()
    assert float(error) == pytest.approx(records[0].best.valid, rel=1e-4)
    last = Predictor.load(jobs[0].folder(tmp_path), weights="last")
    error = (last.predict(dataset).value - dataset.y)[part.test].abs().mean()
    assert float(error) == pytest.approx(records[0].final.test, rel=1e-4)
    with pytest.raises(ValueError, match=r"Expected the folder of one run at .* \(got 2: .*0-0, .*0-1\)"):
        Predictor.load(tmp_path)
    with pytest.raises(ValueError, match="Expected weights to be one of best, last"):
        Predictor.load(tmp_path, weights="worst")
