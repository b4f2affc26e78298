"""A GPU gives the CPU's answer: bags built, taken apart and computed on there; its kernels and products."""

import copy
from typing import Any

import pytest
import torch

import esan
import strategies
import zero_multiplicity
from esan.bags.build import compact
from esan.bags.build.on_gpu import bag_built_on
from esan.bags.padded.column_store import ColumnLimits
from esan.bags.padded.padder import Padder
from esan.graphs import cycle
from esan.nn.linear import Linear
from esan.testing.compare import check_close

pytestmark = pytest.mark.gpu
EVERY_POLICY = pytest.mark.parametrize("policy", strategies.POLICIES.values(), ids=strategies.POLICIES)


@EVERY_POLICY
@pytest.mark.parametrize("literal", [True, None])
def test_bags_built_on_the_gpu(policy: esan.Policy, literal: bool | None, gpu: torch.device) -> None:
    graphs = strategies.odd_graphs()
    here = esan.Bag.of(graphs, policy, 3, literal=literal)
    there = esan.Bag.of([g.clone().to(gpu) for g in graphs], policy, 3, literal=literal)
    for one, other in ((here, there), (here[[4, 1, 1]], there[[4, 1, 1]]), (here, here.to(gpu))):
        assert other.device.type == "cuda"
        for part in ("graphs", "selection", "rows"):
            assert getattr(one, part).fingerprint == getattr(other, part).fingerprint


