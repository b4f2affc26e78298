"""`History`: colours for pictures and explanations: stable numbers round by round, and the multiset of each."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from esan.graphs import Graphs, Source
from esan.graphs.readers.one_graph import GraphLike
from esan.policies import Policy
from esan.wl.inputs import collection, labels_of
from esan.wl.palette import Colours, Ints, Palette
from esan.wl.refinement import ColourRefinement
from esan.wl.registry import Test, policy_for, test_named


class Numbering:
    """Numbers for colours that stay while others are split off: the largest part of a class keeps its number.

    After each round the numbers in use are 0 to the number of colours - 1.

    Args:
        initial: the colours of round 0, which are their own numbers.
    """

    def __init__(self, initial: Colours) -> None:
        self._colours = initial
        self._number = np.arange(initial.count)

    @property
    def numbers(self) -> Ints:
        """The number of each cell's colour."""
        return self._number[self._colours.values]

    def follow(self, refined: Colours) -> Ints:
        """The numbers after one more round, whose colours refine those before."""
        parent = np.zeros(refined.count, dtype=np.int64)
        parent[refined.values] = self._colours.values
        size = np.bincount(refined.values, minlength=refined.count)
        order = np.lexsort((np.arange(refined.count), -size, parent))
        largest = np.ones(order.size, dtype=bool)
        np.not_equal(parent[order][1:], parent[order][:-1], out=largest[1:])
        number = np.empty(refined.count, dtype=np.int64)
        number[order] = np.where(largest, self._number[parent[order]], self._colours.count - 1 + np.cumsum(~largest))
        self._colours, self._number = refined, number
        return self.numbers


@dataclass(frozen=True, eq=False)
class Meanings:
    """What each colour of a round stands for: what its cells were, and what they saw, in numbers of the round before.

    Attributes:
        was: the number of each colour's cells in the round before, `[colours]`.
        ptr: where what each colour saw begins, `[colours + 1]`.
        saw: the numbers that were seen, ascending for each colour, `[entries]`; `[entries, 2]` for tests of couples,
            where (u, v) sees a pair of colours through every node w.
        label: the label of the edge that each was seen along, `[entries]`; None where edges have none.
        copies: what each cell's node has in all subgraphs, as the number of a multiset of `History.copies`,
            `[colours]`; None for tests that do not look at it.
        example: the first cell of each colour, `[colours]`.
    """

    was: Ints
    ptr: Ints
    saw: Ints
    label: Ints | None
    copies: Ints | None
    example: Ints

    def seen_by(self, number: int) -> list[int] | list[tuple[int, int]]:
        """What the colour saw, as a sorted list."""
        mine = self.saw[self.ptr[number] : self.ptr[number + 1]]
        return [tuple(pair) for pair in mine.tolist()] if mine.ndim == 2 else mine.tolist()


@dataclass(frozen=True, eq=False)
class NodeMultisets:
    """The multisets that nodes have over all subgraphs: what DSS-WL shares between the subgraphs.

    Attributes:
        of_node: the number of each node's multiset, nodes numbered through all graphs, `[N]`.
        ptr: where each multiset begins, `[multisets + 1]`.
        number: the colours in it, ascending.
        times: how often each occurs.
    """

    of_node: Ints
    ptr: Ints
    number: Ints
    times: Ints

    def of(self, multiset: int) -> list[tuple[int, int]]:
        """The colours of a multiset, each with how often it occurs."""
        mine = slice(self.ptr[multiset], self.ptr[multiset + 1])
        return list(zip(self.number[mine].tolist(), self.times[mine].tolist(), strict=True))


def meanings(refinement: ColourRefinement, before: Ints, now: Ints) -> Meanings:
    """What the colours `now` stand for, given the numbers `before` of the round before."""
    colours = int(now.max(initial=-1)) + 1
    example = np.zeros(colours, dtype=np.int64)
    example[now[::-1]] = np.arange(now.size)[::-1]
    seen = refinement.seen(example)
    owner = np.repeat(np.arange(colours), np.diff(seen.ptr))
    first = before[seen.cell]
    second = before[seen.other] if seen.other is not None else seen.label
    order = np.lexsort((first, owner) if second is None else (second, first, owner))
    saw = first[order] if seen.other is None else np.stack([first, before[seen.other]], 1)[order]
    label = None if seen.label is None else seen.label[order]
    copies = copies_of(refinement, before)
    shared = None if copies is None else copies.of_node[refinement.cell_node[example]]
    return Meanings(before[example], seen.ptr, saw, label, shared, example)


