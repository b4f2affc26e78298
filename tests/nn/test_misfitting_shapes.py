"""Hooks and modules that change the number of rows or columns are refused: compiled loops would read beyond them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import esan
from esan.bags import Bag
from esan.nn import SubgraphGNN

Change = Callable[[SubgraphGNN], Any]


def bag() -> Bag:
    return Bag.of([esan.graphs.csl(13, 3), esan.graphs.star(6)], "ND", num_layers=3)


def network(architecture: str, width: int = 8, in_channels: int | None = None) -> SubgraphGNN:
    torch.manual_seed(0)
    return (esan.dss_gnn if architecture == "dss" else esan.ds_gnn)(in_channels, width, 3, 2)


class OwnLayer(nn.Module):
    """A layer of the user's own that gives other rows or columns than it should."""

    why_literal = None

    def __init__(self, change: Callable[[Tensor, Any], Any]) -> None:
        super().__init__()
        self.change = change

    def forward(self, h: Tensor, bag: Bag, view: Any) -> Any:
        return self.change(h, view)


def hook(path: str, change: Callable[[Tensor], Tensor]) -> Change:
    return lambda model: model.get_submodule(path).register_forward_hook(lambda module, inputs, out: change(out))


def replaced(path: str, make: Callable[[], nn.Module]) -> Change:
    def replace(model: SubgraphGNN) -> None:
        parent, _, name = path.rpartition(".")
        setattr(model.get_submodule(parent), name, make())

    return replace


def twice(out: Tensor) -> Tensor:
    return torch.cat([out, out], 1)


CHANGES: dict[str, Change] = {
    "layer too wide": hook("encoder.layers.0", twice),
    "layer too narrow": hook("encoder.layers.0", lambda out: out[:, :3].contiguous()),
    "layer with too few rows": hook("encoder.layers.0", lambda out: out[:5]),
    "layer with too many rows": hook("encoder.layers.0", lambda out: torch.cat([out, out])),
    "last layer with too few rows": hook("encoder.layers.2", lambda out: out[:5]),
    "features too wide": hook("features", twice),
    "features with too few rows": hook("features", lambda out: out[:3]),
    "encoded features too wide": hook("features.encoder", twice),
    "encoded features with too few rows": hook("features.encoder", lambda out: out[:3]),
    "norm with too few rows": hook("encoder.layers.1.norm", lambda out: out[:5]),
    "convolution with too few rows": hook("encoder.layers.1.inside", lambda out: out[:5]),
    "convolution too wide": hook("encoder.layers.1.inside", twice),
    "second linear layer": replaced("encoder.layers.1.inside.mlp.second", lambda: nn.Linear(8, 16)),
    "first linear layer": replaced("encoder.layers.1.inside.mlp.first", lambda: nn.Linear(3, 8)),
    "both linear layers do not fit": replaced("encoder.layers.1.inside.mlp.first", lambda: nn.Linear(8, 16)),
    "norm": replaced("encoder.layers.1.norm", lambda: esan.nn.BatchNorm(5)),
    "layer of a wider network": replaced("encoder.layers.1", lambda: network("ds", 16).encoder.layers[1]),
    "layer for other features": replaced("encoder.layers.0", lambda: network("ds", 8, 12).encoder.layers[0]),
    "own layer too wide": replaced("encoder.layers.1", lambda: OwnLayer(lambda h, view: twice(view.expand(h)))),
    "own layer that does not expand": replaced("encoder.layers.1", lambda: OwnLayer(lambda h, view: h)),
    "own layer without result": replaced("encoder.layers.1", lambda: OwnLayer(lambda h, view: None)),
}


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("architecture", ["ds", "dss"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_other_numbers_of_rows_or_columns_are_refused(change: Change, architecture: str, training: bool) -> None:
    model = network(architecture).train(training)
    model(bag())
    change(model)
    # torch's own modules raise errors of their own kinds.
    with pytest.raises((ValueError, RuntimeError), match=r"Expected|shape|size|running_mean"):
        model(bag())


def test_rows_that_no_layer_has_are_refused() -> None:
    model = network("ds")
    with pytest.raises(ValueError, match="Expected 104 rows, or those of an earlier layer \\(got 5\\)"):
        model.encoder(torch.randn(5, 1), bag())
    with pytest.raises(ValueError, match="Expected rows of 1 columns, as the MLP of the layer takes them \\(got 12\\)"):
        model.encoder(torch.randn(104, 12), bag())


def test_the_message_names_what_to_do() -> None:
    model = network("dss")
    replaced("encoder.layers.1", lambda: OwnLayer(lambda h, view: h))(model)
    with pytest.raises(ValueError, match=r"layer 2 to give 212 rows.*\[104, 8\].*begin with h = view\.expand\(h\)"):
        model(bag())


def test_zero_channels_are_for_data_without_columns() -> None:
    model, graph = esan.dss_gnn(0, 8, 3, 2), esan.graphs.cycle(6)
    model(Bag.of(graph, "ED", 3))
    graph.x = torch.randn(6, 3)
    with pytest.raises(ValueError, match=r"Expected no columns of x for 0 channels \(got shape \(6, 3\)\)"):
        model(Bag.of(graph, "ED", 3))
