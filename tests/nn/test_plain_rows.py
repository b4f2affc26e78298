"""Rows are computed one by one, without representatives, where they have to be as they are."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import esan
import strategies
from deduplicating import (
    ND,
    check_deduplicated,
    check_same,
    found,
    graphs_like,
    network_of,
)
from esan.nn.execution import dedup
from esan.nn.norm import LayerNorm
from esan.ops.numba import runtime as cpu
from esan.testing.compare import check_close

pytestmark = [
    pytest.mark.skipif(not cpu.available(), reason="needs numba (the extra fast)"),
    pytest.mark.usefixtures("always_deduplicated"),
]
ARCHITECTURES = pytest.mark.parametrize("architecture", strategies.ARCHITECTURES)


class Doubled(esan.nn.GINEConv):
    def forward(self, *args: Any) -> Tensor:
        return 2 * super().forward(*args)


#: What a user may do to a network, after which rows cannot be merged, or nobody knows whether they can.
CHANGES: dict[str, Callable[[Any], Any]] = {
    "evaluation": lambda network: network.eval(),
    "a norm in evaluation": lambda network: network.encoder.layers[2].norm.eval(),
    "a shared norm in evaluation": lambda network: network.encoder.layers[2].shared_norm.eval(),
    "a subclass": lambda network: setattr(network.encoder.layers[1], "inside", Doubled(6, 6, 2).double()),
    "another norm": lambda network: setattr(network.encoder.layers[1], "norm", LayerNorm(6).double()),
    "another activation": lambda network: setattr(network.encoder.layers[1], "act", nn.ELU()),
    "other edge features": lambda network: setattr(
        network.encoder.layers[0].inside.edge_encoder,
        "project",
        nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.0)).double(),
    ),
}
LAYER, CONV = "encoder.layers.1", "encoder.layers.0.inside"
HOOKED = [
    *(("forward_hook", part) for part in ("features", "features.encoder", "encoder", LAYER, CONV)),
    *(("forward_hook", f"{LAYER}.{part}") for part in ("act", "norm", "shared", "shared_norm")),
    *(
        ("forward_hook", f"{CONV}.{part}")
        for part in ("edge_encoder", "edge_encoder.encoder", "mlp", "mlp.first", "mlp.norm")
    ),
    *((kind, LAYER) for kind in ("forward_pre_hook", "full_backward_hook", "full_backward_pre_hook")),
]


def _usual(architecture: str = "ds") -> tuple[esan.nn.SubgraphGNN, esan.Bag]:
    """A network and a bag; the rows of a DS-GNN are deduplicated."""
    return network_of(architecture, ND, 3, conv="gine", edge_channels=2), esan.Bag.of(graphs_like(3, 2), ND, 3)


@pytest.mark.parametrize("change", CHANGES)
def test_networks_that_are_not_as_they_were_built(change: str) -> None:
    for architecture in ["dss"] if "shared" in change else ["ds", "dss"]:
        network, bag = _usual(architecture)
        CHANGES[change](network)
        check_same(network, bag)
        assert found(bag) == []


@pytest.mark.parametrize(("kind", "path"), HOOKED)
def test_hooks_are_called(kind: str, path: str) -> None:
    for architecture in ["dss"] if "shared" in path else ["ds", "dss"]:
        (network, bag), seen = _usual(architecture), list[int]()
        getattr(network.get_submodule(path), f"register_{kind}")(lambda *given, seen=seen: seen.append(1))
        network(bag).sum().backward()
        assert seen
        assert found(bag) == []


def test_dropout_and_literal_bags() -> None:
    network, bag = _usual()
    # Without either, representatives are used: else the other tests of this network would pass for another reason.
    check_deduplicated(network, bag)
    literal = bag.to_literal()
    network(literal)
    assert found(literal) == []
    network.encoder.dropout, bag = 0.5, bag[:]
    with pytest.warns(UserWarning, match="dropout is drawn for every pair"):
        network(bag)
    like = next(network.parameters())
    assert dedup.views(network.features, network.encoder, bag, like) is None  # type: ignore[arg-type]
    assert found(bag) == []


@ARCHITECTURES
def test_few_nodes(architecture: str) -> None:
    network = network_of(architecture, ND)
    single, other, edge = (strategies.from_edges(n, [(0, 1)][: n - 1], 1) for n in (1, 1, 2))
    other.x, edge.x = single.x + 1, torch.tensor([0, 3])
    for graphs in ([single, other], [edge]):
        bag = esan.Bag.of(graphs, ND, 3)
        check_same(network, bag)
        assert found(bag) == []
    check_deduplicated(network, esan.Bag.of([edge, single], ND, 3))
    with pytest.raises(ValueError, match="Expected more than one pair"):
        network(esan.Bag.of(single, ND, 3))


def test_hooks_of_all_modules_are_called() -> None:
    (network, bag), seen = _usual(), set[type]()
    handle = nn.modules.module.register_module_forward_hook(lambda part, *given: seen.add(type(part)))
    try:
        network(bag)
    finally:
        handle.remove()
    assert esan.nn.DSLayer in seen
    assert found(bag) == []


def test_features_of_inference_mode_are_looked_at_in_every_call() -> None:
    """They do not say whether somebody has written to them."""
    with torch.inference_mode():
        network, bag = _usual()
        assert bag.graphs.x is not None
        bag = replace(bag, graphs=replace(bag.graphs, x=bag.graphs.x.clone()))
        assert bag.graphs.x is not None
        assert bag.graphs.x.is_inference()
        for _ in range(2):
            expected = copy.deepcopy(network)(bag.to_literal())
            check_close(copy.deepcopy(network)(bag), expected, "predictions", tolerance=1e-9)
            bag.graphs.x[:5] = bag.graphs.x[:5].flip(0) + 1
    assert found(bag) == []


def test_representatives_of_features_that_were_written_to_are_not_kept() -> None:
    network, bag = _usual()
    assert bag.graphs.x is not None
    for _ in range(3):
        network(bag)
        bag.graphs.x.add_(1)
    assert len(found(bag)) == 1


def test_a_forward_of_ones_own_is_called() -> None:
    (network, bag), seen = _usual(), list[int]()
    layer: Any = network.encoder.layers[1]
    usual = layer.forward

    def noted(*given: Any) -> Tensor:
        seen.append(1)
        return usual(*given)

    layer.forward = noted
    network(bag)
    assert seen
    assert found(bag) == []
