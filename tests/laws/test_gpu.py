"""A GPU gives the CPU's answer: bags built, taken apart and computed on there; networks trained in teams."""

import copy

import pytest
import torch

import esan
import sampled_teams
import sized_teams
import strategies
import teams
from esan.bags import compact, kept, padding
from esan.bags.building import bag_built_on
from esan.bags.padding import Padder
from esan.data import Dataset, Split, own
from esan.nn.linear import Linear
from esan.testing.compare import check_close
from esan.train import Job, Recipe, captured, run_jobs
from esan.train.engine import EagerEngine
from esan.train.graphed import Teams, fits
from esan.train.losses import loss_backward
from esan.train.objective import Objective

pytestmark = pytest.mark.gpu
EVERY_POLICY = pytest.mark.parametrize("policy", strategies.POLICIES.values(), ids=strategies.POLICIES)
PINNED = pytest.mark.usefixtures("_pinned")


@pytest.fixture
def _pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are gathered from pinned memory, though there is little of it."""
    monkeypatch.setattr(kept, "_SMALL", 0)
    monkeypatch.setattr(kept, "_A_NETWORK", 0)


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
    monkeypatch.setattr(compact, "MOST_PAIRS", 40)
    here = esan.Bag.of(strategies.odd_graphs(), policy, 3)
    built = bag_built_on(gpu, here.graphs, policy, 3)
    assert built.device.type == "cpu"
    for part in ("graphs", "selection", "rows"):
        assert getattr(built, part).fingerprint == getattr(here, part).fingerprint


@EVERY_POLICY
@pytest.mark.parametrize("room", [0, 500, 2**24], ids=["pinned", "partly", "there"])
def test_batches_laid_out_from_the_host(
    room: int, policy: esan.Policy, gpu: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field by field those of the CPU, whether the numbers that they are gathered from are pinned or on the GPU."""
    monkeypatch.setattr(kept, "_SMALL", 0)
    monkeypatch.setattr(kept, "_A_NETWORK", room)
    monkeypatch.setattr(padding, "_MOST_LINES", 60)
    bag, ids = esan.Bag.of(strategies.odd_graphs(), policy, 3), torch.tensor([[[3, 1, 4]], [[6, -1, 0]]])
    plain = Padder(bag, 3)
    shape = plain.counts.shape(ids[:, 0].numpy()).grown(1.1)
    ours, theirs = Padder(bag, 3, gpu).lay_out(ids.to(gpu), shape, 2), plain.lay_out(ids, shape, 2)
    for k in range(2):
        mine, other = (batches.views(batches.ints[k], batches.floats[k]) for batches in (ours, theirs))
        assert mine.keys() == other.keys()
        for name, expected in other.items():
            assert mine[name].cpu().to(expected.dtype).equal(expected), name


@EVERY_POLICY
@pytest.mark.parametrize("encoder", strategies.LOCAL_ENCODERS)
@pytest.mark.parametrize("architecture", strategies.ARCHITECTURES)
def test_networks(architecture: str, encoder: str, policy: esan.Policy, gpu: torch.device) -> None:
    network = strategies.model(architecture, encoder, policy)
    twin = copy.deepcopy(network).to(gpu)
    bag = esan.Bag.of(strategies.odd_graphs(), policy, 4)
    here, there = network(bag), twin(bag.to(gpu))
    check_close(there.cpu(), here, "predictions on the GPU")
    here.square().sum().backward()
    there.square().sum().backward()
    for (name, mine), other in zip(network.named_parameters(), twin.parameters(), strict=True):
        assert (mine.grad is None) == (other.grad is None), name
        if mine.grad is not None and other.grad is not None:
            check_close(other.grad.cpu(), mine.grad, f"gradient of {name} on the GPU")
    for (name, buffer), theirs in zip(network.named_buffers(), twin.buffers(), strict=True):
        check_close(theirs.cpu(), buffer, f"{name} on the GPU")


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


