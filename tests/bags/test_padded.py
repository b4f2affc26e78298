"""Batches of a fixed shape give what ordinary batches give: the padding at their end leaks into nothing."""

import copy
import gc
import pickle
import re
import weakref
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import esan
import strategies
from esan.bags.padded.bag import PaddedBag
from esan.bags.padded.batches import PaddedBatches
from esan.bags.padded.column_store import ColumnLimits
from esan.bags.padded.compute_columns import ColumnSource
from esan.bags.padded.padder import Padder
from esan.bags.padded.shapes import Shape
from esan.nn import SubgraphGNN
from esan.testing.compare import check_close

EVERY_POLICY = pytest.mark.parametrize("policy", strategies.POLICIES.values(), ids=strategies.POLICIES)
EVERY_ARCHITECTURE = pytest.mark.parametrize("architecture", strategies.ARCHITECTURES)
LITERAL = pytest.mark.parametrize("literal", [True, None], ids=["literal", "compact"])
#: Long enough that what a subgraph changes does not reach all of it in three layers.
GRAPHS = [*strategies.odd_graphs(), strategies.from_edges(9, [(i, i + 1) for i in range(8)], 11)]
#: The graphs of each batch; the last one lacks some, and one graph is never asked for.
BATCHES = torch.tensor([[7, 1, 4], [0, 5, 2], [6, -1, -1]])
#: Every policy with every encoder in every architecture, with literal and compact bags in turn.
HALF = [
    pytest.param(
        literal,
        encoder,
        architecture,
        policy,
        id=f"{'literal' if literal else 'compact'}-{encoder}-{architecture}-{name}",
    )
    for i, literal in enumerate((True, None))
    for j, encoder in enumerate(strategies.LOCAL_ENCODERS)
    for k, architecture in enumerate(strategies.ARCHITECTURES)
    for m, (name, policy) in enumerate(strategies.POLICIES.items())
    if (i + j + k + m) % 2 == 0
]


class Padded:
    """The batches of a bag, filled up to one shape, in double precision."""

    def __init__(self, bag: esan.Bag, layers: int, ids: Tensor = BATCHES, shape: Shape | None = None) -> None:
        self.bag, self.ids, padder = bag, ids, Padder(bag, layers)
        self.shape = padder.counts.shape(ids.numpy()).grown(1.1) if shape is None else shape
        self._chunk = padder.lay_out(ids[:, None], self.shape)

    def fields(self, k: int) -> dict[str, Tensor]:
        views = self._chunk.views(self._chunk.ints[k], self._chunk.floats[k])
        return {name: value.double() if value.is_floating_point() else value for name, value in views.items()}

    def over(self, fields: dict[str, Tensor]) -> PaddedBag:
        return with_padding(PaddedBag.of_fields(fields, self.shape, self.bag))

    def __iter__(self) -> Iterator[tuple[PaddedBag, esan.Bag]]:
        """Each batch, padded and as it is."""
        for k, ids in enumerate(self.ids):
            yield self.over(self.fields(k)), self.bag[ids[ids >= 0]]


def with_padding(padded: PaddedBag) -> PaddedBag:
    """The same batch, with predictions for padding graphs too, which no loss may read."""
    return replace(padded, keeps_padding=True)


def compare(network: SubgraphGNN, padded: PaddedBag, copied: SubgraphGNN, plain: esan.Bag, what: str) -> None:
    """Predictions, every gradient and every buffer."""
    got, expected = network(padded), copied(plain)
    check_close(got[: len(plain)], expected, f"predictions, {what}")
    noise = torch.randn_like(expected)
    network.zero_grad()
    copied.zero_grad()
    # What a loss reads: no prediction for padding, nor for graphs that are not there.
    there = padded.graph_multiplicity[:, None]
    (got * there * torch.cat([noise, torch.ones_like(got[len(plain) :])])).sum().backward()
    (expected * noise).sum().backward()
    scale = max(1.0, *(float(p.grad.abs().max()) for p in copied.parameters() if p.grad is not None))
    for (name, mine), theirs in zip(network.named_parameters(), copied.parameters(), strict=True):
        assert (mine.grad is None) == (theirs.grad is None), name
        if mine.grad is not None and theirs.grad is not None:
            check_close(mine.grad, theirs.grad, f"gradient of {name}, {what}", scale=scale)
    for (name, buffer), other in zip(network.named_buffers(), copied.buffers(), strict=True):
        check_close(buffer, other, f"{name}, {what}")


def check(network: SubgraphGNN, policy: esan.Policy, literal: bool | None) -> None:
    layers = network.num_layers + network.encoder.lookahead
    copied = copy.deepcopy(network)
    batches = Padded(esan.Bag.of(GRAPHS, policy, layers, literal=literal), layers)
    for training in (True, False):
        network.train(training)
        copied.train(training)
        for k, (padded, plain) in enumerate(batches):
            compare(network, padded, copied, plain, f"batch {k}, training={training}")


