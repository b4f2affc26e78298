"""Laws of the stored rows themselves, without a network."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

import esan
import strategies
from hypothesis_examples import examples

EVERY_POLICY = pytest.mark.parametrize("policy", strategies.POLICIES.values(), ids=strategies.POLICIES)


def _same(one: esan.Bag, other: esan.Bag) -> bool:
    return all(
        getattr(one, part).fingerprint == getattr(other, part).fingerprint for part in ("graphs", "selection", "rows")
    )


@EVERY_POLICY
@examples(4)
@given(graphs=strategies.batches())
def test_multiplicities_sum_to_the_number_of_pairs(policy: esan.Policy, graphs: list[Data]) -> None:
    compact, literal = esan.Bag.of(graphs, policy, 3), esan.Bag.of(graphs, policy, literal=True)
    pairs = sum(len(s.mark) if "mark" in s else s.num_nodes for s in literal.subgraphs())
    assert literal.num_pairs == compact.num_pairs == pairs == literal.num_rows
    for t in range(4):
        view = compact.layer_view(t)
        assert view.multiplicity is not None
        assert int(view.multiplicity.sum()) == pairs
        assert int(view.multiplicity.min()) >= 0
        assert literal.layer_view(t).multiplicity is None
        ones = torch.ones(view.num_rows, 1, dtype=torch.float64)
        m = compact.selection.num_subgraphs[compact.graphs.node_graph, None].double()
        assert torch.equal(view.pool_bag(ones, "sum"), m)
        n = compact.graphs.num_nodes[compact.selection.subgraph_graph, None].double()
        assert torch.equal(view.pool_nodes(ones, "sum"), n)


@EVERY_POLICY
@examples(4)
@given(graphs=strategies.batches())
def test_to_literal_is_the_bag_built_literal(policy: esan.Policy, graphs: list[Data]) -> None:
    literal, compact = esan.Bag.of(graphs, policy, literal=True), esan.Bag.of(graphs, policy, 2)
    assert _same(compact.to_literal(), literal)
    assert _same(literal.to_compact(2), compact)
    assert literal.to_literal() is literal
    assert compact.to_compact(2) is compact


@EVERY_POLICY
@examples(4)
@given(graphs=strategies.batches(max_drawn=3), data=st.data())
def test_part_of_a_bag_is_the_bag_of_that_part(policy: esan.Policy, graphs: list[Data], data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, len(graphs) - 1), min_size=1, max_size=5), label="ids")
    for literal in (True, None):
        part = esan.Bag.of(graphs, policy, 3, literal=literal)[ids]
        direct = esan.Bag.of([graphs[i] for i in ids], policy, 3, literal=literal)
        assert _same(part, direct)
        assert _same(part[list(range(len(ids)))], direct)


@EVERY_POLICY
@examples(3)
@given(graphs=strategies.batches(), seed=st.integers(0, 9))
def test_part_of_the_subgraphs(policy: esan.Policy, graphs: list[Data], seed: int) -> None:
    literal, compact = esan.Bag.of(graphs, policy, literal=True), esan.Bag.of(graphs, policy, 3)
    kept = torch.rand(literal.num_subgraphs, generator=torch.Generator().manual_seed(seed)) < 0.5
    kept[literal.selection.subgraph_start] = True
    chosen = [s for s, keep in zip(literal.subgraphs(), kept.tolist(), strict=True) if keep]
    for bag in (literal.only(kept), compact.only(kept)):
        assert bag.num_subgraphs == len(chosen)
        for got, wanted in zip(bag.subgraphs(), chosen, strict=True):
            assert torch.equal(got.edge_index, wanted.edge_index)
    assert _same(compact.only(kept).to_literal(), literal.only(kept))
    assert _same(literal.only(kept).to_compact(3), compact.only(kept))


@EVERY_POLICY
def test_order_of_the_users_columns_does_not_matter(policy: esan.Policy) -> None:
    graph = strategies.odd_graphs()[4]
    shuffled = graph.clone()
    order = torch.randperm(graph.edge_index.size(1))
    shuffled.edge_index, shuffled.edge_attr = graph.edge_index[:, order], graph.edge_attr[order]
    one, other = esan.Bag.of(graph, policy, 3), esan.Bag.of(shuffled, policy, 3)
    assert one.rows.fingerprint == other.rows.fingerprint
    assert one.selection.fingerprint == other.selection.fingerprint


def test_compact_bags_grow_linearly() -> None:
    rows = {n: esan.Bag.of(esan.graphs.cycle(n), esan.NodeDeletion(), 3).num_rows for n in (50, 100)}
    # On a cycle a deleted node is seen by itself and three nodes on either side after three layers.
    assert rows == {50: 8 * 50, 100: 8 * 100}
