"""Drawings: axes with round numbers, and pictures that say what they were given."""

import math
import xml.etree.ElementTree as ET

import pytest

from esan.report.page.plots import (
    LOSS,
    VALID,
    ComparisonRow,
    Curve,
    PlotAxis,
    band,
    comparison,
    learning_curves,
    short,
    span,
)

SVG = "{http://www.w3.org/2000/svg}"


def test_an_axis_is_linear_or_logarithmic_and_keeps_to_its_ends() -> None:
    up = PlotAxis(0, 10, 100, 0)
    assert [up(0), up(5), up(10), up(-3), up(99)] == [100, 50, 0, 100, 0]
    log = PlotAxis(0.1, 10, 0, 100, log=True)
    assert log(1) == pytest.approx(50)
    assert log(0.0) == 0
    assert PlotAxis(3, 3, 0, 100)(3) == 50


@pytest.mark.parametrize(
    ("axis", "ticks"),
    [
        (PlotAxis(0, 100, 0, 1), [0, 25, 50, 75, 100]),
        (PlotAxis(79.2, 94.6, 0, 1), [80, 85, 90]),
        (PlotAxis(0.1, 0.27, 0, 1), [0.1, 0.15, 0.2, 0.25]),
        (PlotAxis(0.09, 1.5, 0, 1, log=True), [0.1, 0.2, 0.3, 0.5, 1]),
        (PlotAxis(0.1, 0.13, 0, 1, log=True), [0.1, 0.11, 0.12, 0.13]),
        (PlotAxis(1e-4, 2, 0, 1, log=True), [1e-4, 1e-3, 1e-2, 0.1, 1]),
    ],
)
def test_ticks_are_round_and_few(axis: PlotAxis, ticks: list[float]) -> None:
    assert axis.ticks(5) == pytest.approx(ticks)


def test_spans_have_a_margin_and_skip_what_cannot_be_drawn() -> None:
    assert span([1.0, 2.0, math.nan, math.inf], margin=0.1) == pytest.approx((0.9, 2.1))
    assert span([]) == (0.0, 1.0)
    low, high = span([5.0, 5.0])
    assert low < 5 < high
    assert span([0.0, 1.0, 4.0], log=True, margin=0.5) == pytest.approx((0.5, 8.0))
    assert [short(v) for v in (0.15, 100.0, 2e-5, 250000.0, 0.0)] == ["0.15", "100", "2e-5", "2.5e5", "0"]


def test_a_band_is_mean_and_deviation_over_the_runs_that_got_so_far() -> None:
    curves: list[Curve] = [[(1, 0.1, 1.0, 4.0, None), (2, 0.1, 0.5, None, None)], [(1, 0.1, 3.0, 2.0, None)]]
    assert band(curves, VALID).epochs == [1]
    losses = band(curves, LOSS)
    assert losses.epochs == [1, 2]
    assert losses.mean == [2.0, 0.5]
    assert (losses.low, losses.high) == ([1.0, 0.5], [3.0, 0.5])
    long = [[(e, 0.1, float(e), None, None) for e in range(1, 2001)]]
    drawn = band(long, LOSS)
    assert len(drawn.epochs) <= 402
    assert drawn.mean == sorted(drawn.mean)


def parsed(picture: str) -> ET.Element:
    return ET.fromstring(picture)


def test_learning_curves_draw_validation_test_loss_and_the_papers_number() -> None:
    curve = [(e, 0.1, 1.0 / e, 0.5 / e, 0.6 / e) for e in range(1, 20)]
    picture = parsed(
        learning_curves("a <title>", "3 seeds", [curve], lower_is_better=True, paper=0.102, chosen=(5, 0.1))
    )
    assert len(picture.findall(f"{SVG}polyline")) == 3
    assert len(picture.findall(f"{SVG}circle")) == 1
    words = [text.text for text in picture.findall(f"{SVG}text")]
    assert {"a <title>", "3 seeds", "paper 0.102", "loss"} <= set(words)
    bare = parsed(learning_curves("none", "", [[(1, 0.1, None, None, None)]], lower_is_better=False))
    assert bare.findall(f"{SVG}polyline") == []


def test_the_comparison_shows_both_numbers_or_that_one_is_missing() -> None:
    pairs = [
        ComparisonRow("GIN", 0.252, 0.017, 0.25, 0.01, "0.250"),
        ComparisonRow("DSS", 0.102, None, None, None, "not yet run"),
    ]
    picture = parsed(comparison("zinc", pairs, lower_is_better=True))
    words = {text.text for text in picture.findall(f"{SVG}text")}
    assert {"GIN", "DSS", "not yet run", "less is better"} <= words
    # Two in the key, two of GIN, one of DSS.
    assert len(picture.findall(f"{SVG}circle")) == 5
