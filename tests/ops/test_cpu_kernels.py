"""The compiled loops for a CPU against the reference implementation, which is their meaning."""

import copy
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch_geometric.data import Data

import esan
import strategies
from esan.nn.norm import BatchNorm
from esan.ops import reference
from esan.ops.edges import Edges, EdgeTypeFeatures, message_sum
from esan.ops.norm import Summand, normalised_sum
from esan.ops.numba import runtime as cpu
from esan.ops.ragged import Segments
from esan.ops.segments import CSR
from esan.testing.compare import check_close
from hypothesis_examples import examples

pytestmark = pytest.mark.skipif(not cpu.available(), reason="needs numba (the extra fast)")

TYPES = pytest.mark.parametrize("kind", [torch.float32, torch.float64], ids=["single", "double"])
WIDTHS = pytest.mark.parametrize("width", [1, 7, 64, 66, 300])


def _close(ours: Tensor | None, theirs: Tensor | None, name: str = "") -> None:
    assert (ours is None) == (theirs is None), name
    if ours is None or theirs is None:
        return
    assert ours.dtype == theirs.dtype
    size = float(theirs.abs().max()) if theirs.numel() else 0.0
    tolerance = (2e-5 if theirs.dtype == torch.float32 else 1e-12) * max(size, 1.0)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance, msg=lambda m: f"{name}: {m}")


def _agree(compute: Callable[..., tuple[Tensor, ...]], *inputs: Tensor) -> None:
    """Results and every gradient, with the compiled loops and without."""
    found = []
    for way in (nullcontext, reference):
        leaves = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
        with way():
            results = compute(*leaves)
            torch.manual_seed(1)
            torch.stack([(y * torch.randn_like(y)).sum() for y in results]).sum().backward()
        found.append(([*results], [x.grad for x in leaves]))
    for ours, theirs in zip(found[0][0], found[1][0], strict=True):
        _close(ours.detach(), theirs.detach(), "result")
    for place, grads in enumerate(zip(found[0][1], found[1][1], strict=True)):
        _close(*grads, f"gradient {place}")


def _edges(rows: int, count: int, lines: int, weighted: bool, kind: torch.dtype) -> Edges:
    target = torch.randint(rows, (count,)).sort().values
    copies = CSR(torch.randint(lines, (count,)), lines)
    return Edges(
        torch.stack([torch.randint(rows, (count,)), target]), copies, rows, torch.rand(count) if weighted else None
    )


@pytest.mark.pairwise
@TYPES
@WIDTHS
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_of_messages(kind: torch.dtype, width: int, weighted: bool) -> None:
    torch.manual_seed(0)
    edges = _edges(700, 1500, 90, weighted, kind)
    x, e, own = torch.randn(700, width, dtype=kind), torch.randn(90, width, dtype=kind), torch.rand(1, dtype=kind)
    table, code = torch.randn(5, width, dtype=kind), torch.randint(5, (90,))
    _agree(lambda x, own: (message_sum(x, edges, own=own),), x, own)
    _agree(lambda x: (message_sum(x, edges),), x)
    _agree(lambda x, e, own: (message_sum(x, edges, e, own),), x, e, own)
    _agree(lambda x, e: (message_sum(x, edges, e),), x, e)
    _agree(lambda x, t, own: (message_sum(x, edges, EdgeTypeFeatures(t, code), own),), x, table, own)


@TYPES
def test_nothing_to_sum(kind: torch.dtype) -> None:
    for rows, count in ((0, 0), (3, 0), (1, 2)):
        edges = _edges(max(rows, 1), count, 2, False, kind) if rows else Edges(
            torch.empty(2, 0, dtype=torch.long), CSR(torch.empty(0, dtype=torch.long), 2), 0
        )  # fmt: skip
        x, e = torch.randn(rows, 4, dtype=kind), torch.randn(2, 4, dtype=kind)
        _agree(
            lambda x, e, edges=edges: (message_sum(x, edges, e, torch.ones(1, dtype=x.dtype)), message_sum(x, edges)),
            x,
            e,
        )
    empty = CSR(torch.empty(0, dtype=torch.long), 3)
    assert torch.equal(empty.sum(torch.empty(0, 4, dtype=kind)), torch.zeros(3, 4, dtype=kind))