@pytest.mark.parametrize("encoder", ["gin", "gine", "graphconv"])
@pytest.mark.parametrize("architecture", strategies.ARCHITECTURES)
@pytest.mark.parametrize("name", ["ED", "EGO+(2)"])
def test_networks_in_single_precision(name: str, architecture: str, encoder: str, gpu: torch.device) -> None:
    """The fused kernels, which double precision does not use."""
    policy = strategies.POLICIES[name]
    network = strategies.model(architecture, encoder, policy, width=20)
    twin = copy.deepcopy(network).float().to(gpu)
    bag = esan.Bag.of(strategies.odd_graphs(), policy, 3)
    here, there = network(bag), twin(bag.to(gpu))
    check_close(there.double().cpu(), here, "predictions on the GPU", tolerance=1e-5)
    here.square().sum().backward()
    there.square().sum().backward()
    largest = max(float(p.grad.abs().max()) for p in network.parameters() if p.grad is not None)
    for (part, mine), other in zip(network.named_parameters(), twin.parameters(), strict=True):
        assert (mine.grad is None) == (other.grad is None), part
        if mine.grad is not None and other.grad is not None:
            got = other.grad.double().cpu()
            check_close(got, mine.grad, f"gradient of {part} on the GPU", scale=max(1.0, largest), tolerance=1e-4)
    for (part, buffer), theirs in zip(network.named_buffers(), twin.buffers(), strict=True):
        check_close(theirs.to(buffer.dtype).cpu(), buffer, f"{part} on the GPU", tolerance=1e-5)


@pytest.mark.parametrize(("inner", "outer"), [(64, 64), (80, 64), (20, 33)])
def test_products_of_short_floats(inner: int, outer: int, gpu: torch.device) -> None:
    """Products are as exact as those of single precision, where numbers of all sizes meet."""
    from esan.kernels.gpu_linear import linear
    from esan.kernels.gpu_linear_grads import linear_backward
    from esan.kernels.gpu_matrix import Matrix

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


def test_kernels_that_are_compiled_are_not_launched(gpu: torch.device) -> None:
    from esan.kernels.gpu_compile import compiled_together

    sums = torch.zeros(2, 1, device=gpu)
    given = torch.ones(4, 1, device=gpu), torch.full((3, 1), 3.0, device=gpu), torch.tensor([1.0, 1, 1, 0], device=gpu)
    with compiled_together():
        loss_backward(Objective("regression"), *given, sums)
        assert not sums.any()
    grad, live = loss_backward(Objective("regression"), *given, sums)
    assert sums.tolist() == [[6], [3]]
    assert live.tolist() == [1]
    check_close(grad.cpu(), torch.tensor([[-1.0], [-1], [-1], [0]]) / 3, "gradient", tolerance=1e-6)


@PINNED
def test_a_team_gives_what_each_gives_alone(gpu: torch.device) -> None:
    teams.check_alone(teams.trial(gpu))


def test_folds_with_unequal_numbers_of_batches(gpu: torch.device) -> None:
    t = teams.trial(gpu)
    teams.check_alone(t, [t.train[:9], t.train, t.train[:-6]])


def test_a_team_gives_what_batch_after_batch_gives(gpu: torch.device) -> None:
    teams.check_eager(teams.trial(gpu), 1e-4)


def test_predictions_of_a_team(gpu: torch.device) -> None:
    teams.check_predictions(teams.trial(gpu))


@PINNED
def test_predictions_that_need_more_room(gpu: torch.device) -> None:
    teams.check_room(teams.trial(gpu), 1e-3)


def test_states_of_a_team(gpu: torch.device) -> None:
    teams.check_states(teams.trial(gpu))


def test_leaving_a_team(gpu: torch.device) -> None:
    teams.check_leaving(teams.trial(gpu))


def test_engines_that_are_asked_out_of_step(gpu: torch.device) -> None:
    teams.check_out_of_step(teams.trial(gpu))


@PINNED
@pytest.mark.parametrize("size", [None, 50])
def test_statistics_renewed_in_teams(size: int | None, gpu: torch.device) -> None:
    teams.check_renewed(teams.trial(gpu), 1e-4, size)


def test_fresh_samples(gpu: torch.device) -> None:
    sampled_teams.check_fresh(teams.trial(gpu, sampled=0.5))


def test_samples_of_what_is_never_whole(gpu: torch.device) -> None:
    t = sampled_teams.never_whole(gpu, 30, 12, 32)
    sampled_teams.check_fresh(t)
    sampled_teams.check_whole(t, 1e-3)


def test_samples_in_a_team(gpu: torch.device) -> None:
    t = teams.trial(gpu, sampled=0.5)
    sampled_teams.check_together(t, [t.train[:9], t.train, t.train[:-6]])


def test_dropout_in_a_team(gpu: torch.device) -> None:
    teams.check_alone(teams.trial(gpu, dropout=0.5))


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


