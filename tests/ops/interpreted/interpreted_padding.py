"""Interpreted: kernels that skip padding give the same results for the other rows, and write nothing else."""

from collections.abc import Callable
from functools import cache

import pytest
import torch
from torch import Tensor

from esan.ops.segments import CSR, RowRanges
from esan.ops.triton.dropout import DropoutFunction
from esan.ops.triton.features import InputRowsFunction
from esan.ops.triton.fused_gradient import NormInput
from esan.ops.triton.kernels.linear import linear
from esan.ops.triton.kernels.linear_grads import linear_backward
from esan.ops.triton.kernels.matrix import Matrix
from esan.ops.triton.kernels.message_grads import PoolGradient, messages_backward
from esan.ops.triton.kernels.moments import Moments, finish, tile_moments
from esan.ops.triton.kernels.normalise import grad_sums, norm_backward, normalise
from esan.ops.triton.segments import broadcast, sum_rows
from interpreting import ONLY_INTERPRETED, close, poison

pytestmark = ONLY_INTERPRETED
#: Slots of less than a tile and of several, and how many of their lines are real: all, some, or none.
CAPACITY = (70, 9, 140)
NUMBER = ((70, 0, 5), (1, 9, 133), (0, 0, 0))
NETWORKS, ROWS, WIDTH, EPS = len(NUMBER), sum(CAPACITY), 6, 1e-5
BEGIN = [sum(CAPACITY[:slot]) for slot in range(len(CAPACITY))]
REAL = RowRanges(
    torch.tensor([[b, b + n] for some in NUMBER for b, n in zip(BEGIN, some, strict=True)]).reshape(-1), CAPACITY
)
#: The real lines of each network.
NOT_PADDING = [torch.cat([torch.arange(b, b + n) for b, n in zip(BEGIN, some, strict=True)]) for some in NUMBER]


@pytest.fixture(autouse=True)
def _poison(monkeypatch: pytest.MonkeyPatch) -> None:
    poison(monkeypatch)


def lines(width: int = WIDTH) -> Tensor:
    """Random ones; NaN where there is padding."""
    x = torch.full((NETWORKS, ROWS, width), torch.nan)
    for network, kept in enumerate(NOT_PADDING):
        x[network, kept] = torch.randn(len(kept), width)
    return x.reshape(-1, width)


def of(x: Tensor, network: int) -> Tensor:
    """The real lines of a network."""
    return x.view(NETWORKS, ROWS, *x.shape[1:])[network, NOT_PADDING[network]]


def check(got: Tensor, expected: Callable[[int], Tensor], what: str) -> None:
    """The lines of each network that has some are these; nothing else was written."""
    padding = torch.ones(NETWORKS, ROWS, dtype=torch.bool)
    for network, kept in enumerate(NOT_PADDING):
        padding[network, kept] = False
        if len(kept):
            close(of(got, network), expected(network), f"{what}, network {network}")
    assert bool(got.view(NETWORKS, ROWS, -1)[padding].isnan().all()), f"{what} of padding"


def same(got: Tensor, expected: Callable[[int], Tensor], what: str) -> None:
    """Numbers of each network are these, and 0 where it has no lines."""
    for network, kept in enumerate(NOT_PADDING):
        other = expected(network) if len(kept) else torch.zeros_like(got[network])
        close(got[network], other.reshape(got[network].shape), f"{what}, network {network}", scale=10.0)


def alone(moments: Moments, network: int) -> Moments:
    return Moments(*(getattr(moments, part)[network : network + 1] for part in Moments.__dataclass_fields__))


class Norm:
    """Lines and weights, and moments that are found without padding."""

    def __init__(self) -> None:
        self.x, self.weight = lines(), lines(1)[:, 0].abs()
        self.gamma, self.beta = torch.rand(NETWORKS, WIDTH) + 0.5, torch.randn(NETWORKS, WIDTH)
        self.part = tile_moments(self.x, self.weight, NETWORKS, REAL)
        self.moments = finish(self.part, self.gamma, self.beta, EPS, None)

    def alone(self, network: int) -> Moments:
        part = tile_moments(of(self.x, network), of(self.weight, network), 1)
        return finish(part, self.gamma[network], self.beta[network], EPS, None)


