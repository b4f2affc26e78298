"""`assert_equivariant` for layers and `assert_invariant` for models, under S_m × S_n."""

import copy
from inspect import ismethod
from typing import Any

import torch
from torch import Tensor, nn

from esan.bags import Bag, LayerView
from esan.graphs import Source
from esan.nn import Encoded, SubgraphGNN
from esan.policies import Policy
from esan.testing.action import Action, drawn_action, rebuilt
from esan.testing.compare import check_close


def assert_equivariant(
    network: nn.Module,
    bag: Bag,
    in_channels: int,
    *,
    trials: int = 2,
    generator: torch.Generator | None = None,
    tolerance: float | None = None,
) -> None:
    r""":math:`L((\tau, \sigma) \cdot (A, h)) = (\tau, \sigma) \cdot L(A, h)` for random (τ, σ) and random rows h.

    The action is on the selection and the graphs; the bag is rebuilt from them and the rows are compared by their
    (node, subgraph) key. The network is checked in the mode that it is in, and left as it was.

    Args:
        network: a layer, called as `layer(h, bag, view)`, or an encoder, called as `encoder(h, bag)`.
        bag: what it is called on, literal or compact.
        in_channels: width of the rows h.
        trials: how many (τ, σ) are drawn.
        generator: draws them, and h.
        tolerance: None for that of the dtype of the parameters.

    Raises:
        AssertionError: says which output differs from its permutation, and by how much.
    """
    if isinstance(network, SubgraphGNN):
        raise TypeError(
            "Expected a layer or an encoder (got a whole model). Pass model.encoder, with in_channels = "
            f"{network.features.out_channels}; models have assert_invariant."
        )
    dtype = next((p.dtype for p in network.parameters()), torch.float64)
    first = _input_view(network, bag, in_channels)
    h = torch.randn(first.num_rows, in_channels, generator=generator, dtype=dtype)
    expected = _called(network, h, bag)
    for _ in range(trials):
        action = drawn_action(bag.graphs, bag.selection, generator)
        moved = rebuilt(bag, action)
        there = _permuted_rows(h, bag, first, moved, _input_view(network, moved, in_channels), action)
        for place, (got, wanted) in enumerate(zip(_called(network, there, moved), expected, strict=True)):
            image = _permuted_rows(wanted.h, bag, wanted.stage, moved, got.stage, action)
            what = f"output {place} of {type(network).__name__} on the permuted bag and the permuted output"
            check_close(got.h, image, what, tolerance=tolerance)


def assert_invariant(
    model: nn.Module,
    source: Source,
    policy: Policy,
    *,
    num_layers: int | None = None,
    literal: bool | None = None,
    trials: int = 2,
    generator: torch.Generator | None = None,
    tolerance: float | None = None,
) -> None:
    r""":math:`F((\tau, \sigma) \cdot S_G) = F(S_G)` for random (τ, σ), and :math:`F(\pi(\sigma G)) = F(\pi(G))`.

    A model with `output="node"` or `"edge"` should permute its predictions as the nodes or the columns of
    `edge_index`. The model is checked in the mode that it is in, and left as it was.

    Args:
        model: takes a bag, returns one row per graph, node or column of `edge_index`.
        source: the graphs.
        policy: makes the bag; a random policy is drawn once, and (τ, σ) act on its selection.
        num_layers: of the bag; None for what the model needs.
        literal: as in `Bag.of`.
        trials: how many (τ, σ) are drawn.
        generator: draws them.
        tolerance: None for that of the dtype of the parameters.

    Raises:
        AssertionError: says by how much the predictions differ.
    """
    bag = Bag.of(source, policy, layers_of(model, num_layers), literal=literal, generator=generator)
    expected = copy.deepcopy(model)(bag)
    for _ in range(trials):
        action = drawn_action(bag.graphs, bag.selection, generator)
        image = _permuted_predictions(expected, model, action)
        got = copy.deepcopy(model)(rebuilt(bag, action))
        check_close(got, image, "predictions for relabelled nodes and shuffled subgraphs", tolerance=tolerance)
        if policy.random:
            continue
        reselected = Bag.of(action.graphs, policy, bag.num_layers, literal=literal)
        what = f"predictions for the bags that {policy!r} makes of relabelled graphs"
        check_close(copy.deepcopy(model)(reselected), image, what, tolerance=tolerance)


def layers_of(model: nn.Module, num_layers: int | None) -> int:
    """How many layers a compact bag for this model must be exact for."""
    if num_layers is not None:
        return num_layers
    if not isinstance(model, SubgraphGNN):
        raise ValueError(
            f"Expected num_layers for a model of your own (got None, and a {type(model).__name__}). Pass num_layers=4 "
            "for a model of 4 layers."
        )
    return model.num_layers + model.encoder.lookahead


def _input_view(network: Any, bag: Bag, width: int) -> LayerView:
    if _is_encoder(network):
        like = next(network.parameters(), torch.empty(0, dtype=torch.float64))
        return network.input(bag, like, width)[0]
    return bag.layer_view(_lookahead(network))


def _is_encoder(network: nn.Module) -> bool:
    """Whether it is called as an encoder: an encoder has a method `input`."""
    return ismethod(getattr(network, "input", None))


def _lookahead(layer: nn.Module) -> int:
    return int(getattr(getattr(layer, "inside", layer), "lookahead", 0))


def _called(network: nn.Module, h: Tensor, bag: Bag) -> list[Encoded]:
    network = copy.deepcopy(network)  # so that running statistics stay as they are
    if _is_encoder(network):
        return network(h, bag)
    view = bag.layer_view(1 + _lookahead(network))
    rows = network(h, bag, view)
    if rows.size(0) != view.num_rows:
        raise AssertionError(
            f"Expected {type(network).__name__} to return the {view.num_rows} rows of its layer view (got "
            f"{rows.size(0)}). Begin it with h = view.expand(h)."
        )
    return [Encoded(rows, view)]


def _permuted_rows(h: Tensor, bag: Bag, view: LayerView, image: Bag, image_view: LayerView, action: Action) -> Tensor:
    """The rows h of a layer view, in the order of the rows of the permuted bag's layer view."""
    background, stored = bag.rows.background, bag.rows.subgraph[: view.num_rows - bag.rows.background]
    subgraph = torch.cat([stored.new_zeros(background), 1 + action.subgraph[stored]])
    here = action.node[view.node] * (bag.num_subgraphs + 1) + subgraph
    stored = image.rows.subgraph[: image_view.num_rows - image.rows.background]
    subgraph = torch.cat([stored.new_zeros(image.rows.background), 1 + stored])
    key = image_view.node * (bag.num_subgraphs + 1) + subgraph
    by_key = torch.argsort(here)
    if not torch.equal(here[by_key], key.sort().values):
        raise AssertionError("Expected the permuted bag to store the permuted pairs (got others).")
    return h[by_key[torch.searchsorted(here[by_key], key)]]


def _permuted_predictions(predictions: Tensor, model: nn.Module, action: Action) -> Tensor:
    output = getattr(model, "output", "graph")
    # Scored pairs keep their order; their nodes are renumbered.
    if output == "graph" or (output == "edge" and "edge_label_index" in action.graphs.extra):
        return predictions
    number = action.node if output == "node" else action.column
    if predictions.size(0) != number.numel():
        raise AssertionError(f"Expected one row per {output}, {number.numel()} in all (got {predictions.size(0)}).")
    return torch.empty_like(predictions).index_copy(0, number, predictions)
