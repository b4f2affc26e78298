"""`esan.step`: a captured step does what the plain function does. Without a GPU, a recording that does its work again
stands in for a CUDA graph.
"""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg

import esan
from device_waits import leave_out_checks_of_values
from esan import steps
from esan.graphs import cycle, path, star
from recorded_again import Again, record_again

WIDTH, LAYERS, BATCH = 8, 2, 4


@pytest.fixture(params=["simulated", pytest.param("gpu", marks=pytest.mark.gpu)], autouse=True)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> torch.device:
    if request.param == "gpu":
        return request.getfixturevalue("gpu")
    record_again(monkeypatch, steps)
    leave_out_checks_of_values(monkeypatch)
    return torch.device("cpu")


def graphs() -> list[Any]:
    made = [*(cycle(n) for n in range(4, 9)), *(path(n) for n in range(3, 9)), *(star(n) for n in range(3, 8))]
    for k, data in enumerate(made):
        data.x = torch.arange(data.num_nodes).reshape(-1, 1) % 3
        data.y = torch.tensor([float(k % 4)], dtype=torch.float64)
    return made


class Trained:
    """A network with its optimiser, loader and step; `captured` or as it is."""

    def __init__(self, device: torch.device, captured: bool, optimiser: Any = None, conv: Any = "gin") -> None:
        torch.manual_seed(1)
        model = esan.dss_gnn(esan.Categories(3), WIDTH, LAYERS, 1, conv=conv, marked=True)
        self.model: Any = model.to(device, torch.float64)
        make = optimiser or (lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9))
        self.optimiser = make(self.model.parameters())
        bag = esan.Bag.of(graphs(), "EGO+(2)", LAYERS + 1)
        self.loader = esan.Loader(bag, BATCH, device=device, padded=True)
        self.train: Any = esan.step(self.loader)(self._train) if captured else self._train
        self.predict: Any = esan.step(self._predict) if captured else self._predict
        if captured:
            Again.state = [self.model, self.optimiser]

    def _train(self, bag: esan.Bag) -> Tensor:
        self.optimiser.zero_grad()
        assert bag.y is not None
        loss = (self.model(bag).squeeze(-1) - bag.y.reshape(-1).double()).square().mean()
        loss.backward()
        self.optimiser.step()
        return loss.detach()

    def _predict(self, bag: esan.Bag) -> dict[str, Tensor]:
        return {"out": self.model(bag)}

    def epoch(self, *, over: bool = False) -> list[Tensor]:
        self.model.train()
        return self.train.over(self.loader) if over else [self.train(bag) for bag in self.loader]

    def predictions(self) -> Tensor:
        self.model.eval()
        with torch.no_grad():
            return torch.cat([self.predict(bag)["out"] for bag in self.loader])


Change = Callable[[Trained], None]


def _freeze(trained: Trained) -> None:
    trained.model.head.requires_grad_(False)


def _lower_rate(trained: Trained) -> None:
    trained.optimiser.param_groups[0]["lr"] = 0.001


def _reload(trained: Trained) -> None:
    trained.model.load_state_dict({name: 0.5 * v for name, v in trained.model.state_dict().items()})


def _new_parameter(trained: Trained) -> None:
    trained.model.head[0].weight = nn.Parameter(0.5 * trained.model.head[0].weight.detach())


def _other_decay(trained: Trained) -> None:
    trained.optimiser.param_groups[0]["weight_decay"] = 0.1


CHANGES: dict[str, Change] = {
    "nothing": lambda trained: None,
    "frozen head": _freeze,
    "learning rate": _lower_rate,
    "loaded weights": _reload,
    "another parameter": _new_parameter,
    "weight decay": _other_decay,
}


def _adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=0.01)


#: What `make test` leaves out: the way is that of another one.
ALIKE = ("frozen head", "loaded weights", "weight decay")


@pytest.mark.parametrize(
    "change", [pytest.param(name, marks=pytest.mark.exhaustive if name in ALIKE else ()) for name in CHANGES]
)
def test_a_captured_step_is_the_function(change: str, device: torch.device) -> None:
    """Losses, predictions, weights and statistics, also after something was changed between two epochs."""
    _check_captured(change, device, None, 1e-9)


@pytest.mark.gpu
def test_a_captured_step_of_adam(gpu: torch.device) -> None:
    """Torch's Adam computes its rate in single precision where it is captured, in a double network too."""
    _check_captured("learning rate", gpu, _adam, 1e-4)


