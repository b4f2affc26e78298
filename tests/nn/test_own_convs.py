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


@pytest.mark.parametrize(
    ("conv", "match"),
    [
        (nn.GRU, CALLED + r"GRU: RuntimeError: .*\)\. Pass a PyG convolution"),
        (pyg.GINConv, CALLED + r"GINConv: TypeError: 'int' object is not callable\)\. Pass a PyG convolution"),
        (lambda i, o: pyg.RGCNConv(i, o, 3), CALLED + r"RGCNConv: AssertionError: \)\. Pass a PyG"),
        (lambda i, o: pyg.GINEConv(nn.Linear(i, o)), CALLED + r"GINEConv: .*\)\. Pass edge_channels, if it needs"),
        (GivesTwo, CALLED + r"GivesTwo: it gave a tuple\)\. Pass a PyG convolution"),
    ],
    ids=["GRU", "GINConv", "RGCNConv", "GINEConv", "two results"],
)
@pytest.mark.parametrize("literal", [True, False])
@pytest.mark.filterwarnings("ignore:The literal bag is used")  # not what this is about
def test_what_is_no_convolution_is_refused_when_it_is_called(conv: Any, match: str, literal: bool) -> None:
    network = esan.ds_gnn(None, 4, 2, 1, conv=conv)
    with pytest.raises(TypeError, match=match):
        network(esan.Bag.of(CYCLE, esan.EdgeDeletion(), 2, literal=literal or None))


class Strict(Plain):
    """Raises an error of its own on the second call."""

    calls = 0

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        self.calls += 1
        if self.calls > 1:
            raise RuntimeError("a user's own words")
        return super().forward(x, edge_index)


def test_a_convolution_that_has_worked_speaks_for_itself() -> None:
    network, bag = esan.ds_gnn(None, 4, 1, 1, conv=Strict), esan.Bag.of(CYCLE, esan.EdgeDeletion(), 1)
    assert bool(torch.isfinite(network(bag)).all())
    with pytest.raises(RuntimeError, match=r"^a user's own words$"):
        network(bag)
