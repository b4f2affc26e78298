"""What changes between two batches, after passes or steps were captured, is obeyed as without capture.

Here, a stand-in for CUDA graphs repeats the recorded operations alone: what the code reads only once is seen.
"""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import esan
from device_waits import leave_out_checks_of_values, refusing_to_wait
from esan import steps
from esan.graphs import cycle, path
from esan.nn.execution import replay
from taped import Tape, tape

LAYERS = 2


@pytest.fixture(params=["simulated", pytest.param("gpu", marks=pytest.mark.gpu)], autouse=True)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> torch.device:
    if request.param == "gpu":
        return request.getfixturevalue("gpu")
    tape(monkeypatch, replay, steps)
    monkeypatch.setattr(replay, "refusing_to_wait", refusing_to_wait)
    leave_out_checks_of_values(monkeypatch)
    return torch.device("cpu")


def bag_of(policy: Any = "EGO+(2)", paths: bool = True) -> esan.Bag:
    graphs = [*(cycle(n) for n in range(4, 8)), *(path(n) for n in range(3, 7) if paths)]
    for graph in graphs:
        graph.x = torch.arange(graph.num_nodes)[:, None] % 3
    return esan.Bag.of(graphs, policy, LAYERS + 1)


def two_networks(device: torch.device, **options: Any) -> tuple[Any, Any]:
    torch.manual_seed(1)
    options = {"marked": True} | options
    model = esan.dss_gnn(esan.Categories(3), 8, LAYERS, 1, **options).to(device, torch.float64)
    Tape.state = [model]
    return model, copy.deepcopy(model)


def equal(found: Any, expected: Any) -> None:
    for got, wanted in zip(found, expected, strict=True):
        assert (got is None) == (wanted is None)
        if got is not None:
            torch.testing.assert_close(got, wanted, rtol=1e-7, atol=1e-9)


def norms(model: Any) -> list[Any]:
    return [module for module in model.modules() if isinstance(module, nn.BatchNorm1d)]


def set_all(modules: Any, name: str, make: Callable[[], Any]) -> None:
    for module in modules:
        setattr(module, name, make())


def _new_statistics(model: Any) -> None:
    for norm in norms(model):
        norm.running_mean, norm.running_var = norm.running_mean + 1, norm.running_var * 3


def _function_as_activation(model: Any) -> None:
    for layer in model.encoder.layers:
        del layer.act
        layer.act = F.elu


def _same_place(model: Any) -> None:
    model.head[0].weight = nn.Parameter(model.head[0].weight.data)


CHANGES: dict[str, Callable[[Any], object]] = {
    "momentum": lambda model: set_all(norms(model), "momentum", lambda: 0.5),
    "eps": lambda model: set_all(norms(model), "eps", lambda: 1.0),
    "activation": _function_as_activation,
    "module as activation": lambda model: set_all(model.encoder.layers, "act", nn.ELU),
    "another head": lambda model: model.head.__setitem__(1, nn.ELU()),
    "adjacency": lambda model: set_all(model.encoder.layers, "adjacency", lambda: "sum"),
    "statistics": _new_statistics,
    "parameter at the same place": _same_place,
}


@pytest.mark.parametrize("change", CHANGES)
def test_passes_obey_a_change(change: str, device: torch.device) -> None:
    bag, found = bag_of(), []
    for model, padded in zip(two_networks(device), (True, False), strict=True):
        loader, outs = esan.Loader(bag, 4, device=device, padded=padded), []
        for epoch in range(4):
            if epoch == 2:
                CHANGES[change](model)
            for batch in loader:
                model.zero_grad()
                out = model(batch)
                out.square().sum().backward()
                outs.append(out.detach())
        found.append([*outs, *(p.grad for p in model.parameters()), *model.buffers()])
    equal(*found)


def test_samples_that_lack_edges(device: torch.device) -> None:
    """Whether the union of a sample's subgraphs is the whole graph differs from sample to sample."""
    model, plain = two_networks(device, adjacency="max", marked=False)
    torch.manual_seed(0)
    loader = esan.Loader(bag_of(esan.Sampled(esan.NodeDeletion(), 0.4), paths=False), 4, device=device, padded=True)
    covered = set()
    for _ in range(24):
        for batch in loader:
            covered.add(batch.covered)
            equal([model.eval()(batch)], [plain.eval()(batch.without_padding())])
    assert covered == {False, True}


