"""Recalibrated norms: the statistics are those of the training graphs; only predictions change."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import esan
from esan.nn import BatchNorm, SubgraphGNN
from esan.train import EagerEngine, Job, Objective, Predictor, Recipe, named, run_jobs
from esan.train.engines.recalibrate import NormRecalibration
from small_campaign import InterruptedTrainingError, Interrupting
from small_sets import quick, small

SAMPLES = {"policy": "ND@0.5", "dropout": 0.3, "votes": 2}


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESAN_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def engine(make: Any = esan.dss_gnn, **options: Any) -> EagerEngine:
    """On 24 graphs, in batches of 5: the last one has 4."""
    dataset = small()
    torch.manual_seed(0)
    model = make(dataset.in_channels, 8, 3, 2, **options)
    bag = esan.Bag.of(dataset.graphs, esan.NodeDeletion(), model.num_layers)
    return EagerEngine(model, bag, Objective("classification"), 0.01, 5, torch.Generator().manual_seed(0))


def averaged(model: SubgraphGNN, batches: list[esan.Bag]) -> dict[str, Tensor]:
    """Mean and variance of every norm's input by definition, batch by batch, in double precision on literal bags."""
    model = copy.deepcopy(model).double().eval()
    found: dict[str, Tensor] = {}
    share = torch.tensor(0.0)

    def note(name: str) -> Any:
        def hook(norm: BatchNorm, given: tuple[Tensor, ...]) -> None:
            x = given[0]
            var = (x - x.mean(0)).square().mean(0)
            for key, value in ((f"{name}.running_mean", x.mean(0)), (f"{name}.running_var", var)):
                found[key] = found.get(key, torch.zeros_like(value)) + share * value

        return hook

    for name, norm in model.named_modules():
        if isinstance(norm, BatchNorm):
            norm.train().register_forward_pre_hook(note(name))
    graphs = sum(len(batch) for batch in batches)
    for batch in batches:
        share = torch.tensor(len(batch) / graphs, dtype=torch.double)
        with torch.no_grad():
            model(batch.to_literal())
    return found


@pytest.mark.parametrize("options", [{}, {"conv": "graphconv", "dropout": 0.5}, {"make": esan.ds_gnn}])
def test_the_statistics_are_means_over_the_batches_of_the_epoch(options: dict[str, Any]) -> None:
    mine, order = engine(**options), torch.randperm(24, generator=torch.Generator().manual_seed(3))
    mine.train_epoch(order, recalibration_batch_size=5)
    batches = [mine.loader.bag[ids] for ids in order.split(5)]
    expected, got = averaged(mine.model, batches), mine.model.state_dict()
    assert expected.keys() == {name for name in got if name.endswith(("running_mean", "running_var"))}
    for name, value in expected.items():
        assert torch.allclose(got[name].double(), value, rtol=1e-4, atol=1e-5), name
    # A check that sees the difference which it is about.
    lagging = engine(**options)
    lagging.train_epoch(order)
    name = next(iter(expected))
    assert not torch.allclose(lagging.model.state_dict()[name].double(), expected[name], rtol=1e-2)


def test_nothing_else_changes() -> None:
    plain, recalibrating = engine(), engine()
    for epoch in range(2):
        order = torch.randperm(24, generator=torch.Generator().manual_seed(epoch))
        assert torch.equal(plain.train_epoch(order), recalibrating.train_epoch(order, recalibration_batch_size=5))
    mine, other = recalibrating.state_dict(), plain.state_dict()
    apart = {name for name, tensor in mine["model"].items() if not torch.equal(tensor, other["model"][name])}
    assert apart == {name for name in mine["model"] if name.endswith(("running_mean", "running_var"))}
    assert torch.equal(mine["generator"], other["generator"])
    assert all(norm.momentum == 0.1 for norm in recalibrating.model.modules() if isinstance(norm, BatchNorm))


def test_statistics_survive_an_interruption() -> None:
    mine = engine()
    mine.train_epoch(torch.arange(24))
    before = copy.deepcopy(mine.model.state_dict())
    recalibration = NormRecalibration(mine.model)

    def forward() -> None:
        mine.model(mine.loader.bag[[0, 1, 2]])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), recalibration.over_batches():
        recalibration.add_batch(forward, 3)
    for name, tensor in mine.model.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    assert not any(part.training for part in mine.model.modules())