@pytest.mark.pairwise
@TYPES
@WIDTHS
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("relu", [False, True])
def test_norms(kind: torch.dtype, width: int, weighted: bool, relu: bool) -> None:
    torch.manual_seed(0)
    # Far from 0: the mean of squares less the square of the mean would be all rounding.
    x, weight = 10 + torch.randn(900, width, dtype=kind), torch.randint(0, 9, (900,)) if weighted else None
    first = BatchNorm(width).to(kind)
    nn.init.normal_(first.weight), nn.init.normal_(first.bias)
    norms: list[BatchNorm] = []

    def compute(x: Tensor, gamma: Tensor, beta: Tensor) -> tuple[Tensor, ...]:
        norm = copy.deepcopy(first)
        del norm.weight, norm.bias
        norm.weight, norm.bias = gamma, beta  # type: ignore[assignment]
        norms.append(norm)
        return (norm(x, weight, relu=relu),)

    if kind == torch.float64 or not relu:  # in single precision the sign of what is near 0 is rounding, too
        _agree(compute, x, first.weight.detach(), first.bias.detach())
        for ours, theirs in zip(norms[0].buffers(), norms[1].buffers(), strict=True):
            _close(ours, theirs, "buffer")


@pytest.mark.pairwise
@TYPES
@pytest.mark.parametrize("literal", [True, False])
@pytest.mark.parametrize("shares", [True, False])
def test_the_end_of_a_layer(kind: torch.dtype, literal: bool, shares: bool) -> None:
    """Two norms, their sum and ReLU, with parameters and buffers; the compact bag has rows of multiplicity 0."""
    torch.manual_seed(0)
    graphs = [esan.graphs.complete(5), esan.graphs.csl(11, 2)]
    bag = esan.Bag.of(graphs, esan.EgoNets(1), 2, literal=literal)
    view = bag.layer_view(2)
    assert literal or (view.multiplicity is not None and bool((view.multiplicity == 0).any()))
    x, y = torch.randn(view.num_rows, 16, dtype=kind), torch.randn(bag.num_nodes, 16, dtype=kind)
    parameters = [torch.randn(16, dtype=kind) for _ in range(4)]
    buffers: list[list[Tensor]] = []

    def compute(x: Tensor, y: Tensor, *given: Tensor) -> tuple[Tensor, ...]:
        norms = [replace(BatchNorm(16).to(kind).state, gamma=given[at], beta=given[at + 1]) for at in (0, 2)]
        nodes = Summand(y, norms[1], None) if shares else None
        found = normalised_sum(Summand(x, norms[0], view.multiplicity), nodes, view)
        buffers.append([t for norm in norms for t in (norm.running_mean, norm.running_var) if t is not None])
        # What is not shared has a gradient too, of 0.
        return found, 0 * torch.stack([t.sum() for t in (y, *given)])

    _agree(compute, x, y, *parameters)
    assert all(len(some) == 4 for some in buffers)
    for ours, theirs in zip(*buffers, strict=True):
        _close(ours, theirs, "buffer")


@TYPES
def test_groups(kind: torch.dtype) -> None:
    torch.manual_seed(0)
    owner, lines, weight = torch.randint(50, (400,)), torch.randn(400, 9, dtype=kind), torch.rand(400)
    for part in (400, 123, 0):
        group = CSR(owner, 50).prefix(part)
        with reference():
            reference_csr = CSR(owner, 50).prefix(part)
            expected = reference_csr.perm, reference_csr.ptr
        assert torch.equal(group.perm, expected[0])
        assert torch.equal(group.ptr, expected[1])
    _agree(lambda x: (CSR(owner, 50).sum(x, weight), CSR(owner, 50).broadcast(x[:50])), lines)


