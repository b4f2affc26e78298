"""Convolutions of one's own: what `conv=` takes besides PyG's, and what it refuses with one error."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg

import esan
from esan.testing import assert_same_execution

CYCLE = esan.graphs.cycle(5)
CALLED = r"Expected a module that gives a tensor for conv\(x, edge_index\) \(got "


class Plain(nn.Module):
    """A module of torch, and no `MessagePassing`, that is called as a convolution."""

    lookahead = 0

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.own, self.around = nn.Linear(in_channels, out_channels), nn.Linear(in_channels, out_channels, bias=False)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.own(x).index_add(0, edge_index[1], self.around(x)[edge_index[0]])


class Anyhow(Plain):
    def forward(self, *args: Any, **extra: Any) -> Tensor:
        return super().forward(*args, **extra)


@pytest.mark.parametrize("conv", [Plain, Anyhow])
@pytest.mark.parametrize("build", [esan.ds_gnn, esan.dss_gnn])
def test_a_plain_module_will_do(conv: type[Plain], build: Callable[..., esan.nn.SubgraphGNN]) -> None:
    network = build(None, 4, 2, 1, conv=conv)
    assert network.why_literal is None
    assert_same_execution(network.double(), [CYCLE, esan.graphs.path(4)], esan.NodeDeletion())


@pytest.mark.parametrize(
    ("conv", "match"),
    [
        (nn.Linear, CALLED + r"Linear: too many positional arguments\)\. Pass a PyG convolution"),
        (lambda i, o: nn.Sequential(nn.Linear(i, o)), CALLED + r"Sequential: too many .*Pass a PyG convolution"),
        (pyg.GCN2Conv, CALLED + r"GCN2Conv: missing a required argument: 'edge_index'\)\. Pass"),
        (nn.Conv1d, r"Expected conv to make a convolution of in_channels=1 .*got TypeError: .*kernel_size.*\)\. Pass"),
        (pyg.EdgeConv, r"Expected conv to make a convolution of in_channels=1 and out_channels=4 \(got .*Pass"),
        (lambda: Plain(1, 4), r"Expected conv to make a convolution .*takes 0 positional arguments but 2 .*Pass"),
    ],
    ids=["Linear", "Sequential", "GCN2Conv", "Conv1d", "EdgeConv", "no arguments"],
)
def test_what_is_no_convolution_is_refused_when_the_model_is_built(conv: Any, match: str) -> None:
    with pytest.raises(TypeError, match=match):
        esan.ds_gnn(None, 4, 2, 1, conv=conv)


class GivesTwo(Plain):
    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        return x, edge_index


@pytest.mark.parametrize("literal", [True, False])
def test_what_gives_no_tensor_is_refused_when_it_is_called(literal: bool) -> None:
    network = esan.ds_gnn(None, 4, 2, 1, conv=GivesTwo)
    with pytest.raises(TypeError, match=CALLED + r"GivesTwo: it gave a tuple\)\. Pass a PyG convolution"):
        network(esan.Bag.of(CYCLE, esan.EdgeDeletion(), 2, literal=literal))


class TooNarrow(Plain):
    """Has a mistake of its user's inside: a width that does not fit."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(in_channels, out_channels)
        self.around = nn.Linear(in_channels + 1, out_channels)


class OwnError(Exception):
    pass


class Failing(Plain):
    """Raises an error of its own on the call of that number."""

    calls, failing = 0, 1

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        self.calls += 1
        if self.calls == self.failing:
            raise OwnError("a user's own words")
        return super().forward(x, edge_index)


class FailingLater(Failing):
    failing = 2