def test_a_network_without_norms_has_nothing_to_recalibrate() -> None:
    plain, recalibrating = (engine(conv="graphconv", norm=None) for _ in range(2))
    plain.train_epoch(torch.arange(24))
    recalibrating.train_epoch(torch.arange(24), recalibration_batch_size=5)
    for name, tensor in plain.model.state_dict().items():
        assert torch.equal(tensor, recalibrating.model.state_dict()[name])


@pytest.mark.parametrize("more", [{}, pytest.param(SAMPLES, marks=pytest.mark.exhaustive)])
def test_the_training_is_the_same(more: dict[str, Any]) -> None:
    assert Recipe(data="zinc").recalibrate_norms is False
    plain, recalibrating = (
        run_jobs([Job(quick(recalibrate_norms=recalibrate, **more))], None, dataset=small("regression"))[0]
        for recalibrate in (False, True)
    )
    assert [line.loss for line in plain.curve] == [line.loss for line in recalibrating.curve]
    assert [line.valid for line in plain.curve] != [line.valid for line in recalibrating.curve]


def test_batches_of_another_size() -> None:
    """A recipe without recalibration ignores the size; all graphs as one batch are more than that of training."""
    lines = [
        run_jobs(
            [Job(quick(epochs=2, recalibrate_norms=recalibrate, recalibrate_batch=size))],
            None,
            dataset=small("regression"),
        )[0].curve
        for recalibrate, size in ((False, 0), (False, 100), (True, 0), (True, 4), (True, 100))
    ]
    assert lines[0] == lines[1]
    assert lines[2] == lines[3]
    assert [line.valid for line in lines[2]] != [line.valid for line in lines[4]]
    assert [line.loss for line in lines[2]] == [line.loss for line in lines[4]]


@pytest.mark.parametrize("more", [{}, pytest.param(SAMPLES, marks=pytest.mark.exhaustive)])
def test_an_interrupted_run_ends_as_if_it_had_not_been(more: dict[str, Any], tmp_path: Path) -> None:
    job, dataset = Job(quick(recalibrate_norms=True, **more)), small("regression")
    (whole,) = run_jobs([job], None, dataset=dataset)
    for after in (2, 4):
        with pytest.raises(InterruptedTrainingError):
            run_jobs([job], tmp_path / str(after), dataset=dataset, every=0, loggers=[Interrupting(after)])
        assert run_jobs([job], tmp_path / str(after), dataset=dataset) == [whole], f"after epoch {after}"


@pytest.mark.exhaustive
def test_jobs_side_by_side_are_what_they_are_alone() -> None:
    dataset, recipe = small(), quick(split="folds", folds=2, select="mean-valid", recalibrate_norms=True)
    jobs = [Job(recipe, 0, 0), Job(recipe, 1, 0), Job(recipe, 1, 7)]
    assert run_jobs(jobs, None, dataset=dataset) == [run_jobs([job], None, dataset=dataset)[0] for job in jobs]


@pytest.mark.parametrize("double", [False, True])
def test_kept_weights_give_what_the_record_says(double: bool, tmp_path: Path) -> None:
    job, dataset = Job(quick(recalibrate_norms=True, double=double)), small("regression")
    (record,) = run_jobs([job], tmp_path, dataset=dataset)
    assert dataset.given is not None
    for weights, result in (("best", record.best), ("last", record.final)):
        fitted = Predictor.load(job.folder(tmp_path), weights)
        assert {t.dtype for t in fitted.model.parameters()} == {torch.double if double else torch.float}
        given = fitted.predict(dataset).value[dataset.given.valid]
        assert float((given - dataset.y[dataset.given.valid]).abs().mean()) == pytest.approx(result.valid)


@pytest.mark.exhaustive
def test_csl_is_learned_with_recalibrated_statistics_alone() -> None:
    """All nodes of these graphs have one degree: what the first shared norm divides by is near 0.

    With the degrees of subgraphs as features, as the recipe has them, norms see no such constants.
    """
    recipe = named("csl/dss-gin-ego+").variant(degrees=0, node_features=True, jk="cat")
    recalibrated, lagging = (
        run_jobs([Job(recipe.variant(epochs=6, recalibrate_norms=recalibrate))], None)[0]
        for recalibrate in (True, False)
    )
    assert recalibrated.best.valid == 1.0
    assert lagging.best.valid is not None
    assert lagging.best.valid <= 0.5
