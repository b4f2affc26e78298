"""Networks with hooks, foreign convolutions and replaced modules give on padded batches, where the parts between these
are replayed, what they give on batches without padding, where everything is called. Without a GPU, a recording that
does its work again stands in for a CUDA graph, and what would wait for a device is refused while it records.
"""

import copy
import gc
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.nn import MessagePassing

import esan
from device_waits import leave_out_checks_of_values, refusing_to_wait
from esan.graphs import cycle, path, star
from esan.nn.execution import replay
from recorded_again import Again, record_again

WIDTH, LAYERS, STEPS = 8, 2, 2


@pytest.fixture(params=["simulated", pytest.param("gpu", marks=pytest.mark.gpu)], autouse=True)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> torch.device:
    if request.param == "gpu":
        return request.getfixturevalue("gpu")
    record_again(monkeypatch, replay)
    monkeypatch.setattr(replay, "refusing_to_wait", refusing_to_wait)
    leave_out_checks_of_values(monkeypatch)
    return torch.device("cpu")


class Own(MessagePassing):
    """A user's convolution, which counts its calls."""

    lookahead = 0

    def __init__(self, width: int, out: int) -> None:
        super().__init__(aggr="add")
        self.lin, self.calls = nn.Linear(width, out), 0

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        self.calls += 1
        return self.lin(self.propagate(edge_index, x=x) + x)

    def message(self, x_j: Tensor) -> Tensor:
        return x_j.relu()


class OwnGIN(esan.nn.GINConv):
    """A subclass that overrides `forward`."""

    def forward(self, *given: Any) -> Tensor:
        return 2 * super().forward(*given)


def graphs() -> list[Any]:
    made = [*(cycle(n) for n in range(4, 9)), *(path(n) for n in range(3, 9)), *(star(n) for n in range(3, 8))]
    for k, data in enumerate(made):
        data.x = torch.arange(data.num_nodes).reshape(-1, 1) % 3
        data.edge_attr = data.edge_index.sum(0).reshape(-1, 1) % 2
        data.y = torch.tensor([float(k % 4)], dtype=torch.float64)
    return made


def network(conv: Any, shares: bool, device: torch.device, dtype: torch.dtype = torch.float64) -> Any:
    torch.manual_seed(1)
    make = esan.dss_gnn if shares else esan.ds_gnn
    model = make(esan.Categories(3), WIDTH, LAYERS, 1, conv=conv, marked=True).to(device, dtype)
    Again.state = [model]
    return model


def losses(model: Any, padded: bool) -> list[Tensor]:
    """The losses of some steps, with every gradient of the last and every buffer behind it."""
    bag = esan.Bag.of(graphs(), "EGO+(2)", LAYERS + 1)
    loader = esan.Loader(bag, 4, device=next(model.parameters()).device, padded=padded)
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)
    found = []
    for _ in range(STEPS):
        for batch in loader:
            optimiser.zero_grad()
            assert batch.y is not None
            out = model(batch).squeeze(-1)
            loss = (out - batch.y.reshape(-1).to(out.dtype)).square().mean()
            loss.backward()
            found.append(loss.detach())
            optimiser.step()
    return [*found, *(p.grad for p in model.parameters() if p.grad is not None), *model.buffers()]


def check(model: Any, other: Any = None) -> None:
    """Padded batches, where parts are replayed, against batches without padding."""
    other = copy.deepcopy(model) if other is None else other
    single = next(model.parameters()).dtype == torch.float32
    rtol, atol = (2e-3, 3e-4) if single else (1e-7, 1e-9)
    for got, expected in zip(losses(model, True), losses(other, False), strict=True):
        torch.testing.assert_close(got, expected, rtol=rtol, atol=atol)


def replayed_parts(model: Any) -> int:
    """How many parts of the network were captured."""
    workspaces = [one for free in model._replays._free.values() for one in free]
    return max((sum(part is not None for part in one.parts.values()) for one in workspaces), default=0)


class OwnWithEdges(MessagePassing):
    """One that takes features of edges."""

    lookahead = 0

    def __init__(self, width: int, out: int) -> None:
        super().__init__(aggr="add")
        self.lin = nn.Linear(width, out)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        return self.lin(self.propagate(edge_index, x=x, edge_attr=edge_attr) + x)

    def message(self, x_j: Tensor, edge_attr: Tensor) -> Tensor:
        return x_j.relu() + edge_attr.mean(1, keepdim=True)