def copies_of(refinement: ColourRefinement, numbers: Ints) -> NodeMultisets | None:
    """What each node has in all subgraphs, if the test looks at it."""
    if not refinement.shares:
        return None
    colours = int(numbers.max(initial=0)) + 1
    nodes = refinement.graphs.node_graph.numel()
    found = Palette().multiset(refinement.cell_node, Colours(numbers, colours), nodes)
    example = np.zeros(found.count, dtype=np.int64)
    example[found.values[::-1]] = np.arange(nodes)[::-1]
    # The multisets are ranks of what they hold; readers get them in the order in which nodes have them.
    place = np.empty(found.count, dtype=np.int64)
    place[np.argsort(example, kind="stable")] = np.arange(found.count)
    key, times = np.unique(place[found.values][refinement.cell_node] * colours + numbers, return_counts=True)
    size = np.bincount(place[found.values], minlength=found.count)
    ptr = np.searchsorted(key // colours, np.arange(found.count + 1))
    return NodeMultisets(place[found.values], ptr, key % colours, times // size[key // colours])


class History:
    """The colours of some graphs under one test, with numbers that can be followed from round to round.

    Args:
        graphs: the graphs, coloured together: equal numbers are equal colours.
        test: the name of the test.
        policy: how subgraphs are selected, for the tests that work on bags; None for edge deletion.
        node_labels: whether the rows of `x`, integers, are initial colours.
        edge_labels: whether the rows of `edge_attr`, integers, are labels of edges.

    Attributes:
        graphs: the collection.
        kind: the test.
        policy: the policy; the bag {G} for a test of whole graphs.
        refinement: the cells and the rule.
        numbers: the number of each cell's colour after each round; the last are stable.
        graph_colours: the colour of each graph after each round, by which the test compares them.
        subgraph_colours: the colour of each subgraph after each round.
        parted: the first round after which not all graphs have one colour; None if there is none.
    """

    def __init__(
        self,
        graphs: Source | list[GraphLike],
        test: str = "dss",
        policy: Policy | str | None = None,
        *,
        node_labels: bool = True,
        edge_labels: bool = True,
    ) -> None:
        self.kind: Test = test_named(test)
        self.policy = policy_for(self.kind, policy)
        self.graphs: Graphs = collection(graphs)
        palette = Palette()
        labels = labels_of(self.graphs, palette, node_labels, edge_labels)
        self.refinement = self.kind.refinement(self.graphs, self.policy.select(self.graphs), labels)
        self.graph_colours: list[Ints] = []
        self.subgraph_colours: list[Ints] = []
        colours = self.refinement.initial(palette)
        numbering = Numbering(colours)
        self.numbers = [numbering.numbers]
        self._compare(palette, colours)
        while (refined := self.refinement.refine(palette, colours)).count > colours.count:
            colours = refined
            self.numbers.append(numbering.follow(colours))
            self._compare(palette, colours)
        apart = [t for t, found in enumerate(self.graph_colours) if np.unique(found).size > 1]
        self.parted = apart[0] if apart else None

    def _compare(self, palette: Palette, colours: Colours) -> None:
        subgraphs = self.refinement.subgraph_colours(palette, colours)
        self.subgraph_colours.append(subgraphs.values)
        self.graph_colours.append(palette.multiset(self.refinement.subgraph_graph, subgraphs, len(self.graphs)).values)

    @property
    def rounds(self) -> int:
        """How many rounds there are, the initial colouring included."""
        return len(self.numbers)

    @cached_property
    def _meanings(self) -> dict[int, Meanings]:
        return {}

    def meanings(self, t: int) -> Meanings:
        """What each colour of round t, from 1 on, stands for."""
        if t not in self._meanings:
            self._meanings[t] = meanings(self.refinement, self.numbers[t - 1], self.numbers[t])
        return self._meanings[t]

    def copies(self, t: int) -> NodeMultisets | None:
        """What each node has in all subgraphs after round t, for the tests that look at it."""
        return copies_of(self.refinement, self.numbers[t])

    def of(self, graph: int, t: int, subgraph: int | None = None) -> list[int]:
        """The numbers of one graph, or of one of its subgraphs, after round t; rounds after the last are like it."""
        numbers, refinement = self.numbers[min(t, self.rounds - 1)], self.refinement
        if subgraph is None:
            return numbers[refinement.cell_graph == graph].tolist()
        first = int(refinement.selection.subgraph_start[graph])
        return numbers[refinement.cell_subgraph == first + subgraph].tolist()
