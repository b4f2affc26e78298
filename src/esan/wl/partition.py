"""`classes`: the partition of a collection into classes of graphs that a test cannot tell apart."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from esan.graphs import Graphs, Source
from esan.graphs.readers.one_graph import GraphLike
from esan.policies import Policy, Selection
from esan.wl.inputs import collection, labels_of
from esan.wl.palette import Colours, Ints, Palette, distinct
from esan.wl.refinement import ColourRefinement, Labels, numpy
from esan.wl.registry import Test, policy_for, test_named


@dataclass(frozen=True)
class Limits:
    """When a collection is divided and what is refined made smaller; classes do not depend on it.

    Attributes:
        portion: how many cells and edges are coloured at once; more graphs than that go one portion after another.
        rebuild: finished graphs are left out when a smaller share than this is left; before that, carrying them
            along is cheaper.
    """

    portion: int = 20_000_000
    rebuild: float = 0.7


def classes(
    graphs: Source | list[GraphLike],
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
        policy: how subgraphs are selected, an object or a name, for the tests that work on bags; None for
            edge deletion.
        node_labels: whether the lines of `x`, integers, are initial colours; False ignores them.
        edge_labels: whether the lines of `edge_attr`, integers, are labels of edges; False ignores them.
    """
    kind = test_named(test)
    chosen = policy_for(kind, policy)
    read = collection(graphs)
    labels = labels_of(read, Palette(), node_labels, edge_labels)
    return torch.from_numpy(divide(read, chosen.select(read), labels, kind))


def divide(read: Graphs, selection: Selection, labels: Labels, kind: Test, limits: Limits = Limits()) -> Ints:
    """The class of each graph, numbered as they appear."""
    # A graph that is in no portion is alone with its numbers of nodes, subgraphs and edges: a class of its own.
    result = np.arange(len(read))
    used = len(read)
    for ids in portions(read, selection, labels, kind, limits.portion):
        part = torch.from_numpy(ids)
        refinement = kind.refinement(read.take(part), selection.take(part, read), labels.take(read, part))
        found = partition(refinement, limits.rebuild)
        result[ids] = used + found.values
        used += found.count
    return _by_first_appearance(result)


def partition(refinement: ColourRefinement, rebuild: float = Limits.rebuild) -> Colours:
    """The class of each graph that is refined, when nothing more can part."""
    for state in rounds(refinement, rebuild):
        last = state
    return last.classes


@dataclass(frozen=True, eq=False)
class Round:
    """Where a collection stands after a round.

    Attributes:
        number: rounds of refinement so far; 0 is the initial colouring (the paper's tables count it as 1).
        classes: the class of each graph so far.
        colours: how many colours the graphs that were refined in this round have together.
        cells: the colours of their cells.
    """

    number: int
    classes: Colours
    colours: int
    cells: Colours


def rounds(refinement: ColourRefinement, rebuild: float = Limits.rebuild) -> Iterator[Round]:
    """Refine until every graph is alone in its class or its colours are stable; one record a round.

    A graph that is alone stays alone, and a class whose colours did not multiply is stable for good; neither says
    anything about the others' colours, so both may be left out.
    """
    palette = Palette()
    colours = refinement.initial(palette)
    found = refinement.graph_colours(palette, colours)
    # Which graph of the whole collection each graph that is still refined is.
    place = np.arange(len(refinement.graphs))
    yield Round(0, found, colours.count, colours)
    number = 0
    active = _crowded(found, place)
    while active.any():
        if active.sum() < rebuild * place.size:
            colours = palette.rank(colours.values[active[refinement.cell_graph]], colours.count)
            refinement, place = refinement.only(active), place[active]
        number += 1
        refined = refinement.refine(palette, colours)
        parted = palette.pair(found[place], refinement.graph_colours(palette, refined))
        stable = _stable(refinement, found[place], parted, colours, refined)
        values = found.values.copy()
        values[place] = found.count + parted.values
        found = Palette().rank(values, found.count + parted.count)
        yield Round(number, found, refined.count, refined)
        active = _crowded(found, place) & ~stable
        colours = refined


def _crowded(found: Colours, place: Ints) -> np.ndarray:
    """Which of the graphs `place` share their class with another."""
    return np.bincount(found.values, minlength=found.count)[found.values[place]] > 1


def _stable(
    refinement: ColourRefinement, before: Colours, after: Colours, colours: Colours, refined: Colours
) -> np.ndarray:
    """For each graph, whether its class stayed whole and its colours did not multiply: then they never will.

    The graphs of a class have equal histograms, so one of them speaks for all.
    """
    parts = Palette().pair(before, after)
    example = np.zeros(parts.count, dtype=np.int64)
    example[parts.values] = np.arange(len(parts))
    whole = np.bincount(before.values[example], minlength=before.count)[before.values[example]] == 1
    speaks = np.zeros(len(before), dtype=bool)
    speaks[example[whole]] = True
    cell = speaks[refinement.cell_graph]
    graph = refinement.cell_graph[cell]
    grown = _variety(graph, refined[cell], len(before)) > _variety(graph, colours[cell], len(before))
    return (whole & ~grown[example])[parts.values]


def _variety(graph: Ints, colours: Colours, graphs: int) -> Ints:
    """How many different colours each graph has."""
    key = np.sort(graph * colours.count + colours.values)
    return np.bincount(key[distinct(key)] // colours.count, minlength=graphs)


def portions(graphs: Graphs, selection: Selection, labels: Labels, kind: Test, most: int) -> Iterator[Ints]:
    """The graphs that may be like another, in portions of about `most` cells and edges; those alike share one.

    Graphs are alike only if they have as many nodes, subgraphs, edges in those subgraphs, and each initial label as
    often. Those that share these numbers with no other need no test.
    """
    palette = Palette()
    holders = numpy(selection.subgraphs_per_edge(graphs))
    held = np.bincount(numpy(graphs.edge_graph), weights=holders, minlength=len(graphs)).astype(np.int64)
    used = palette.multiset(numpy(graphs.node_graph), labels.node, len(graphs))
    n, m = numpy(graphs.num_nodes), numpy(selection.num_subgraphs)
    alike = palette.lines(np.stack([n, m, held, used.values], 1))
    crowded = np.bincount(alike.values)[alike.values] > 1
    size = np.where(crowded, m * n**3 if kind.couples else n * m + 2 * held, 0)
    total = np.cumsum(np.bincount(alike.values, weights=size, minlength=alike.count))
    portion = (total // most).astype(np.int64)[alike.values]
    order = np.argsort(portion, kind="stable")
    order = order[crowded[order]]
    parts = np.split(order, np.flatnonzero(np.diff(portion[order])) + 1)
    return (part for part in parts if part.size)


def _by_first_appearance(values: Ints) -> Ints:
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    number = np.empty_like(first)
    number[np.argsort(first)] = np.arange(first.size)
    return number[inverse]
