"""The line below a table: the mean difference from the paper, its standard error, and where runs came from."""

from dataclasses import replace

import pytest

from esan.report.reproduced_tables import PaperNumber
from esan.report.reproduction.deviation import Deviation, deviation_line
from esan.report.reproduction.provenance_line import provenance_line
from esan.report.rows import Measured, Row
from made_up_records import record


def row(ours: float, paper: float, std: float | None = 1.0, **more: object) -> Row:
    number = PaperNumber("mutag/gin", paper, std, 1)
    made = Row("GIN", "mutag/gin", "mutag", "accuracy", number, Measured(ours, 1.0, 1))
    return replace(made, **more)  # type: ignore[arg-type]


def test_the_standard_error_is_that_of_a_mean() -> None:
    found = Deviation.of([1.0, 2.0, 3.0, 4.0])
    assert (found.mean, found.rows) == (2.5, 4)
    assert found.error == pytest.approx((5 / 3) ** 0.5 / 2)
    assert Deviation.of([2.0]).error is None


def test_complete_rows_with_a_number_of_the_paper_are_compared() -> None:
    rows = [row(89.0, 90.0), row(92.0, 90.0, 2.0), row(0.0, 90.0, jobs=10), replace(row(0.0, 0.0), paper=None)]
    line = deviation_line([*rows, replace(row(1.0, 90.0), ours=None)])
    assert (
        "over 2 rows: **+0.5 ± 1.5**, and 0.00 ± 1.00 in standard deviations of the paper, where + is better for us"
        in line
    )
    assert "No row is worse than the paper by more than two of its standard deviations" in line
    assert deviation_line(rows[2:]) == ""


def test_errors_are_better_where_they_are_smaller() -> None:
    line = deviation_line([row(0.10, 0.20, 0.1, metric="mae"), row(0.50, 0.20, 0.1, metric="mae", data="zinc")])
    assert "**+0.1 ± 0.2**, and −1.00 ± 2.00" in line
    assert "Worse by more than two of the paper's standard deviations: 1 row (zinc GIN)." in line


def test_rows_without_a_deviation_of_the_papers() -> None:
    assert "standard deviations of the paper (" not in deviation_line([row(100.0, 100.0, None)])
    line = deviation_line([row(100.0, 100.0, None), row(91.0, 90.0)])
    worse = deviation_line([row(99.0, 100.0, None), row(80.0, 90.0, data="ptc")])
    assert "deviations or, where it has none, by more than its rounding: 2 rows (mutag GIN; ptc GIN)." in worse
    assert "+1.00 in standard deviations of the paper, where + is better for us, over 1 row" in line


def test_commits_and_data_are_said_or_not_recorded() -> None:
    made = [record("zinc/gin", 0.2, seed=seed) for seed in range(4)]
    assert provenance_line([]) == ""
    assert provenance_line(made) == (
        "Commit of esan: not recorded (4 runs). SHA-256 of the data: not recorded: zinc (4 runs).\n"
    )
    made[0] = replace(made[0], commit="ab" * 20, data_sha256="cd" * 32)
    made[1] = replace(made[1], commit="ab" * 20 + "+changes", data_sha256="cd" * 32)
    made[2] = replace(made[2], commit="version 0.2.0")
    line = provenance_line(made)
    for words in ("`abababababab` (1 run)", "`abababababab` with changes (1 run)", "version 0.2.0 (1 run)"):
        assert words in line
    assert "`cdcdcdcdcdcd`: zinc (2 runs)" in line