@pytest.mark.pairwise
@TYPES
@pytest.mark.parametrize("name", ["ED", "ND", "EGO+(2)", "NM"])
@pytest.mark.parametrize("literal", [True, False])
def test_rows_of_a_stage(kind: torch.dtype, name: str, literal: bool) -> None:
    torch.manual_seed(0)
    bag = esan.Bag.of([esan.graphs.csl(11, 2), esan.graphs.csl(8, 3)], esan.policy_named(name), 3, literal=literal)
    for early, late in ((0, 1), (1, 2), (2, 2)):
        h, view = torch.randn(bag.layer_view(early).num_rows, 6, dtype=kind), bag.layer_view(late)
        _agree(lambda h, view=view: view.expand_and_pool(h, "mean"), h)
        _agree(lambda h, view=view: view.expand_and_pool(h, "sum"), h)
        _agree(lambda h, view=view: (view.pool_nodes(view.expand(h), "mean"),), h)


@examples(8)
@given(graphs=strategies.batches())
@pytest.mark.parametrize("name", ["ED", "ND", "EGO(2)", "EGO+(2)", "NM", "SE"])
def test_rows_are_the_same(name: str, graphs: list[Data]) -> None:
    policy = esan.policy_named(name)
    for layers in (1, 3):
        ours = esan.Bag.of(graphs, policy, layers)
        with reference():
            theirs = esan.Bag.of(graphs, policy, layers)
        assert ours.selection.fingerprint == theirs.selection.fingerprint
        assert ours.rows.fingerprint == theirs.rows.fingerprint


@examples(8)
@given(graphs=strategies.batches(), ids=st.lists(st.integers(0, 2), min_size=1, max_size=5))
@pytest.mark.parametrize("name", ["ED", "ND", "EGO+(2)", "NM", "SE"])
@pytest.mark.parametrize("literal", [True, None])
def test_parts_of_a_bag_are_the_same(name: str, literal: bool | None, graphs: list[Data], ids: list[int]) -> None:
    bag = esan.Bag.of(graphs, esan.policy_named(name), 3, literal=literal)
    ours = bag[ids]
    with reference():
        theirs = bag[ids]
    for part in ("graphs", "selection", "rows"):
        one, other = getattr(ours, part), getattr(theirs, part)
        assert one.fingerprint == other.fingerprint, part
        assert all(t.is_contiguous() for t in one.tensors().values()), part


@pytest.mark.parametrize("kind", [torch.int64, torch.int32])
@pytest.mark.parametrize("shape", [(9,), (2, 9), (0,)])
def test_picked_numbers(kind: torch.dtype, shape: tuple[int, ...]) -> None:
    values, any_there = torch.randint(99, shape, dtype=kind), min(shape[-1], 1)
    segments = Segments(torch.tensor([4, 0, 8, 4]) * any_there, torch.tensor([3, 0, 1, 5]) * any_there)
    shift = torch.tensor([10, 20, -30, 0])
    ours = segments.pick(values, shift)
    with reference():
        theirs = segments.pick(values, shift)
    assert ours.dtype == theirs.dtype
    assert torch.equal(ours, theirs)


KINDS = [torch.float32, torch.bfloat16, torch.bool, torch.uint8, torch.int64]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("shape", [(9,), (9, 3), (9, 0), (9, 2, 2)])
def test_picked_lines(kind: torch.dtype, shape: tuple[int, ...]) -> None:
    values = torch.randint(2, shape).to(kind)
    segments = Segments(torch.tensor([4, 0, 8]), torch.tensor([3, 0, 1]))
    assert torch.equal(segments.pick_rows(values), values[[4, 5, 6, 8]])


def test_picked_lines_pass_gradients_on() -> None:
    graphs = [Data(x=torch.ones(3, 2, requires_grad=True), edge_index=esan.graphs.cycle(3).edge_index)]
    part = esan.Bag.of(graphs, esan.NodeDeletion(), 2)[[0, 0]]
    assert part.x is not None
    part.x.sum().backward()
    assert torch.equal(graphs[0].x.grad, torch.full((3, 2), 2.0))