def test_norms() -> None:
    norm, grad, shared = Norm(), lines(), torch.randn(4, WIDTH)
    for part in ("mean", "inverse", "scale", "shift", "inverse_count"):
        got = getattr(norm.moments, part)
        assert bool(got.isfinite().all())
        for network in range(NETWORKS - 1):
            close(got[network], getattr(norm.alone(network), part).squeeze(0), part)
    node = torch.randint(4, (NETWORKS * ROWS,))
    y = normalise(norm.x, norm.moments, True, (shared, norm.moments, node), REAL)

    def normalised(network: int) -> Tensor:
        m = alone(norm.moments, network)
        return normalise(of(norm.x, network), m, True, (shared, m, of(node, network)))

    check(y, normalised, "normalise")
    sums = grad_sums(grad, y, norm.x, norm.moments, REAL)

    def summed(network: int) -> Tensor:
        return grad_sums(of(grad, network), of(y, network), of(norm.x, network), alone(norm.moments, network))

    same(sums.transpose(0, 1), summed, "sums")

    def back(network: int) -> Tensor:
        g, gate, x, weight = (of(t, network) for t in (grad, y, norm.x, norm.weight))
        return norm_backward(g, gate, x, weight, alone(norm.moments, network), sums[:, [network]])

    check(norm_backward(grad, y, norm.x, norm.weight, norm.moments, sums, REAL), back, "gradient of x")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "outer", [pytest.param(9, id="narrow"), pytest.param(130, id="wide", marks=pytest.mark.exhaustive)]
)
def test_linear_layers(outer: int) -> None:
    norm, grad, gate = Norm(), lines(outer), lines(outer)
    matrix, bias = torch.randn(NETWORKS, outer, WIDTH), torch.randn(NETWORKS, outer)
    (whole,) = Matrix.of(matrix)
    y, part = linear(norm.x, whole, bias, norm.moments, norm.weight, True, REAL)
    ones, zeros = torch.ones(NETWORKS, outer), torch.zeros(NETWORKS, outer)
    after = finish(part, ones, zeros, EPS, None)
    sums = grad_sums(grad, gate, y, after, REAL)

    @cache
    def layer(network: int) -> tuple[Tensor, Moments]:
        given = of(norm.x, network), Matrix.of(matrix[network])[0], bias[network]
        y, part = linear(*given, alone(norm.moments, network), of(norm.weight, network))
        return y, finish(part, ones[0], zeros[0], EPS, None)

    check(y, lambda network: layer(network)[0], "product")
    for network in range(NETWORKS - 1):
        close(after.mean[network], layer(network)[1].mean[0], "mean")
        close(after.inverse[network], layer(network)[1].inverse[0], "inverse")
    got = linear_backward(
        grad, norm.x, whole, norm.moments, after=(y, after, sums), multiplicity=norm.weight, gate=gate, row_ranges=REAL
    )
    plainly = linear_backward(grad, norm.x, whole, None, row_ranges=REAL)

    @cache
    def back(network: int, through: bool = True) -> list[Tensor | None]:
        given = of(grad, network), of(norm.x, network), Matrix.of(matrix[network])[0]
        if not through:
            found = linear_backward(*given, None)
        else:
            left = of(y, network), alone(after, network), sums[:, [network]]
            found = linear_backward(
                *given,
                alone(norm.moments, network),
                after=left,
                multiplicity=of(norm.weight, network),
                gate=of(gate, network),
            )
        return [found.grad_x, found.matrix, found.bias, found.sums]

    check(got.grad_x, lambda network: back(network)[0], "gradient of x")  # type: ignore[arg-type, return-value]
    same(got.matrix, lambda network: back(network)[1], "gradient of the matrix")  # type: ignore[arg-type, return-value]
    assert got.sums is not None
    same(got.sums.transpose(0, 1), lambda network: back(network)[3], "sums")  # type: ignore[arg-type, return-value]
    check(plainly.grad_x, lambda network: back(network, False)[0], "gradient of x")  # type: ignore[arg-type, return-value]
    same(plainly.bias, lambda network: back(network, False)[2], "gradient of the bias")  # type: ignore[arg-type, return-value]


