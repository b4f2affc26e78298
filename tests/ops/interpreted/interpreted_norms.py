"""Interpreted: moments, norms, and the end of a layer."""

import copy

import pytest
import torch
from torch import Tensor, nn

from esan.nn.norm import BatchNorm
from esan.ops.segments import CSR
from esan.ops.triton.kernels.moments import Moments, finish, frozen, tile_moments
from esan.ops.triton.kernels.normalise import grad_sums, norm_backward, normalise
from esan.ops.triton.norm import BatchNormFunction, KernelNorm, NormalisedSumFunction, NormRows
from interpreting import ONE_OR_THREE, ONLY_INTERPRETED, WEIGHTED, agree, close
from plain_norms import EPS, LINES, OUTER, Plain, drawn_parameters, drawn_weight, fresh_buffers, split_up

pytestmark = ONLY_INTERPRETED
RELU = pytest.mark.parametrize("relu", [False, True])


@ONE_OR_THREE
@WEIGHTED
def test_moments(networks: int, weighted: bool) -> None:
    # Far from 0: the mean of squares less the square of the mean would be all rounding.
    x, weight = 10 + torch.randn(networks * LINES, OUTER), drawn_weight(networks, weighted)
    gamma, beta = drawn_parameters(networks, OUTER)
    running = fresh_buffers(networks, OUTER)
    moments = finish(tile_moments(x, weight, networks), gamma, beta, EPS, running)
    plain = Plain(x.double(), weight, networks)
    close(moments.mean, plain.mean, "mean")
    inverse = torch.rsqrt(plain.var + EPS)
    close(moments.inverse, inverse, "inverse")
    close(moments.scale, inverse * gamma.double().reshape(networks, -1), "scale")
    shift = beta.double().reshape(networks, -1) - plain.mean * inverse * gamma.double().reshape(networks, -1)
    close(moments.shift, shift, "shift")
    close(moments.inverse_count, 1 / plain.n.squeeze(1), "share")
    close(running.mean.reshape(networks, -1), 0.1 * plain.mean, "running mean")
    unbiased = plain.var * plain.n / (plain.n - 1)
    close(running.var.reshape(networks, -1), 0.9 + 0.1 * unbiased, "running variance")
    assert bool((running.batches == 1).all())


def test_an_empty_batch_leaves_no_trace() -> None:
    x, weight = torch.randn(2 * LINES, OUTER), torch.ones(2 * LINES)
    weight[:LINES] = 0
    gamma, beta = drawn_parameters(2, OUTER)
    running = fresh_buffers(2, OUTER)
    moments = finish(tile_moments(x, weight, 2), gamma, beta, EPS, running)
    assert running.batches.tolist() == [0, 1]
    assert running.mean[0].equal(torch.zeros(OUTER))
    assert running.var[0].equal(torch.ones(OUTER))
    assert not running.mean[1].equal(torch.zeros(OUTER))
    assert all(bool(t.isfinite().all()) for t in (moments.mean, moments.scale, moments.shift, moments.inverse_count))


@ONE_OR_THREE
def test_moments_in_eval_mode(networks: int) -> None:
    gamma, beta = drawn_parameters(networks, OUTER)
    kept = fresh_buffers(networks, OUTER)
    kept.mean.normal_()
    kept.var.uniform_(0.5, 2.0)
    x, moments = torch.randn(networks * LINES, OUTER), frozen(gamma, beta, kept, EPS)
    mean, var, g, b = (t.double().reshape(networks, 1, -1) for t in (kept.mean, kept.var, gamma, beta))
    expected = (split_up(x.double(), networks) - mean) * torch.rsqrt(var + EPS) * g + b
    close(normalise(x, moments, False), expected.reshape(x.shape))


@pytest.mark.pairwise
@ONE_OR_THREE
@WEIGHTED
@RELU
def test_norms(networks: int, weighted: bool, relu: bool) -> None:
    x, weight = torch.randn(networks * LINES, OUTER), drawn_weight(networks, weighted)
    gamma, beta = drawn_parameters(networks, OUTER)
    moments = finish(tile_moments(x, weight, networks), gamma, beta, EPS, None)
    y = normalise(x, moments, relu)
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


