"""From curves to the one number that is reported, by each rule."""

from dataclasses import replace
from pathlib import Path

import pytest

from esan.train import Epoch, MeanStd, Point, Record, summary
from esan.train.runs.record_table import add_records, read_table
from small_sets import quick


def record(valid: list[float | None], test: list[float] | None = None, **recipe: object) -> Record:
    tests: list[float] | list[None] = test if test is not None else [None] * len(valid)
    curve = tuple(Epoch(i, 0.1, 0.0, v, t) for i, (v, t) in enumerate(zip(valid, tests, strict=True), start=1))
    settings = {"split": "folds", "select": "mean-valid"} | recipe
    best = max((line for line in curve if line.valid is not None), key=lambda line: line.valid or 0)
    last = curve[-1]
    return Record(
        recipe=quick(**settings),
        fold=0,
        seed=0,
        task="classification",
        metric="accuracy",
        epochs=len(curve),
        best=Point(best.epoch, None, best.valid, best.test),
        final=Point(last.epoch, None, last.valid, last.test),
        curve=curve,
        parameters=1,
    )


def test_the_rule_of_the_tu_sets() -> None:
    """One epoch for all folds: that of the best mean, not each fold's best."""
    found = summary([record([0.5, 0.9, 0.8]), record([0.9, 0.6, 0.8])])
    assert (found.part, found.epoch, found.runs) == ("valid", 3, 2)
    assert found.value is not None
    assert found.best is not None
    assert found.value.mean == pytest.approx(0.8)
    assert found.value.std == pytest.approx(0.0)
    assert found.best.mean == pytest.approx(0.9)


def test_the_first_of_equal_epochs_counts() -> None:
    assert summary([record([0.5, 0.8, 0.8])]).epoch == 2


def test_a_record_table_gives_the_same_epoch_as_the_records_of_runs(tmp_path: Path) -> None:
    """Its seven digits make equal means differ, in favour of the later epoch."""
    found = [record([0.0, 1 / 19]), replace(record([3 / 19, 2 / 19]), fold=1)]
    add_records(tmp_path, found)
    stored = read_table(tmp_path).records
    assert [line.valid for line in stored[0].curve] != [line.valid for line in found[0].curve]
    assert summary(stored).epoch == summary(found).epoch == 1


def test_means_that_differ_by_more_than_rounding_are_told_apart() -> None:
    assert summary([record([300 / 411, 301 / 411]), record([301 / 412, 300 / 412])]).epoch == 2
    assert summary([record([1 - 6e-7, 1.0])]).epoch == 2


def test_epochs_that_some_fold_lacks_do_not_count() -> None:
    assert summary([record([0.5, 0.6, 0.99]), record([0.5, 0.6])]).epoch == 2
    assert summary([record([0.5, None]), record([0.4, 0.9])]).epoch == 1


def test_the_spread_is_that_of_the_folds() -> None:
    found = summary([record([0.8]), record([0.6])])
    assert found.value is not None
    assert (found.value.mean, found.value.std) == (pytest.approx(0.7), pytest.approx(0.1))


def test_test_at_best_validation() -> None:
    found = summary([record([0.5, 0.9, 0.8], [0.3, 0.6, 0.9], split="given", select="best-valid")])
    assert found.part == "test"
    assert found.value is not None
    assert found.value.mean == 0.6
    assert found.value == found.best


def test_where_training_stopped() -> None:
    found = summary([record([0.5, 0.9, 0.8], [0.3, 0.6, 0.9], split="given", select="last")])
    assert found.value is not None
    assert found.best is not None
    assert (found.value.mean, found.best.mean) == (0.9, 0.6)
    assert "stopped" in found.rule


def test_records_that_do_not_belong_together() -> None:
    with pytest.raises(ValueError, match="Expected records of one recipe"):
        summary([record([0.5]), record([0.5], lr=0.5)])
    with pytest.raises(ValueError, match="Expected at least one record"):
        summary([])


def test_one_run_has_no_deviation() -> None:
    (alone, both) = summary([record([0.5])]), summary([record([0.5]), record([0.5])])
    assert alone.value == MeanStd(0.5, None)
    assert f"{alone.value:.4f}" == "0.5000"
    assert f"{both.value:.4f}" == "0.5000 ± 0.0000", "of two runs that agree it is 0"
