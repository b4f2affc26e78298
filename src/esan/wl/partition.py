"""`classes`: a whole collection of graphs, divided by what a test tells apart, with one shared palette."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from esan.graphs import Graphs, Source
from esan.graphs.things import Thing
from esan.policies import Policy, Selection
from esan.wl.board import Board, Labels, numpy
from esan.wl.inputs import collection, labels_of
from esan.wl.kinds import Test, policy_for, test_named
from esan.wl.palette import Colours, Ints, Palette

#: How many cells and arcs are coloured at once; more graphs than that go one portion after another.
_PORTION = 20_000_000


def classes(
    graphs: Source | list[Thing],
    test: str = "dss",
    policy: Policy | str | None = None,
    *,
    node_labels: bool = True,
    edge_labels: bool = True,
) -> torch.Tensor:
    """One integer a graph: two graphs have the same if and only if the test does not tell them apart.

    All graphs are refined together, with one palette, until each is alone in its class or its colours are stable;
    no two are ever compared by themselves. Isomorphic graphs are always in one class; the reverse holds only as far
    as the test is strong enough.

    Args:
        graphs: a PyG dataset, or a list of whatever `esan.graphs.graph_of` reads.
        test: "1", "ds", "dss", "dss-excluding", "2-fwl" or "ds-2-fwl".
        policy: how subgraphs are selected, an object or a name, for the tests that work on bags.
        node_labels: whether the lines of `x`, integers, are initial colours; False ignores them.
        edge_labels: whether the lines of `edge_attr`, integers, are labels of edges; False ignores them.
    """
    kind = test_named(test)
    chosen = policy_for(kind, policy)
    read = collection(graphs)
    labels = labels_of(read, Palette(), node_labels, edge_labels)
    selection = chosen.select(read)
    result = np.zeros(len(read), dtype=np.int64)
    used = 0
    for ids in _portions(read, selection, labels, kind):
        part = torch.from_numpy(ids)
        board = kind.board(read.take(part), selection.take(part, read), labels.take(read, part))
        found = partition(board)
        result[ids] = used + found.values
        used += found.count
    return torch.from_numpy(_by_first_appearance(result))


def partition(board: Board) -> Colours:
    """The class of each graph on the board, when nothing more can part."""
    for state in rounds(board):
        last = state
    return last.classes


@dataclass(frozen=True, eq=False)
class Round:
    """Where a collection stands after a round.

    Attributes:
        number: rounds of refinement so far; 0 is the initial colouring (the paper's tables count it as 1).
        classes: the class of each graph so far.
        colours: how many colours the graphs that were refined in this round have together.
    """

    number: int
    classes: Colours
    colours: int


def rounds(board: Board) -> Iterator[Round]:
    """Refine until every graph is alone in its class or its colours are stable; one record a round.

    A graph that is alone stays alone, and a class whose colours did not multiply is stable for good; neither says
    anything about the others' colours, so both leave the board.
    """
    palette = Palette()
    colours = board.initial(palette)
    found = board.graph_colours(palette, colours)
    # Which graph of the whole collection each graph on the board is.
    place = np.arange(len(board.graphs))
    yield Round(0, found, colours.count)
    number = 0
    active = _crowded(found, place)
    while active.any():
        if active.sum() < place.size:
            colours = palette.rank(colours.values[active[board.cell_graph]], colours.count)
            board, place = board.only(active), place[active]
        number += 1
        refined = board.refine(palette, colours)
        parted = palette.pair(found[place], board.graph_colours(palette, refined))
        stable = ~_split(found[place], parted) & (_variety(board, refined) == _variety(board, colours))
        values = found.values.copy()
        values[place] = found.count + parted.values
        found = Palette().rank(values, found.count + parted.count)
        yield Round(number, found, refined.count)
        active = _crowded(found, place) & ~stable
        colours = refined


def _crowded(found: Colours, place: Ints) -> np.ndarray:
    """Which of the graphs `place` share their class with another."""
    return np.bincount(found.values, minlength=found.count)[found.values[place]] > 1


def _split(before: Colours, after: Colours) -> np.ndarray:
    """For each graph, whether its class has fallen apart."""
    parts = Palette().pair(before, after)
    example = np.zeros(parts.count, dtype=np.int64)
    example[parts.values] = np.arange(len(parts))
    number_of_parts = np.bincount(before.values[example], minlength=before.count)
    return number_of_parts[before.values] > 1


def _variety(board: Board, colours: Colours) -> Ints:
    """How many different colours each graph has."""
    key = np.unique(board.cell_graph * colours.count + colours.values)
    return np.bincount(key // colours.count, minlength=len(board.graphs))


def _portions(graphs: Graphs, selection: Selection, labels: Labels, kind: Test) -> Iterator[Ints]:
    """The graphs in portions of bounded size; those that may turn out alike are always in the same portion.

    Graphs are alike only if they have as many nodes, subgraphs, edges in those subgraphs, and each initial label as
    often; a graph that is alone with its numbers stays a portion's smallest part.
    """
    palette = Palette()
    held = np.bincount(
        numpy(graphs.edge_graph), weights=numpy(selection.holders(graphs)), minlength=len(graphs)
    ).astype(np.int64)
    used = palette.multiset(numpy(graphs.node_graph), labels.node, len(graphs))
    numbers = np.stack([numpy(graphs.num_nodes), numpy(selection.num_subgraphs), held, used.values], 1)
    alike = palette.lines(numbers)
    order = np.argsort(alike.values, kind="stable")
    n, m = numbers[:, 0], numbers[:, 1]
    size = m * n**3 if kind.couples else n * m + 2 * held
    sum_of = np.bincount(alike.values, weights=size, minlength=alike.count)
    portion = np.floor(np.cumsum(sum_of) / _PORTION).astype(np.int64)
    of_graph = portion[alike.values[order]]
    return iter(np.sort(part) for part in np.split(order, np.flatnonzero(np.diff(of_graph)) + 1))


def _by_first_appearance(values: Ints) -> Ints:
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    number = np.empty_like(first)
    number[np.argsort(first)] = np.arange(first.size)
    return number[inverse]
