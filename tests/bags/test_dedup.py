"""Representatives of rows are the colours of colour refinement on the literal bag, and know what they go on from."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data

import esan
import strategies
from deduplicating import ND, check_deduplicated, check_same, found, graphs_like, network_of
from esan.bags.dedup import DedupLayerView, dedup_layer_views, dedup_limits
from esan.data.sets.expressivity import SKIPS
from esan.ops.dispatch import implementation
from esan.ops.numba import runtime as cpu
from hypothesis_examples import examples
from plain_refinement import Pair, Reference, numbers

pytestmark = pytest.mark.skipif(not cpu.available(), reason="needs numba (the extra fast)")

POLICIES = {name: strategies.POLICIES[name] for name in ("ND", "ED", "EGO+(2)", "NM", "ND^")}
POLICIES |= {"EGO(2)": esan.EgoNets(2), "half of ND": esan.Sampled(esan.NodeDeletion(), 0.5)}


def _graphs() -> list[Data]:
    """A tree and a copy of it, a long path, a ring, a graph with isolated nodes and a loop, and one without edges."""
    tree = strategies.from_edges(8, [(0, 1), (1, 2), (1, 3), (3, 4), (3, 5), (5, 6), (5, 7)], 7)
    return [
        tree,
        strategies.from_edges(3, [], 3),
        esan.graphs.permuted(tree, torch.Generator().manual_seed(1)),
        strategies.from_edges(11, [(v, v + 1) for v in range(10)], 1),
        strategies.from_edges(6, [(v, (v + 1) % 6) for v in range(6)], 2),
        strategies.from_edges(7, [(0, 1), (1, 2), (2, 0), (3, 4), (4, 4)], 4),
    ]


@dataclass(frozen=True, eq=False)
class Alike:
    """How many layers there are, and which nodes and edges are alike: those of the same number."""

    num_layers: int
    nodes: Tensor
    edges: Tensor

    def reference(self, bag: esan.Bag) -> Reference:
        return Reference(bag, self.num_layers, self.nodes, self.edges)

    def views(self, bag: esan.Bag) -> list[DedupLayerView] | None:
        return dedup_layer_views(implementation("dedup", self.nodes), bag, self.num_layers, self.nodes, self.edges)


def _numbered(values: Tensor) -> tuple[Tensor, Tensor]:
    return implementation("dedup", values).distinct_ids(values)


def _alike(bag: esan.Bag, kinds: int, num_layers: int) -> Alike:
    """Nodes and edges of so many kinds, by their features."""
    graphs = bag.graphs
    assert graphs.x is not None
    assert graphs.edge_attr is not None
    return Alike(num_layers, _numbered(graphs.x % kinds)[0], _numbered(graphs.edge_attr % kinds)[0])


def _of_pairs(bag: esan.Bag, view: DedupLayerView) -> dict[Pair, int]:
    """The representative of each pair: that of its row where it is stored, else that of its node's."""
    nodes, graph = bag.num_nodes, bag.graphs.node_graph.tolist()
    subgraphs: dict[int, list[int]] = defaultdict(list)
    for s, g in enumerate(bag.selection.subgraph_graph.tolist()):
        subgraphs[g].append(s)
    colour, rows = view.rows.index.tolist(), bag.rows
    found = {(v, s): colour[v] for v in range(nodes) for s in subgraphs[graph[v]]}
    stored = zip(rows.node.tolist(), rows.subgraph.tolist(), strict=True)
    return found | dict(zip(stored, colour[nodes:], strict=False))


def check(bag: esan.Bag, reference: Reference, views: Sequence[DedupLayerView], alike: Alike) -> None:
    """Raise an `AssertionError` unless the representatives of layer views are the colours of the reference."""
    assert len(views) == len(reference.rounds)
    of_pairs = [_of_pairs(bag, view) for view in views]
    for view, mine, expected in zip(views, of_pairs, reference.rounds, strict=True):
        assert numbers(mine) == expected
        held, owner = Counter(mine.values()), view.rows.index.tolist()
        # Of rows from the last to the first, the first is what stays.
        first = {colour: row for row, colour in reversed(list(enumerate(owner)))}
        assert view.first.tolist() == [first[colour] for colour in range(view.num_rows)]
        assert view.multiplicity.tolist() == [held[colour] for colour in range(view.num_rows)]
    assert views[0].edges is None
    assert views[0].previous is None
    for view, mine, before in zip(views[1:], of_pairs[1:], of_pairs, strict=False):
        _check_read(bag, reference, view, mine, before, alike.edges.tolist())


