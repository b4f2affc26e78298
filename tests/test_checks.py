"""Checks of plain arguments: kinds, bounds, and numbers of numpy."""

from typing import Any

import numpy as np
import pytest

from esan.checks import real_number, whole_number


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
