"""Interpreted: rows around the layers: the first ones, lifts, dropout, pools, lookups."""

import pytest
import torch
from torch import Tensor

import esan
import strategies
from esan.bags.layer_view import LayerView
from esan.ops.segments import CSR, segment_sum
from esan.ops.triton.dropout import DropoutFunction
from esan.ops.triton.features import InputRowsFunction, LookupFunction
from esan.ops.triton.rows import ExpandFunction, RowExpansion, SumNodesFunction
from esan.ops.triton.segments import broadcast
from interpreting import ONE_OR_THREE, ONLY_INTERPRETED, WEIGHTED, agree, close

pytestmark = ONLY_INTERPRETED
ROWS, WIDTH = 37, 20
#: Long enough that what a subgraph changes does not reach all of it in three layers.
GRAPHS = [*strategies.odd_graphs()[1:5], strategies.from_edges(9, [(i, i + 1) for i in range(8)], 11)]


@WEIGHTED
def test_pools(weighted: bool) -> None:
    group, weight = CSR(torch.randint(9, (ROWS,)), 11), torch.rand(ROWS) if weighted else None
    x = torch.randn(ROWS, WIDTH)
    agree(lambda x: segment_sum(x, group, weight), lambda x: segment_sum(x, group, weight), x)
    factor = torch.ones(ROWS) if weight is None else weight
    close(broadcast(x, group.index, weight), x.double()[group.index] * factor.double()[:, None])


@pytest.mark.parametrize("name", ["ED", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("ND", "NM"))])
def test_rows_of_a_layer_view(name: str) -> None:
    """The plain code takes double precision, and is the meaning."""
    bag = esan.Bag.of(GRAPHS, strategies.POLICIES[name], 3)
    early, late = bag.layer_view(1), bag.layer_view(3)
    assert early.num_rows < late.num_rows
    expansion = RowExpansion(late.by_node, early.num_rows, late.background)
    agree(lambda h: ExpandFunction.apply(h, expansion), late.expand, torch.randn(early.num_rows, WIDTH))
    agree(
        lambda h: SumNodesFunction.apply(h, late),
        lambda h: late.pool_nodes(h, "sum"),
        torch.randn(late.num_rows, WIDTH),
    )
    for reduce in ("sum", "mean"):
        _same_pools(late, reduce)


def _same_pools(view: LayerView, reduce: str) -> None:
    h = torch.randn(view.num_rows, WIDTH)
    agree(lambda h: view.pool_bag(h, reduce), lambda h: view.pool_bag(h, reduce), h)
    agree(lambda h: view.pool_nodes(h, reduce), lambda h: view.pool_nodes(h, reduce), h)


@ONE_OR_THREE
@pytest.mark.parametrize("rows", [pytest.param(5, marks=pytest.mark.exhaustive), 150])
def test_lookups(networks: int, rows: int) -> None:
    index = torch.randint(7, (networks * rows,))
    network = torch.arange(networks).repeat_interleave(rows)
    tables = torch.randn(networks, 7, WIDTH)
    agree(lambda t: LookupFunction.apply(t, index), lambda t: t[network, index], tables)
    if networks == 1:
        agree(lambda t: LookupFunction.apply(t, index), lambda t: t[index], tables[0])


def test_a_wrong_sum_would_be_seen() -> None:
    group, x = CSR(torch.randint(9, (ROWS,)), 11), torch.randn(ROWS, WIDTH)
    other = CSR((group.index + 1) % 11, 11)
    with pytest.raises(AssertionError):
        agree(lambda x: segment_sum(x, group), lambda x: segment_sum(x, other), x)
    with pytest.raises(AssertionError, match="gradient"):
        agree(lambda x: segment_sum(x, group), lambda x: segment_sum(x, group) + x.sum() - x.sum().detach(), x)


@pytest.mark.parametrize("marked", [True, False])
def test_rows_of_the_first_layer(marked: bool) -> None:
    by_node = CSR(torch.randint(9, (ROWS,)), 11)
    marks = torch.rand(ROWS) < 0.3 if marked else None

    def plain(x: Tensor) -> Tensor:
        rows = x[by_node.index]
        parts = [rows] if marks is None else [torch.stack([marks, ~marks], 1).to(rows.dtype), rows]
        wide = torch.cat(parts, 1)
        return torch.cat([wide, wide.new_zeros(ROWS, 32 - wide.size(1))], 1)

    agree(lambda x: InputRowsFunction.apply(x, by_node, marks, 32), plain, torch.randn(11, WIDTH))


def test_dropout_follows_from_seeds() -> None:
    """What a network drops depends on its seed and the layer, not on who is beside it; gradients are dropped alike."""
    x, seeds = torch.ones(3 * 40, 50, requires_grad=True), torch.tensor([5, 2**61, 5])
    y = DropoutFunction.apply(x, 0.25, seeds, 1)
    kept = (y > 0).float()
    assert abs(float(kept.mean()) - 0.75) < 0.03
    close(y, kept / 0.75)
    grad = torch.randn_like(y)
    (of_x,) = torch.autograd.grad(y, x, grad)
    close(of_x, grad * kept / 0.75)
    first, second, third = kept.split(40)
    assert torch.equal(first, third)
    assert not torch.equal(first, second)
    alone = DropoutFunction.apply(x[:40].detach(), 0.25, seeds[1:2], 1)
    assert torch.equal((alone > 0).float(), second)
    assert not torch.equal((DropoutFunction.apply(x, 0.25, seeds, 2) > 0).float(), kept)
    assert not torch.equal((DropoutFunction.apply(x, 0.25, seeds + 1, 1) > 0).float(), kept)
