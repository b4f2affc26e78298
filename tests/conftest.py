"""Settings of the whole suite."""

import signal
from collections.abc import Iterator

import pytest
import torch
from hypothesis import HealthCheck, settings

from hypothesis_examples import drawn
from pairwise import mark_others

pytest_plugins = ["pytester"]

# The same examples in every run: a suite that fails now and then teaches nobody.
settings.register_profile(
    "esan",
    max_examples=drawn(6),
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("esan")


def pytest_configure() -> None:
    """Processes that a shell starts in the background ignore interrupts, which some tests send."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of tests marked `pairwise` few cases stay; what takes minutes goes first, so that no worker idles at the end."""
    mark_others(items)
    items.sort(key=lambda item: item.path.name != "test_triton_interpreted.py")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Weights are drawn from torch's own generator."""
    torch.manual_seed(0)


@pytest.fixture
def gpu() -> torch.device:
    """The GPU, for tests marked `gpu`."""
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU, and torch sees none here")
    return torch.device("cuda")


@pytest.fixture
def always_deduplicated() -> Iterator[None]:
    """Representatives are used however many there are."""
    from esan.bags.dedup import dedup_limits

    with dedup_limits(first=1.0, overall=1.0):
        yield