def _owners(first: Tensor, rows: Tensor) -> list[int]:
    """Which group each row is in, of groups that begin there."""
    return np.repeat(np.arange(first.numel()), np.diff([*first.tolist(), rows.numel()])).tolist()


def _check_read(
    bag: esan.Bag,
    reference: Reference,
    view: DedupLayerView,
    mine: Mapping[Pair, int],
    before: Mapping[Pair, int],
    kinds: list[int],
) -> None:
    """A representative goes on from and reads what each of its pairs does, along edges that lie in order."""
    assert view.edges is not None
    assert view.previous is not None
    edges, previous = view.edges, view.previous.index.tolist()
    source, target, edge_id = *(end.tolist() for end in edges.edge_index), edges.edge_id.tolist()
    reads: list[list[tuple[int, int]]] = [[] for _ in previous]
    for u, v, a in zip(source, target, edge_id, strict=True):
        reads[v].append((u, kinds[a]))
    for pair, colour in mine.items():
        assert previous[colour] == before[pair]
        assert tuple(sorted(reads[colour])) == reference.reads(pair, before)
    node = view.view.node[view.first]
    assert torch.equal(node[edges.edge_index[1]], bag.graphs.edge_index[1, edges.edge_id])
    assert edges.num_rows == view.num_rows == len(previous)
    assert _owners(edges.by_target.ptr, edges.edge_id) == target
    order = edges.by_source.perm.tolist()
    assert sorted(order) == list(range(len(order)))
    assert _owners(edges.by_source.ptr, edges.edge_id) == [source[k] for k in order]


def _checked(bag: esan.Bag, alike: Alike) -> list[DedupLayerView]:
    views = alike.views(bag)
    assert views is not None
    check(bag, alike.reference(bag), views, alike)
    return views


@pytest.mark.pairwise
@pytest.mark.usefixtures("always_deduplicated")
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("num_layers", [3, 4])
@pytest.mark.parametrize("kinds", [1, 2])
def test_representatives_are_the_colours_of_the_literal_bag(kinds: int, num_layers: int, policy: esan.Policy) -> None:
    bag = esan.Bag.of(_graphs(), policy, 4, generator=torch.Generator().manual_seed(0))
    views = _checked(bag, _alike(bag, kinds, num_layers))
    # Copies of a graph have the same representatives, of which there are fewer than rows.
    of_graphs: list[set[int]] = [set() for _ in range(len(bag))]
    for (v, _), colour in _of_pairs(bag, views[-1]).items():
        of_graphs[int(bag.graphs.node_graph[v])].add(colour)
    assert of_graphs[0] == of_graphs[2] or isinstance(policy, esan.Sampled)
    assert views[-1].num_rows < views[-1].view.num_rows


