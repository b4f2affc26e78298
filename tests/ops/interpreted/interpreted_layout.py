"""Interpreted: the layout kernel writes every field as the definition has it, bit for bit."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import esan
import strategies
from esan.bags.padded.column_store import ColumnLimits, Columns
from esan.bags.padded.compute_columns import ColumnSource
from esan.bags.padded.padder import Padder
from esan.bags.padded.shapes import Shape
from esan.ops.padded_layout import BatchSegments, FieldGather, Fill
from esan.ops.triton.padded_layout import LayoutTables, lay_out
from interpreting import ONLY_INTERPRETED
from layout_oracle import check_batches

pytestmark = ONLY_INTERPRETED
#: Policies with edges and rows in all slots, with marks, with rows that differ from the first layer on; literal or not.
SOME: list[tuple[str, bool | None]] = [("EGO+(2)", None)]
OTHERS: list[tuple[str, bool | None]] = [("ND", True), ("ED", None), ("ED", True), ("ND", None), ("EGO+(2)", True)]
#: Long enough that what a subgraph changes does not reach all of it in three layers.
GRAPHS = [*strategies.odd_graphs(), strategies.from_edges(9, [(i, i + 1) for i in range(8)], 11)]
EDGELESS = [strategies.from_edges(n, [], n) for n in (1, 3, 2)]
for one in (*GRAPHS, *EDGELESS):
    one.y = one.y.float()  # targets in double precision would need int64, which the reference writes, too
#: Two steps of two networks: graphs twice, a batch that lacks some, and one that has none.
IDS = torch.tensor([[[7, 1, 4], [0, 5, 2]], [[6, -1, 6], [-1, -1, -1]]])


def capacity(padder: Padder, ids: Tensor = IDS) -> Shape:
    return padder.counts.shape(ids.numpy().reshape(-1, ids.size(2))).grown(1.1)


def check(padder: Padder, ids: Tensor, shape: Shape, networks: int = 1, only: set[str] | None = None) -> None:
    batches = padder.lay_out(ids, shape, networks, only)
    assert batches.ints.dtype == torch.int32 or only, "the reference would write int64"
    check_batches(batches, padder.bag, padder._num_layers, ids, shape, networks, only)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "literal"), SOME)
def test_another_capacity(name: str, literal: bool | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every field with less capacity and with more, for which no column is made again."""
    padder = Padder(esan.Bag.of(GRAPHS, strategies.POLICIES[name], 3, literal=literal), 3)
    large, ids = capacity(padder).grown(2.0), IDS[:1, :1]
    check(padder, ids, large)
    monkeypatch.setattr(Columns, "sources", lambda columns: pytest.fail("Expected no new columns."))
    for shape in (capacity(padder, ids), large.smaller(0.7), large.grown(1.3)):
        assert shape != large
        check(padder, ids, shape)


@pytest.mark.parametrize(
    ("name", "literal"), [*SOME, *(pytest.param(*case, marks=pytest.mark.exhaustive) for case in OTHERS)]
)
def test_every_field(name: str, literal: bool | None) -> None:
    padder = Padder(esan.Bag.of(GRAPHS, strategies.POLICIES[name], 3, literal=literal), 3)
    # In `make test` the second step alone, which lacks graphs and has a batch without any.
    check(padder, IDS if (name, literal) in OTHERS else IDS[1:], capacity(padder), 2)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "literal"), OTHERS)
