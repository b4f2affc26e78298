"""Interpreted: sums of rows and of messages, their gradients, and pools beside them."""

import pytest
import torch
from torch import Tensor

from esan.ops.dispatch import MAX_FUSED_TABLE
from esan.ops.edges import Edges, EdgeTypeFeatures, message_sum
from esan.ops.segments import CSR, segment_sum
from esan.ops.triton.features import InputRowsFunction, LookupFunction
from esan.ops.triton.fused_gradient import FusedGradient, NormInput
from esan.ops.triton.kernels.message_grads import PoolGradient, edges_backward, messages_backward
from esan.ops.triton.messages import JointPool
from esan.ops.triton.messages import message_sum as message_sum_and_pool
from esan.ops.triton.segments import Tuning, sum_rows
from interpreting import ONE_OR_THREE, ONLY_INTERPRETED, WEIGHTED, agree, close

pytestmark = ONLY_INTERPRETED
ROWS, WIDTH = 37, 20


def _terms(groups: int, terms: int, rows: int) -> tuple[Tensor, Tensor, Tensor]:
    """The group of each term, sorted; where each group begins; and the line of each term. One group is a hub's."""
    owner = torch.randint(groups - 1, (terms,))  # the last group is empty
    owner[: terms // 4 * 3 if terms > 2 * Tuning.parallel else 0] = 5
    owner = owner.sort().values
    return owner, CSR(owner, groups, is_sorted=True).ptr, torch.randint(rows, (terms,))


def _summed(groups: int, owner: Tensor, values: Tensor) -> Tensor:
    return torch.zeros(groups, values.size(1), dtype=values.dtype).index_add(0, owner, values)


@pytest.mark.parametrize(
    "terms",
    [
        pytest.param(70, id="short"),
        pytest.param(110, id="long"),
        pytest.param(400, id="hub"),
        pytest.param(2400, id="longest", marks=pytest.mark.exhaustive),
    ],
)
@WEIGHTED
def test_sums_of_lines(terms: int, weighted: bool) -> None:
    x, gate, row_weight = torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH), torch.rand(ROWS)
    owner, first, which = _terms(30, terms, ROWS)
    weight = torch.rand(terms) if weighted else None
    factor = torch.ones(terms, 1).double() if weight is None else weight.double()[:, None]
    rows = x.double()[which] * factor
    close(sum_rows(x, which, first, weight=weight), _summed(30, owner, rows))
    close(
        sum_rows(x, which, first, weight=weight, row_weight=row_weight),
        _summed(30, owner, rows * row_weight.double()[which, None]),
    )
    close(sum_rows(x, which, first, weight=weight, gate=gate), _summed(30, owner, rows * (gate[which] > 0)))


def test_only_what_counts_is_summed() -> None:
    x, (owner, first, which) = torch.randn(ROWS, WIDTH), _terms(30, 80, ROWS)
    count = torch.randint(3, (30,))
    place = torch.arange(80) - first[owner]
    kept = (place < count[owner])[:, None]
    close(sum_rows(x, which, first, torch.minimum(count, torch.bincount(owner, minlength=30))), _summed(
        30, owner, x.double()[which] * kept
    ))  # fmt: skip


def _edges(rows: int, count: int, types: int, hub: int = 0) -> Edges:
    """Random edges; of the last, so many come from row 7, and as many others go to it."""
    source, target = torch.randint(rows, (2, count))
    source[count - hub :] = 7
    target[count - 2 * hub : count - hub] = 7
    target, order = target.sort()
    return Edges(torch.stack([source[order], target]), CSR(torch.randint(types, (count,)), types), rows)