@pytest.mark.each_value
@pytest.mark.parametrize(("literal", "encoder", "architecture", "policy"), HALF)
def test_padded_batches(literal: bool | None, encoder: str, architecture: str, policy: esan.Policy) -> None:
    # Edges that no subgraph has stay in a padded batch, with the weight 0, which GAT does not take.
    choices: dict[str, Any] = {"adjacency": "original"} if (architecture, encoder) == ("dss", "gat") else {}
    check(strategies.model(architecture, encoder, policy, **choices), policy, literal)


@pytest.mark.parametrize(
    "choices",
    [
        {"bag_pool": "sum", "adjacency": "sum"},
        {"adjacency": "original", "jk": "cat", "readout": "sum"},
        {"jk": "cat-input", "degrees": 7},
        {"set_encoder": "deepsets", "set_layers": 1},
        {"set_encoder": "invariant-deepsets", "set_channels": 7},
        {"set_encoder": "max", "norm": "layer_norm"},
        {"norm": None, "act": "elu"},
    ],
    ids=str,
)
@LITERAL
@pytest.mark.each_value
def test_every_choice(literal: bool | None, choices: dict[str, Any]) -> None:
    for policy in (esan.NodeDeletion(), esan.EgoNets(hops=1, marked=True)):
        check(strategies.model("dss", "gine", policy, **choices), policy, literal)


@pytest.mark.parametrize("choices", [{"readout": "max"}, {"bag_pool": "max"}], ids=str)
def test_pools_that_need_every_pair(choices: dict[str, Any]) -> None:
    policy = esan.NodeDeletion()
    check(strategies.model("dss", "gin", policy, **choices), policy, True)


def test_targets_and_features_come_along() -> None:
    bag = esan.Bag.of(GRAPHS, esan.EdgeDeletion(), 3)
    for padded, plain in Padded(bag, 3):
        nodes, columns = plain.num_nodes, plain.graphs.edge_index.size(1)
        assert padded.graphs.edge_index[:, :columns].equal(plain.graphs.edge_index)
        for got, expected, count in (
            (padded.x, plain.x, nodes),
            (padded.graphs.edge_attr, plain.graphs.edge_attr, columns),
            (padded.y, plain.y, len(plain)),
            (padded.graph_multiplicity, torch.ones(len(plain)).double(), len(plain)),
            (padded.node_multiplicity, torch.ones(nodes).double(), nodes),
        ):
            assert got is not None
            assert expected is not None
            assert got[:count].equal(expected)
        assert padded.node_multiplicity is not None
        assert not padded.node_multiplicity[nodes:].any()
        assert not padded.graph_multiplicity[len(plain) :].any()


@pytest.mark.parametrize(
    ("names", "seen"),
    [("view.*multiplicity", "predictions"), ("node_multiplicity", "predictions"), ("graph_multiplicity", "gradient")],
)
def test_padding_that_counts_would_be_seen(names: str, seen: str) -> None:
    policy = esan.EdgeDeletion()
    network, bag = strategies.model("dss", "gin", policy), esan.Bag.of(GRAPHS, policy, 3)
    batches, plain = Padded(bag, 3), bag[BATCHES[0]]
    compare(network, batches.over(batches.fields(0)), copy.deepcopy(network), plain, "as it is")
    fields = batches.fields(0)
    chosen = [name for name in fields if re.fullmatch(names, name)]
    assert chosen
    for name in chosen:
        assert fields[name][-1] == 0
        fields[name][-1] = 1
    with pytest.raises(AssertionError, match=f"Expected {seen}"):
        compare(network, batches.over(fields), copy.deepcopy(network), plain, "with padding that counts")


@pytest.mark.each_value
@EVERY_POLICY
@EVERY_ARCHITECTURE
@LITERAL
def test_batches_of_several_networks(literal: bool | None, architecture: str, policy: esan.Policy) -> None:
    """A batch for three networks is three batches behind one another: here for one and the same network."""
    bag = esan.Bag.of(GRAPHS, policy, 3, literal=literal)
    alone = Padded(bag, 3)
    chunk = Padder(bag, 3).lay_out(BATCHES[None], alone.shape, networks=3)
    views = chunk.views(chunk.ints[0], chunk.floats[0])
    together = {name: value.double() if value.is_floating_point() else value for name, value in views.items()}
    network = strategies.model(architecture, "gine", policy).eval()
    parts = torch.cat([network(padded) for padded, _ in alone])
    network.members = 3
    given = PaddedBag.of_fields(together, alone.shape, bag, 3)
    check_close(network(with_padding(given)), parts, "predictions of three batches in one")
    # Unless they are asked for, there are none for the padding graph of each batch.
    check_close(network(given), parts.view(3, -1, 2)[:, :-1], "predictions without padding")


