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
from torch import Tensor

import esan
from esan.bags.padded import batches
from esan.graphs import cycle, path, star
from esan.nn import feature_encoders
from esan.nn.execution import replay
from esan.ops import norm
from interpreting import ONLY_INTERPRETED, close, poison, use_reference_layout
from recorded_again import Again, record_again

pytestmark = ONLY_INTERPRETED
WAITS = "called a synchronizing CUDA operation"


class Simulated:
    """Stands in for a device that records: `recording` while it does, `refusing` while nothing may be read back."""

    def __init__(self) -> None:
        self.recording = self.refusing = False

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

    @contextmanager
    def while_recording(self) -> Iterator[None]:
        self.recording = True
        try:
            yield
        finally:
            self.recording = False


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Simulated:
    made, is_true = Simulated(), Tensor.__bool__

    def checked(tensor: Tensor) -> bool:
        made.check()
        return is_true(tensor)

    monkeypatch.setattr(Tensor, "__bool__", checked)
    record_again(monkeypatch, replay)
    monkeypatch.setattr(Again, "recording", made.while_recording)
    monkeypatch.setattr(replay, "refusing_to_wait", made.refusing_to_wait)
    for module in (batches, feature_encoders, replay):
        monkeypatch.setattr(module, "is_capturing", lambda: made.recording)
    for module in (feature_encoders, norm):
        monkeypatch.setattr(module, "is_gpu", lambda device: True)
    use_reference_layout(monkeypatch)
    poison(monkeypatch)
    return made


def three_graphs() -> list[Any]:
    graphs = [cycle(4), path(4), star(3)]
    for graph in graphs:
        graph.x = torch.arange(graph.num_nodes)[:, None] % 3
    return graphs


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
    graphs = three_graphs()
    for graph in graphs:
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
        Again.state, results = [network], []
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


@pytest.mark.usefixtures("simulated")
def test_passes_before_the_first_backward_pass() -> None:
    """A capture that finds what the backward pass reads is given up; what is recorded later has another pool."""
    bag = esan.Bag.of(three_graphs(), "EGO+(2)", 2)
    torch.manual_seed(1)
    model = esan.dss_gnn(esan.Categories(3), 8, 1, 1, marked=True)
    found = []
    for network, padded in ((copy.deepcopy(model).double(), False), (model, True)):
        Again.state = [network]
        loader = esan.Loader(bag, 3, padded=padded)
        outs = [network(batch) for _ in range(4) for batch in loader]
        sum(out.square().sum() for out in outs).backward()
        found.append([*(out.detach() for out in outs), *(p.grad for p in network.parameters()), *network.buffers()])
    for number, (plain, ours) in enumerate(zip(*found, strict=True)):
        close(ours, plain, f"result {number}")