def test_some_graphs_at_a_time(name: str, literal: bool | None) -> None:
    bag = esan.Bag.of(GRAPHS, strategies.POLICIES[name], 3, literal=literal)
    padder = Padder(bag, 3, limits=ColumnLimits(chunk=max(1, bag.rows.edge_id.numel() // 3)))
    check(padder, IDS, capacity(padder), 2)


@pytest.mark.exhaustive
def test_the_same_batches_for_all_networks() -> None:
    padder = Padder(esan.Bag.of(GRAPHS, esan.NodeDeletion(), 1), 1)
    check(padder, IDS[:, :1], capacity(padder), 3)


def test_some_fields() -> None:
    padder = Padder(esan.Bag.of(GRAPHS, esan.NodeDeletion(), 3), 3)
    check(padder, IDS, capacity(padder), 2, {"x", "view2.out.perm", "graph_multiplicity"})


@pytest.mark.exhaustive
def test_more_items_than_a_program_takes() -> None:
    """A program takes 256."""
    padder = Padder(esan.Bag.of(GRAPHS, esan.EgoNets(hops=1, marked=True), 2), 2)
    shape = capacity(padder).grown(8.0)
    assert max(shape.rows) > 256
    check(padder, IDS[1:], shape, 2)


@pytest.mark.exhaustive
def test_a_sample_without_the_last_rows() -> None:
    """In the shape of another, which has slots that are empty here."""
    whole = esan.Bag.of(GRAPHS, esan.NodeDeletion(), 3)
    check(Padder(whole[[0, 1, 2]], 3), torch.tensor([[[2, 0, 1]], [[1, 2, -1]]]), capacity(Padder(whole, 3)))


@pytest.mark.exhaustive
def test_graphs_without_an_edge() -> None:
    padder = Padder(esan.Bag.of(EDGELESS, esan.NodeDeletion(), 3), 3)
    ids = torch.tensor([[[2, 0]], [[1, -1]]])
    check(padder, ids, capacity(padder, ids))


@pytest.mark.exhaustive
def test_features_of_several_numbers() -> None:
    """Of 64 bits, whole or not; masks; fields of the user's."""
    graphs = []
    for i, graph in enumerate(GRAPHS):
        nodes, edges = int(graph.num_nodes or 0), graph.num_edges
        graph = graph.clone()
        graph.x = torch.arange(3 * nodes).reshape(nodes, 3) - 2**40 * i
        graph.edge_attr = torch.randn(edges, 2, generator=torch.Generator().manual_seed(i)).double()
        graph.y = torch.tensor([[i, -i, 2**35]])
        graph.charge = torch.rand(nodes, 2, dtype=torch.float64)
        graph.mask, graph.weight = torch.arange(nodes) > i, torch.tensor([1 / (3 + i)], dtype=torch.float64)
        graphs.append(graph)
    padder = Padder(esan.Bag.of(graphs, esan.EdgeDeletion(), 2), 2)
    check(padder, IDS, capacity(padder), 2, {"x", "edge_attr", "y", "extra.charge", "extra.mask", "extra.weight"})


@pytest.mark.exhaustive
@pytest.mark.parametrize(("method", "seen"), [("_starts", "first"), ("_indices", "edge_source|order|node")])
def test_a_wrong_index_would_be_seen(monkeypatch: pytest.MonkeyPatch, method: str, seen: str) -> None:
    padder = Padder(esan.Bag.of(GRAPHS, esan.NodeDeletion(), 3), 3)
    right: Callable[..., Tensor] = getattr(ColumnSource, method)
    monkeypatch.setattr(ColumnSource, method, lambda *arguments: right(*arguments) + 1)
    with pytest.raises(AssertionError, match=seen):
        check(padder, IDS[:1], capacity(padder), 2)


def short(numbers: list[Any]) -> Tensor:
    return torch.tensor(numbers, dtype=torch.int32)


def test_the_kernel_writes_only_what_is_asked_for() -> None:
    """Two networks, one graph of three items and two items of padding."""
    segments = BatchSegments(
        counts=short([[3], [0]]), start=torch.tensor([[0, 3]]), capacity=short([5]),
        size=torch.tensor([0, 1]), before=short([0, 0]), block=short([0, 0]), place=short([0, 1]),
    )  # fmt: skip
    gather = FieldGather(
        short([5, 6, 7]), column=0, columns=2, count=5, fills=[Fill(1, column=1, times=1, stride=1)],
        plus=10, times=2, offset=1, network=6, step=100,
    )  # fmt: skip
    ints, floats = torch.full((1, 13), -1), torch.full((1, 1), -1.0)
    lay_out(LayoutTables.of([gather], segments), torch.tensor([[[0]]]), ints, floats, 2)
    first = [30, 32, 34, 8, 10]  # padding is 2 · (1 + 3 + k)
    assert ints.tolist() == [[-1, *first, -1, *(n + 100 for n in first), -1]]
    assert floats.tolist() == [[-1.0]]
