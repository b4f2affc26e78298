"""Records: JSON there and back; equal if the outcome is, whatever the machine."""

from dataclasses import replace
from pathlib import Path

import pytest

from esan.train import Epoch, Point, Record, load_records
from esan.train.runs.records import finite_or_none
from small_sets import quick

LINES = (Epoch(1, 0.01, 0.7, 0.5, None), Epoch(2, 0.01, None, 0.75, None))
RECORD = Record(
    recipe=quick(),
    fold=1,
    seed=2,
    task="classification",
    metric="accuracy",
    epochs=2,
    best=Point(2, None, 0.75, None),
    final=Point(2, 0.9, 0.75, None),
    curve=LINES,
    parameters=10,
    spread=0.25,
    versions={"torch": "2"},
    hardware="a machine",
    seconds=1.5,
    peak_bytes=7,
    started="then",
    finished="now",
)


def test_json_gives_the_same_record(tmp_path: Path) -> None:
    RECORD.save(tmp_path / "a" / "record.json")
    again = Record.load(tmp_path / "a" / "record.json")
    assert again == RECORD
    assert again.to_dict() == RECORD.to_dict()
    assert load_records(tmp_path) == [RECORD]
    assert list((tmp_path / "a").iterdir()) == [tmp_path / "a" / "record.json"], "nothing is left beside it"


def test_equality_is_that_of_the_outcome() -> None:
    assert (
        replace(RECORD, seconds=9.0, hardware="another", versions={}, peak_bytes=0, started="", finished="") == RECORD
    )
    assert replace(RECORD, seed=3) != RECORD
    assert replace(RECORD, curve=LINES[:1]) != RECORD
    assert replace(RECORD, spread=None) != RECORD


def test_what_is_not_finite_is_not_measured() -> None:
    assert finite_or_none(float("nan")) is None
    assert finite_or_none(float("inf")) is None
    assert finite_or_none(0.5) == 0.5


def test_damaged_records(tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    with pytest.raises(FileNotFoundError, match="Expected a record at"):
        Record.load(file)
    RECORD.save(file)
    whole = file.read_text()
    for text in (whole[:-50], "[]", "{}", whole.replace('"fold"', '"folded"'), whole.replace('"lr"', '"lrr"')):
        file.write_text(text)
        with pytest.raises(ValueError, match="Expected a whole record at"):
            Record.load(file)