def _checkpointed(model: Any, batch: Any) -> Tensor:
    out: Tensor = checkpoint(model, batch, use_reentrant=False)
    return out


def _referred(model: Any, batch: Any) -> Tensor:
    with esan.reference():
        out: Tensor = model(batch)
        (gradient,) = torch.autograd.grad(out.sum(), [model.head[0].weight], create_graph=True)
        return out + gradient.square().sum()


def _checked(model: Any, batch: Any) -> Tensor:
    with torch.autograd.detect_anomaly(check_nan=False):
        out: Tensor = model(batch)
        return out


def _functional(model: Any, batch: Any) -> Tensor:
    given = {name: p.detach().requires_grad_() for name, p in model.named_parameters()}
    out = torch.func.functional_call(model, given, (batch,))
    grads = torch.autograd.grad(out.sum(), list(given.values()), create_graph=True)
    return out.detach() + torch.stack([grad.sum() for grad in grads]).sum().detach() + 0 * model(batch)


def _added_to(model: Any, batch: Any) -> Tensor:
    model.head._forward_hooks or model.head.register_forward_hook(lambda *_: None)
    out: Tensor = model(batch)
    out += 1
    return out


WAYS: dict[str, Callable[[Any, Any], Tensor]] = {
    "checkpoint": _checkpointed,
    "reference": _referred,
    "anomaly": _checked,
    "functional_call": _functional,
    "in place": _added_to,
}


@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")
@pytest.mark.parametrize("way", WAYS)
def test_ways_to_call_a_network(way: str, device: torch.device) -> None:
    bag, found = bag_of(), []
    for model, padded in zip(two_networks(device), (True, False), strict=True):
        outs, loader = [], esan.Loader(bag, 4, device=device, padded=padded)
        for epoch in range(4):
            for batch in loader:
                model.zero_grad()
                out = model(batch) if epoch < 2 else WAYS[way](model, batch)
                out.square().sum().backward()
                outs.append(out.detach())
        found.append([*outs, *(p.grad for p in model.parameters())])
    equal(*found)


def test_weights_that_change_before_the_gradient_are_an_error(device: torch.device) -> None:
    model, _ = two_networks(device)
    loader = esan.Loader(bag_of(), 4, device=device, padded=True)
    for batch in (batch for _ in range(3) for batch in loader):
        loss = model(batch).square().sum()
        with torch.no_grad():
            model.head[0].weight.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_fields_that_somebody_writes_to(device: torch.device) -> None:
    bag, found = bag_of(), []
    for model, padded in zip(two_networks(device), (True, False), strict=True):
        outs, loader = [], esan.Loader(bag, 4, device=device, padded=padded)
        for _ in range(3):
            for batch in loader:
                assert batch.x is not None
                batch.x.zero_()
                outs.append(model.eval()(batch).detach())
        found.append(outs)
    equal(*found)


def test_a_loss_that_is_kept_keeps_no_workspace(device: torch.device) -> None:
    model, _ = two_networks(device)
    total = torch.zeros((), dtype=torch.float64, device=device)
    loader = esan.Loader(bag_of(), 4, device=device, padded=True)
    for batch in (batch for _ in range(6) for batch in loader):
        loss = model(batch).square().sum()
        loss.backward()
        total = total + loss
    assert 1 <= model._replays._count <= 2


def test_gradients_of_fields(device: torch.device) -> None:
    torch.manual_seed(1)
    model: Any = esan.dss_gnn(2, 8, LAYERS, 1, marked=True).to(device, torch.float64)
    Tape.state = [model]
    graphs = [cycle(n) for n in range(4, 8)]
    for graph in graphs:
        graph.x = torch.randn(graph.num_nodes, 2, dtype=torch.float64)
    loader = esan.Loader(esan.Bag.of(graphs, "EGO+(2)", LAYERS + 1), 2, device=device, padded=True)
    for epoch in range(4):
        for batch in loader:
            if epoch >= 2:
                assert batch.x is not None
                batch.x.requires_grad_()
            model.eval()(batch).sum().backward()
            assert epoch < 2 or (batch.x is not None and batch.x.grad is not None)


@pytest.mark.exhaustive
def test_loaders_that_have_gone_make_room(device: torch.device) -> None:
    model, _ = two_networks(device)
    for _ in range(40):
        loader = esan.Loader(bag_of(), 8, device=device, padded=True)
        for batch in (batch for _ in range(4) for batch in loader):
            model(batch).sum().backward()
    last = id(batch.fields.batches.fields_read)
    assert any(key[-1] == last and free for key, free in model._replays._free.items()), "the last loader's are captured"


