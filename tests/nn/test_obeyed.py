"""What torch lets a user do to a network is obeyed, or refused in one sentence: one test per feature."""

import copy
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.modules.module import register_module_forward_hook, register_module_full_backward_hook
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode
from torch_geometric.nn import GATConv

import esan
import strategies
from esan.testing.compare import check_close

POLICY = esan.EgoNets(hops=1, marked=True)
CPU = torch.device("cpu")
GRAPHS = strategies.odd_graphs()[3:6]
#: An architecture, an encoder and a kind of bag; each of them with each other one at least once.
CASES = [
    ("ds", "gin", None), ("dss", "gine", None), ("dss", "gin", True), ("ds", "gine", True),
    ("dss", "graphconv", None), ("ds", "gcn", None), ("dss", "gat", True),
]  # fmt: skip
EVERY_CASE = pytest.mark.parametrize(("architecture", "encoder", "literal"), CASES)
TWO_MODES = pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])


@pytest.fixture(params=["cpu", pytest.param("gpu", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> torch.device:
    """A CPU, and a GPU where there is one."""
    return torch.device("cpu") if request.param == "cpu" else request.getfixturevalue("gpu")


def network(architecture: str, encoder: str, device: torch.device = CPU) -> Any:
    model = strategies.model(architecture, encoder, POLICY, width=4, num_layers=2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.rand_like(parameter))
    return model.to(device)


def bag_of(literal: bool | None = None, device: torch.device = CPU) -> esan.Bag:
    return esan.Bag.of(GRAPHS, POLICY, 3, literal=literal).to(device)


def same(model: nn.Module, bag: esan.Bag, call: Callable[[nn.Module, esan.Bag], Tensor] | None = None) -> None:
    """Predictions, gradients and buffers are those of the reference; `call` is how the model is called."""
    call = call or (lambda network, bag: network(bag))
    ours, theirs = copy.deepcopy(model), copy.deepcopy(model)
    got = call(ours, bag)
    got.square().sum().backward()
    with esan.reference():
        expected = theirs(bag)
    expected.square().sum().backward()
    check_close(got, expected, "predictions")
    for (name, mine), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        zero = torch.zeros_like(mine)
        check_close(zero if mine.grad is None else mine.grad, zero if other.grad is None else other.grad, name)
    for (name, buffer), follows in zip(ours.named_buffers(), theirs.buffers(), strict=True):
        check_close(buffer, follows, name)


class Scaled(nn.Module):
    """Any module, its output times 2: knows nothing of what it stands in for."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        return 2 * self.inner(*args, **kwargs)


def put(model: nn.Module, path: str, module: nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    setattr(model.get_submodule(parent), name, module)


# -- hooks and modules -----------------------------------------------------------------------------------------------


@pytest.mark.pairwise
@EVERY_CASE
@TWO_MODES
def test_global_hooks_see_every_module(
    architecture: str, encoder: str, literal: bool | None, training: bool, device: torch.device
) -> None:
    model, bag = network(architecture, encoder, device).train(training), bag_of(literal, device)
    seen: set[str] = set()
    names = {module: name for name, module in model.named_modules()}
    handles = [
        register_module_forward_hook(lambda module, *_: seen.add(names[module])),
        register_module_full_backward_hook(lambda module, *_: seen.add(f"back {names[module]}")),
    ]
    try:
        with warnings.catch_warnings():
            # Of torch, about modules whose input or output is no tensor.
            warnings.simplefilter("ignore")
            model(bag).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    leaves = {name for name, module in model.named_modules() if not [*module.children()] and "aggr" not in name}
    assert leaves <= seen
    assert {f"back {name}" for name in leaves if "layers" in name} <= seen


REPLACED = [
    "features.encoder", "features.encoder.tables.0", "encoder.layers.0.norm", "encoder.layers.1.inside.mlp",
    "encoder.layers.1.inside.mlp.first", "encoder.layers.1.inside.mlp.norm", "encoder.layers.1.inside.edge_encoder",
    "encoder.layers.1.inside.edge_encoder.encoder", "encoder.layers.1.inside.edge_encoder.encoder.tables.0",
    "encoder.layers.1.inside.edge_encoder.project", "encoder.layers.1.act", "encoder.layers.1.shared",
    "encoder.layers.1",
    "set_encoder", "head.0",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:The literal bag is used:UserWarning")
@pytest.mark.parametrize("path", REPLACED)
def test_replaced_by_a_module_that_scales(path: str, device: torch.device) -> None:
    model, bag = network("dss", "gine", device), bag_of(None, device)
    put(model, path, Scaled(model.get_submodule(path)))
    same(model, bag)
    same(model.eval(), bag)


def test_a_convolution_that_says_nothing_runs_on_the_literal_bag() -> None:
    model = network("ds", "gin")
    model.encoder.layers[1].inside = Scaled(model.encoder.layers[1].inside)
    with pytest.warns(UserWarning, match=r"The literal bag is used .*: Scaled does not say whether it is exact"):
        model(bag_of())


@pytest.mark.parametrize("part", ["features", "encoder"])
def test_parts_that_must_be_subclassed_say_so(part: str) -> None:
    model = network("ds", "gin")
    setattr(model, part, Scaled(getattr(model, part)))
    with pytest.raises(TypeError, match=rf"Expected model.{part} to be of class .* \(got Scaled\)\. Subclass it"):
        model(bag_of())


def test_a_convolution_with_another_lookahead() -> None:
    """The encoder looks at the convolutions that it has now."""
    model = network("ds", "gin").eval()
    model.encoder.layers[0].inside = esan.nn.GCNConv(6, 4).double()
    model.encoder.layers[1].inside = esan.nn.GCNConv(4, 4).double()
    assert model.encoder.lookahead == 1
    check_close(model(bag_of()), model(bag_of(True)), "predictions on both bags")


@pytest.mark.parametrize("where", ["layers", "branches"])
def test_a_module_that_is_used_twice(where: str, device: torch.device) -> None:
    """Its gradients are summed, and its running statistics follow both of its batches in order."""
    model = network("dss", "gin", device)
    layers = model.encoder.layers
    conv, norm = layers[1].inside, layers[1].norm
    if where == "layers":
        layers[0].norm = norm
        layers[0].inside.mlp.second = conv.mlp.second
    else:
        layers[1].shared, layers[1].shared_norm = conv, norm
    same(model, bag_of(None, device))


@pytest.mark.pairwise
@EVERY_CASE
def test_frozen_parameters(architecture: str, encoder: str, literal: bool | None, device: torch.device) -> None:
    model = network(architecture, encoder, device)
    frozen = [*model.encoder.layers[0].parameters()]
    for parameter in frozen:
        parameter.requires_grad_(False)
    same(model, bag_of(literal, device))
    model(bag_of(literal, device)).sum().backward()
    assert all(parameter.grad is None for parameter in frozen)


def test_torchs_batch_norm_gets_a_literal_bag() -> None:
    """Where a row stands for one pair, it is what ours is."""
    model, theirs = network("dss", "gin"), network("dss", "gin")
    theirs.load_state_dict(model.state_dict())
    for norms in (theirs.encoder.layers[0], theirs.encoder.layers[0].inside.mlp):
        norms.norm = nn.BatchNorm1d(4).double()
    theirs.load_state_dict(model.state_dict())
    with pytest.warns(UserWarning, match="BatchNorm1d does not know how many pairs a row stands for"):
        got = theirs(bag_of())
    check_close(got, model(bag_of(True)), "predictions")
    padded = next(iter(esan.Loader(bag_of(True), 2, padded=True)))
    with pytest.raises(ValueError, match=r"Expected rows that stand for one pair each .*BatchNorm1d does not know"):
        theirs(padded)


def test_an_mlp_of_ones_own() -> None:
    model = network("ds", "gin")
    model.encoder.layers[1].inside.mlp = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 4)).double()
    same(model, bag_of())
    check_close(model.eval()(bag_of()), model(bag_of(True)), "rows one by one: predictions on both bags")


def test_sync_batch_norm_is_refused() -> None:
    model = nn.SyncBatchNorm.convert_sync_batchnorm(network("dss", "gin"))
    with pytest.raises(TypeError, match=r"got SyncBatchNorm.*esan\.train\.convert_sync_batch_norm\(model\)"):
        model(bag_of())


@pytest.mark.pairwise
@EVERY_CASE
def test_weight_norm(architecture: str, encoder: str, literal: bool | None, device: torch.device) -> None:
    model = network(architecture, encoder, device)
    for module in [m for m in model.modules() if isinstance(m, nn.Linear)]:
        nn.utils.parametrizations.weight_norm(module)
    same(model, bag_of(literal, device))


# -- how a network is called -----------------------------------------------------------------------------------------


@pytest.mark.pairwise
@EVERY_CASE
@TWO_MODES
def test_functional_call_with_other_weights(
    architecture: str, encoder: str, literal: bool | None, training: bool, device: torch.device
) -> None:
    model, bag = network(architecture, encoder, device).train(training), bag_of(literal, device)
    other = {name: 1.1 * value.detach() for name, value in model.named_parameters()}
    expected = copy.deepcopy(model)
    expected.load_state_dict(other, strict=False)
    check_close(torch.func.functional_call(copy.deepcopy(model), other, (bag,)), expected(bag), "predictions")


def test_copies_share_nothing(device: torch.device) -> None:
    model, bag = network("dss", "gine", device), bag_of(None, device)
    clone = copy.deepcopy(model)
    same(clone, copy.deepcopy(bag))
    clone(bag).sum().backward()
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.pairwise
@EVERY_CASE
def test_autocast(architecture: str, encoder: str, literal: bool | None, device: torch.device) -> None:
    model, bag = network(architecture, encoder, device).float(), bag_of(literal, device)
    expected = copy.deepcopy(model)(bag)
    with torch.autocast(device.type, torch.bfloat16):
        got = model(bag)
    got.float().sum().backward()
    check_close(got.float(), expected, "predictions", tolerance=0.05)
    assert all(p.grad is None or bool(p.grad.isfinite().all()) for p in model.parameters())


@pytest.mark.pairwise
@EVERY_CASE
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_short_floats(
    architecture: str, encoder: str, literal: bool | None, kind: torch.dtype, device: torch.device
) -> None:
    model, bag = network(architecture, encoder, device), bag_of(literal, device)
    expected = copy.deepcopy(model).eval()(bag)
    model.to(kind)
    check_close(copy.deepcopy(model).eval()(bag).double(), expected, "predictions", tolerance=0.2)
    model(bag).float().sum().backward()
    assert all(p.grad is None or (p.grad.dtype == kind and bool(p.grad.isfinite().all())) for p in model.parameters())


@pytest.mark.pairwise
@EVERY_CASE
@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointed_layers(
    architecture: str, encoder: str, literal: bool | None, reentrant: bool, device: torch.device
) -> None:
    """Gradients are the same; norms follow each batch twice, as torch's own do."""
    model, bag = network(architecture, encoder, device).eval(), bag_of(literal, device)

    def checkpointed(network: Any, bag: esan.Bag) -> Tensor:
        for layer in network.encoder.layers:
            run = layer.forward
            layer.forward = lambda *given, run=run: checkpoint(run, *given, use_reentrant=reentrant)
        return network(bag)

    same(model, bag, checkpointed)


def test_a_checkpointed_model(device: torch.device) -> None:
    model, bag = network("dss", "gine", device).eval(), bag_of(None, device)
    same(model, bag, lambda network, bag: checkpoint(network, bag, use_reentrant=False))


@contextmanager
def one_process(path: Path) -> Iterator[None]:
    dist.init_process_group("gloo", init_method=f"file://{path}/meeting", rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize(("architecture", "encoder"), [("ds", "gin"), ("dss", "gine"), ("ds", "gcn")])
def test_distributed_data_parallel(architecture: str, encoder: str, tmp_path: Path) -> None:
    model, bag = network(architecture, encoder), bag_of()
    with one_process(tmp_path):
        same(model, bag, lambda network, bag: nn.parallel.DistributedDataParallel(network)(bag))


COMPILED = """
import torch, esan
model = esan.dss_gnn(None, 8, 2, 1)
bag = esan.Bag.of([esan.graphs.cycle(5), esan.graphs.path(4)], esan.NodeDeletion(), 2)
expected = model.eval()(bag)
compiled = torch.compile(model)
assert torch.equal(compiled(bag), expected)
view, layer = bag.layer_view(1), model.encoder.layers[0]
h = torch.ones(view.num_rows, 1)
assert torch.equal(torch.compile(layer)(h, bag, view), layer(h, bag, view))
assert torch._dynamo.utils.counters["stats"].get("unique_graphs", 0) == 0, torch._dynamo.utils.counters
def step(bag):
    model.zero_grad()
    loss = model(bag).square().sum()
    loss.backward()
    return loss.detach(), [p.grad.clone() for p in model.parameters()]
wanted = step(bag)
torch._dynamo.reset()
torch._dynamo.utils.counters.clear()
found = torch.compile(step, backend="eager")(bag)
assert torch._dynamo.utils.counters["frames"]["total"] < 10, torch._dynamo.utils.counters
assert all(map(torch.equal, [found[0], *found[1]], [wanted[0], *wanted[1]]))
try:
    torch._dynamo.reset()
    torch.compile(model, fullgraph=True)(bag)
except Exception as error:
    assert "esan's operators are compiled already" in str(error), error
else:
    raise SystemExit("fullgraph=True was not refused")
"""


def test_compile_leaves_networks_as_they_are() -> None:
    """Same numbers, nothing compiled, nothing said, also in a step that is compiled with its backward pass.

    In a process of its own, whose output is read.
    """
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", COMPILED], capture_output=True, text=True, timeout=600)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_export_is_refused() -> None:
    class Fixed(nn.Module):
        """A network and its only bag."""

        def __init__(self) -> None:
            super().__init__()
            self.network, self.bag = network("ds", "gin").eval(), bag_of()

        def forward(self, factor: Tensor) -> Tensor:
            return factor * self.network(self.bag)

    with pytest.raises(Exception, match=r"Export only supports .* basic types"):
        torch.export.export(network("ds", "gin").eval(), (bag_of(),))
    with pytest.raises(RuntimeError, match=r"Expected a network that is run by esan \(got torch.export"):
        torch.export.export(Fixed(), (torch.ones(()),), strict=False)


# -- derivatives -----------------------------------------------------------------------------------------------------


def functional(model: nn.Module, bag: esan.Bag) -> tuple[Callable[..., Tensor], dict[str, Tensor], dict[str, Tensor]]:
    """The sum of squared predictions as a function of parameters and buffers, and both."""
    parameters = {name: value.detach() for name, value in model.named_parameters()}
    buffers = {name: value.clone() for name, value in model.named_buffers()}
    return (
        lambda p, b: torch.func.functional_call(model, (p, b), (bag,)).square().sum(),
        parameters,
        buffers,
    )


@pytest.mark.pairwise
@EVERY_CASE
@TWO_MODES
def test_func_grad(architecture: str, encoder: str, literal: bool | None, training: bool, device: torch.device) -> None:
    """Also as the first thing that a bag is used for: what it keeps must outlive the transform."""
    model, bag = network(architecture, encoder, device).train(training), bag_of(literal, device)
    loss, parameters, buffers = functional(model, bag)
    got = torch.func.grad(loss)(parameters, buffers)
    model(bag).square().sum().backward()
    for name, parameter in model.named_parameters():
        expected = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        check_close(got[name], expected, name)


@pytest.mark.parametrize("transform", [torch.func.jacrev, torch.func.jacfwd])
def test_jacobians(transform: Any, device: torch.device) -> None:
    model, bag = network("dss", "gine", device).eval(), bag_of(None, device)
    name = "encoder.layers.0.inside.mlp.first.bias"
    weight = dict(model.named_parameters())[name].detach()

    def output(w: Tensor) -> Tensor:
        return torch.func.functional_call(model, {name: w}, (bag,))

    expected = torch.autograd.functional.jacobian(output, weight)
    check_close(transform(output)(weight), expected, "the Jacobian")


@TWO_MODES
def test_vmap_over_networks(training: bool, device: torch.device) -> None:
    models, bag = [network("dss", "gine", device).train(training) for _ in range(3)], bag_of(None, device)
    stacked = torch.func.stack_module_state(models)
    base = copy.deepcopy(models[0])
    got = torch.func.vmap(lambda p, b: torch.func.functional_call(base, (p, b), (bag,)))(*stacked)
    for row, model in zip(got, models, strict=True):
        check_close(row, model(bag), "predictions")


def test_transforms_cannot_write_statistics_that_they_capture() -> None:
    model, bag = network("ds", "gin"), bag_of()
    loss, parameters, buffers = functional(model, bag)
    with pytest.raises(RuntimeError, match=r"Expected running statistics that a transform of torch\.func may write to"):
        torch.func.grad(lambda p: loss(p, buffers))(parameters)
    torch.func.replace_all_batch_norm_modules_(model)
    torch.func.grad(lambda p: loss(p, {}))(parameters)


def test_forward_mode_derivatives(device: torch.device) -> None:
    model, bag = network("dss", "gine", device), bag_of(None, device)
    name = "encoder.layers.0.inside.mlp.first.weight"
    weight = dict(model.named_parameters())[name].detach()
    along = torch.rand_like(weight)

    def output(w: Tensor) -> Tensor:
        return torch.func.functional_call(copy.deepcopy(model), {name: w}, (bag,))

    with forward_ad.dual_level():
        got = forward_ad.unpack_dual(output(forward_ad.make_dual(weight, along))).tangent
    step = 1e-6 * along
    check_close(got, (output(weight + step) - output(weight - step)) / 2e-6, "the derivative", tolerance=1e-6)


@pytest.mark.parametrize(("architecture", "encoder"), [("ds", "gin"), ("dss", "gine"), ("dss", "graphconv")])
def test_second_derivatives(architecture: str, encoder: str) -> None:
    """Refused by fused operators; under the reference they are those that finite differences give."""
    model, bag = network(architecture, encoder), bag_of()
    weight = dict(model.named_parameters())["encoder.layers.1.norm.weight"]

    def gradient(create: bool) -> Tensor:
        return torch.autograd.grad(model(bag).square().sum(), weight, create_graph=create)[0]

    with pytest.raises(RuntimeError, match=r"got create_graph=True.*with esan\.reference\(\)"):
        gradient(True)
    with esan.reference():
        (got,) = torch.autograd.grad(gradient(True).sum(), weight)
    step = 1e-5
    with torch.no_grad():
        weight += step
    above = gradient(False)
    with torch.no_grad():
        weight -= 2 * step
    below = gradient(False)
    # The Hessian is symmetric: the gradient of the sum is the derivative of the gradient along (1, ..., 1).
    check_close(got, (above - below) / (2 * step), "second derivatives", tolerance=1e-5)


@pytest.mark.pairwise
@EVERY_CASE
@pytest.mark.parametrize("way", [nullcontext, esan.reference], ids=["fast", "reference"])
def test_a_bag_that_was_first_used_in_inference_mode_trains(
    architecture: str,
    encoder: str,
    literal: bool | None,
    way: Callable[[], AbstractContextManager[None]],
    device: torch.device,
) -> None:
    model, bag = network(architecture, encoder, device), bag_of(literal, device)
    with torch.inference_mode(), way():
        model.eval()(bag)
    same(model.train(), bag)


def test_counted_flops_are_those_of_the_modules() -> None:
    model, bag = network("ds", "gin"), bag_of()
    with FlopCounterMode(display=False) as fast:
        model(bag)
    with FlopCounterMode(display=False) as plain, esan.reference():
        model(bag)
    assert fast.get_total_flops() == plain.get_total_flops() > 0


def test_hooks_on_parameters_and_a_pyg_convolution() -> None:
    model, bag, seen = network("dss", "gat"), bag_of(), []
    conv = next(module for module in model.modules() if isinstance(module, GATConv))
    conv.register_forward_hook(lambda *_: seen.append("conv"))
    for parameter in network_parameters(model):
        parameter.register_hook(lambda grad: seen.append("gradient"))
    model(bag).sum().backward()
    assert seen.count("conv") == 1
    assert seen.count("gradient") >= len(network_parameters(model)) - 1


def network_parameters(model: Any) -> list[nn.Parameter]:
    return [*model.encoder.layers[1].parameters()]
