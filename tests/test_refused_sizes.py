"""Sizes that cannot be are refused before they are tried, with both numbers; those that can be are right."""

from collections.abc import Callable
from contextlib import nullcontext
from math import comb
from typing import Any

import pytest
import torch
from torch_geometric.data import Data
from typer.testing import CliRunner

import esan
import strategies
from esan import Bag, graphs, memory_limits
from esan.cli.jobs import whole_numbers
from esan.cli.main import app
from esan.graphs import graph_of, read
from esan.ops.numba import runtime
from esan.train import Recipe
from esan.train.model_spec import ModelSpec

FIFTY = tuple(range(1, 51))


@pytest.fixture(autouse=True)
def _sixteen_gigabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limits, "available_memory", lambda device=None: 2**34)


@pytest.mark.parametrize(
    ("name", "got"),
    [
        ("cycle(99999999)", "99999999 nodes of cycle(99999999)"),
        ("complete(100000)", "4999950000 edges of complete(100000)"),
        ("rook(3000)", "26991000000 edges of rook(3000)"),
        ("99999999xcycle(3)", "299999997 nodes of 99999999xcycle(3)"),
        ("9999999xpath(1)+9999999xpath(1)", "19999998 nodes of 9999999xpath(1)+9999999xpath(1)"),
    ],
)
def test_named_graphs(name: str, got: str) -> None:
    result = CliRunner().invoke(app, ["bag", name])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Expected a named graph of at most 10,000,000 nodes and edges (got {got}).")
    assert len(result.stderr.splitlines()) == 1


