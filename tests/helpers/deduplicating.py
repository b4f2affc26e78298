"""Networks and graphs on which rows are alike, and the comparison of what they do with the literal bag."""

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

import esan
import strategies
from esan.testing.compare import check_close

ND, EGO, EGO_PLUS = esan.NodeDeletion(), esan.EgoNets(2), esan.EgoNets(2, marked=True)
CATEGORIES, BONDS = esan.Categories(strategies.ATOMS), esan.Categories(strategies.BONDS)


def graphs_like(x: Any = CATEGORIES, edge_attr: Any = BONDS) -> list[Data]:
    """Two copies of a tree, and others, with such features; numbers are lines of a small table, so they come again."""
    tree = strategies.from_edges(8, [(0, 1), (1, 2), (1, 3), (3, 4), (3, 5), (5, 6), (5, 7)], 7)
    made = [
        tree,
        strategies.from_edges(10, [(v, v + 1) for v in range(9)], 1),
        esan.graphs.permuted(tree, torch.Generator().manual_seed(1)),
        strategies.from_edges(7, [(0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (4, 5)], 4),
        strategies.from_edges(3, [], 3),
    ]
    generator = torch.Generator().manual_seed(0)
    for name, kind in (("x", x), ("edge_attr", edge_attr)):
        if isinstance(kind, int):
            table = torch.randn(strategies.ATOMS, kind, generator=generator, dtype=torch.double)
            for graph in made:
                graph[name] = table[graph[name]]
    return made


def network_of(architecture: str, policy: esan.Policy, x: Any = CATEGORIES, **choices: Any) -> esan.nn.SubgraphGNN:
    """A small network in double precision, no number of which is 0: where rounding decides the slope of a ReLU."""
    network = strategies.ARCHITECTURES[architecture](x, 6, 3, 2, marked=policy.marked, **choices).double()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return network


def found(bag: esan.Bag) -> list[Any]:
    """The representatives that networks looked for, None where they were too many."""
    return [found.views for key, found in bag.cache.items() if isinstance(key, tuple) and key[0] == "representatives"]


def outcome(network: nn.Module, bag: esan.Bag, *inputs: Tensor) -> dict[str, Tensor]:
    """Predictions, buffers, the gradient of every parameter, and of the inputs that are given."""
    mine = copy.deepcopy(network)
    output = mine(bag)
    noise = torch.randn(output.shape, generator=torch.Generator().manual_seed(0), dtype=output.dtype)
    names, parameters = zip(*mine.named_parameters(), strict=True)
    found = torch.autograd.grad((output * noise).sum(), [*parameters, *inputs], retain_graph=True)
    names = *(f"the gradient of {name}" for name in names), *(f"that of input {i}" for i in range(len(inputs)))
    return {"predictions": output} | dict(mine.named_buffers()) | dict(zip(names, found, strict=True))


def check_same(network: nn.Module, bag: esan.Bag, *inputs: Tensor, tolerance: float = 1e-9) -> None:
    """Raise an `AssertionError` unless a network does the same on a bag as on the literal one."""
    expected = outcome(network, bag.to_literal(), *inputs)
    for name, one in outcome(network, bag, *inputs).items():
        check_close(one, expected[name], name, tolerance=tolerance)


def check_deduplicated(network: esan.nn.SubgraphGNN, bag: esan.Bag, *inputs: Tensor, tolerance: float = 1e-9) -> None:
    """`check_same`; rows of a DS-GNN were deduplicated on the way, those of a DSS-GNN never are."""
    check_same(network, bag, *inputs, tolerance=tolerance)
    if isinstance(network.encoder.layers[0], esan.nn.DSSLayer):
        assert found(bag) == []
    else:
        assert isinstance(found(bag)[-1], list)