@WEIGHTED
def test_sums_of_messages(weighted: bool) -> None:
    edges, weight = _edges(ROWS, 90, 25), torch.rand(90) if weighted else None
    x, e, own = torch.randn(ROWS, WIDTH), torch.randn(25, WIDTH), torch.rand(1)
    (source, target), line = edges.edge_index, edges.edge_id

    def kernel(x: Tensor, e: Tensor, own: Tensor) -> Tensor:
        return sum_rows(x, source, edges.by_target.ptr, weight=weight, own=own, messages=(e, line))

    def plain(x: Tensor, e: Tensor, own: Tensor) -> Tensor:
        messages = torch.relu(x[source] + e[line])
        messages = messages if weight is None else messages * weight.double()[:, None]
        return own * x + _summed(ROWS, target, messages)

    close(kernel(x, e, own), plain(x.double(), e.double(), own.double()))
    leaves = [t.double().requires_grad_() for t in (x, e, own)]
    grad = torch.randn(ROWS, WIDTH)
    of_x, of_e, of_own = torch.autograd.grad(plain(*leaves), leaves, grad.double())
    out, copies = edges.by_source, edges.by_edge_id
    by_source = None if weight is None else weight[out.perm]
    by_copy = None if weight is None else weight[copies.perm]
    got = messages_backward(grad, x, e, own, edges.target_by_source, edges.edge_id_by_source, out.ptr, None, by_source)
    close(got.x, of_x, "of x")
    close(got.own, of_own, "of own")
    assert got.table is None
    assert got.sums is None
    close(edges_backward(grad, x, e, *edges.ends_by_edge_id, copies.ptr, None, by_copy), of_e, "of e")
    # The same through the operator, which chooses the kernels by itself, and without the factor of a row's own.
    agree(lambda x, e, own: message_sum(x, edges, e, own, weight), plain, x, e, own)
    agree(lambda x, e: message_sum(x, edges, e, None, weight), lambda x, e: plain(x, e, torch.zeros(1)), x, e)


@WEIGHTED
def test_sums_of_rows(weighted: bool) -> None:
    """From and to a hub too, which has so many edges that they are summed many at a time."""
    edges, weight = _edges(ROWS, 490, 25, hub=200), torch.rand(490) if weighted else None
    source, target = edges.edge_index
    assert torch.bincount(source)[7] > Tuning.parallel
    assert torch.bincount(target)[7] > Tuning.parallel

    def plain(x: Tensor, own: Tensor) -> Tensor:
        rows = x[source] if weight is None else x[source] * weight.double()[:, None]
        return own * x + _summed(ROWS, target, rows)

    agree(lambda x, own: message_sum(x, edges, None, own, weight), plain, torch.randn(ROWS, WIDTH), torch.rand(1))


