"""Checks of plain arguments: kinds, bounds, and numbers of numpy."""

from typing import Any

import numpy as np
import pytest

from esan.checks import check_known, real_number, truth_value, whole_number


@pytest.mark.parametrize("value", [True, 2.0, "2", None, [2]])
def test_what_is_no_whole_number(value: Any) -> None:
    with pytest.raises(TypeError, match=r"^Expected k to be a whole number \(got .*\)\. Pass 1\.$"):
        whole_number("k", value, 1, "Pass 1.")


def test_whole_numbers() -> None:
    assert whole_number("k", 1, 1, "") == 1
    assert type(whole_number("k", np.int64(3), 1, "")) is int
    with pytest.raises(ValueError, match=r"^Expected k of at least 1 \(got 0\)\. Pass 1\.$"):
        whole_number("k", 0, 1, "Pass 1.")


@pytest.mark.parametrize("value", [True, "0.5", None, [0.5]])
def test_what_is_no_number(value: Any) -> None:
    with pytest.raises(TypeError, match=r"^Expected p to be a number \(got .*\)\. Pass 0\.5\.$"):
        real_number("p", value, "Pass 0.5.")


def test_numbers() -> None:
    assert real_number("p", 1, "") == 1.0
    assert type(real_number("p", np.float32(0.5), "")) is float


@pytest.mark.parametrize("value", ["yes", "no", 1, 0, None, np.True_])
def test_what_is_no_truth_value(value: Any) -> None:
    with pytest.raises(TypeError, match=r"^Expected deep to be True or False \(got .*\)\. Pass True\.$"):
        truth_value("deep", value, "Pass True.")


def test_truth_values() -> None:
    assert truth_value("deep", True, "")
    assert not truth_value("deep", False, "")


@pytest.mark.parametrize("value", ["c", None, ["a"]], ids=str)
def test_what_is_not_known(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^Expected kind to be one of '', a, b \(got .*\)\. Choose one of these\.$"):
        check_known("kind", value, {"": 0, "a": 1, "b": 2})
    check_known("kind", "a", ("a", "b"))
