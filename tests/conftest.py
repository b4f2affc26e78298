"""Settings of the whole suite."""

import pytest
import torch
from hypothesis import HealthCheck, settings

# The same examples in every run: a suite that fails now and then teaches nobody.
settings.register_profile(
    "esan",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("esan")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes minutes goes first: begun last, it would leave the other workers idle."""
    items.sort(key=lambda item: item.path.name != "test_gpu_kernels.py")


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
def always_deduplicated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Representatives are used however many there are."""
    from esan.bags import dedup

    monkeypatch.setattr(dedup, "_FIRST", 2.0)
    monkeypatch.setattr(dedup, "_ALL", 2.0)