@ONE_OR_THREE
@pytest.mark.parametrize(
    "size",
    [
        pytest.param(MAX_FUSED_TABLE, id="looked up by the kernel"),
        pytest.param(MAX_FUSED_TABLE + 1, id="larger", marks=pytest.mark.exhaustive),
    ],
)
def test_sums_of_messages_with_a_table(networks: int, size: int) -> None:
    """Each network has rows, edges and a table of its own; a code is a row of the table of the edge's network."""
    rows, edges = 12, _edges(12, 30, 16)
    start = torch.arange(networks)[:, None] * rows
    ends = (edges.edge_index[:, None] + start).reshape(2, -1)
    many = Edges(
        ends, CSR((edges.edge_id + torch.arange(networks)[:, None] * 16).reshape(-1), networks * 16), networks * rows
    )
    code = torch.randint(size, (networks * 16,))

    def kernel(x: Tensor, table: Tensor, own: Tensor) -> Tensor:
        return message_sum(x, many, EdgeTypeFeatures(table, code), own)

    def plain(x: Tensor, table: Tensor, own: Tensor) -> Tensor:
        table = table if table.dim() == 3 else table[None]
        messages = torch.relu(x[ends[0]] + table[ends[1] // rows, code[many.edge_id]])
        return own[torch.arange(len(x)) // rows, None] * x + _summed(len(x), ends[1], messages)

    x, own = torch.randn(networks * rows, WIDTH), torch.rand(networks)
    agree(kernel, plain, x, torch.randn(networks, size, WIDTH), own)
    if networks == 1:
        agree(kernel, plain, x, torch.randn(size, WIDTH), own)


def test_gradients_of_a_table_that_is_too_large() -> None:
    """The kernel itself takes no more rows than it has sums for."""
    edges, x, grad = _edges(ROWS, 90, 25), torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH)
    table, kind = torch.randn(1, MAX_FUSED_TABLE + 1, WIDTH), torch.randint(MAX_FUSED_TABLE, (90,))
    with pytest.raises(ValueError, match="4 rows at most"):
        messages_backward(grad, x, table, torch.rand(1), edges.target_by_source, kind, edges.by_source.ptr, None, None)


@pytest.mark.exhaustive
def test_lines_wider_than_a_program() -> None:
    """Columns in chunks, the last of them not whole."""
    group, index, edges = CSR(torch.randint(9, (ROWS,)), 11), torch.randint(7, (ROWS,)), _edges(ROWS, 90, 25)
    x, table, e = torch.randn(ROWS, 150), torch.randn(7, 150), torch.randn(25, 150)
    agree(lambda x: segment_sum(x, group), lambda x: _summed(11, group.index, x), x)
    agree(lambda t: LookupFunction.apply(t, index), lambda t: t[index], table)
    nodes, rest = torch.randn(11, 150), torch.zeros(ROWS, 10)
    agree(
        lambda t: InputRowsFunction.apply(t, group, None, 160),
        lambda t: torch.cat([t[group.index], rest.to(t)], 1),
        nodes,
    )
    source, target = edges.edge_index
    agree(
        lambda x, e: message_sum(x, edges, e),
        lambda x, e: _summed(ROWS, target, torch.relu(x[source] + e[edges.edge_id])),
        x,
        e,
    )


def test_gradients_of_rows_that_are_pooled_too() -> None:
    edges, group = _edges(ROWS, 90, 25), CSR(torch.randint(9, (ROWS,)), 11)
    x, e, own, weight = torch.randn(ROWS, WIDTH), torch.randn(25, WIDTH), torch.rand(1), torch.rand(ROWS)
    grad, of_pools = torch.randn(ROWS, WIDTH), torch.randn(11, WIDTH)
    out = edges.by_source
    given = grad, x, e, own, edges.target_by_source, edges.edge_id_by_source, out.ptr, None, None, 1
    alone = messages_backward(*given).x
    for share in (weight, None):
        both = messages_backward(*given, PoolGradient(of_pools, group.index, share)).x
        factor = 1.0 if share is None else share[:, None]
        close(both, alone.double() + factor * of_pools.double()[group.index])


@pytest.mark.parametrize("messages", [True, False])
def test_pools_beside_sums(messages: bool) -> None:
    """Three networks, each with a factor of its own rows; the rows get one gradient from the sums and the pools."""
    edges, group, weight = _edges(3 * 12, 90, 25), CSR(torch.randint(9, (36,)), 11), torch.rand(36)
    source, target = edges.edge_index
    x, e, own = torch.randn(36, WIDTH), torch.randn(25, WIDTH), torch.rand(3)

    def plain(x: Tensor, e: Tensor, own: Tensor) -> Tensor:
        rows = torch.relu(x[source] + e[edges.edge_id]) if messages else x[source] + 0 * e.sum()
        y = own.repeat_interleave(12)[:, None] * x + _summed(36, target, rows)
        return torch.cat([y, _summed(11, group.index, x * weight.double()[:, None])])

    def kernel(x: Tensor, e: Tensor, own: Tensor) -> Tensor:
        pool = JointPool(group, weight)
        y = message_sum_and_pool(x, edges, e if messages else None, own, None, pool)
        y = y if messages else y + 0 * e.sum()
        assert pool.pooled is not None
        return torch.cat([y, pool.pooled])

    agree(kernel, plain, x, e, own)


@pytest.mark.parametrize(
    "width", [pytest.param(WIDTH, id="whole"), pytest.param(80, id="in chunks", marks=pytest.mark.exhaustive)]
)
def test_gradients_of_rows_that_were_normalised(width: int) -> None:
    """The gradient is taken through the ReLU, and summed, for each of three networks; wide rows in chunks."""
    edges, networks = _edges(36, 90, 25), 3
    x, c, grad = torch.randn(36, width).relu(), torch.randn(36, width), torch.randn(36, width)
    e, own, (mean, inverse) = torch.randn(25, width), torch.rand(networks), torch.rand(2, networks, width)
    given = (
        grad,
        x,
        e,
        own,
        edges.target_by_source,
        edges.edge_id_by_source,
        edges.by_source.ptr,
        None,
        None,
        networks,
    )
    alone, normed = messages_backward(*given), messages_backward(*given, None, NormInput(c, mean, inverse))
    expected = alone.x.double() * (x > 0)
    close(normed.x, expected)
    close(normed.own, (grad.double() * x.double()).view(networks, -1).sum(1))
    standard = (c.double().view(networks, 12, width) - mean[:, None]) * inverse[:, None]
    parts = expected.view(networks, 12, width)
    close(normed.sums, torch.stack([parts.sum(1), (parts * standard).sum(1)]))


def test_stored_sums_are_used_for_their_gradient_alone() -> None:
    fused, rows = FusedGradient(), torch.randn(3, 2)
    assert FusedGradient.of(rows) is None
    assert FusedGradient.of(fused.attach(rows)) is fused
    grad, sums = torch.randn(3, 2), torch.randn(1, 2, 2)
    fused.store(grad, sums)
    assert fused.take(grad + 0) is None
    fused.store(grad, sums)
    assert fused.take(grad) is sums
    assert fused.take(grad) is None