CONVS: dict[str, Any] = {
    "gin": "gin",
    "graphconv": "graphconv",
    "gcn": "gcn",
    "GATConv": lambda i, o: pyg.GATConv(i, o),
    "GATv2Conv": lambda i, o: pyg.GATv2Conv(i, o),
    "GCNConv": lambda i, o: pyg.GCNConv(i, o),
    "GINConv": lambda i, o: pyg.GINConv(nn.Linear(i, o)),
    "SAGEConv": lambda i, o: pyg.SAGEConv(i, o),
    "TransformerConv": lambda i, o: pyg.TransformerConv(i, o),
    "MFConv": lambda i, o: pyg.MFConv(i, o),
    "Own": Own,
    "OwnGIN": OwnGIN,
}

#: What `make test` leaves out: they are called as another one is.
ALIKE = ("gcn", "GATv2Conv", "GINConv", "SAGEConv", "TransformerConv")


@pytest.mark.each_value
@pytest.mark.parametrize("shares", [False, True], ids=["ds", "dss"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["single", "double"])
@pytest.mark.parametrize(
    "conv", [pytest.param(name, marks=pytest.mark.exhaustive if name in ALIKE else ()) for name in CONVS]
)
def test_convolutions(conv: str, dtype: torch.dtype, shares: bool, device: torch.device) -> None:
    model = network(CONVS[conv], shares, device, dtype)
    check(model)
    parts = replayed_parts(model)
    # A user's own are called, and PyG's MFConv, which waits for the device.
    assert parts > 1 if conv in ("MFConv", "Own", "OwnGIN") else parts == 1


@pytest.mark.parametrize("hooked", [False, True])
def test_features_of_edges(hooked: bool, device: torch.device) -> None:
    torch.manual_seed(1)
    model: Any = esan.dss_gnn(
        esan.Categories(3), WIDTH, LAYERS, 1, conv=OwnWithEdges, edge_channels=esan.Categories(2), marked=True
    ).to(device, torch.float64)
    Again.state = [model]
    seen: list[int] = []
    if hooked:
        model.encoder.layers[0].inside.edge_encoder.register_forward_hook(_count(seen))
    check(model)
    # The input, the prediction, and per layer what goes into the convolutions, edge features included, and their sum.
    assert replayed_parts(model) == 2 + 2 * LAYERS
    # The copy without replays is hooked, too.
    assert len(seen) == (2 * STEPS * 4 if hooked else 0)


def _count(seen: list[int]) -> Callable[..., None]:
    return lambda *_: seen.append(1)


PLACES: dict[str, Callable[[Any], nn.Module]] = {
    "network": lambda m: m,
    "features": lambda m: m.features,
    "encoder": lambda m: m.encoder,
    "layer": lambda m: m.encoder.layers[1],
    "conv": lambda m: m.encoder.layers[1].inside,
    "shared conv": lambda m: m.encoder.layers[0].shared,
    "norm": lambda m: m.encoder.layers[1].norm,
    "mlp": lambda m: m.encoder.layers[1].inside.mlp,
    "linear": lambda m: m.encoder.layers[0].inside.mlp.first,
    "set encoder": lambda m: m.set_encoder,
    "head": lambda m: m.head,
}


#: The encoder gives no tensors, for which torch calls no backward hooks.
CASES = [(place, kind) for place in PLACES for kind in ("forward", "pre", "backward")]
CASES.remove(("encoder", "backward"))
#: Places that `make test` has of each kind of part: one that is a network's, a layer's, a convolution's and a norm's.
SOME = ("network", "layer", "conv", "norm", "linear")


@pytest.mark.each_value
@pytest.mark.parametrize(
    ("place", "kind"),
    [pytest.param(*case, marks=() if case[0] in SOME else pytest.mark.exhaustive) for case in CASES],
)
def test_hooks_are_called_and_change_nothing(place: str, kind: str, device: torch.device) -> None:
    model = network("gin", True, device)
    seen: list[int] = []
    register = {"forward": "forward_hook", "pre": "forward_pre_hook", "backward": "full_backward_hook"}[kind]
    other = copy.deepcopy(model)
    getattr(PLACES[place](model), f"register_{register}")(_count(seen))
    check(model, other)
    assert len(seen) == STEPS * 4
    assert replayed_parts(model) >= 1


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(place, marks=() if place in SOME else pytest.mark.exhaustive)
        for place in PLACES
        if place not in ("network", "encoder")
    ],
)
def test_hooks_that_change_what_a_module_gives(place: str, device: torch.device) -> None:
    model = network("gin", True, device)
    PLACES[place](model).register_forward_hook(lambda module, given, out: 0.5 * out)
    check(model)


