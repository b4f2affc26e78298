"""The capacities that batches need are counted on the host."""

from itertools import pairwise

import numpy as np
import pytest
from torch import Tensor

import esan
import strategies
from esan.bags.padded.shapes import COARSE, FINE, GraphCounts, KnownShapes, Sizes, smallest_shapes

BAG = esan.Bag.of(strategies.odd_graphs(), esan.EdgeDeletion(), 3)


def test_the_capacity_of_the_largest_batch() -> None:
    """Of each kind the most that any of the batches needs, and one of padding; −1 is no graph."""
    batches = [[0, 1, -1], [3, 3, 5], [2, 4, 1]]
    shape = GraphCounts(BAG).shape(np.array(batches))

    def most(counts: Tensor) -> int:
        return 1 + max(sum(int(counts[g]) for g in batch if g >= 0) for batch in batches)

    assert (shape.graphs, shape.nodes, shape.edges) == (
        3,
        most(BAG.graphs.num_nodes),
        most(BAG.graphs.num_directed_edges),
    )
    assert shape.subgraphs == most(BAG.selection.num_subgraphs)
    there = BAG.rows.num_rows.any(1).tolist()
    for capacity, counts in ((shape.rows, BAG.rows.num_rows), (shape.row_edges, BAG.rows.num_edges)):
        assert list(capacity[1:]) == [most(line) if used else 0 for line, used in zip(counts, there, strict=True)][1:]
    # Rows of the background are the nodes.
    assert shape.rows[0] == shape.nodes


def test_tried_batches_are_random_ones() -> None:
    counts, every = GraphCounts(BAG), np.arange(len(BAG))
    whole = counts.shape(every[None])
    assert counts.largest_random(len(BAG)) == whole
    assert counts.largest_random(len(BAG) + 2).nodes == whole.nodes
    # Of many pairs of a few graphs one is that of the largest two, and none has a graph twice.
    sizes = np.sort(BAG.graphs.num_nodes.numpy())
    assert counts.largest_random(2).nodes == sizes[-2:].sum() + 1


def test_shapes_grow_for_what_they_do_not_hold() -> None:
    counts, known = GraphCounts(BAG), KnownShapes()
    small = known.holding(np.array([[0, 1]]), counts)
    assert small.holds(counts.largest_random(2))
    assert known.holding(np.array([[3, 2], [1, 0]]), counts) is small
    # No random batch has the largest graph twice.
    largest = int(BAG.graphs.num_nodes.argmax())
    twice = np.array([[largest, largest]])
    grown = known.holding(twice, counts)
    assert not small.holds(counts.shape(twice))
    assert grown.holds(counts.shape(twice))
    assert grown.holds(small)
    assert known.holding(np.array([[0, 1]]), counts) is grown


@pytest.mark.parametrize(("sizes", "least", "at_most"), [(FINE, 3, 13), (COARSE, 2, 4)], ids=["fine", "coarse"])
def test_batches_that_need_less_have_smaller_shapes(sizes: Sizes, least: int, at_most: int) -> None:
    counts = GraphCounts(BAG)
    steps = np.random.default_rng(0).integers(len(BAG), size=(40, 3, 2))
    steps[7] = -1
    most = counts.shape(steps.reshape(-1, 2)).grown(4.0)
    found = [*smallest_shapes(most, steps, counts, sizes)]
    places = [range(len(steps))[place] for _, place in found]
    assert [k for place in places for k in place] == list(range(len(steps)))
    for (shape, _), place in zip(found, places, strict=True):
        assert all(shape.holds(counts.shape(steps[k])) for k in place)
        assert most.holds(shape)
        assert most.alike(shape)
        assert (shape.nodes, shape.edges, shape.rows[0]) == (most.nodes, most.edges, most.rows[0])
    of = {k: shape for (shape, _), place in zip(found, places, strict=True) for k in place}
    assert least <= len(set(of.values())) <= at_most
    assert sum(of[7].rows[1:]) < 0.2 * sum(most.rows[1:])
    assert (
        sum(of[7].row_edges[1:]) < 0.2 * sum(most.row_edges[1:]) if sizes.edges else of[7].row_edges == most.row_edges
    )
    # Neighbouring steps have another shape, and no step one that is larger than it needs.
    assert all(mine[0] != other[0] for mine, other in pairwise(found))
    for k, shape in of.items():
        less = [other for other in set(of.values()) if sum(other.rows) < sum(shape.rows)]
        assert not any(other.holds(counts.shape(steps[k])) for other in less)