MODELS = pytest.mark.parametrize("conv", ["gin", "gine", "graphconv", "gcn"])


@pytest.mark.pairwise
@MODELS
@TYPES
@pytest.mark.parametrize("build", [esan.ds_gnn, esan.dss_gnn])
@pytest.mark.parametrize("literal", [True, False])
def test_networks(conv: str, kind: torch.dtype, build: Callable[..., nn.Module], literal: bool) -> None:
    """Predictions, gradients and buffers of whole networks; two columns of bonds, and a width that is no power of 2."""
    torch.manual_seed(0)
    graphs = [_molecule(n) for n in (9, 1, 14)]
    policy = esan.EgoNets(2, marked=True)
    network = build(
        esan.Categories(5), 20, 3, 1, conv=conv, marked=True,
        edge_channels=esan.Categories(3, 2) if conv in ("gine", "gcn") else None,
    ).to(kind)  # fmt: skip
    found = []
    for way in (nullcontext, reference):
        clone = copy.deepcopy(network)
        with way():
            y = clone(esan.Bag.of(graphs, policy, 4, literal=literal))
            y.square().sum().backward()
        found.append((y, clone))
    _close(found[0][0].detach(), found[1][0].detach(), "prediction")
    theirs = dict(found[1][1].named_parameters())
    for name, parameter in found[0][1].named_parameters():
        ours, other = parameter.grad, theirs[name].grad
        assert (ours is None) == (other is None), name
        if ours is not None and other is not None and kind == torch.float64:
            check_close(ours, other, name)
    for buffers in zip(found[0][1].buffers(), found[1][1].buffers(), strict=True):
        _close(*buffers, "buffer")


def _molecule(n: int) -> Data:
    edges = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
    bonds = torch.stack([torch.randint(3, (n - 1,)), torch.randint(2, (n - 1,))], 1)
    columns = torch.cat([edges, edges.flip(0)], 1)
    return Data(x=torch.randint(5, (n,)), edge_index=columns, edge_attr=torch.cat([bonds, bonds]), num_nodes=n)


def test_the_bits_do_not_depend_on_when_or_on_how_many_threads() -> None:
    torch.manual_seed(0)
    graphs, policy = [_molecule(20) for _ in range(30)], esan.EgoNets(3, marked=True)
    network = esan.dss_gnn(esan.Categories(5), 64, 2, 1, conv="gine", edge_channels=esan.Categories(3, 2), marked=True)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (2, 1, 2):
            torch.set_num_threads(threads)
            clone = copy.deepcopy(network)
            clone(esan.Bag.of(graphs, policy, 2)).sum().backward()
            found.append([p.grad for p in clone.encoder.parameters() if p.grad is not None])
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(found[0], found[2], strict=True))
    for a, b in zip(found[0], found[1], strict=True):
        _close(a, b)


def test_what_is_not_finite_is_not_hidden() -> None:
    edges = _edges(10, 30, 2, False, torch.float32)
    x = torch.full((10, 4), float("nan"))
    assert bool(message_sum(x, edges, torch.zeros(2, 4), torch.ones(1)).isnan().all())
    assert bool(BatchNorm(4)(x, relu=True).isnan().all())


@pytest.mark.skipif(sys.platform != "linux", reason="torch for Linux comes with MKL, or with OpenBLAS on Arm")
@TYPES
def test_the_library_of_products_is_found(kind: torch.dtype) -> None:
    """Else layers would be computed by the reference implementation, and nobody would know."""
    assert cpu.blas(kind) != 0


def test_loops_take_all_their_arguments_by_name() -> None:
    from esan.ops.numba.loops.norm import moments  # numba is optional

    with pytest.raises(TypeError, match=r"^Expected the arguments \['chunk_rows', .*\(got \['rows'\]\)"):
        cpu.run(moments, torch.zeros(1, 1), 1, rows=1)