@pytest.mark.parametrize("kind", ["GATConv", "GCNConv"])
def test_a_captured_step_with_convolutions_of_pyg(
    kind: str, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may not look for self-loops while the step is captured, which would wait for the device."""
    looked: list[bool] = []
    modules: list[Any] = []
    make = steps.Recording

    def recording(*given: Any) -> Any:
        looked.extend(module.add_self_loops for module in modules[: len(modules) // 2])  # the first network is captured
        return make(*given)

    def conv(i: int, o: int) -> Any:
        modules.append(getattr(pyg, kind)(i, o))
        return modules[-1]

    monkeypatch.setattr(steps, "Recording", recording)
    _check_captured("nothing", device, None, 1e-9, conv)
    assert looked
    assert not any(looked)
    assert all(module.add_self_loops for module in modules)


def _check_captured(change: str, device: torch.device, optimiser: Any, close: float, conv: Any = "gin") -> None:
    mine, plain = (Trained(device, captured, optimiser, conv) for captured in (True, False))
    for _ in range(2):
        for trained in (mine, plain):
            CHANGES[change](trained)
        for over in (False, True):
            for got, expected in zip(mine.epoch(over=over), plain.epoch(), strict=True):
                torch.testing.assert_close(got, expected, rtol=close, atol=close)
            torch.testing.assert_close(mine.predictions(), plain.predictions(), rtol=close, atol=close)
    assert mine.train.captures >= 1
    assert mine.predict.captures >= 1
    for (name, got), expected in zip(mine.model.state_dict().items(), plain.model.state_dict().values(), strict=True):
        torch.testing.assert_close(got, expected, rtol=10 * close, atol=10 * close, msg=name)


OPTIONS: dict[str, dict[str, Any]] = {
    "edge features": {"conv": "gine", "edge_channels": esan.Categories(2)},
    "graphconv": {"conv": "graphconv"},
    "gcn": {"conv": "gcn"},
    "deepsets": {"set_encoder": "deepsets"},
    "degrees": {"degrees": 5},
    "concatenation": {"jk": "cat-input"},
    "layer norm": {"norm": "layer_norm"},
    "dropout": {"dropout": 0.5, "dropout_on": "nodes"},
}


@pytest.mark.parametrize("make", [esan.ds_gnn, esan.dss_gnn])
@pytest.mark.parametrize("option", OPTIONS)
def test_what_a_network_is_made_of_does_not_wait(option: str, make: Any, device: torch.device) -> None:
    made = graphs()
    for data in made:
        data.edge_attr = (data.edge_index.sum(0) % 2).reshape(-1, 1)
    model = make(esan.Categories(3), WIDTH, LAYERS, 1, marked=True, **OPTIONS[option]).to(device)
    bag = esan.Bag.of(made, "EGO+(2)@0.5", LAYERS + 1)
    loader = esan.Loader(bag, BATCH, device=device, padded=True)
    Again.state = [model]

    @esan.step(loader)
    def train(bag: Any) -> Tensor:
        loss: Tensor = model(bag).square().mean()
        loss.backward()
        return loss.detach()

    for _ in range(3):
        assert all(train(bag).isfinite() for bag in loader)
    assert train.captures >= 1


def test_results_stay_what_they_were(device: torch.device) -> None:
    trained = Trained(device, True)
    losses = [loss for _ in range(3) for loss in trained.epoch()]
    assert len({loss.data_ptr() for loss in losses}) == len(losses)
    assert len({float(loss) for loss in losses}) == len(losses)


def test_few_shapes_are_captured(device: torch.device) -> None:
    trained = Trained(device, True)
    for _ in range(4):
        trained.epoch()
    assert trained.train.captures == 1
    assert trained.train.__name__ == "_train"


def test_a_whole_epoch_sees_what_changed_before_it(device: torch.device) -> None:
    """Also where its first batches run as they are; only `over` itself takes it that nothing else changes."""
    mine, plain = Trained(device, True), Trained(device, False)
    for change in ("nothing", "nothing", "frozen head", "another parameter"):
        for trained in (mine, plain):
            CHANGES[change](trained)
        for got, expected in zip(mine.epoch(over=True), plain.epoch(), strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)
    assert mine.train.captures >= 2
    with pytest.raises(ZeroDivisionError):
        mine.train.over(1 / 0 for _ in range(1))
    CHANGES["weight decay"](mine)
    captures = mine.train.captures
    mine.epoch()
    mine.epoch()
    assert mine.train.captures > captures  # examined before every batch again


def test_predictions_in_inference_mode_and_without_gradients(device: torch.device) -> None:
    """One after the other on the same batches: what is made in inference mode cannot be written to outside of it."""
    trained = Trained(device, True)
    expected = trained.predictions()
    trained.model.eval()
    for mode in (torch.inference_mode, torch.no_grad, torch.inference_mode, torch.no_grad):
        for _ in range(2):
            with mode():
                found = torch.cat([trained.predict(bag)["out"] for bag in trained.loader])
            torch.testing.assert_close(found, expected)


def test_a_step_with_hooks_runs_as_it_is(device: torch.device) -> None:
    trained = Trained(device, True)
    seen: list[int] = []
    trained.model.head.register_forward_hook(lambda *_: seen.append(1))
    with pytest.warns(UserWarning, match=r"^The step is not captured as a CUDA graph: .* has hooks"):
        trained.epoch()
    trained.epoch()
    assert len(seen) == 2 * len(trained.loader)
    assert trained.train.captures == 0


def test_gradients_that_are_added_up_stay_in_their_place(device: torch.device) -> None:
    """Where they are others in every step, capturing has no end, which the error says."""
    trained = Trained(device, True)

    def add(bag: esan.Bag) -> Tensor:
        loss = trained.model(bag).square().mean()
        loss.backward()
        trained.optimiser.step()
        return loss.detach()

    add_step = esan.step(add)
    for _ in range(2):
        for bag in trained.loader:
            trained.optimiser.zero_grad(set_to_none=False)
            add_step(bag)
    with pytest.raises(RuntimeError, match=r"Expected the gradients that the captured step adds to \(got others\)"):  # noqa: PT012
        for _ in range(4):
            for bag in trained.loader:
                for parameter in trained.model.parameters():
                    parameter.grad = torch.zeros_like(parameter)
                add_step(bag)


def test_an_optimiser_that_begins_in_a_captured_step_is_refused(device: torch.device) -> None:
    trained, calls = Trained(device, True), [0]

    def late(bag: esan.Bag) -> Tensor:
        trained.optimiser.zero_grad()
        loss = trained.model(bag).square().mean()
        loss.backward()
        calls[0] += 1
        if calls[0] > len(trained.loader):
            trained.optimiser.step()
        return loss.detach()

    late_step = esan.step(late)
    for bag in list(trained.loader):  # laid out before the step shows what it reads, so none of them is captured
        late_step(bag)
    with pytest.raises(RuntimeError, match="Expected an optimiser that had made a step before"):
        late_step(next(iter(trained.loader)))


@pytest.mark.parametrize("given", [3, "train", [1]])
def test_other_arguments_are_refused(given: Any) -> None:
    words = f"Expected a Loader or the function of a step (got {type(given).__name__})"
    with pytest.raises(TypeError, match=re.escape(words)):
        esan.step(given)


def test_steps_of_other_arguments_are_refused() -> None:
    step: Any = esan.step
    with pytest.raises(TypeError, match=r"Expected a step of one argument, the batch \(got of_two\(bag, more\)\)"):

        @step
        def of_two(bag: Any, more: Any) -> None: ...

    with pytest.raises(TypeError, match=r"method\(self, bag\)\).*decorate the bound one: self\.train = esan\.step"):

        class Experiment:
            @step
            def method(self, bag: Any) -> None: ...

    @step
    def with_default(bag: Any, more: int = 2) -> int:
        return more

    assert with_default(esan.Bag.of(graphs(), "EGO+(2)", LAYERS)) == 2


def test_bags_without_padding_run_as_they_are(device: torch.device) -> None:
    trained = Trained(device, True)
    bag = esan.Bag.of(graphs(), "EGO+(2)", LAYERS).to(device)
    for _ in range(4):
        trained.train(bag)
    assert trained.train.captures == 0


def test_a_captured_step_reads_the_fields_of_each_batch(device: torch.device) -> None:
    """A field that is read later, too; a list is refused."""
    made = graphs()
    for k, data in enumerate(made):
        data.mu, data.pos, data.smiles = (
            torch.tensor([1 / 7 + k], dtype=torch.float64),
            torch.rand(data.num_nodes, 3),
            "C",
        )
    bag, wanted = esan.Bag.of(made, "ND", LAYERS), {"mu"}
    loader = esan.Loader(bag, BATCH, device=device, padded=True)
    plain = esan.Loader(bag, BATCH, padded=False)

    def double() -> Any:
        return esan.step(loader)(lambda batch: {name: getattr(batch, name) * 2 for name in sorted(wanted)})

    read = double()
    # On a GPU the batches of a chunk have the fields that were asked for before it: all of an epoch here.
    for epoch in range(4):
        for batch, other in zip(loader, plain, strict=True):
            found = read(batch)
            assert found["mu"].cpu().equal(2 * other.mu)
            if epoch >= 2:
                pos = found["pos"].cpu()
                assert pos[: other.num_nodes].equal(2 * other.pos)
                assert not pos[other.num_nodes :].any()
        if epoch == 1:
            wanted.add("pos")
            read = double()
    assert read.captures
    names = esan.step(loader)(lambda batch: batch.smiles)
    with pytest.raises(RuntimeError, match=r"Expected numbers in a step that is captured .* \(got smiles"):
        names.over([*loader, *loader])