def test_the_same_batches_for_all_networks() -> None:
    bag = esan.Bag.of(GRAPHS, esan.NodeDeletion(), 3)
    padder = Padder(bag, 3)
    shape = padder.counts.shape(BATCHES.numpy())
    given = padder.lay_out(BATCHES[:, None], shape, networks=2)
    repeated = padder.lay_out(BATCHES[:, None].expand(-1, 2, -1), shape, networks=2)
    assert [*given.fields] == [*repeated.fields]
    for k in range(len(given)):
        mine, theirs = (b.views(b.ints[k], b.floats[k]) for b in (given, repeated))
        assert all(torch.equal(mine[name], theirs[name]) for name in theirs)


def test_fields_that_nobody_reads_are_not_stored() -> None:
    bag = esan.Bag.of(GRAPHS, esan.NodeDeletion(), 3)
    padder = Padder(bag, 3)
    shape = padder.counts.shape(BATCHES.numpy())
    every, some = (padder.lay_out(BATCHES[:, None], shape, only=only) for only in (None, {"x", "graph_multiplicity"}))
    assert set(some.fields) == {"x", "graph_multiplicity"}
    for k in range(len(every)):
        views = every.views(every.ints[k], every.floats[k])
        assert all(torch.equal(v, views[n]) for n, v in some.views(some.ints[k], some.floats[k]).items())


def test_used_batches_go_without_the_garbage_collector() -> None:
    """Their memory would wait for it, as long as a network takes batch after batch."""
    bag = esan.Bag.of(GRAPHS, esan.EgoNets(hops=2, marked=True), 3)
    model = esan.dss_gnn(None, 8, 3, 1, marked=True)
    used: list[weakref.ref[Any]] = []
    gc.collect()
    gc.disable()
    try:
        for batch in PaddedBatches(bag, torch.device("cpu"))([ids[None].numpy() for ids in BATCHES.repeat(3, 1)]):
            assert isinstance(batch, PaddedBag)
            model(batch).sum().backward()
            assert list(batch.graphs.extra) == []
            used.append(weakref.ref(batch))
            assert sum(ref() is not None for ref in used) == 1
    finally:
        gc.enable()
    assert len(used) == 9


def test_two_iterations_at_once() -> None:
    """The second finds that the first has seen which fields are read, and how large a batch is."""
    model = strategies.model("dss", "gin", esan.NodeDeletion()).eval()
    bag = esan.Bag.of(GRAPHS * 3, esan.NodeDeletion(), 4)
    loader = esan.Loader(bag, 2, padded=True)
    both = [(model(one), model(other)) for one, other in zip(loader, loader, strict=True)]
    for found in zip(*both, strict=True):
        check_close(torch.cat(found), model(bag), "predictions")


