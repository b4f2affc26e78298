"""`Colouring`: the colours that a test gives to one graph, round by round, until they are stable."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from esan.graphs import Source
from esan.graphs.readers.one_graph import GraphLike
from esan.policies import Policy
from esan.wl.inputs import collection, labels_of
from esan.wl.palette import Colours, Palette
from esan.wl.refinement import ColourRefinement, numpy
from esan.wl.registry import Test, policy_for, test_named


@dataclass(frozen=True, eq=False)
class Colouring:
    """The colours of one graph after each round.

    Attributes:
        test: the name of the test.
        policy: the policy, None for a test of whole graphs.
        rounds: the colours after round 0 (the initial ones), 1, ...; the last are stable. `[n]` for "1", `[m, n]` for
            tests on bags, `[n, n]` for "2-fwl" and `[m, n, n]` for "ds-2-fwl".
        subgraphs: the colour of each subgraph after each round, `[m]` each.
        graphs: the colour of the graph after each round.
        certificate: what all colours stand for, as bytes. Two graphs that are coloured each on its own have equal
            certificates if and only if the test does not separate them. Empty where graphs were coloured together.
    """

    test: str
    policy: Policy | None
    rounds: tuple[Tensor, ...]
    subgraphs: tuple[Tensor, ...]
    graphs: tuple[int, ...]
    certificate: bytes = field(default=b"", repr=False)

    @property
    def stable(self) -> Tensor:
        """The colours that no further round divides."""
        return self.rounds[-1]

    @property
    def stable_after(self) -> int:
        """The round after which nothing was divided any more."""
        return len(self.rounds) - 1

    def histogram(self, number: int = -1) -> Counter[int]:
        """How often each colour occurs after a round, by default the last."""
        return Counter(self.rounds[number].reshape(-1).tolist())


def colouring(
    graph: GraphLike,
    test: str = "dss",
    policy: Policy | str | None = None,
    *,
    node_labels: bool = True,
    edge_labels: bool = True,
) -> Colouring:
    """The colours of one graph, round by round; arguments as in `separates`.

    The numbers are canonical: an isomorphic graph gets the same histogram, and the same certificate.
    """
    palette = Palette(recording=True)
    (found,) = _together([graph], test, policy, palette, node_labels, edge_labels)
    return Colouring(found.test, found.policy, found.rounds, found.subgraphs, found.graphs, palette.certificate)


def colourings(
    graphs: Source | list[GraphLike],
    test: str = "dss",
    policy: Policy | str | None = None,
    *,
    node_labels: bool = True,
    edge_labels: bool = True,
) -> list[Colouring]:
    """The colours of several graphs with one palette: equal numbers in two graphs are equal colours.

    All are refined until the colours of all are stable. Arguments as in `classes`.
    """
    return _together(graphs, test, policy, Palette(), node_labels, edge_labels)


def _together(
    graphs: Source | list[GraphLike],
    test: str,
    policy: Policy | str | None,
    palette: Palette,
    node_labels: bool,
    edge_labels: bool,
) -> list[Colouring]:
    kind = test_named(test)
    chosen = policy_for(kind, policy)
    read = collection(graphs)
    refinement = kind.refinement(read, chosen.select(read), labels_of(read, palette, node_labels, edge_labels))
    colours = refinement.initial(palette)
    steps = [_RoundColours.of(refinement, palette, colours)]
    while True:
        refined = refinement.refine(palette, colours)
        if refined.count == colours.count:
            break
        colours = refined
        steps.append(_RoundColours.of(refinement, palette, colours))
    shown = chosen if kind.subgraphs else None
    return [_one(refinement, kind, shown, steps, graph) for graph in range(len(read))]


@dataclass(frozen=True, eq=False)
class _RoundColours:
    cells: Colours
    subgraphs: Colours
    graphs: Colours

    @staticmethod
    def of(refinement: ColourRefinement, palette: Palette, colours: Colours) -> "_RoundColours":
        subgraphs = refinement.subgraph_colours(palette, colours)
        graphs = palette.multiset(refinement.subgraph_graph, subgraphs, len(refinement.graphs))
        return _RoundColours(colours, subgraphs, graphs)


def _one(
    refinement: ColourRefinement, kind: Test, policy: Policy | None, steps: list[_RoundColours], graph: int
) -> Colouring:
    n, m = int(refinement.graphs.num_nodes[graph]), int(refinement.selection.num_subgraphs[graph])
    shape = (m, *(n, n)) if kind.couples else (m, n)
    mine, of_bag = refinement.cell_graph == graph, numpy(refinement.selection.subgraph_graph) == graph

    def cells(step: _RoundColours) -> Tensor:
        values = torch.from_numpy(np.ascontiguousarray(step.cells.values[mine])).reshape(shape)
        return values if kind.subgraphs else values[0]

    return Colouring(
        test=kind.name,
        policy=policy,
        rounds=tuple(cells(step) for step in steps),
        subgraphs=tuple(torch.from_numpy(step.subgraphs.values[of_bag]) for step in steps),
        graphs=tuple(int(step.graphs.values[graph]) for step in steps),
    )