@pytest.mark.parametrize(
    ("conv", "kind", "match", "note"),
    [
        (TooNarrow, RuntimeError, "mat1 and mat2 shapes", "TooNarrow, which esan called as conv(x, edge_index)."),
        (Failing, OwnError, "^a user's own words", "Failing, which esan called as conv(x, edge_index)."),
        (nn.GRU, RuntimeError, "Expected hidden", "GRU, which esan called as conv(x, edge_index)."),
        (pyg.GINConv, TypeError, "not callable", "GINConv, which esan called as conv(x, edge_index)."),
        (
            lambda i, o: pyg.GINEConv(nn.Linear(i, o)),
            AttributeError,
            "NoneType",
            "GINEConv, which esan called as conv(x, edge_index). Pass edge_channels, if it needs edge features.",
        ),
    ],
    ids=["wrong width", "own error", "GRU", "GINConv", "GINEConv"],
)
@pytest.mark.parametrize("literal", [True, False])
@pytest.mark.filterwarnings("ignore:The literal bag is used")  # not what this is about
def test_an_error_in_a_convolution_stays_itself(conv: Any, kind: Any, match: str, note: str, literal: bool) -> None:
    network = esan.ds_gnn(None, 4, 2, 1, conv=conv)
    with pytest.raises(kind, match=match) as caught:
        network(esan.Bag.of(CYCLE, esan.EdgeDeletion(), 2, literal=literal or None))
    assert caught.value.__notes__ == [f"Raised by {note}"]
    assert caught.value.__cause__ is None


def test_later_calls_are_reported_as_the_first() -> None:
    network, bag = esan.ds_gnn(None, 4, 1, 1, conv=FailingLater), esan.Bag.of(CYCLE, esan.EdgeDeletion(), 1)
    assert bool(torch.isfinite(network(bag)).all())
    with pytest.raises(OwnError, match=r"^a user's own words") as caught:
        network(bag)
    assert caught.value.__notes__ == ["Raised by FailingLater, which esan called as conv(x, edge_index)."]


class WithEdges(nn.Module):
    lookahead = 0

    def __init__(self, *_: int) -> None:
        super().__init__()

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        raise OwnError(f"{tuple(edge_attr.shape)}")


def test_edge_features_are_reported_where_they_were_passed() -> None:
    graph = CYCLE.clone()
    graph.edge_attr = torch.zeros(graph.edge_index.size(1), 3)
    network = esan.ds_gnn(None, 4, 2, 1, conv=WithEdges, edge_channels=3)
    with pytest.raises(OwnError) as caught:
        network(esan.Bag.of(graph, esan.EdgeDeletion(), 2))
    assert caught.value.__notes__ == [
        "Raised by WithEdges, which esan called as conv(x, edge_index, edge_attr=edge_attr)."
    ]


@pytest.mark.parametrize(
    ("declared", "kind"), [(-1, ValueError), (0.5, TypeError), ("1", TypeError), (True, TypeError)]
)
def test_a_lookahead_is_a_whole_number(declared: Any, kind: Any) -> None:
    convolution = type("Own", (pyg.GCNConv,), {"lookahead": declared})
    with pytest.raises(kind, match=r"Expected lookahead of Own .*\(got .*\)\. Declare lookahead = 0, or 1"):
        esan.ds_gnn(None, 4, 2, 1, conv=convolution)(esan.Bag.of(CYCLE, "ED", 2))


def test_a_lookahead_of_an_object_counts() -> None:
    class Own(pyg.GCNConv):
        def __init__(self, in_channels: int, out_channels: int) -> None:
            super().__init__(in_channels, out_channels)
            self.lookahead = 1

    model = esan.ds_gnn(None, 4, 2, 1, conv=Own)
    assert (model.why_literal, model.encoder.lookahead) == (None, 1)


def test_a_convolution_that_keeps_the_first_edges_is_refused() -> None:
    with pytest.raises(ValueError, match=r"got GCNConv with cached=True, which keeps the first ones\)\. Leave cached"):
        esan.ds_gnn(None, 4, 2, 1, conv=lambda i, o: pyg.GCNConv(i, o, cached=True))(esan.Bag.of(CYCLE, "ED", 2))


def test_a_convolution_without_widths_is_refused() -> None:
    with pytest.raises(ValueError, match=r"whose widths are known \(got SAGEConv with an input of -1\)"):
        esan.ds_gnn(None, 4, 2, 1, conv=lambda i, o: pyg.SAGEConv(-1, o))