def test_columns_hold_one_chunk_of_the_data_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[weakref.ref[Any]] = []

    class Source(ColumnSource):
        def __init__(self, bag: esan.Bag) -> None:
            assert all(ref() is None for ref in made)
            super().__init__(bag)
            made.append(weakref.ref(self))

    monkeypatch.setattr("esan.bags.padded.column_store.ColumnSource", Source)
    bag = esan.Bag.of(GRAPHS, esan.NodeDeletion(), 3)
    padder = Padder(bag, 3, limits=ColumnLimits(chunk=bag.rows.edge_id.numel() // 3))
    padder.lay_out(BATCHES[:, None], padder.counts.shape(BATCHES.numpy()))
    assert len(made) > 1


def test_shapes() -> None:
    bag = esan.Bag.of(GRAPHS, esan.NodeDeletion(), 3)
    counts = Padder(bag, 3).counts
    small, large = counts.shape(np.array([[0, 1]])), counts.shape(np.array([[0, 1], [7, 6]]))
    assert large.holds(small)
    assert not small.holds(large)
    assert small.joined(large) == large
    # One node, subgraph and row of each kind more than the largest batch has, for padding.
    assert (large.graphs, large.nodes, large.subgraphs) == (2, 9 + 6 + 1, 9 + 6 + 1)
    grown = large.grown(1.5)
    assert grown.holds(large)
    assert grown.rows[0] == grown.nodes


@EVERY_POLICY
@LITERAL
def test_where_real_rows_lie(literal: bool | None, policy: esan.Policy) -> None:
    """In each block before its padding: a row is real if its node is."""
    batches = Padded(esan.Bag.of(GRAPHS, policy, 3, literal=literal), 3)
    for padded, plain in batches:
        for t in range(1, 4):
            view, rows = replace(padded, skips_padding=True).layer_view(t), torch.zeros(padded.layer_view(t).num_rows)
            assert view.row_ranges is not None
            assert sum(view.row_ranges.capacity) == view.num_rows
            for begin, end in view.row_ranges.ranges.view(-1, 2).tolist():
                rows[begin:end] += 1
            assert padded.node_multiplicity is not None
            assert rows.equal(padded.node_multiplicity[view.node].float())
            assert int(rows.sum()) == plain.layer_view(t).num_rows
        assert padded.layer_view(1).row_ranges is None, "unless padding is left out, all rows are worked on"


def test_a_sample_without_the_last_rows_fits_the_shape_of_another() -> None:
    """The shape says which layer views there are, not the sample that a batch is of."""
    policy = esan.NodeDeletion()
    whole = esan.Bag.of(GRAPHS, policy, 3)
    # Of single nodes nothing differs beyond the first level.
    few = whole[[0, 1, 2]]
    shape = Padder(whole, 3).counts.shape(BATCHES.numpy())
    network = strategies.model("dss", "gin", policy)
    copied = copy.deepcopy(network)
    for padded, plain in Padded(few, 3, torch.tensor([[2, 0, 1], [1, 2, -1]]), shape):
        compare(network, padded, copied, plain, "with empty blocks")


def test_graphs_without_an_edge() -> None:
    policy = esan.NodeDeletion()
    bag = esan.Bag.of([strategies.from_edges(n, [], n) for n in (1, 3, 2)], policy, 3)
    network = strategies.model("dss", "gine", policy)
    copied = copy.deepcopy(network)
    for padded, plain in Padded(bag, 3, torch.tensor([[2, 0], [1, -1]])):
        compare(network, padded, copied, plain, "without edges")


def test_the_head_sees_no_padding() -> None:
    """Neither a norm in it nor a hook on it."""
    seen: list[Tensor] = []
    policy = esan.NodeDeletion()
    bag = esan.Bag.of(GRAPHS, policy, 3)
    (padded,) = esan.Loader(bag, batch_size=len(GRAPHS), padded=True)
    outputs = []
    for some in (padded, bag):
        torch.manual_seed(0)
        network = strategies.model("dss", "gin", policy)
        head: Any = network.head
        network.head = torch.nn.Sequential(torch.nn.BatchNorm1d(head[0].in_features, dtype=torch.double), head)
        network.head.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
        outputs.append(network(some))
    torch.testing.assert_close(*outputs)
    assert [len(rows) for rows in seen] == [len(GRAPHS)] * 2


@pytest.mark.parametrize("place", ["features", "set_encoder"])
def test_norms_that_would_count_padding_are_refused(place: str) -> None:
    policy = esan.NodeDeletion()
    network = strategies.model("ds", "gin", policy)
    part: Any = getattr(network, place)
    part.extra = torch.nn.BatchNorm1d(4)
    bag = esan.Bag.of(GRAPHS, policy, 3)
    with pytest.raises(
        ValueError, match=rf"Expected no norm .*\(got a BatchNorm1d in {type(part).__name__}, which would"
    ):
        network(next(iter(esan.Loader(bag, padded=True))))
    network(bag)


def test_a_used_batch_is_pickled_for_another_process() -> None:
    """What was compiled to lay it out is made again there, also for a field that is read later."""
    model = esan.dss_gnn(esan.Categories(strategies.ATOMS), 4, 2, 1).eval()
    (batch, *_) = esan.Loader(esan.Bag.of(GRAPHS, "EGO(2)", 2), 3, padded=True)
    expected = model(batch)
    copied = pickle.loads(pickle.dumps(batch))  # noqa: S301
    assert model(copied).equal(expected)
    assert copied.without_padding().num_nodes == batch.without_padding().num_nodes


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int16, torch.int64, torch.half, torch.double])
def test_targets_have_the_dtype_of_the_data(dtype: torch.dtype) -> None:
    graphs = strategies.odd_graphs()
    for k, graph in enumerate(graphs):
        graph.y = torch.tensor([k % 2], dtype=dtype)
    bag = esan.Bag.of(graphs, "ND", 2)
    for batch, plain in zip(*(esan.Loader(bag, 3, padded=padded) for padded in (True, False)), strict=True):
        assert batch.y is not None
        assert plain.y is not None
        assert batch.y.dtype == plain.y.dtype == dtype
        assert batch.y.equal(plain.y)


def test_with_double_precision_by_default() -> None:
    bag = esan.Bag.of(GRAPHS, "ND", 2)
    torch.set_default_dtype(torch.float64)
    try:
        model = esan.dss_gnn(esan.Categories(strategies.ATOMS), 4, 2, 1).eval()
        (batch,) = esan.Loader(bag, len(GRAPHS), padded=True)
        check_close(model(batch), model(bag), "predictions of the padded batch")
    finally:
        torch.set_default_dtype(torch.float32)
