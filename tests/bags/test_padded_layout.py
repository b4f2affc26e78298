"""The layout of padded batches: every field is, bit for bit, what its definition says, whatever the batch holds."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data

import esan
import strategies
from esan.bags.padded import plan
from esan.bags.padded.column_store import ColumnLimits, Columns
from esan.bags.padded.compute_columns import ColumnSource
from esan.bags.padded.padder import Padder
from esan.bags.padded.shapes import Shape
from esan.ops.padded_layout import Fill
from hypothesis_examples import examples
from layout_oracle import check_batches

POLICIES: list[esan.Policy] = [esan.NodeDeletion(), esan.EdgeDeletion(), esan.EgoNets(hops=2)]
POLICIES += [esan.EgoNets(hops=2, marked=True), esan.NodeMarking()]
GRAPHS = [*strategies.odd_graphs(), strategies.from_edges(9, [(i, i + 1) for i in range(8)], 11)]
#: Two steps of two networks: graphs twice, a batch that lacks some, and one that has none.
IDS = torch.tensor([[[7, 1, 4], [0, 5, 2]], [[6, -1, 6], [-1, -1, -1]]])


def capacity(padder: Padder, ids: Tensor = IDS, factor: float = 1.1) -> Shape:
    return padder.counts.shape(ids.numpy().reshape(-1, ids.size(2))).grown(factor)


@st.composite
def batch_ids(draw: st.DrawFn, graphs: int) -> tuple[Tensor, int]:
    """The graphs of one or two steps, −1 for none, and the number of networks."""
    networks, steps, size = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(1, 3))
    given_to = draw(st.sampled_from([1, networks]))
    count = steps * given_to * size
    ids = draw(st.lists(st.integers(-1, graphs - 1), min_size=count, max_size=count))
    return torch.tensor(ids).reshape(steps, given_to, size), networks


@examples(12)
@given(
    data=st.data(), graphs=strategies.batches(), policy=st.sampled_from(POLICIES), literal=st.sampled_from([True, None])
)
def test_every_field(data: st.DataObject, graphs: list[Data], policy: esan.Policy, literal: bool | None) -> None:
    layers = data.draw(st.integers(1, 3), "layers")
    ids, networks = data.draw(batch_ids(len(graphs)), "ids")
    bag = esan.Bag.of(graphs, policy, layers, literal=literal)
    padder = Padder(bag, layers + data.draw(st.integers(0, 1), "lookahead"))
    shape = capacity(padder, ids, data.draw(st.sampled_from([1.0, 1.5]), "factor"))
    batches = padder.lay_out(ids, shape, networks)
    check_batches(batches, bag, padder._num_layers, ids, shape, networks)


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
@pytest.mark.parametrize("literal", [True, None], ids=["literal", "compact"])
def test_columns_of_some_graphs_at_a_time(policy: esan.Policy, literal: bool | None) -> None:
    bag = esan.Bag.of(GRAPHS, policy, 3, literal=literal)
    padder = Padder(bag, 3, limits=ColumnLimits(chunk=max(1, bag.rows.edge_id.numel() // 3)))
    shape = capacity(padder)
    check_batches(padder.lay_out(IDS, shape, 2), bag, 3, IDS, shape, 2)


def test_another_capacity_takes_the_columns_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    bag = esan.Bag.of(GRAPHS, esan.EdgeDeletion(), 3)
    padder = Padder(bag, 3)
    large = capacity(padder, factor=2.0)
    padder.lay_out(IDS, large, 2)
    monkeypatch.setattr(Columns, "sources", lambda columns: pytest.fail("Expected no new columns."))
    for ids, shape in (
        (IDS, large.smaller(0.7)),
        (IDS, large.grown(1.3)),
        (IDS[:, :, :2], capacity(padder, IDS[:, :, :2])),
    ):
        check_batches(padder.lay_out(ids, shape, 2), bag, 3, ids, shape, 2)


def test_numbers_that_need_all_their_bits() -> None:
    """Fields of 64 bits, whole numbers and floats, and more items per graph than 16 bits count."""
    graphs = []
    for i, n in enumerate((3, 150)):
        graph = strategies.from_edges(n, [(v, v + 1) for v in range(n - 1)], i)
        graph.x = torch.arange(2 * n).reshape(n, 2) - 2**40 * i
        graph.edge_attr = torch.randn(graph.num_edges, 3, generator=torch.Generator().manual_seed(i)).double()
        graph.y = torch.tensor([[i, 2**35]])
        graph.charge = torch.rand(n, 2, dtype=torch.float64)
        graph.mask, graph.weight = torch.arange(n) > i, 1 / (3 + i)
        graphs.append(graph)
    bag, ids = esan.Bag.of(graphs, esan.NodeDeletion(), literal=True), torch.tensor([[[1, 0]]])
    padder = Padder(bag, 1)
    shape = capacity(padder, ids)
    assert int(bag.rows.num_edges.max()) > 2**15
    batches = padder.lay_out(ids, shape)
    check_batches(batches, bag, 1, ids, shape)
    kinds = {gather.values.dtype for known in padder._plans.values() for gather in known._gathers}
    assert kinds == {torch.int16, torch.int32, torch.int64}


def test_a_batch_of_padding_alone() -> None:
    """It has the places of any batch with the same fields, whichever were made first."""
    bag = esan.Bag.of(GRAPHS, esan.Sampled(esan.NodeDeletion(), 0.5), 3)
    padder, none = Padder(bag, 3), torch.full((1, 1, 3), -1)
    shape, only = capacity(padder), {"x", "view3.out.order", "edge_attr"}
    check_batches(padder.lay_out(none, shape, 2), bag, 3, none, shape, 2)
    some = padder.lay_out(IDS, shape, 2, {"edge_attr"}), padder.lay_out(IDS, shape, 2, only)
    assert padder.lay_out(none, shape, 2, only).fields == some[1].fields


def test_plans_are_kept_until_they_are_forgotten() -> None:
    padder = Padder(esan.Bag.of(GRAPHS, esan.NodeDeletion(), 2), 2)
    for ids in (IDS, IDS[:, :, :2], IDS):
        padder.lay_out(ids, capacity(padder, ids), 2, {"x"})
    assert len(padder._plans) == 2
    padder.forget(3)
    assert [shape.graphs for shape, _, _ in padder._plans] == [2]
    padder.lay_out(IDS[:, :1], capacity(padder), 1, {"x"})
    assert [networks for _, networks, _ in padder._plans] == [1], "the ensemble of two networks is no more"


@pytest.mark.parametrize("wrong", ["_starts", "_indices", "padding"])
def test_a_wrong_number_would_be_seen(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    padder = Padder(esan.Bag.of(GRAPHS, esan.NodeDeletion(), 3), 3)
    shape = capacity(padder)
    if wrong == "padding":

        def fill(*numbers: int, **named: int) -> Fill:
            right = Fill(*numbers, **named)
            return replace(right, stride=2 * right.stride)

        monkeypatch.setattr(plan, "Fill", fill)
    else:
        right = getattr(ColumnSource, wrong)
        monkeypatch.setattr(ColumnSource, wrong, lambda *given: right(*given) + 1)
    with pytest.raises(AssertionError):
        check_batches(padder.lay_out(IDS, shape, 2), padder.bag, 3, IDS, shape, 2)