@pytest.mark.usefixtures("always_deduplicated")
@examples(10, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(graphs=strategies.batches(), policy=strategies.policies(), num_layers=st.integers(1, 4), kinds=st.integers(1, 3))
def test_representatives_of_any_graphs(kinds: int, num_layers: int, policy: esan.Policy, graphs: list[Data]) -> None:
    """Also of a part of a bag, in another order."""
    bag = esan.Bag.of([*graphs, *_graphs()[:2]], policy, num_layers)
    for part in (bag, bag[list(reversed(range(1, len(bag))))]):
        _checked(part, _alike(part, kinds, num_layers))


@pytest.mark.usefixtures("always_deduplicated")
def test_wrong_representatives_are_noticed() -> None:
    """Nodes or edges that are separated too little, or too much; a layer too few."""
    bag = esan.Bag.of(_graphs(), esan.NodeDeletion(), 3)
    right = _alike(bag, 3, 3)
    no_nodes = replace(right, nodes=torch.zeros_like(right.nodes))
    no_edges = replace(right, edges=torch.zeros_like(right.edges))
    fewer = replace(right, num_layers=2)
    for one, other in ((no_nodes, right), (right, no_nodes), (no_edges, right), (right, no_edges), (fewer, right)):
        views = one.views(bag)
        assert views is not None
        with pytest.raises(AssertionError):
            check(bag, other.reference(bag), views, one)


@pytest.mark.usefixtures("always_deduplicated")
@pytest.mark.parametrize("kinds", [2, 200])
def test_nodes_of_high_degree(kinds: int) -> None:
    """Stars whose leaves come in another order, of two kinds or each of its own."""
    star = esan.graphs.star(40)
    star.x = torch.arange(star.num_nodes) % kinds
    other = esan.graphs.permuted(star, order=torch.cat([torch.tensor([0]), torch.arange(1, star.num_nodes).flip(0)]))
    bag = esan.Bag.of([star, other], esan.NodeDeletion(), 2)
    assert bag.graphs.x is not None
    _checked(bag, Alike(2, _numbered(bag.graphs.x)[0], torch.zeros_like(bag.graphs.undirected_edge)))


@pytest.mark.usefixtures("always_deduplicated")
def test_representatives_are_given_up_where_too_many_rows_differ() -> None:
    """In the first layer, and in all layers so far: used if the limit is just above the fraction, else given up."""
    bag = esan.Bag.of(_graphs(), esan.NodeDeletion(), 3)
    alike = _alike(bag, 2, 3)
    views = alike.views(bag)
    assert views is not None
    counts = np.cumsum([(view.num_rows, view.view.num_rows) for view in views[1:]], axis=0)
    parts = counts[:, 0] / counts[:, 1]
    for name, part in (("first", parts[0]), ("overall", parts[1:].max())):
        for limit, given_up in ((part + 1e-6, False), (part - 1e-6, True)):
            with dedup_limits(**{"first": 1.0, "overall": 1.0, name: limit}):
                assert (alike.views(bag) is None) == given_up


@pytest.mark.parametrize("policy", [esan.NodeDeletion(), esan.EgoNets(3, marked=True)], ids=repr)
def test_symmetric_graphs_have_few_representatives(policy: esan.Policy) -> None:
    """The circulant graphs of CSL: their nodes are all alike, so that a graph has the colours of one subgraph.

    After four layers 49 representatives stand for 26,076 rows (ND), and 87 for 18,696 (EGO+).
    """
    ones = [esan.graphs.csl(41, skip) for skip in SKIPS]
    counts = []
    for graphs in (ones, [*ones, *map(esan.graphs.permuted, ones)]):
        bag = esan.Bag.of(graphs, policy, 4)
        alike = Alike(4, torch.zeros_like(bag.graphs.node_graph), torch.zeros_like(bag.graphs.undirected_edge))
        views = alike.views(bag)
        assert views is not None
        assert 100 * views[-1].num_rows < views[-1].view.num_rows
        counts.append([view.num_rows for view in views])
    # The same graphs in another numbering add none.
    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    "lines",
    [
        torch.tensor([3, 1, 3, 2, 1]),
        torch.tensor([True, False, True]),
        torch.tensor([[0.25, 1.0], [0.5, 1.0], [0.25, 1.0], [0.5, 1.5]]),
        torch.tensor([[0, 0, 0], [7, 1, 7]], dtype=torch.int32).t(),
        torch.empty(0, 2),
    ],
    ids=["whole", "truths", "fractions", "not contiguous", "none"],
)
def test_lines_have_one_number_where_they_are_the_same(lines: Tensor) -> None:
    keys = [tuple(line) if isinstance(line, list) else line for line in lines.tolist()]
    met = list(dict.fromkeys(keys))
    number, first = _numbered(lines)
    assert number.tolist() == [met.index(key) for key in keys]
    assert first.tolist() == [keys.index(key) for key in met]


def test_rows_that_nearly_all_differ() -> None:
    """With the limits as they are: representatives of random features are given up, those of a ring are used."""
    graphs = graphs_like()
    for graph in graphs:
        graph.x = torch.randn(graph.num_nodes, 3)
    bag = esan.Bag.of(graphs, ND, 3)
    check_same(network_of("ds", ND, 3), bag)
    assert found(bag) == [None]
    check_deduplicated(network_of("ds", ND, None), esan.Bag.of(esan.graphs.cycle(12), ND, 3))
