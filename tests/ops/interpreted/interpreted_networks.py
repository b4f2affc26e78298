"""Interpreted: whole networks, alone and stacked, against plain torch in double precision."""

import copy
import gc
import sys
from typing import Any

import pytest
import torch
from torch import Tensor

import esan
import strategies
import zero_multiplicity
from esan.bags.padded.bag import PaddedBag
from esan.bags.padded.padder import Padder
from esan.nn import SubgraphGNN
from esan.nn.execution.stack_parameters import can_stack, stack, unstacked
from esan.nn.feature_encoders import OneHotEncoder
from esan.ops.triton import gin as gpu_gin
from esan.ops.triton.fused_gradient import FusedGradient
from esan.train.baselines import WalkFeatures
from interpreting import ONLY_INTERPRETED, close, largest_of, poison

pytestmark = ONLY_INTERPRETED
#: One that has an edge and an isolated node, one in two parts with a self-loop, and one that no change fills in time.
GRAPHS = [*strategies.odd_graphs()[3:5], strategies.from_edges(7, [(i, i + 1) for i in range(6)], 11)]


def network(architecture: str, encoder: str, policy: esan.Policy, width: int = 6, **choices: Any) -> SubgraphGNN:
    return strategies.model(architecture, encoder, policy, width=width, num_layers=2, **choices).float()


def same_gradients(ours: dict[str, Tensor | None], theirs: dict[str, Tensor | None]) -> None:
    largest = largest_of(theirs.values())
    for name, grad in theirs.items():
        close(ours[name], grad, f"gradient of {name}", scale=largest)


@pytest.mark.parametrize(
    ("architecture", "encoder", "name", "literal", "choices"),
    [
        # So wide that the kernels pad rows, marks and edge features with columns of zeros.
        ("dss", "gine", "EGO+(2)", False, {"width": 18}),
        ("ds", "gine", "ED", False, {"width": 20}),
        pytest.param(
            "dss",
            "gine",
            "ED",
            False,
            {"bag_pool": "sum", "adjacency": "sum", "set_encoder": "deepsets"},
            marks=pytest.mark.exhaustive,
        ),
        pytest.param("dss", "gine", "ED", True, {}, marks=pytest.mark.exhaustive),
        pytest.param("dss", "gin", "ND", False, {"adjacency": "original", "jk": "cat"}, marks=pytest.mark.exhaustive),
        pytest.param("ds", "gine", "NM", False, {"set_encoder": "max"}, marks=pytest.mark.exhaustive),
        pytest.param("ds", "gin", "ED", False, {"degrees": 5}, marks=pytest.mark.exhaustive),
        pytest.param("ds", "gin", "EGO+(2)", True, {}, marks=pytest.mark.exhaustive),
        pytest.param("dss", "graphconv", "ND", False, {}, marks=pytest.mark.exhaustive),
    ],
)
def test_networks(architecture: str, encoder: str, name: str, literal: bool, choices: dict[str, Any]) -> None:
    policy = strategies.POLICIES[name]
    ours = network(architecture, encoder, policy, **choices)
    theirs = copy.deepcopy(ours).double()
    bag = esan.Bag.of(GRAPHS, policy, 2 + ours.encoder.lookahead, literal=literal)
    got, expected = ours(bag), theirs(bag)
    close(got.detach(), expected.detach(), "predictions")
    got.square().sum().backward()
    expected.square().sum().backward()
    same_gradients(_gradients(ours), _gradients(theirs))
    for (part, buffer), other in zip(ours.named_buffers(), theirs.buffers(), strict=True):
        close(buffer, other, part)
    with torch.no_grad():
        close(ours.eval()(bag), theirs.eval()(bag), "predictions in eval mode")


@pytest.mark.exhaustive
@pytest.mark.parametrize(("architecture", "conv"), [("ds", "gin"), ("dss", "gin"), ("ds", "graphconv")])
def test_rows_that_stand_for_no_pair_blow_nothing_up(architecture: str, conv: str) -> None:
    zero_multiplicity.check_in_single_precision(architecture, conv, torch.device("cpu"))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("architecture", "policy"),
    [("ds", esan.NodeDeletion()), ("dss", esan.NodeDeletion()), ("dss", esan.Augmented(esan.NodeDeletion()))],
)
def test_training_on_a_single_node_is_refused(architecture: str, policy: esan.Policy) -> None:
    """In the last case only what its two subgraphs share is one line."""
    model = network(architecture, "gin", policy)
    bag = esan.Bag.of(strategies.from_edges(1, []), policy, literal=True)
    with pytest.raises(ValueError, match=r"Expected more than one pair, or node .*\(got one\)\. Use larger batches"):
        model(bag)
    with torch.no_grad():
        assert bool(model.eval()(bag).isfinite().all())