@pytest.mark.pairwise
@ONE_OR_THREE
@WEIGHTED
@RELU
def test_batch_norm(networks: int, weighted: bool, relu: bool) -> None:
    weight, running = drawn_weight(networks, weighted), fresh_buffers(networks, OUTER)

    def kernel(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
        norm = KernelNorm(gamma, beta, EPS, running, frozen=False)
        return BatchNormFunction.apply(x, gamma, beta, norm, NormRows(weight), relu)

    def plain(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
        y = Plain(x, weight, networks).normed(gamma, beta)
        return y.relu() if relu else y

    agree(kernel, plain, torch.randn(networks * LINES, OUTER), *drawn_parameters(networks, OUTER))


@ONE_OR_THREE
def test_rows_of_multiplicity_0_are_zeroed(networks: int) -> None:
    """At 0, deferred the ReLU; nothing passes back through them."""
    weight, running = drawn_weight(networks, True), fresh_buffers(networks, OUTER)
    assert weight is not None

    def kernel(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
        norm = KernelNorm(gamma, beta, EPS, running, frozen=False)
        return BatchNormFunction.apply(x, gamma, beta, norm, NormRows(weight, zero_empty=True), True)

    def plain(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
        return Plain(x, weight, networks).normed(gamma, beta).relu() * (weight > 0)[:, None]

    agree(kernel, plain, torch.randn(networks * LINES, OUTER), *drawn_parameters(networks, OUTER))


@pytest.mark.exhaustive
def test_a_norm_wider_than_a_program() -> None:
    """Columns in chunks, the last of them not whole."""
    weight, running = drawn_weight(3, True), fresh_buffers(3, 150)

    def kernel(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
        return BatchNormFunction.apply(
            x, gamma, beta, KernelNorm(gamma, beta, EPS, running, frozen=False), NormRows(weight), True
        )

    def plain(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
        return Plain(x, weight, 3).normed(gamma, beta).relu()

    agree(kernel, plain, torch.randn(3 * LINES, 150), *drawn_parameters(3, 150))


def test_the_norm_of_networks() -> None:
    """`BatchNorm` itself, which chooses the kernels in single precision, and is plain in double."""
    norm = BatchNorm(OUTER)
    nn.init.normal_(norm.weight)
    double, weight = copy.deepcopy(norm).double(), drawn_weight(1, True)
    agree(lambda x: norm(x, weight, relu=True), lambda x: double(x, weight, relu=True), torch.randn(LINES, OUTER))
    for ours, theirs in zip(norm.buffers(), double.buffers(), strict=True):
        close(ours, theirs, "buffer")
    with torch.no_grad():
        x = torch.randn(LINES, OUTER)
        close(norm.eval()(x, weight), double.eval()(x.double(), weight), "in eval mode")


def test_one_row_alone() -> None:
    """Refused while training, as in plain torch, unless it stands for several pairs."""
    norm, x = BatchNorm(OUTER), torch.randn(1, OUTER)
    with pytest.raises(ValueError, match=r"Expected more than one pair, or node .*\(got one\)\. Use larger batches"):
        norm(x)
    assert int(norm.state_dict()["num_batches_tracked"]) == 0
    close(norm(x, torch.tensor([3])).detach(), torch.zeros(1, OUTER), "three pairs alike")
    assert bool(norm.state_dict()["running_var"].isfinite().all())
    with torch.no_grad():
        close(norm.eval()(x), copy.deepcopy(norm).double()(x.double()), "in eval mode")


@ONE_OR_THREE
@pytest.mark.parametrize("zero_empty", [pytest.param(False, marks=pytest.mark.exhaustive), True])
def test_rows_and_the_row_of_their_node(networks: int, zero_empty: bool) -> None:
    """The end of an equivariant layer: two normalised branches, one of them with a line for several rows."""
    nodes = 9
    node = (torch.randint(nodes, (networks, LINES)) + torch.arange(networks)[:, None] * nodes).reshape(-1)
    group, weight = CSR(node, networks * nodes), drawn_weight(networks, True)
    by_node = group

    def kernel(c: Tensor, gamma: Tensor, beta: Tensor, s: Tensor, shared_gamma: Tensor, shared_beta: Tensor) -> Tensor:
        norms = (
            KernelNorm(gamma, beta, EPS, fresh_buffers(networks, OUTER), frozen=False),
            KernelNorm(shared_gamma, shared_beta, EPS, fresh_buffers(networks, OUTER), frozen=False),
        )
        rows = (
            NormRows(weight, tile_moments(c.detach(), weight, networks), zero_empty=zero_empty),
            NormRows(None, tile_moments(s.detach(), None, networks)),
        )
        return NormalisedSumFunction.apply(c, gamma, beta, s, shared_gamma, shared_beta, norms, rows, by_node)

    def plain(c: Tensor, gamma: Tensor, beta: Tensor, s: Tensor, shared_gamma: Tensor, shared_beta: Tensor) -> Tensor:
        shared = Plain(s, None, networks).normed(shared_gamma, shared_beta)
        y = (Plain(c, weight, networks).normed(gamma, beta) + shared[node]).relu()
        return y * (weight > 0)[:, None] if zero_empty and weight is not None else y

    agree(
        kernel, plain, torch.randn(networks * LINES, OUTER), *drawn_parameters(networks, OUTER),
        torch.randn(networks * nodes, OUTER), *drawn_parameters(networks, OUTER),
    )  # fmt: skip


def test_a_sum_of_norms_is_what_it_is_made_of() -> None:
    x, shared, node = torch.randn(LINES, OUTER), torch.randn(5, OUTER), torch.randint(5, (LINES,))
    draw = [torch.randn(1, OUTER) for _ in range(8)]
    own, other = (Moments(draw[k], draw[k + 1], draw[k + 2], draw[k + 3], torch.ones(1)) for k in (0, 4))
    expected = x * own.scale + own.shift + (shared * other.scale + other.shift)[node]
    close(normalise(x, own, True, (shared, other, node)), expected.relu())


def test_a_norm_without_weights_would_be_seen() -> None:
    weight = drawn_weight(1, True)
    gamma, beta = drawn_parameters(1, OUTER)

    def kernel(x: Tensor) -> Tensor:
        return BatchNormFunction.apply(
            x, gamma, beta, KernelNorm(gamma, beta, EPS, fresh_buffers(1, OUTER), frozen=False), NormRows(None), False
        )

    with pytest.raises(AssertionError):
        agree(kernel, lambda x: Plain(x, weight, 1).normed(gamma.double(), beta.double()), torch.randn(LINES, OUTER))