def test_rows_that_a_hook_keeps_stay_what_they_were(device: torch.device) -> None:
    model = network("gin", True, device)
    seen: list[tuple[Tensor, Tensor]] = []
    model.encoder.layers[1].inside.register_forward_hook(lambda m, given, out: seen.append((given[0], out)))
    bag = esan.Bag.of(graphs(), "EGO+(2)", LAYERS + 1)
    copies = []
    for _ in range(STEPS):
        for batch in esan.Loader(bag, 4, device=device, padded=True):
            model(batch).sum().backward()
            copies.append(tuple(t.detach().clone() for t in seen[-1]))
    for kept, copied in zip(seen, copies, strict=True):
        for one, two in zip(kept, copied, strict=True):
            assert torch.equal(one, two)


def test_two_calls_before_a_gradient(device: torch.device) -> None:
    model = network(Own, True, device)
    other = copy.deepcopy(model)
    bag = esan.Bag.of(graphs(), "EGO+(2)", LAYERS + 1)
    for padded, one in ((True, model), (False, other)):
        for _ in range(4):
            first, second, *_ = esan.Loader(bag, 4, device=device, padded=padded)
            one.zero_grad()
            (one(first) * one(second)).sum().backward()
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-7, atol=1e-9)


def test_a_users_convolution_is_called_in_every_step(device: torch.device) -> None:
    model: Any = network(Own, True, device)
    losses(model, True)
    assert [layer.inside.conv.calls for layer in model.encoder.layers] == [STEPS * 4] * LAYERS


def test_a_convolution_that_waits(device: torch.device) -> None:
    """It is called, and what is kept of the attempt to capture it does not need the garbage collector to go."""
    model: Any = network(CONVS["MFConv"], False, device)
    collected = gc.isenabled()
    gc.disable()
    try:
        check(model)
        assert replayed_parts(model) == 2 + 2 * LAYERS
        assert model._replays._count == 1
    finally:
        if collected:
            gc.enable()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("GATConv", {}),
        ("GATConv", {"add_self_loops": False}),
        ("GATv2Conv", {}),
        ("GCNConv", {}),
        ("GCNConv", {"improved": True}),
        ("GCNConv", {"normalize": False}),
        ("GCNConv", {"add_self_loops": False}),
    ],
)
def test_self_loops_that_are_not_looked_for(kind: str, options: dict[str, Any], weighted: bool) -> None:
    """What a convolution that adds them gives while it is captured, where it may not look whether there are any."""
    conv = esan.nn.PyGConv(getattr(pyg, kind)(3, 4, **options), 4, None, 0).double()
    takes = weighted and kind == "GCNConv"
    edges: Any = SimpleNamespace(
        edge_index=torch.tensor([[0, 1, 2, 1], [1, 0, 1, 2]]),
        weight=torch.tensor([1.0, 2.0, 0.5, 3.0], dtype=torch.float64) if takes else None,
    )
    x = torch.randn(4, 3, dtype=torch.float64)
    expected, adds = conv.compute(x, edges, None, None), conv.conv.add_self_loops
    for loopless in (True, False):
        with conv.while_captured(SimpleNamespace(loopless=loopless)):
            assert conv.conv.add_self_loops == (adds and not loopless)
            torch.testing.assert_close(conv.compute(x, edges, None, None), expected, rtol=1e-12, atol=1e-12)
    assert conv.conv.add_self_loops == adds


class Declared(Own):
    """One that says that it may be recorded."""

    capturable = True


class Inherits(Declared):
    """One that only inherits it, and may do more."""


@pytest.mark.parametrize(("conv", "parts"), [(Declared, 1), (Inherits, 2 + 2 * LAYERS)])
def test_a_users_convolution_that_may_be_captured(conv: Any, parts: int, device: torch.device) -> None:
    model: Any = network(conv, True, device)
    check(model)
    assert replayed_parts(model) == parts


@pytest.mark.parametrize("modes", [(torch.no_grad,), (torch.inference_mode, torch.no_grad, torch.inference_mode)])
def test_no_gradients(modes: tuple[Any, ...], device: torch.device) -> None:
    """Also where a batch is first predicted in another mode: what is made in inference mode cannot be changed later."""
    model = network(Own, True, device).eval()
    bag = esan.Bag.of(graphs(), "EGO+(2)", LAYERS + 1)
    loader = esan.Loader(bag, 4, device=device, padded=True)
    for mode in [mode for mode in modes for _ in range(2)]:
        with mode():
            padded = [model(batch).clone() for batch in loader]
            plain = [model(batch) for batch in esan.Loader(bag, 4, device=device, padded=False)]
        for one, two in zip(padded, plain, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-7, atol=1e-9)