def test_a_single_row_may_stand_for_several_pairs() -> None:
    policy = esan.Augmented(esan.EdgeDeletion())
    bag = esan.Bag.of(strategies.from_edges(1, []), policy, 2)
    assert (bag.num_rows, bag.num_pairs) == (1, 2)
    ours = network("ds", "gin", policy)
    theirs = copy.deepcopy(ours).double()
    close(ours(bag).detach(), theirs(bag).detach(), "predictions")


@pytest.mark.exhaustive
@pytest.mark.parametrize(("architecture", "encoder"), [("ds", "gin"), ("dss", "gine")])
def test_nothing_of_a_step_stays(architecture: str, encoder: str) -> None:
    """What blocks leave for one another must not refer to the graph that holds it: no collector sees such cycles."""
    policy = strategies.POLICIES["ND"]
    model, bag = network(architecture, encoder, policy), esan.Bag.of(GRAPHS, policy, 2)
    before = _of_graphs()
    prediction = model(bag)
    assert _of_graphs() > before
    prediction.square().sum().backward()
    del prediction
    assert _of_graphs() == before
    with torch.no_grad():
        like = next(model.parameters())
        view, width = model.encoder.input(bag, like, model.features.out_channels)
        rows = model.features(bag, view, like, width)
        assert all(FusedGradient.of(given.h) is None for given in model.encoder(rows, bag)), "no gradient to prepare"


@pytest.mark.exhaustive
def test_gradients_of_rows_between_layers() -> None:
    """Who looks at the rows of a layer finds their gradient, also where the ReLU gave 0."""
    policy = strategies.POLICIES["EGO+(2)"]
    ours, bag = network("dss", "gin", policy, jk="last"), esan.Bag.of(GRAPHS, policy, 2)
    theirs = copy.deepcopy(ours).double()
    seen: list[Tensor] = []

    def look(_: Any, __: Any, rows: Tensor) -> None:
        rows.retain_grad()
        seen.append(rows)

    for model in (ours, theirs):
        model.encoder.layers[0].register_forward_hook(look)
        model(bag).square().sum().backward()
    mine, other = seen
    assert bool((other.grad[other == 0] != 0).any())  # type: ignore[index]
    close(mine.grad, other.grad, "of the rows of the first layer")


def _of_graphs() -> int:
    """How many tensors that have come of others are held."""
    gc.collect()
    return sum(type(thing) is Tensor and thing.grad_fn is not None for thing in gc.get_objects())


def _gradients(model: SubgraphGNN) -> dict[str, Tensor | None]:
    return {name: parameter.grad for name, parameter in model.named_parameters()}


@pytest.mark.parametrize(
    ("architecture", "encoder", "name", "literal", "choices"),
    [
        pytest.param("dss", "gine", "ED", None, {}, marks=pytest.mark.exhaustive),
        # Whose layers leave one another prepared gradients.
        pytest.param("dss", "gin", "EGO+(2)", None, {"jk": "last"}, marks=pytest.mark.exhaustive),
        pytest.param(
            "dss", "gine", "ND", True, {"bag_pool": "sum", "set_encoder": "max"}, marks=pytest.mark.exhaustive
        ),
        pytest.param("ds", "gin", "EGO+(2)", None, {"readout": "mean"}, marks=pytest.mark.exhaustive),
        pytest.param(
            "ds", "gin", "ND", True, {"readout": "max"}, marks=pytest.mark.exhaustive
        ),  # which reads padding, which must then be written
        pytest.param(
            "dss", "graphconv", "NM", None, {"set_encoder": "invariant-deepsets"}, marks=pytest.mark.exhaustive
        ),
    ],
)
def test_stacked_networks(
    monkeypatch: pytest.MonkeyPatch,
    architecture: str,
    encoder: str,
    name: str,
    literal: bool | None,
    choices: dict[str, Any],
) -> None:
    """Three networks on batches of their own give, in one pass, what each gives alone; one batch lacks a graph.

    Tiles of padding alone, or some, or none; memory that was not written to is not read.
    """
    poison(monkeypatch)
    check_stacked(architecture, encoder, strategies.POLICIES[name], literal, choices)


