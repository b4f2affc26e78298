"""Interpreted: linear layers, with norms around them."""

import pytest
import torch
from torch import Tensor

from esan.nn.linear import Linear
from esan.ops.triton import linear as gpu_linear
from esan.ops.triton.gin import MLPFunction
from esan.ops.triton.kernels.linear import linear
from esan.ops.triton.kernels.linear_grads import linear_backward
from esan.ops.triton.kernels.matrix import Matrix
from esan.ops.triton.kernels.moments import TileMoments, finish, tile_moments
from esan.ops.triton.kernels.normalise import grad_sums
from esan.ops.triton.linear import LinearFunction
from esan.ops.triton.norm import BatchNormFunction, DeferredNormGradient, KernelNorm, NormRows
from interpreting import ONE_OR_THREE, ONLY_INTERPRETED, WEIGHTED, agree, close
from plain_norms import EPS, INNER, LINES, OUTER, Plain, drawn_parameters, drawn_weight, fresh_buffers, split_up

pytestmark = ONLY_INTERPRETED


def _layer(networks: int, inner: int, outer: int) -> tuple[Tensor, Tensor]:
    shape = (networks,) if networks > 1 else ()
    return torch.randn(*shape, outer, inner) / inner**0.5, torch.randn(*shape, outer)


def _applied(x: Tensor, matrix: Tensor, bias: Tensor, networks: int) -> Tensor:
    matrix, bias = matrix.reshape(networks, *matrix.shape[-2:]), bias.reshape(networks, 1, -1)
    return (split_up(x, networks) @ matrix.transpose(1, 2) + bias).reshape(-1, matrix.size(1))


@ONE_OR_THREE
@WEIGHTED
def test_linear_layers(networks: int, weighted: bool) -> None:
    x, weight = torch.randn(networks * LINES, INNER), drawn_weight(networks, weighted)
    matrix, bias = _layer(networks, INNER, OUTER)
    gamma, beta = drawn_parameters(networks, INNER)
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
        pytest.param(1, True, True, INNER, OUTER, marks=pytest.mark.exhaustive),
        (3, True, False, OUTER, INNER),
        pytest.param(3, False, True, INNER, OUTER, marks=pytest.mark.exhaustive),
        pytest.param(1, False, False, 65, 33, marks=pytest.mark.exhaustive),  # tiles of fewer lines
        pytest.param(3, True, True, 80, 16, marks=pytest.mark.exhaustive),  # columns in chunks
    ],
)
def test_gradients_of_linear_layers(networks: int, weighted: bool, gated: bool, inner: int, outer: int) -> None:
    """With a norm and ReLU before the layer, and a norm deferred it, the gradient through which is taken on the way."""
    x, weight = torch.randn(networks * LINES, inner), drawn_weight(networks, weighted)
    matrix, bias = _layer(networks, inner, outer)
    (gamma, beta), (after_gamma, after_beta) = drawn_parameters(networks, inner), drawn_parameters(networks, outer)
    grad, gate = torch.randn(networks * LINES, outer), torch.randn(networks * LINES, outer) if gated else None
    normed = finish(tile_moments(x, weight, networks), gamma, beta, EPS, None)

    normed_x = Plain(x.double(), weight, networks).normed(gamma.double(), beta.double()).requires_grad_()
    leaves = [normed_x, *(t.double().requires_grad_() for t in (matrix, bias))]
    plain = _applied(normed_x.relu(), leaves[1], leaves[2], networks)
    g = grad.double() if gate is None else grad.double() * (gate > 0)
    of_x, of_matrix, of_bias = torch.autograd.grad(plain, leaves, g, retain_graph=True)
    standard = split_up((normed_x.detach() - _each(beta, networks)) / _each(gamma, networks), networks)
    sums = torch.stack([split_up(of_x, networks).sum(1), (split_up(of_x, networks) * standard).sum(1)])

    got = linear_backward(grad, x, _read(matrix), normed, gate=gate)
    close(got.grad_x, of_x, "of the normalised x")
    close(got.matrix, of_matrix, "of the matrix")
    close(got.bias, of_bias, "of the bias")
    close(got.sums, sums, "sums of the norm before")

    y, part = linear(x, _read(matrix), bias, normed, weight)
    deferred = finish(part, after_gamma, after_beta, EPS, None)
    result = Plain(plain, weight, networks).normed(after_gamma.double(), after_beta.double())
    of_x, of_matrix, of_bias = torch.autograd.grad(result, leaves, g)
    after = (y, deferred, grad_sums(grad, gate, y, deferred))
    got = linear_backward(grad, x, _read(matrix), normed, after=after, multiplicity=weight, gate=gate)
    close(got.grad_x, of_x, "of the normalised x, through a norm")
    close(got.matrix, of_matrix, "of the matrix, through a norm")
    # What is added to every line is taken away again.
    close(got.bias, of_bias, "of the bias, through a norm")
    assert not got.bias.any()