@EVERY_POLICY
def test_bags_built_there_some_graphs_at_a_time(
    policy: esan.Policy, gpu: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are kept on the host, and are those of a CPU."""
    monkeypatch.setattr(compact, "CHUNK_PAIRS", 40)
    here = esan.Bag.of(strategies.odd_graphs(), policy, 3)
    built = bag_built_on(gpu, here.graphs, policy, 3)
    assert built.device.type == "cpu"
    for part in ("graphs", "selection", "rows"):
        assert getattr(built, part).fingerprint == getattr(here, part).fingerprint


@EVERY_POLICY
@pytest.mark.parametrize("per_network", [0, 500, 2**24], ids=["pinned", "partly", "there"])
def test_batches_gathered_from_the_host(per_network: int, policy: esan.Policy, gpu: torch.device) -> None:
    """Field by field those of the CPU, whether the numbers that they are gathered from are pinned or on the GPU."""
    limits = ColumnLimits(chunk=60, small=0, per_network=per_network)
    bag, ids = esan.Bag.of(strategies.odd_graphs(), policy, 3), torch.tensor([[[3, 1, 4]], [[6, -1, 0]]])
    plain = Padder(bag, 3)
    shape = plain.counts.shape(ids[:, 0].numpy()).grown(1.1)
    ours, theirs = Padder(bag, 3, gpu, limits=limits).lay_out(ids.to(gpu), shape, 2), plain.lay_out(ids, shape, 2)
    for k in range(2):
        mine, other = (batches.views(batches.ints[k], batches.floats[k]) for batches in (ours, theirs))
        assert mine.keys() == other.keys()
        for name, expected in other.items():
            assert mine[name].cpu().to(expected.dtype).equal(expected), name


@pytest.mark.pairwise
@EVERY_POLICY
@pytest.mark.parametrize("encoder", strategies.LOCAL_ENCODERS)
@pytest.mark.parametrize("architecture", strategies.ARCHITECTURES)
def test_networks(architecture: str, encoder: str, policy: esan.Policy, gpu: torch.device) -> None:
    network = strategies.model(architecture, encoder, policy)
    on_gpu = copy.deepcopy(network).to(gpu)
    bag = esan.Bag.of(strategies.odd_graphs(), policy, 4)
    here, there = network(bag), on_gpu(bag.to(gpu))
    check_close(there.cpu(), here, "predictions on the GPU")
    here.square().sum().backward()
    there.square().sum().backward()
    for (name, mine), other in zip(network.named_parameters(), on_gpu.parameters(), strict=True):
        assert (mine.grad is None) == (other.grad is None), name
        if mine.grad is not None and other.grad is not None:
            check_close(other.grad.cpu(), mine.grad, f"gradient of {name} on the GPU")
    for (name, buffer), theirs in zip(network.named_buffers(), on_gpu.buffers(), strict=True):
        check_close(theirs.cpu(), buffer, f"{name} on the GPU")


@pytest.mark.parametrize("hooked", [False, True])
def test_passes_before_the_first_backward_pass(hooked: bool, gpu: torch.device) -> None:
    """The first captures are given up, since the fields that a backward pass reads are not known yet."""
    graphs = [cycle(size) for size in range(4, 12)]
    for graph in graphs:
        graph.x = torch.arange(graph.num_nodes)[:, None] % 3
    bag = esan.Bag.of(graphs, "EGO+(2)", 3)
    torch.manual_seed(1)
    model = esan.dss_gnn(esan.Categories(3), 8, 2, 1, marked=True).double()
    if hooked:
        model.encoder.layers[0].register_forward_hook(lambda *_: None)
    found = []
    for device in (torch.device("cpu"), gpu):
        network: Any = copy.deepcopy(model).to(device)
        batches = esan.Loader(bag, 4, device=device)
        outs = [network(batch) for _ in range(4) for batch in batches]
        sum(out.sum() for out in outs).backward()
        found.append([*outs, *(p.grad for p in network.parameters()), *network.buffers()])
    for plain, ours in zip(*found, strict=True):
        check_close(ours.cpu(), plain, "what the GPU gives")


def test_loader_draws_on_the_gpu(gpu: torch.device) -> None:
    bag = esan.Bag.of(strategies.odd_graphs(), esan.Sampled(esan.NodeDeletion(), 0.5), 2).to(gpu)
    loader = esan.Loader(bag, 3, shuffle=True, generator=torch.Generator(gpu).manual_seed(0))
    assert sum(len(batch) for batch in loader) == len(bag)
    assert all(batch.device.type == "cuda" for batch in loader)


def test_a_bag_left_on_the_cpu_is_refused(gpu: torch.device) -> None:
    policy = esan.NodeDeletion()
    network = strategies.model("ds", "gin", policy).to(gpu)
    with pytest.raises(ValueError, match=r"Expected a bag on cuda:0, where the model is \(got one on cpu\)"):
        network(esan.Bag.of(strategies.odd_graphs(), policy, 3))


@pytest.mark.pairwise
@pytest.mark.parametrize("encoder", ["gin", "gine", "graphconv"])
@pytest.mark.parametrize("architecture", strategies.ARCHITECTURES)
@pytest.mark.parametrize("name", ["ED", "EGO+(2)"])
def test_networks_in_single_precision(name: str, architecture: str, encoder: str, gpu: torch.device) -> None:
    """The fused kernels, which double precision does not use."""
    policy = strategies.POLICIES[name]
    network = strategies.model(architecture, encoder, policy, width=20)
    on_gpu = copy.deepcopy(network).float().to(gpu)
    bag = esan.Bag.of(strategies.odd_graphs(), policy, 3)
    here, there = network(bag), on_gpu(bag.to(gpu))
    check_close(there.double().cpu(), here, "predictions on the GPU", tolerance=1e-5)
    here.square().sum().backward()
    there.square().sum().backward()
    largest = max(float(p.grad.abs().max()) for p in network.parameters() if p.grad is not None)
    for (part, mine), other in zip(network.named_parameters(), on_gpu.parameters(), strict=True):
        assert (mine.grad is None) == (other.grad is None), part
        if mine.grad is not None and other.grad is not None:
            got = other.grad.double().cpu()
            check_close(got, mine.grad, f"gradient of {part} on the GPU", scale=max(1.0, largest), tolerance=1e-4)
    for (part, buffer), theirs in zip(network.named_buffers(), on_gpu.buffers(), strict=True):
        check_close(theirs.to(buffer.dtype).cpu(), buffer, f"{part} on the GPU", tolerance=1e-5)


@pytest.mark.parametrize("conv", ["gin", "graphconv"])
@pytest.mark.parametrize("architecture", strategies.ARCHITECTURES)
def test_rows_that_stand_for_no_pair_blow_nothing_up(architecture: str, conv: str, gpu: torch.device) -> None:
    zero_multiplicity.check_in_single_precision(architecture, conv, gpu)


@pytest.mark.parametrize(("inner", "outer"), [(64, 64), (80, 64), (20, 33)])
def test_products_of_short_floats(inner: int, outer: int, gpu: torch.device) -> None:
    """Products are as exact as those of single precision, where numbers of all sizes meet."""
    from esan.ops.triton.kernels.linear import linear
    from esan.ops.triton.kernels.linear_grads import linear_backward
    from esan.ops.triton.kernels.matrix import Matrix

    torch.manual_seed(0)
    x, grad = torch.randn(3 * 1000, inner, device=gpu), torch.randn(3 * 1000, outer, device=gpu)
    x, grad = x * 10 ** torch.randn(3000, 1, device=gpu), grad * 1e-6 * 10 ** torch.randn(3000, 1, device=gpu)
    matrix, bias = torch.randn(3, outer, inner, device=gpu), torch.randn(3, outer, device=gpu)
    (read,) = Matrix.of(matrix)
    leaves = [t.double().requires_grad_() for t in (x, matrix, bias)]
    expected = torch.baddbmm(leaves[2][:, None], leaves[0].view(3, 1000, inner), leaves[1].transpose(1, 2))
    of_x, of_matrix, of_bias = torch.autograd.grad(expected, leaves, grad.double().view(3, 1000, outer))
    got = linear_backward(grad, x, read, None)
    pairs = {
        "products": (linear(x, read, bias, None, None)[0], expected.detach().flatten(0, 1)),
        "gradients of lines": (got.grad_x, of_x),
        "gradients of matrices": (got.matrix, of_matrix),
        "gradients of biases": (got.bias, of_bias),
    }
    for what, (mine, exact) in pairs.items():
        check_close(mine.double(), exact, what, scale=float(exact.abs().max()), tolerance=1e-6)


@pytest.mark.parametrize("networks", [0, 3])
def test_products_that_round(networks: int, gpu: torch.device) -> None:
    """Wide layers, of one network and stacked: TF32 is seen, in the product and in its gradients, and is small."""
    torch.manual_seed(0)
    layer, x = Linear(300, 600).to(gpu), torch.randn(max(networks, 1) * 2000, 300, device=gpu, requires_grad=True)
    if networks:
        for name, parameter in [*layer.named_parameters()]:
            layer.register_parameter(
                name, torch.nn.Parameter(parameter.detach().repeat(networks, *[1] * parameter.dim()))
            )
    grad, found = torch.randn(x.size(0), 600, device=gpu), []
    for layer.tf32 in (False, True):
        y = layer(x)
        found.append([y, *torch.autograd.grad(y, [x, layer.weight, layer.bias], grad)])
    for what, exact, rounded in zip(("product", "lines", "matrix"), *found, strict=False):
        apart = float((exact - rounded).abs().max() / exact.abs().max())
        assert 1e-6 < apart < 5e-3, f"{what}: {apart}"
    assert torch.equal(found[0][3], found[1][3])