@PINNED
@pytest.mark.parametrize("tf32", [False, True])
def test_smaller_rooms(tf32: bool, gpu: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of wide networks, whose products are a library's."""
    monkeypatch.setattr(captured, "_MANY_ROWS", 0)
    sized_teams.check_sized(sized_teams.trial(gpu, 40, 40, 300, tf32=tf32), 2e-2 if tf32 else 1e-3)


@PINNED
def test_smaller_rooms_for_many_rows(gpu: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captured, "_TOO_MANY_ROWS", 0)
    sized_teams.check_sized(sized_teams.trial(gpu, 40, 40, 32), 1e-3)


@PINNED
@pytest.mark.parametrize(("dropout", "sampled"), [(0.5, None), (0.0, 0.5)])
def test_smaller_rooms_beside_others(
    dropout: float, sampled: float | None, gpu: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a network draws depends neither on the room nor on the networks beside."""
    monkeypatch.setattr(captured, "_MANY_ROWS", 0)
    sized_teams.check_near_alone(sized_teams.trial(gpu, 40, 40, 300, dropout=dropout, sampled=sampled), 1e-4)


def test_kinds_of_teams(gpu: torch.device) -> None:
    teams.check_kinds(teams.trial(gpu))


@pytest.mark.parametrize("kind", ["classification", "regression", "labels"])
def test_a_batch_larger_than_any_before(kind: str, gpu: torch.device) -> None:
    """The step is captured anew, with more room, and goes on."""
    outputs = {"classification": 2, "regression": 1, "labels": 2}[kind]
    small = [strategies.from_edges(3, [(0, 1), (1, 2)], i) for i in range(30)]
    large = [strategies.from_edges(40, [(i, i + 1) for i in range(39)], 50 + i) for i in range(2)]
    for i, graph in enumerate([*small, *large]):
        y = {"classification": torch.tensor([i % 2]), "regression": torch.tensor([[float(i)]])}
        graph.y = y.get(kind, torch.tensor([[float(i % 2), torch.nan]]))
    policy = esan.EdgeDeletion()
    bag = esan.Bag.of([*small, *large], policy, 2).to(gpu)
    torch.manual_seed(0)
    network = esan.dss_gnn(esan.Categories(strategies.ATOMS), 16, 2, outputs).to(gpu)
    assert fits(network, bag)
    arguments = bag, Objective(kind), 1e-3, 4
    ours, theirs = (
        make(copy.deepcopy(network), *arguments, torch.Generator().manual_seed(0)) for make in (Teams(), EagerEngine)
    )
    (seat,) = teams.seats([ours])
    # No batch that is drawn without putting back has four large graphs.
    few, many = torch.arange(30), torch.tensor([30, 31, 31, 30, 0])
    shapes = []
    for order in (few, many):
        mine, other = ours.train_epoch(order), theirs.train_epoch(order)
        ours.issue()
        check_close(mine.cpu(), other.cpu(), f"loss of {kind}", tolerance=1e-3)
        shapes.append(seat.team._rooms.known[4])
    assert shapes[0] != shapes[1]
    check_close(ours.predict(many).cpu(), theirs.predict(many).cpu(), "predictions", tolerance=2e-2)


def _dataset() -> Dataset:
    graphs = [strategies.from_edges(4 + i % 5, [(v, v + 1) for v in range(3 + i % 5)], i) for i in range(24)]
    ids = torch.arange(24)
    split = Split(ids[ids % 3 == 0], ids[ids % 3 == 1], ids[ids % 3 == 2])
    return own(graphs, labels=ids % 2, task="classification", given=split, name="small")


def test_the_loop_trains_in_teams(gpu: torch.device) -> None:
    """Records are the same whether seeds train together or one after another."""
    recipe = Recipe(data="small", name="small/gpu", policy="ND", layers=2, width=16, batch_size=4, epochs=3, lr=0.01)
    jobs = [Job(recipe, seed=seed) for seed in range(3)]
    together = run_jobs(jobs, None, dataset=_dataset(), device=gpu)
    apart = [run_jobs([job], None, dataset=_dataset(), device=gpu)[0] for job in jobs]
    for mine, theirs in zip(together, apart, strict=True):
        assert (mine.best, mine.final) == (theirs.best, theirs.final)
        assert [line.valid for line in mine.curve] == [line.valid for line in theirs.curve]
