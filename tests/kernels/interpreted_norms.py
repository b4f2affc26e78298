"""Interpreted: moments, norms, linear layers with norms around them, and Adam."""

import copy

import pytest
import torch
from interpreting import ONE_OR_THREE, ONLY_INTERPRETED, WEIGHTED, agree, close
from torch import Tensor, nn

from esan.bags.sums import Grouping
from esan.kernels import gpu_matrix
from esan.kernels.gpu_adam import FlatAdam
from esan.kernels.gpu_blocks import MLP, Affine, Behind, Blend, Norm, Normalise, Rows, Spread
from esan.kernels.gpu_linear import linear
from esan.kernels.gpu_linear_grads import linear_backward
from esan.kernels.gpu_matrix import Matrix
from esan.kernels.gpu_moments import Moments, TileMoments, Tracked, finish, frozen, tile_moments
from esan.kernels.gpu_norm import blend, grad_sums, norm_backward
from esan.nn.linear import Linear
from esan.nn.norm import BatchNorm

pytestmark = ONLY_INTERPRETED
#: Lines of a network: two tiles, the second not full; no width is a power of 2.
LINES, INNER, OUTER, EPS = 70, 6, 9, 1e-5
RELU = pytest.mark.parametrize("relu", [False, True])


def _weight(networks: int, weighted: bool) -> Tensor | None:
    """Whole numbers, nothing for some lines: those of the filler."""
    return torch.randint(0, 4, (networks * LINES,)).float() if weighted else None


def _split(x: Tensor, networks: int) -> Tensor:
    return x.reshape(networks, -1, x.size(-1))


class Plain:
    """Mean, variance and N of the lines of each network, in double precision, with gradients."""

    def __init__(self, x: Tensor, weight: Tensor | None, networks: int) -> None:
        self.x = _split(x, networks)
        w = torch.ones(self.x.shape[:2]) if weight is None else weight.reshape(networks, -1)
        self.w = w.double()[:, :, None]
        self.n = self.w.sum(1).clamp(min=1)
        self.mean = (self.w * self.x).sum(1) / self.n
        self.var = (self.w * (self.x - self.mean[:, None]).square()).sum(1) / self.n

    def normed(self, gamma: Tensor, beta: Tensor) -> Tensor:
        gamma, beta = (p.reshape(-1, 1, p.size(-1)) for p in (gamma, beta))
        standard = (self.x - self.mean[:, None]) * torch.rsqrt(self.var[:, None] + EPS)
        return (standard * gamma + beta).reshape(-1, self.x.size(2))


def _parameters(networks: int, width: int) -> tuple[Tensor, Tensor]:
    shape = (networks, width) if networks > 1 else (width,)
    return torch.rand(shape) + 0.5, torch.randn(shape)


def _buffers(networks: int, width: int) -> Tracked:
    shape = (networks, width) if networks > 1 else (width,)
    batches = torch.zeros(networks, dtype=torch.long) if networks > 1 else torch.tensor(0)
    return Tracked(torch.zeros(shape), torch.ones(shape), batches, 0.1)


@ONE_OR_THREE
@WEIGHTED
def test_moments(networks: int, weighted: bool) -> None:
    # Far from 0: the mean of squares less the square of the mean would be all rounding.
    x, weight = 10 + torch.randn(networks * LINES, OUTER), _weight(networks, weighted)
    gamma, beta = _parameters(networks, OUTER)
    tracked = _buffers(networks, OUTER)
    moments = finish(tile_moments(x, weight, networks), gamma, beta, EPS, tracked)
    plain = Plain(x.double(), weight, networks)
    close(moments.mean, plain.mean, "mean")
    inverse = torch.rsqrt(plain.var + EPS)
    close(moments.inverse, inverse, "inverse")
    close(moments.scale, inverse * gamma.double().reshape(networks, -1), "scale")
    shift = beta.double().reshape(networks, -1) - plain.mean * inverse * gamma.double().reshape(networks, -1)
    close(moments.shift, shift, "shift")
    close(moments.share, 1 / plain.n.squeeze(1), "share")
    close(tracked.mean.reshape(networks, -1), 0.1 * plain.mean, "running mean")
    unbiased = plain.var * plain.n / (plain.n - 1)
    close(tracked.var.reshape(networks, -1), 0.9 + 0.1 * unbiased, "running variance")
    assert bool((tracked.batches == 1).all())