def test_copies_of_a_graph_are_its_disjoint_union() -> None:
    many, one_by_one = graph_of("4xcycle(3)"), graphs.disjoint_union(*[graphs.cycle(3)] * 4)
    assert torch.equal(read(many).edges, read(one_by_one).edges)
    assert read(many).num_nodes.tolist() == [12]
    with pytest.raises(ValueError, match=r"^Expected at least one copy of a graph \(got '0xcycle\(3\)'\)"):
        graph_of("0xcycle(3)")


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_rooks_graph_by_its_definition(n: int) -> None:
    square = torch.arange(n * n)
    row, column = square // n, square % n
    joined = ((row[:, None] == row) | (column[:, None] == column)).fill_diagonal_(False)
    assert torch.equal(graphs.rook(n).edge_index.unique(dim=1), joined.nonzero().T.unique(dim=1))


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: esan.policy_named(f"EGO({10**20})"), r"^Expected hops of at most 1,000,000 \(got 10{20}\)"),
        (lambda: esan.policy_named(f"ND({10**20})"), r"^Expected k of at most 100 \(got 10{20}\)"),
        (lambda: Bag.of(graphs.cycle(5), "ED", 10**9), r"^Expected num_layers of at most 10,000 \(got 1000000000\)"),
        (lambda: Recipe("zinc", num_layers=10**9), r"^Expected num_layers of at most 10,000 \(got 1000000000\)"),
        (lambda: Recipe("zinc", hidden_channels=10**11), r"^Expected hidden_channels of at most 65,536 \(got 1000000"),
        (lambda: Recipe("zinc", split_seed=2**32), r"^Expected split_seed of at most 4,294,967,295 \(got"),
        (
            lambda: Recipe("zinc", grid=(dict.fromkeys(("epochs", "num_layers", "votes"), FIFTY),)).configurations(),
            r"^Expected at most 100,000 configurations of a grid \(got 125000\)",
        ),
        (lambda: whole_numbers("0..99999999999", "seeds"), r"^Expected at most 100,000 numbers in --seeds \(got"),
        (lambda: graph_of([(0, 10**12)]), r"^Expected node numbers below 67,108,864 in a list of edges"),
        (lambda: read(Data(num_nodes=10**15)), r"^Expected graphs of 10{15} nodes to fit .*\(got 7.1 PiB needed"),
        (
            lambda: Bag.of(graphs.cycle(100), "ND(50)", 2),
            r"^Expected 50-node-deleted subgraphs, \d{30} of them, to fit into memory \(got 10\^33 bytes needed, 16.0",
        ),
        (
            lambda: Bag.of(graphs.cycle(10**5), "ED", 2, literal=True),
            r"^Expected the literal bag of 10,000,000,000 pairs to fit into memory \(got 605.3 GiB needed, 16.0 GiB",
        ),
        (
            lambda: esan.wl.separates("cycle(100000)", "cycle(100000)", "ds", "NM"),
            r"^Expected the literal bag of 20,000,000,000 pairs to fit into memory \(got 1.1 TiB needed, 16.0 GiB",
        ),
    ],
)  # fmt: skip
def test_numbers(make: Callable[[], Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        make()


@pytest.mark.parametrize(
    ("policy", "reference", "match"),
    [
        ("EGO(1)", False, r"^Expected 220 ego-networks of about 24,090 edges each to fit .*\(got 80.8 MiB needed, 8.0"),
        ("EGO(1)", True, r"^Expected 220 ego-networks of about 24,090 edges each to fit .*\(got 758.1 MiB needed, 8.0"),
        (
            "ED",
            False,
            r"^Expected the compact bag of 24,090 subgraphs, about 1.1 MiB each, to fit .*\(got 26.0 GiB need",
        ),
        ("ED", True, r"^Expected the compact bag of 24,090 subgraphs, about 5.5 MiB each, to fit .*\(got 130.1 GiB"),
    ],
)
def test_bags_that_would_not_fit(policy: str, reference: bool, match: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The size of a bag is estimated from a few subgraphs, before any is stored."""
    _only(monkeypatch, 2**23)
    with esan.reference() if reference else nullcontext(), pytest.raises(ValueError, match=match):
        Bag.of(graphs.complete(220), policy, 2)
    # Of a sparse graph, rows for all pairs would not fit either, but the compact bag does.
    assert Bag.of(graphs.cycle(2000), policy, 2).num_pairs == 4_000_000


def _only(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """So many bytes of memory, and no size that is too small to be checked."""
    for module in ("esan.memory_limits", "esan.bags.build.build_rows", "esan.policies.ego"):
        monkeypatch.setattr(f"{module}.SMALL", 2**16)
        monkeypatch.setattr(f"{module}.available_memory", lambda device=None: size)


@pytest.mark.skipif(not runtime.available(), reason="the reference cannot count before it stores")
@pytest.mark.parametrize(("policy", "layers"), [("EGO+(2)", 2), ("NM", 3), ("ND", 3)])
def test_rows_are_counted_before_they_are_stored(policy: str, layers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exactly the bytes of the rows suffice, and one less does not: on a hub that few of the sampled subgraphs show."""
    star = graphs.star(300)
    needed = Bag.of(star, policy, layers).rows
    size = sum(t.nbytes for name, t in needed.tensors().items() if name not in ("num_rows", "num_edges"))
    # Background rows have no entries of their own; they are counted as if they had.
    size += 17 * needed.background
    _only(monkeypatch, size)
    assert Bag.of(star, policy, layers).rows.fingerprint == needed.fingerprint
    _only(monkeypatch, size - 1)
    rows = f"{needed.row_ends[-1]:,} rows and {needed.edge_ends[-1]:,} edges"
    with pytest.raises(ValueError, match=rf"^Expected the compact bag of 301 subgraphs, {rows}, to fit into memory"):
        Bag.of(star, policy, layers)


@pytest.mark.skipif(not runtime.available(), reason="the reference cannot count before it stores")
def test_ego_networks_are_counted_before_they_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    star, policy = read(graphs.star(300)), esan.EgoNets(2)
    _only(monkeypatch, policy.select(star).nbytes)
    assert policy.select(star).entry_edge.numel() == 301 * 300
    _only(monkeypatch, 16 * 301 * 300 - 1)
    with pytest.raises(ValueError, match=r"^Expected 301 ego-networks of 90,300 edges together to fit into memory"):
        policy.select(star)


def test_a_hub_among_the_sampled_does_not_decide_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the sampled ego-networks has all edges, the others one: these fit."""
    _only(monkeypatch, 2**23)
    for context in (nullcontext(), esan.reference()):
        with context:
            assert Bag.of(graphs.star(3000), "EGO(1)", 2).selection.entry_edge.numel() == 6000


def test_a_literal_bag_is_refused_before_subgraphs_are_selected(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = graphs.star(300)
    literal = Bag.of(wanted, "EGO(2)", literal=True)

    def selected(*_: Any) -> Any:
        raise AssertionError("selected")

    needed = 17 * literal.num_rows + 24 * literal.rows.source.numel()
    monkeypatch.setattr(esan.EgoNets, "select", selected)
    # Half of the ego-networks would not fit; with more memory all are selected and counted.
    _only(monkeypatch, needed // 2)
    with pytest.raises(
        ValueError, match=r"^Expected the literal bag of 90,601 pairs to fit .*\(got 5\.\d MiB needed, 2"
    ):
        Bag.of(wanted, "EGO(2)", literal=True)
    assert 5 <= needed / 2**20 < 6
    _only(monkeypatch, needed)
    with pytest.raises(AssertionError, match="selected"):
        Bag.of(wanted, "EGO(2)", literal=True)


def test_a_policy_that_selects_others_is_not_judged_by_its_base_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """A subclass that selects fewer subgraphs fits where its base class would not."""

    class First(esan.NodeMarking):
        def select(self, some: esan.graphs.Graphs) -> esan.policies.Selection:
            nothing = some.num_nodes.new_empty(0)
            marks = (torch.arange(len(some)), some.node_start)
            return esan.policies.Selection.deleting(some, torch.ones_like(some.num_nodes), nothing, nothing, marks)

    _only(monkeypatch, 2**20)
    assert Bag.of(graphs.cycle(1000), First(), literal=True).num_rows == 1000
    assert First().known_subgraphs(read(graphs.cycle(9))) is None
    with pytest.raises(ValueError, match=r"^Expected the literal bag of 1,000,000 pairs"):
        Bag.of(graphs.cycle(1000), "NM", literal=True)


@pytest.mark.parametrize("policy", strategies.POLICIES.values(), ids=list(strategies.POLICIES))
def test_known_numbers_of_subgraphs(policy: esan.Policy) -> None:
    some = read([graphs.star(3), graphs.path(1), graphs.cycle(6), graphs.complete(4)])
    known = policy.known_subgraphs(some)
    assert known is None or torch.equal(known, policy.select(some).num_subgraphs)


def test_parts_give_the_same_bag(monkeypatch: pytest.MonkeyPatch) -> None:
    """A literal bag that is built some subgraphs at a time, and entries that are checked so."""
    some = [graphs.star(9), graphs.path(1), graphs.cycle(6)]
    for policy in strategies.POLICIES.values():
        if policy.random:
            continue
        whole = Bag.of(some, policy, literal=True)
        with monkeypatch.context() as small:
            small.setattr("esan.bags.build.literal.CHUNK_PAIRS", 20)
            small.setattr("esan.policies.selection.CHUNK_ENTRIES", 3)
            parts = Bag.of(some, policy, literal=True)
        assert parts.rows.fingerprint == whole.rows.fingerprint
        assert parts.selection.fingerprint == whole.selection.fingerprint


def test_a_network_that_would_not_fit() -> None:
    recipe = Recipe("zinc", hidden_channels=2**16, num_layers=3)
    with pytest.raises(
        ValueError, match=r"^Expected a network of 3 layers of width 65,536 to fit .*got 48.0 GiB needed, 16.0 G"
    ):
        ModelSpec(recipe, esan.data.Task("regression", 1), 7, None).build()


def test_nearly_all_nodes_deleted() -> None:
    """C(70, 35) overflows on the way to C(70, 69) = 70."""
    bag = Bag.of(graphs.cycle(70), "ND(69)", 2)
    assert bag.num_subgraphs == comb(70, 69)
    kept = torch.stack([bag.subgraph(i).edge_index.new_tensor(bag.subgraph(i).num_edges) for i in range(70)])
    assert kept.eq(0).all()
    assert Bag.of(graphs.cycle(6), "ND(3)", 2).num_subgraphs == 20
