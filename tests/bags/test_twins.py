"""Rows that a layer would compute alike: found by what they read, computed once, and nobody can tell."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import esan
import strategies
from esan.bags import twins
from esan.bags.stage import Stage
from esan.kernels import cpu
from esan.testing.compare import check_close

pytestmark = pytest.mark.skipif(not cpu.available(), reason="needs numba (the extra fast)")

POLICIES = [esan.EgoNets(2), esan.EgoNets(3, marked=True), esan.NodeDeletion(), esan.EdgeDeletion(), esan.NodeMarking()]


def _graphs() -> list[Data]:
    """Rings with chords and a tail, of unequal sizes."""
    made = []
    for i, n in enumerate((9, 14, 11)):
        edges = [(v, v + 1) for v in range(n - 1)] + [(0, n - 3), (2, 6)]
        made.append(strategies.from_edges(n, edges, i))
    return made


@pytest.fixture
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twins are used however few there are."""
    monkeypatch.setattr(twins, "_WORTH", 1.0)


def _first_stage(policy: esan.Policy) -> tuple[Stage, int]:
    bag = esan.Bag.of(_graphs(), policy, 3)
    return bag.stage(1), bag.stage(0).num_rows


@pytest.mark.usefixtures("_always")
@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_classes_are_those_of_what_rows_read(policy: esan.Policy) -> None:
    stage, known = _first_stage(policy)
    found = stage.twins_from(known)
    assert found is not None
    arcs, node = stage.arcs_from(known), stage.node.tolist()
    read: list[list[tuple[int, int]]] = [[] for _ in node]
    for source, target, arc in zip(*arcs.edge_index.tolist(), arcs.arc.tolist(), strict=True):
        read[target].append((source, arc))
    keys = [(r if r < known else node[r], tuple(lines)) for r, lines in enumerate(read)]
    numbers: dict[tuple[int, tuple[tuple[int, int], ...]], int] = {}
    assert found.rows.owner.tolist() == [numbers.setdefault(key, len(numbers)) for key in keys]
    firsts = [keys.index(key) for key in numbers]
    assert found.node.tolist() == [node[r] for r in firsts]
    # Their arcs are those of the first of each class.
    arcs = found.arcs
    assert arcs.num_rows == len(numbers)
    listed: list[list[tuple[int, int]]] = [[] for _ in firsts]
    for source, target, arc in zip(*arcs.edge_index.tolist(), arcs.arc.tolist(), strict=True):
        listed[target].append((source, arc))
    assert listed == [read[r] for r in firsts]
    assert arcs.into.first.tolist() == np.cumsum([0, *map(len, listed)])[:-1].tolist()
    assert arcs.source[arcs.out_of.order].tolist() == sorted(arcs.source.tolist())
    assert stage.norm_weight is not None
    assert float(found.weight.sum()) == float(stage.norm_weight.sum())


@contextmanager
def _twins_told(use: bool) -> Iterator[list[twins.Twins | None]]:
    """Within, twins are used or not; those that layers were told of."""
    told: list[twins.Twins | None] = []
    found = Stage.twins_from

    def tell(stage: Stage, known: int) -> twins.Twins | None:
        told.append(found(stage, known) if use else None)
        return told[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stage, "twins_from", tell)
        yield told


@pytest.mark.usefixtures("_always")
@pytest.mark.parametrize("policy", POLICIES, ids=repr)
@pytest.mark.parametrize("build", [esan.ds_gnn, esan.dss_gnn])
@pytest.mark.parametrize("conv", ["gin", "gine"])
def test_nobody_can_tell(policy: esan.Policy, build: type, conv: str) -> None:
    """Predictions, gradients and buffers with twins and without them, in double precision."""
    torch.manual_seed(0)
    bonds = esan.Categories(strategies.BONDS) if conv == "gine" else None
    network = build(
        esan.Categories(strategies.ATOMS), 8, 3, 2, conv=conv, edge_channels=bonds, marked=policy.marked
    ).double()
    found = []
    for use in (True, False):
        twin = copy.deepcopy(network)
        with _twins_told(use) as told:
            prediction = twin(esan.Bag.of(_graphs(), policy, 3))
            prediction.square().sum().backward()
        assert any(one is not None for one in told) == use
        found.append((prediction, twin))
    (mine, ours), (other, theirs) = found
    check_close(mine, other, "predictions", tolerance=1e-10)
    for (name, one), two in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        if two.grad is not None:
            check_close(one.grad, two.grad, name, tolerance=1e-9)
    for (name, one), two in zip(ours.named_buffers(), theirs.buffers(), strict=True):
        check_close(one.double(), two.double(), name, tolerance=1e-10)


def test_ego_networks_have_twins_and_edge_deletion_has_none() -> None:
    assert _first_stage(esan.EgoNets(3))[0].twins_from(_first_stage(esan.EgoNets(3))[1]) is not None
    stage, known = _first_stage(esan.EdgeDeletion())
    assert known < stage.num_rows
    assert stage.twins_from(known) is None
    assert stage.twins_from(stage.num_rows) is None


def test_a_literal_bag_has_none() -> None:
    stage = esan.Bag.of(_graphs(), esan.EgoNets(3), literal=True).stage(1)
    assert stage.twins_from(stage.num_rows) is None