def test_an_empty_batch_leaves_no_trace() -> None:
    x, weight = torch.randn(2 * LINES, OUTER), torch.ones(2 * LINES)
    weight[:LINES] = 0
    gamma, beta = _parameters(2, OUTER)
    tracked = _buffers(2, OUTER)
    moments = finish(tile_moments(x, weight, 2), gamma, beta, EPS, tracked)
    assert tracked.batches.tolist() == [0, 1]
    assert tracked.mean[0].equal(torch.zeros(OUTER))
    assert tracked.var[0].equal(torch.ones(OUTER))
    assert not tracked.mean[1].equal(torch.zeros(OUTER))
    assert all(bool(t.isfinite().all()) for t in (moments.mean, moments.scale, moments.shift, moments.share))


@ONE_OR_THREE
def test_moments_in_eval_mode(networks: int) -> None:
    gamma, beta = _parameters(networks, OUTER)
    kept = _buffers(networks, OUTER)
    kept.mean.normal_()
    kept.var.uniform_(0.5, 2.0)
    x, moments = torch.randn(networks * LINES, OUTER), frozen(gamma, beta, kept, EPS)
    mean, var, g, b = (t.double().reshape(networks, 1, -1) for t in (kept.mean, kept.var, gamma, beta))
    expected = (_split(x.double(), networks) - mean) * torch.rsqrt(var + EPS) * g + b
    close(blend(x, moments, False), expected.reshape(x.shape))


@ONE_OR_THREE
@WEIGHTED
@RELU
def test_norms(networks: int, weighted: bool, relu: bool) -> None:
    x, weight = torch.randn(networks * LINES, OUTER), _weight(networks, weighted)
    gamma, beta = _parameters(networks, OUTER)
    moments = finish(tile_moments(x, weight, networks), gamma, beta, EPS, None)
    y = blend(x, moments, relu)
    leaves = [t.double().requires_grad_() for t in (x, gamma, beta)]
    expected = Plain(leaves[0], weight, networks).normed(*leaves[1:])
    expected = expected.relu() if relu else expected
    close(y, expected.detach())
    grad, gate = torch.randn_like(x), y if relu else None
    of_x, of_gamma, of_beta = torch.autograd.grad(expected, leaves, grad.double())
    sums = grad_sums(grad, gate, x, moments)
    close(sums[0].reshape(beta.shape), of_beta, "of beta")
    close(sums[1].reshape(gamma.shape), of_gamma, "of gamma")
    close(norm_backward(grad, gate, x, weight, moments, sums), of_x, "of x")


