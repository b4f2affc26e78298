"""Interpreted: layers that are not replayed as a whole are still one operator, on padded rows as the kernels want them.

In place of a CUDA graph stands a recording that does its work again. What reads a value back while it is recorded is
refused, as it would be on a GPU.
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import esan
from esan.bags.padded import batches
from esan.graphs import cycle, path, star
from esan.nn import feature_encoders
from esan.nn.execution import replay
from esan.ops import norm
from interpreting import ONLY_INTERPRETED, close, poison, use_reference_layout

pytestmark = ONLY_INTERPRETED
WAITS = "called a synchronizing CUDA operation"


class Simulated:
    """Stands in for a device that records: `recording` while it does, `refusing` while nothing may be read back."""

    def __init__(self) -> None:
        self.recording = self.refusing = False
        self.network: nn.Module = nn.Identity()

    def check(self) -> None:
        if self.recording or self.refusing:
            raise RuntimeError(WAITS)

    @contextmanager
    def refusing_to_wait(self, device: torch.device) -> Iterator[list[str]]:
        refused: list[str] = []
        self.refusing = True
        try:
            yield refused
        except RuntimeError as error:
            if WAITS not in str(error):
                raise
            refused.append(WAITS)
        finally:
            self.refusing = False

    def record(self, work: Callable[[], Any], pool: Any, device: torch.device) -> "_Recording":
        before = [buffer.clone() for buffer in self.network.buffers()]
        self.recording = True
        try:
            made = _Recording(work)
        finally:
            self.recording = False
        with torch.no_grad():  # what is recorded is not done
            for buffer, value in zip(self.network.buffers(), before, strict=True):
                buffer.copy_(value)
        return made


class _Recording:
    """A replay does the work again, in the mode that it was recorded in."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work, self._mode = work, torch.is_grad_enabled()
        self.replay()

    def replay(self) -> None:
        with torch.set_grad_enabled(self._mode):
            self.results = self._work()


@contextmanager
def _nothing(device: torch.device) -> Iterator[None]:
    yield


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Simulated:
    made, is_true = Simulated(), Tensor.__bool__

    def checked(tensor: Tensor) -> bool:
        made.check()
        return is_true(tensor)

    monkeypatch.setattr(Tensor, "__bool__", checked)
    monkeypatch.setattr(replay, "Recording", made.record)
    monkeypatch.setattr(replay, "is_gpu", lambda device: True)
    monkeypatch.setattr(replay, "graph_pool", object)
    monkeypatch.setattr(replay, "on_capture_stream", _nothing)
    monkeypatch.setattr(replay, "refusing_to_wait", made.refusing_to_wait)
    for module in (batches, feature_encoders, replay):
        monkeypatch.setattr(module, "is_capturing", lambda: made.recording)
    for module in (feature_encoders, norm):
        monkeypatch.setattr(module, "is_gpu", lambda device: True)
    use_reference_layout(monkeypatch)
    poison(monkeypatch)
    return made


def hooked(model: Any) -> None:
    model.encoder.layers[0].inside.edge_encoder.register_forward_hook(lambda *_: None)


@pytest.mark.parametrize(
    ("width", "types", "floats", "change", "backward"),
    [
        # 18 columns are padded to 32.
        (18, 2, False, hooked, True),
        # A table of so many types is looked up outside of the kernels.
        pytest.param(8, 200, False, None, True, marks=pytest.mark.exhaustive),
        # Categories that are floats are checked, which waits.
        pytest.param(8, 2, True, None, True, marks=pytest.mark.exhaustive),
        # The fields of a backward pass are not known before the first one.
        pytest.param(18, 2, False, None, False, marks=pytest.mark.exhaustive),
    ],
)
def test_layers_beside_recordings(
    simulated: Simulated, width: int, types: int, floats: bool, change: Callable[[Any], None] | None, backward: bool
) -> None:
    graphs = [cycle(4), path(4), star(3)]
    for graph in graphs:
        graph.x = torch.arange(graph.num_nodes)[:, None] % 3
        graph.edge_attr = graph.edge_index.sum(0)[:, None] % 2
        graph.edge_attr = graph.edge_attr.float() if floats else graph.edge_attr
    bag = esan.Bag.of(graphs, "EGO+(2)", 2)
    torch.manual_seed(1)
    model = esan.dss_gnn(
        esan.Categories(3), width, 1, 1, conv="gine", edge_channels=esan.Categories(types), marked=True
    )
    if change is not None:
        change(model)
    found = []
    for network, padded in ((copy.deepcopy(model).double(), False), (model, True)):
        simulated.network, results = network, []
        loader = esan.Loader(bag, 3, padded=padded)
        for _ in range(4):
            (batch,) = loader
            out = network(batch)
            results.append(out.detach().clone())
            if backward:
                out.square().sum().backward()
        found.append([*results, *(buffer.clone() for buffer in network.buffers())])
    for number, (plain, ours) in enumerate(zip(*found, strict=True)):
        close(ours, plain, f"result {number}")
