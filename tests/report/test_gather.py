"""Gathering records: each job once, and whatever cannot be used is named."""

from dataclasses import replace
from pathlib import Path

import pytest

from esan.report.gather import gather
from esan.train.recipes.catalogue import named
from esan.train.runs.record_table import add_records
from made_up_records import record, save


def test_records_are_found_in_run_folders_and_in_tables(tmp_path: Path) -> None:
    first, second, third = (record("zinc/gin", 0.25 + seed / 100, seed=seed) for seed in range(3))
    save([first], tmp_path / "runs")
    add_records(tmp_path / "results" / "zinc", [second])
    third.save(tmp_path / "results" / "zinc" / "gin" / "0-2.json")
    (tmp_path / "results" / "other.json").write_text("{}")
    found = gather([tmp_path / "runs", tmp_path / "results"])
    assert sorted((one.seed, one.final) for one in found.records) == [
        (i, r.final) for i, r in enumerate((first, second, third))
    ]
    assert not found.problems
    assert [len(row.records) for row in found.rows()] == [3]
    assert [one.seed for one in gather([tmp_path / "results" / "zinc" / "runs.jsonl"]).records] == [1]


def test_a_damaged_table_is_named_and_the_others_are_used(tmp_path: Path) -> None:
    add_records(tmp_path / "a", [record("zinc/gin", 0.25, seed=seed) for seed in range(2)])
    add_records(tmp_path / "b", [record("mutag/gin", 0.8)])
    path = tmp_path / "a" / "runs.jsonl"
    path.write_text(path.read_text().replace('"fold":0,"seed":1', '"fold":0,"seed":-1'))
    found = gather([tmp_path])
    assert [one.recipe.name for one in found.records] == ["mutag/gin"]
    (problem,) = found.problems
    assert f"{path} (got damage in line 2: Expected seed" in problem


def test_a_run_that_is_in_two_tables_counts_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        add_records(tmp_path / name, [record("zinc/gin", 0.25, seed=seed) for seed in range(2)])
    found = gather([tmp_path])
    assert len(found.records) == 2
    assert "b/runs.jsonl, line 2: left out. It has the same outcome" in found.problems[1]


def test_a_damaged_record_is_named_and_the_others_are_used(tmp_path: Path) -> None:
    save([record("zinc/gin", 0.25, seed=seed) for seed in range(3)], tmp_path)
    broken = tmp_path / "zinc" / "gin" / "0-1" / "record.json"
    broken.write_text(broken.read_text()[:100])
    found = gather([tmp_path])
    assert [one.seed for one in found.records] == [0, 2]
    (problem,) = found.problems
    assert str(broken) in problem
    assert "Expected a whole record" in problem


def test_two_records_of_one_job_count_once(tmp_path: Path) -> None:
    one = record("zinc/gin", 0.25)
    save([one], tmp_path / "a")
    save([one], tmp_path / "b")
    save([record("zinc/gin", 0.30)], tmp_path / "c")
    found = gather([tmp_path])
    assert found.records == (one,)
    same, other = found.problems
    assert "the same outcome of the same job" in same
    assert str(tmp_path / "c") in other
    assert "another outcome of the same job" in other
    assert gather([tmp_path / "a", tmp_path / "a"]).problems == ()


def test_a_packed_run_has_the_outcome_of_its_own_record(tmp_path: Path) -> None:
    """A table stores seven digits of a curve."""
    one = record("zinc/gin", 1 / 3)
    save([one], tmp_path / "a")
    add_records(tmp_path / "b", [one])
    assert "the same outcome of the same job" in gather([tmp_path]).problems[0]


def test_runs_on_other_data_are_not_mixed(tmp_path: Path) -> None:
    save([replace(record("zinc/gin", 0.25, seed=seed), data_sha256=sha) for seed, sha in enumerate("aab")], tmp_path)
    save([replace(record("zinc/gin", 0.25, seed=3), data_sha256=None)], tmp_path)
    found = gather([tmp_path])
    assert [one.seed for one in found.records] == [0, 1, 3]
    (problem,) = found.problems
    assert "0-2/record.json: left out. Its data are not those of " in problem


def test_two_recipes_of_one_name_are_not_mixed(tmp_path: Path) -> None:
    recipe = named("zinc/gin")
    save([record(recipe, 0.25, seed=0)], tmp_path)
    save([record(replace(recipe, lr=0.5), 0.25, seed=1), record(replace(recipe, seeds=3), 0.26, seed=2)], tmp_path)
    found = gather([tmp_path])
    assert [one.seed for one in found.records] == [0, 2]
    assert "Its recipe differs" in found.problems[0]


def test_unfinished_runs_are_shown(tmp_path: Path) -> None:
    save([record("zinc/gin", 0.25)], tmp_path)
    for name, run in (("zinc/gin", "0-1"), ("zinc/dss-gin-ego+", "0-0")):
        named(name).save(tmp_path / name / run / "recipe.toml")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "recipe.toml").write_text("lr = ")
    found = gather([tmp_path])
    assert [(row.recipe, row.state) for row in found.rows()] == [
        ("zinc/gin", "1 of 10 runs, 1 unfinished"),
        ("zinc/dss-gin-ego+", "not yet run, 1 unfinished"),
    ]
    assert "recipe.toml" in found.problems[0]


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="which is not there"):
        gather([tmp_path / "nowhere"])
    assert gather([tmp_path]).rows() == []