def test_matrices_in_pieces() -> None:
    """As on a GPU, where products are those of short floats: three of them are as exact as the number itself."""
    two, one = (_layer(3, INNER, OUTER)[0], _layer(1, 70, OUTER)[0]), (_layer(3, 70, 5)[0],)
    for found in (*Matrix.of(*two, precision="bf16x6"), *Matrix.of(*one, precision="bf16x6")):
        close(found.operand.double().sum(0), found.weight, tolerance=1e-7)


def _read(matrix: Tensor) -> Matrix:
    """A matrix as the kernels read it."""
    return Matrix.of(matrix)[0]


def _each(parameter: Tensor, networks: int) -> Tensor:
    """The parameter of each line's network."""
    return parameter.double().reshape(networks, -1).repeat_interleave(LINES, 0)


@ONE_OR_THREE
def test_layers_of_several_networks(networks: int) -> None:
    agree(
        LinearFunction.apply,
        lambda x, matrix, bias: _applied(x, matrix, bias, networks),
        torch.randn(networks * LINES, INNER),
        *_layer(networks, INNER, OUTER),
    )


@pytest.mark.parametrize(
    ("inner", "outer", "biased"),
    [
        pytest.param(130, 20, True, marks=pytest.mark.exhaustive),
        pytest.param(20, 150, False, marks=pytest.mark.exhaustive),
        pytest.param(130, 150, True, marks=pytest.mark.exhaustive),
        pytest.param(130, 150, False, marks=pytest.mark.exhaustive),
    ],
)
def test_wide_layers_of_few_lines(monkeypatch: pytest.MonkeyPatch, inner: int, outer: int, biased: bool) -> None:
    """In chunks, not by a library."""
    for name in ("bmm", "baddbmm"):
        monkeypatch.delattr(torch, name)
    _two_layers_agree(inner, outer, biased)


def test_layers_of_many_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a library."""
    monkeypatch.delattr(gpu_linear, "LinearFunction")
    _two_layers_agree(260, 200, True)


def _two_layers_agree(inner: int, outer: int, biased: bool) -> None:
    """Those of two networks, as one `Linear`, with the products of each."""

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
    weight = drawn_weight(networks, weighted)

    def kernel(u: Tensor, *parameters: Tensor) -> Tensor:
        w1, b1, gamma, beta, w2, b2, after_gamma, after_beta = parameters
        inside = KernelNorm(gamma, beta, EPS, fresh_buffers(networks, OUTER), frozen=False)
        last = KernelNorm(after_gamma, after_beta, EPS, fresh_buffers(networks, INNER), frozen=False)
        deferred = DeferredNormGradient()
        c, *part = MLPFunction.apply(u, w1, b1, gamma, beta, w2, b2, inside, weight, deferred)
        rows = NormRows(weight, TileMoments(*part), deferred)
        return BatchNormFunction.apply(c, after_gamma, after_beta, last, rows, True)

    def plain(u: Tensor, *parameters: Tensor) -> Tensor:
        w1, b1, gamma, beta, w2, b2, after_gamma, after_beta = parameters
        a = Plain(_applied(u, w1, b1, networks), weight, networks).normed(gamma, beta).relu()
        return Plain(_applied(a, w2, b2, networks), weight, networks).normed(after_gamma, after_beta).relu()

    agree(
        kernel, plain, torch.randn(networks * LINES, INNER),
        *_layer(networks, INNER, OUTER), *drawn_parameters(networks, OUTER),
        *_layer(networks, OUTER, INNER), *drawn_parameters(networks, INNER),
    )  # fmt: skip