@pytest.mark.exhaustive
def test_a_kernel_that_reads_padding_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    poison(monkeypatch)
    linear = gpu_gin.linear
    monkeypatch.setattr(gpu_gin, "linear", lambda *arguments, **choices: linear(*arguments[:6], **choices))
    with pytest.raises(AssertionError, match="predictions"):
        check_stacked("ds", "gin", esan.NodeDeletion(), None, {})


@pytest.mark.exhaustive
def test_counts_of_walks_behind_categories(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ID-GNN has them."""
    graphs = [graph.clone() for graph in GRAPHS]
    for graph in graphs:
        graph.x = torch.cat([graph.x.reshape(-1, 1).float(), torch.rand(graph.num_nodes, 2)], 1)
    monkeypatch.setattr(sys.modules[__name__], "GRAPHS", graphs)

    def with_walks(*_: object) -> SubgraphGNN:
        lines = WalkFeatures(OneHotEncoder(strategies.ATOMS, "x"), 2)
        model = esan.ds_gnn(lines.out_channels, 6, 2, 1, conv="gin")
        model.features.encoder = lines
        return model

    monkeypatch.setattr(sys.modules[__name__], "network", with_walks)
    check_stacked("ds", "gin", esan.NodeDeletion(), None, {})


def check_stacked(
    architecture: str, encoder: str, policy: esan.Policy, literal: bool | None, choices: dict[str, Any]
) -> None:
    alone = [network(architecture, encoder, policy, **choices) for _ in range(3)]
    assert can_stack(alone[0])
    together = stack(alone)
    bag = esan.Bag.of(GRAPHS, policy, 2, literal=literal)
    ids = torch.tensor([[[2, 1], [0, 2], [1, -1]]])
    padder = Padder(bag, 2)
    shape = padder.counts.shape(ids[0].numpy()).grown(3.0)
    chunk = padder.lay_out(ids, shape, 3)
    padded = PaddedBag.of_fields(chunk.views(chunk.ints[0].long(), chunk.floats[0]), shape, bag, 3)
    given = together(padded)
    assert given.shape[:2] == (3, 2)
    weight = padded.graph_multiplicity.view(3, 3, 1)[:, :-1]
    (given.square() * weight).sum().backward()
    for number, single in enumerate(alone):
        chosen, theirs = ids[0, number], single.double()
        real = chosen[chosen >= 0]
        expected = theirs(bag[real])
        expected.square().sum().backward()
        close(given[number, : len(real)].detach(), expected.detach(), f"predictions of network {number}")
        mine = {key: None if p.grad is None else p.grad[number] for key, p in together.named_parameters()}
        same_gradients(mine, _gradients(theirs))
        state = unstacked(together, number)
        for part, buffer in theirs.named_buffers():
            close(state[part], buffer, f"{part} of network {number}")


@pytest.mark.exhaustive
def test_types_that_come_as_fractions(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = [graph.clone() for graph in GRAPHS]
    for graph in graphs:
        graph.edge_attr = graph.edge_attr.float()
    monkeypatch.setattr(sys.modules[__name__], "GRAPHS", graphs)
    check_stacked("ds", "gine", esan.NodeDeletion(), None, {})


@pytest.mark.exhaustive
@pytest.mark.parametrize(("encoder", "equal"), [("gine", True), ("graphconv", False)])
def test_capacity_changes_no_bit(encoder: str, equal: bool) -> None:
    """Of predictions, gradients and buffers, where padding is left out; elsewhere sums are split differently."""
    policy = esan.EdgeDeletion()
    model = network("dss", encoder, policy)
    bag, ids = esan.Bag.of(GRAPHS, policy, 2), torch.tensor([[[2, 1]]])
    padder, found = Padder(bag, 2), []
    for factor in (1.05, 3.0):
        together = stack([model])
        shape = padder.counts.shape(ids[0].numpy()).grown(factor)
        chunk = padder.lay_out(ids, shape, 1)
        padded = PaddedBag.of_fields(chunk.views(chunk.ints[0].long(), chunk.floats[0]), shape, bag, 1)
        given = together(padded)[:2]
        given.square().sum().backward()
        grads = [p.grad for p in together.parameters() if p.grad is not None]
        found.append([given.detach(), *grads, *together.buffers()])
    assert all(map(torch.equal, *found)) == equal


@pytest.mark.exhaustive
def test_networks_that_are_mixed_up_would_be_seen() -> None:
    policy = esan.NodeDeletion()
    ours, other = (network("ds", "gin", policy) for _ in range(2))
    bag = esan.Bag.of(GRAPHS, policy, 2)
    with pytest.raises(AssertionError, match="predictions"):
        close(ours(bag).detach(), other.double()(bag).detach(), "predictions")