class Messages:
    """Each real line gets some from others of its network, and is sent to as many."""

    def __init__(self) -> None:
        self.other, self.kind = torch.zeros(0, dtype=torch.long), torch.zeros(0, dtype=torch.long)
        self.first, self.count = (torch.zeros(NETWORKS * ROWS, dtype=torch.long) for _ in range(2))
        #: The same for each network alone.
        self.alone: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
        for network, kept in enumerate(NOT_PADDING):
            count = torch.randint(4, (len(kept),))
            first = count.cumsum(0) - count
            other = torch.randint(max(len(kept), 1), (int(count.sum()),))
            kind = torch.randint(3, (len(other),))
            self.alone.append((other, kind, first, count))
            self.first[network * ROWS + kept] = first + len(self.other)
            self.count[network * ROWS + kept] = count
            self.other = torch.cat([self.other, network * ROWS + kept[other]])
            self.kind = torch.cat([self.kind, kind])


@pytest.mark.exhaustive
def test_messages() -> None:
    m, x, grad, norm = Messages(), lines(), lines(), Norm()
    table, own = torch.randn(NETWORKS, 3, WIDTH), torch.rand(NETWORKS)
    y = sum_rows(
        x, m.other, m.first, m.count, own=own, messages=(table, m.kind), networks=NETWORKS, row_ranges=REAL
    )  # fmt: skip

    def summed(network: int) -> Tensor:
        other, kind, first, count = m.alone[network]
        some = slice(network, network + 1)
        return sum_rows(of(x, network), other, first, count, own=own[some], messages=(table[some], kind))

    check(y, summed, "sums")
    owner, share, of_pool = torch.randint(5, (NETWORKS * ROWS,)), lines(1)[:, 0], torch.randn(5, WIDTH)
    got = messages_backward(
        grad, x, table, own, m.other, m.kind, m.first, m.count, None, NETWORKS, PoolGradient(of_pool, owner, share),
        NormInput(norm.x, norm.moments.mean, norm.moments.inverse), True, REAL,
    )  # fmt: skip

    @cache
    def back(network: int) -> list[Tensor | None]:
        other, kind, first, count = m.alone[network]
        some = slice(network, network + 1)
        found = messages_backward(
            of(grad, network), of(x, network), table[some], own[some], other, kind, first, count, None, 1,
            PoolGradient(of_pool, of(owner, network), of(share, network)),
            NormInput(of(norm.x, network), norm.moments.mean[some], norm.moments.inverse[some]),
        )  # fmt: skip
        return [found.x, found.own, found.table, found.sums]

    check(got.x, lambda network: back(network)[0], "gradient of x")  # type: ignore[arg-type, return-value]
    assert got.sums is not None
    for place, numbers in enumerate((got.own, got.table, got.sums.transpose(0, 1)), start=1):
        same(numbers, lambda network, place=place: back(network)[place], f"gradient {place}")  # type: ignore[arg-type, misc]


def test_rows_that_are_expanded() -> None:
    x, owner, weight = torch.randn(8, WIDTH), torch.randint(8, (NETWORKS * ROWS,)), lines(1)[:, 0]
    check(
        broadcast(x, owner, weight, REAL), lambda k: x[of(owner, k)] * of(weight, k)[:, None], "expanded rows"
    )  # fmt: skip
    by_node, marked = CSR(owner, 8), torch.rand(NETWORKS * ROWS) > 0.5
    by_node.row_ranges = REAL

    def rows(network: int) -> Tensor:
        mark = of(marked, network).float()[:, None]
        return torch.cat([mark, 1 - mark, x[of(owner, network)]], 1)

    check(InputRowsFunction.apply(x, by_node, marked, WIDTH + 2), rows, "input")


def test_dropout() -> None:
    """What is drawn for a line does not depend on which lines are padding."""
    x, seeds = lines(), torch.tensor([5, 6, 7])
    every = DropoutFunction.apply(x.nan_to_num(1.0), 0.25, seeds, 1)
    check(DropoutFunction.apply(x, 0.25, seeds, 1, REAL), lambda network: of(every, network), "dropout")