@ONE_OR_THREE
@WEIGHTED
@RELU
def test_batch_norm(networks: int, weighted: bool, relu: bool) -> None:
    weight, tracked = _weight(networks, weighted), _buffers(networks, OUTER)

    def kernel(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
        norm = Norm(gamma, beta, EPS, tracked, frozen=False)
        return Normalise.apply(x, gamma, beta, norm, Rows(weight), relu)

    def plain(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
        y = Plain(x, weight, networks).normed(gamma, beta)
        return y.relu() if relu else y

    agree(kernel, plain, torch.randn(networks * LINES, OUTER), *_parameters(networks, OUTER))


def test_a_norm_wider_than_a_program() -> None:
    """Columns in pieces, the last of them not whole."""
    weight, tracked = _weight(3, True), _buffers(3, 150)

    def kernel(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
        return Normalise.apply(x, gamma, beta, Norm(gamma, beta, EPS, tracked, frozen=False), Rows(weight), True)

    def plain(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
        return Plain(x, weight, 3).normed(gamma, beta).relu()

    agree(kernel, plain, torch.randn(3 * LINES, 150), *_parameters(3, 150))


def test_the_norm_of_networks() -> None:
    """`BatchNorm` itself, which chooses the kernels in single precision, and is plain in double."""
    norm = BatchNorm(OUTER)
    nn.init.normal_(norm.weight)
    twin, weight = copy.deepcopy(norm).double(), _weight(1, True)
    agree(lambda x: norm(x, weight, relu=True), lambda x: twin(x, weight, relu=True), torch.randn(LINES, OUTER))
    for ours, theirs in zip(norm.buffers(), twin.buffers(), strict=True):
        close(ours, theirs, "buffer")
    with torch.no_grad():
        x = torch.randn(LINES, OUTER)
        close(norm.eval()(x, weight), twin.eval()(x.double(), weight), "in eval mode")


def _layer(networks: int, inner: int, outer: int) -> tuple[Tensor, Tensor]:
    shape = (networks,) if networks > 1 else ()
    return torch.randn(*shape, outer, inner) / inner**0.5, torch.randn(*shape, outer)


def _applied(x: Tensor, matrix: Tensor, bias: Tensor, networks: int) -> Tensor:
    matrix, bias = matrix.reshape(networks, *matrix.shape[-2:]), bias.reshape(networks, 1, -1)
    return (_split(x, networks) @ matrix.transpose(1, 2) + bias).reshape(-1, matrix.size(1))


@ONE_OR_THREE
@WEIGHTED
def test_linear_layers(networks: int, weighted: bool) -> None:
    x, weight = torch.randn(networks * LINES, INNER), _weight(networks, weighted)
    matrix, bias = _layer(networks, INNER, OUTER)
    gamma, beta = _parameters(networks, INNER)
    y, part = linear(x, _read(matrix), bias, None, weight)
    plain = _applied(x.double(), matrix.double(), bias.double(), networks)
    close(y, plain, "W x + b")
    _same_moments(part, Plain(plain, weight, networks), networks)
    normed = finish(tile_moments(x, weight, networks), gamma, beta, EPS, None)
    y, _ = linear(x, _read(matrix), bias, normed, weight)
    before = Plain(x.double(), weight, networks).normed(gamma.double(), beta.double()).relu()
    close(y, _applied(before, matrix.double(), bias.double(), networks), "after a norm")


def _same_moments(part: TileMoments, plain: Plain, networks: int) -> None:
    width = plain.mean.size(1)
    shape = (networks, width) if networks > 1 else (width,)
    moments = finish(part, torch.ones(shape), torch.zeros(shape), EPS, None)
    close(moments.mean, plain.mean, "mean")
    close(moments.inverse, torch.rsqrt(plain.var + EPS), "inverse")


@pytest.mark.parametrize(
    ("networks", "weighted", "gated", "inner", "outer"),
    [
        (1, True, True, INNER, OUTER),
        (3, True, False, OUTER, INNER),
        (3, False, True, INNER, OUTER),
        (1, False, False, 65, 33),  # tiles of fewer lines
        (3, True, True, 80, 16),  # columns in pieces
    ],
)
def test_gradients_of_linear_layers(networks: int, weighted: bool, gated: bool, inner: int, outer: int) -> None:
    """With a norm and ReLU before the layer, and a norm behind it, the gradient through which is taken on the way."""
    x, weight = torch.randn(networks * LINES, inner), _weight(networks, weighted)
    matrix, bias = _layer(networks, inner, outer)
    (gamma, beta), (after_gamma, after_beta) = _parameters(networks, inner), _parameters(networks, outer)
    grad, gate = torch.randn(networks * LINES, outer), torch.randn(networks * LINES, outer) if gated else None
    normed = finish(tile_moments(x, weight, networks), gamma, beta, EPS, None)

    normed_x = Plain(x.double(), weight, networks).normed(gamma.double(), beta.double()).requires_grad_()
    leaves = [normed_x, *(t.double().requires_grad_() for t in (matrix, bias))]
    plain = _applied(normed_x.relu(), leaves[1], leaves[2], networks)
    g = grad.double() if gate is None else grad.double() * (gate > 0)
    of_x, of_matrix, of_bias = torch.autograd.grad(plain, leaves, g, retain_graph=True)
    standard = _split((normed_x.detach() - _each(beta, networks)) / _each(gamma, networks), networks)
    sums = torch.stack([_split(of_x, networks).sum(1), (_split(of_x, networks) * standard).sum(1)])

    got = linear_backward(grad, x, _read(matrix), normed, gate=gate)
    close(got.grad_x, of_x, "of the normalised x")
    close(got.matrix, of_matrix, "of the matrix")
    close(got.bias, of_bias, "of the bias")
    close(got.sums, sums, "sums of the norm before")

    y, part = linear(x, _read(matrix), bias, normed, weight)
    behind = finish(part, after_gamma, after_beta, EPS, None)
    result = Plain(plain, weight, networks).normed(after_gamma.double(), after_beta.double())
    of_x, of_matrix, of_bias = torch.autograd.grad(result, leaves, g)
    after = (y, behind, grad_sums(grad, gate, y, behind))
    got = linear_backward(grad, x, _read(matrix), normed, after=after, weight=weight, gate=gate)
    close(got.grad_x, of_x, "of the normalised x, through a norm")
    close(got.matrix, of_matrix, "of the matrix, through a norm")
    # What is added to every line is taken away again.
    close(got.bias, of_bias, "of the bias, through a norm")
    assert not got.bias.any()


def test_matrices_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, where products are those of short floats: three of them are as exact as the number itself."""
    monkeypatch.setattr(gpu_matrix, "_precision", lambda: "bf16x6")
    for found in (*Matrix.of(_layer(3, INNER, OUTER)[0], _layer(1, 70, OUTER)[0]), *Matrix.of(_layer(3, 70, 5)[0])):
        close(found.pieces.double().sum(0), found.whole, tolerance=1e-7)


def _read(matrix: Tensor) -> Matrix:
    """A matrix as the kernels read it."""
    return Matrix.of(matrix)[0]


def _each(parameter: Tensor, networks: int) -> Tensor:
    """The parameter of each line's network."""
    return parameter.double().reshape(networks, -1).repeat_interleave(LINES, 0)


@ONE_OR_THREE
def test_layers_of_several_networks(networks: int) -> None:
    agree(
        Affine.apply,
        lambda x, matrix, bias: _applied(x, matrix, bias, networks),
        torch.randn(networks * LINES, INNER),
        *_layer(networks, INNER, OUTER),
    )


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize(("inner", "outer"), [(130, 20), (20, 150), (130, 150)])
def test_wide_layers_of_few_lines(monkeypatch: pytest.MonkeyPatch, inner: int, outer: int, biased: bool) -> None:
    """In pieces, not by a library."""
    for name in ("bmm", "baddbmm"):
        monkeypatch.delattr(torch, name)

    def layer(x: Tensor, matrix: Tensor, bias: Tensor | None = None) -> Tensor:
        wide = Linear(inner, outer, bias=biased)
        del wide.weight, wide.bias
        wide.weight, wide.bias = matrix, bias  # type: ignore[assignment]
        return wide(x)

    def plain(x: Tensor, matrix: Tensor, bias: Tensor | None = None) -> Tensor:
        return _applied(x, matrix, matrix.new_zeros(2, outer) if bias is None else bias, 2)

    agree(layer, plain, torch.randn(2 * LINES, inner), *_layer(2, inner, outer)[: 2 if biased else 1])


@ONE_OR_THREE
@WEIGHTED
def test_an_mlp_and_the_norm_behind_it(networks: int, weighted: bool) -> None:
    weight = _weight(networks, weighted)

    def kernel(u: Tensor, *parameters: Tensor) -> Tensor:
        w1, b1, gamma, beta, w2, b2, after_gamma, after_beta = parameters
        inside = Norm(gamma, beta, EPS, _buffers(networks, OUTER), frozen=False)
        last = Norm(after_gamma, after_beta, EPS, _buffers(networks, INNER), frozen=False)
        behind = Behind()
        c, *part = MLP.apply(u, w1, b1, gamma, beta, w2, b2, inside, weight, behind)
        rows = Rows(weight, TileMoments(*part), behind)
        return Normalise.apply(c, after_gamma, after_beta, last, rows, True)

    def plain(u: Tensor, *parameters: Tensor) -> Tensor:
        w1, b1, gamma, beta, w2, b2, after_gamma, after_beta = parameters
        a = Plain(_applied(u, w1, b1, networks), weight, networks).normed(gamma, beta).relu()
        return Plain(_applied(a, w2, b2, networks), weight, networks).normed(after_gamma, after_beta).relu()

    agree(
        kernel, plain, torch.randn(networks * LINES, INNER),
        *_layer(networks, INNER, OUTER), *_parameters(networks, OUTER),
        *_layer(networks, OUTER, INNER), *_parameters(networks, INNER),
    )  # fmt: skip


@ONE_OR_THREE
def test_rows_and_the_line_of_their_node(networks: int) -> None:
    """The end of an equivariant layer: two normalised branches, one of them with a line for several rows."""
    nodes = 9
    node = (torch.randint(nodes, (networks, LINES)) + torch.arange(networks)[:, None] * nodes).reshape(-1)
    group, weight = Grouping(node, networks * nodes), _weight(networks, True)
    spread = Spread(group.owner, group.order, group.first, None)

    def kernel(c: Tensor, gamma: Tensor, beta: Tensor, s: Tensor, shared_gamma: Tensor, shared_beta: Tensor) -> Tensor:
        norms = (
            Norm(gamma, beta, EPS, _buffers(networks, OUTER), frozen=False),
            Norm(shared_gamma, shared_beta, EPS, _buffers(networks, OUTER), frozen=False),
        )
        rows = (
            Rows(weight, tile_moments(c.detach(), weight, networks)),
            Rows(None, tile_moments(s.detach(), None, networks)),
        )
        return Blend.apply(c, gamma, beta, s, shared_gamma, shared_beta, norms, rows, spread)

    def plain(c: Tensor, gamma: Tensor, beta: Tensor, s: Tensor, shared_gamma: Tensor, shared_beta: Tensor) -> Tensor:
        shared = Plain(s, None, networks).normed(shared_gamma, shared_beta)
        return (Plain(c, weight, networks).normed(gamma, beta) + shared[node]).relu()

    agree(
        kernel, plain, torch.randn(networks * LINES, OUTER), *_parameters(networks, OUTER),
        torch.randn(networks * nodes, OUTER), *_parameters(networks, OUTER),
    )  # fmt: skip


def test_a_blend_is_what_it_is_made_of() -> None:
    x, shared, node = torch.randn(LINES, OUTER), torch.randn(5, OUTER), torch.randint(5, (LINES,))
    draw = [torch.randn(1, OUTER) for _ in range(8)]
    own, other = (Moments(draw[k], draw[k + 1], draw[k + 2], draw[k + 3], torch.ones(1)) for k in (0, 4))
    expected = x * own.scale + own.shift + (shared * other.scale + other.shift)[node]
    close(blend(x, own, True, (shared, other, node)), expected.relu())


def test_adam() -> None:
    """Two networks with learning rates of their own, one of which misses a step, as torch has it for each alone."""
    rates, shapes = (1e-2, 3e-3), ((3, 4), (700,), (2, 2))
    together = [nn.Parameter(torch.randn(2, *shape)) for shape in shapes]
    alone = [[nn.Parameter(p[k].detach().clone()) for p in together] for k in range(2)]
    usual = [torch.optim.Adam(parameters, lr=lr) for parameters, lr in zip(alone, rates, strict=True)]
    flat = FlatAdam(together, 2, torch.tensor(rates))
    for step in range(5):
        live = torch.tensor([1.0, 0.0 if step == 2 else 1.0])
        flat.zero_grad()
        for place, p in enumerate(together):
            # The last parameter is not always used.
            p.grad = torch.randn_like(p) * 10.0 ** (step - 2) if place < 2 or step == 0 else None
            for k in range(2):
                alone[k][place].grad = torch.zeros_like(p[k]) if p.grad is None else p.grad[k].clone()
        flat.step(live)
        for optimiser, there in zip(usual, live, strict=True):
            if there:
                optimiser.step()
        for place, p in enumerate(together):
            for k in range(2):
                close(
                    p[k].detach(),
                    alone[k][place].detach(),
                    f"parameter {place} of network {k}, step {step}",
                    tolerance=2e-6,
                )
    assert flat.step_count.tolist() == [5, 4]
    for place in range(len(shapes)):
        for k in range(2):
            state = usual[k].state[alone[k][place]]
            close(flat.means[place][k], state["exp_avg"], "running mean")
            close(flat.squares[place][k], state["exp_avg_sq"], "running square")


def test_a_norm_without_weights_would_be_seen() -> None:
    weight = _weight(1, True)
    gamma, beta = _parameters(1, OUTER)

    def kernel(x: Tensor) -> Tensor:
        return Normalise.apply(
            x, gamma, beta, Norm(gamma, beta, EPS, _buffers(1, OUTER), frozen=False), Rows(None), False
        )

    with pytest.raises(AssertionError):
        agree(kernel, lambda x: Plain(x, weight, 1).normed(gamma.double(), beta.double()), torch.randn(LINES, OUTER))