# -- steps ----------------------------------------------------------------------------------------------------------


def _train(model: Any, optimiser: Any, batch: Any, inside: str) -> Tensor:
    """One step, or the part of it that is captured."""
    if "z" in inside:
        optimiser.zero_grad()
    loss: Tensor = model(batch).square().sum()
    loss.backward()
    if "s" in inside:
        optimiser.step()
    return loss.detach()


def _reload(model: Any, optimiser: Any) -> None:
    optimiser.load_state_dict(copy.deepcopy(optimiser.state_dict()))
    for held in optimiser.state.values():
        held["momentum_buffer"].zero_()


STEP_CHANGES: dict[str, Callable[[Any, Any], object]] = {
    "nothing": lambda model, optimiser: None,
    "momentum": lambda model, optimiser: set_all(norms(model), "momentum", lambda: 0.5),
    "statistics": lambda model, optimiser: _new_statistics(model),
    "loaded optimiser": _reload,
    "hook on a parameter": lambda model, optimiser: model.head[0].weight.register_hook(lambda grad: 0 * grad),
}


@pytest.mark.filterwarnings("ignore:The step is not captured")
@pytest.mark.parametrize("inside", ["zs", *(pytest.param(one, marks=pytest.mark.exhaustive) for one in ("s", "z")), ""])
@pytest.mark.parametrize("change", STEP_CHANGES)
def test_steps_obey_a_change(change: str, inside: str, device: torch.device) -> None:
    """`zero_grad` and the optimiser's step are inside of the captured function, or outside."""
    bag, found = bag_of(), []
    for model, captured in zip(two_networks(device), (True, False), strict=True):
        optimiser = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9)
        loader = esan.Loader(bag, 4, device=device, padded=True)
        Tape.state = [model, optimiser]
        train: Any = lambda batch, model=model, optimiser=optimiser: _train(model, optimiser, batch, inside)  # noqa: E731
        step = esan.step(train) if captured else train
        losses = []
        for epoch in range(4):
            if epoch == 2:
                STEP_CHANGES[change](model, optimiser)
            for batch in loader:
                if "z" not in inside:
                    optimiser.zero_grad()
                losses.append(step(batch))
                if "s" not in inside:
                    optimiser.step()
        found.append([*losses, *model.parameters(), *model.buffers()])
    equal(*found)


def test_gradients_that_several_steps_add_up(device: torch.device) -> None:
    bag, found = bag_of(), []
    for model, captured in zip(two_networks(device), (True, False), strict=True):
        Tape.state = [model]
        train: Any = lambda batch, model=model: model(batch).square().sum().backward()  # noqa: E731
        step = esan.step(train) if captured else train
        loader = esan.Loader(bag, 4, device=device, padded=True)
        for _ in range(4):
            model.zero_grad()
            for batch in loader:
                step(batch)
        found.append([p.grad for p in model.parameters()])
    equal(*found)


def test_settings_that_are_lists(device: torch.device) -> None:
    """Modules of one class may have a word and a list in one attribute, as PyG's have."""
    found = []
    for model, padded in zip(two_networks(device), (True, False), strict=True):
        loader = esan.Loader(bag_of(), 4, device=device, padded=padded)
        outs = []
        for epoch in range(4):
            if epoch == 2:
                model.head[0].in_features = [8]
            outs += [model.eval()(batch).detach() for batch in loader]
        found.append(outs)
    equal(*found)


def test_a_capture_that_is_given_up_leaves_no_gradients(device: torch.device) -> None:
    """The step reads a field, after its backward pass, that the batches before did not have."""
    found = []
    for model, captured in zip(two_networks(device), (True, False), strict=True):
        Tape.state, calls = [model], [0]

        def train(batch: Any, model: Any = model, calls: list[int] = calls) -> None:
            model(batch).square().sum().backward()
            calls[0] += 1
            if calls[0] > 2:
                batch.fields["subgraphs_per_edge"].sum()

        step: Any = esan.step(train) if captured else train
        loader, grads = esan.Loader(bag_of(), 4, device=device, padded=True), []
        for batch in (batch for _ in range(4) for batch in loader):
            model.zero_grad()
            step(batch)
            grads += [None if p.grad is None else p.grad.clone() for p in model.parameters()]
        found.append(grads)
    equal(*found)
