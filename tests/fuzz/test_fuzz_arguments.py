"""Whatever is passed to a function, it gives the right answer or one clear error, soon and without much memory."""

import resource
import time
import warnings
from collections.abc import Iterator

import pytest
from arguments_corpus import PARAMETERS, VALUES

#: What errors of the input are: never an AttributeError, a RuntimeError of torch, an error of numba.
CLEAR = (ValueError, TypeError, IndexError, OSError, ImportError)
CASES = [(parameter, value) for parameter in PARAMETERS for value in VALUES]
#: By default every parameter has some of the values, and every value some of the parameters: 17 divides neither count.
SAMPLE = CASES[::17]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path_factory.getbasetemp())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def check(parameter: str, value: str) -> None:
    """One case."""
    spec, passed = PARAMETERS[parameter], VALUES[value]()
    began, peak = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    failure: Exception | None = None
    try:
        spec.call(passed)
    except CLEAR as error:
        failure = error
    assert time.monotonic() - began < 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 2**20  # KiB
    if failure is None:
        assert value in spec.takes, f"{parameter} took {value}"
        return
    words = str(failure)
    assert value not in spec.takes, f"{parameter} should take {value}: {words}"
    assert words.startswith("Expected"), f"{type(failure).__name__}: {words}"
    assert "(got" in words, words
    assert "\n" not in words.strip(), words
    assert len(words) < 1000, words


@pytest.mark.parametrize(("parameter", "value"), SAMPLE, ids=lambda name: name.replace(" ", "-"))
def test_some_arguments(parameter: str, value: str) -> None:
    check(parameter, value)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("parameter", "value"), CASES, ids=lambda name: name.replace(" ", "-"))
def test_all_arguments(parameter: str, value: str) -> None:
    check(parameter, value)
