"""Grid search: all configurations are trained, and validation alone decides."""

from pathlib import Path

import pytest

from esan.train.campaigns.campaign import run_campaign
from esan.train.campaigns.grid import rank_by_validation, search
from esan.train.recipes.recipe import Recipe
from esan.train.runs.job import Job
from esan.train.runs.loggers import ProgressBars
from esan.train.runs.records import Epoch, Point, Record
from small_campaign import recipe, write_set


def record(name: str, seed: int, valid: list[float], test: list[float], metric: str, select: str) -> Record:
    curve = tuple(Epoch(i + 1, 0.01, 1.0, v, t) for i, (v, t) in enumerate(zip(valid, test, strict=True)))
    sign = -1 if metric == "mae" else 1
    best = max(curve, key=lambda line: (sign * (line.valid or 0), -line.epoch))
    return Record(
        recipe=Recipe(data="zinc", name=name, select=select),
        fold=0,
        seed=seed,
        task="regression" if metric == "mae" else "classification",
        metric=metric,
        epochs=len(curve),
        best=Point(best.epoch, None, best.valid, best.test),
        final=Point(curve[-1].epoch, None, curve[-1].valid, curve[-1].test),
        curve=curve,
        parameters=1,
    )


@pytest.mark.parametrize("select", ["best-valid", "last", "mean-valid"])
@pytest.mark.parametrize("metric", ["accuracy", "mae"])
def test_validation_decides_though_the_test_set_says_the_opposite(metric: str, select: str) -> None:
    good, poor = (0.9, 0.5) if metric == "accuracy" else (0.5, 0.9)
    records = [
        *(record("worse", seed, [poor, poor], [good, good], metric, select) for seed in range(3)),
        *(record("better", seed, [poor, good], [poor, poor], metric, select) for seed in range(3)),
    ]
    (first, second) = rank_by_validation(records)
    assert first.recipe.name == "better"
    assert first.valid is not None
    assert first.valid.mean == pytest.approx(good)
    assert second.valid is not None
    assert second.valid.mean == pytest.approx(poor)
    assert first.records[0].best.test is not None, "the records themselves are whole"


def test_among_equals_the_first_of_the_grid_is_chosen_and_what_has_no_value_comes_last() -> None:
    blank = record("blank", 0, [0.5], [0.9], "accuracy", "best-valid")
    blank = Record(**{**vars(blank), "best": blank.best._replace(valid=None)})
    equal = [record(name, 0, [0.7], [t], "accuracy", "best-valid") for name, t in (("a", 0.1), ("b", 0.9))]
    assert [one.recipe.name for one in rank_by_validation([blank, *equal])] == ["a", "b", "blank"]
    # One from a record table, whose curves have seven digits, and one as it was written.
    stored = [
        record(name, 0, [value], [0.1], "accuracy", "best-valid") for name, value in (("a", 2 / 3), ("b", 0.6666667))
    ]
    assert [one.recipe.name for one in rank_by_validation(stored)] == ["a", "b"]


def test_a_search_does_not_show_the_test_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[bool] = []

    class Seen(ProgressBars):
        def __init__(self, test: bool = True) -> None:
            super().__init__(test=test)
            shown.append(self.test)

    monkeypatch.setenv("ESAN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("esan.train.campaigns.campaign.ProgressBars", Seen)
    tuned = recipe(write_set(tmp_path), grid=({"lr": (0.01,)},), seeds=1, epochs=1)
    search(tuned, tmp_path / "runs", folds=[0], bars=True)
    run_campaign([Job(tuned)], tmp_path / "others", bars=True)
    assert shown == [False, True]


def test_a_search_trains_every_configuration_and_can_be_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ESAN_CACHE", str(tmp_path / "cache"))
    tuned = recipe(write_set(tmp_path), grid=({"lr": (0.01, 0.001), "hidden_channels": (4, 6)},), seeds=1)
    found = search(tuned, tmp_path / "runs", folds=[1])
    assert sorted(one.recipe.name for one in found.scored) == [
        "small/ds",
        "small/ds~hidden_channels=6",
        "small/ds~hidden_channels=6,lr=0.001",
        "small/ds~lr=0.001",
    ]
    assert not found.failures
    values = [one.valid.mean for one in found.scored if one.valid is not None]
    assert values == sorted(values, reverse=True)
    assert found.best is found.scored[0]
    assert [[r.fold for r in one.records] for one in found.scored] == [[1]] * 4
    assert search(tuned, tmp_path / "runs", folds=[1]).scored == found.scored


def test_a_recipe_without_a_grid_is_refused_and_a_grid_that_cannot_be_trained_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"Expected a recipe with a grid \(got small/ds"):
        search(recipe(tmp_path), tmp_path / "runs")
    hopeless = search(recipe(tmp_path / "nowhere", grid=({"lr": (0.1,)},)), tmp_path / "runs")
    assert len(hopeless.failures) == 4
    with pytest.raises(ValueError, match=r"Expected a configuration that could be trained \(got none: .*nowhere"):
        _ = hopeless.best
