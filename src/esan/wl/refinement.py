"""`ColourRefinement`: the elements that a WL test colours (nodes, pairs, ...), and one round of colour refinement."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from esan.graphs import Graphs
from esan.policies import Selection
from esan.wl.palette import Colours, Ints, Palette


@dataclass(frozen=True, eq=False)
class Labels:
    """Initial colours of a collection: one per node and one per directed edge; constant without features."""

    node: Colours
    edge: Colours

    def take(self, graphs: Graphs, ids: Tensor) -> "Labels":
        """The labels of the graphs `ids`, numbered as before."""
        node = torch.zeros(len(graphs), dtype=torch.bool)
        node[ids] = True
        edge_graph = torch.repeat_interleave(graphs.num_directed_edges)
        return Labels(self.node[numpy(node[graphs.node_graph])], self.edge[numpy(node[edge_graph])])


@dataclass(frozen=True, eq=False)
class SeenCells:
    """What some cells see in a round, besides themselves: other cells, whose colours go into theirs.

    Attributes:
        ptr: where what each cell sees begins, `[cells + 1]`.
        cell: the cells that are seen.
        other: the second cell of each pair, for tests where pairs are seen; None for others.
        label: the label of the edge that each is seen along; None where edges have none.
    """

    ptr: Ints
    cell: Ints
    other: Ints | None = None
    label: Ints | None = None


class ColourRefinement(ABC):
    """Cells of any number of bags, graph by graph, subgraph by subgraph, and the rule that refines their colours.

    Args:
        graphs: the graphs.
        selection: their subgraphs.
        labels: the initial colours.
    """

    #: What a round hashes, in the paper's letters.
    rule: str

    #: Whether a cell is an ordered couple of nodes instead of a node.
    couples = False
    #: Whether a round also looks at what a node has in all subgraphs.
    shares = False

    #: The subgraph of each cell, ascending.
    cell_subgraph: Ints
    #: The node of each cell, numbered through all graphs; where cells are couples, the first of them.
    cell_node: Ints

    def __init__(self, graphs: Graphs, selection: Selection, labels: Labels) -> None:
        self.graphs, self.selection, self.labels = graphs, selection, labels
        self.subgraph_graph = numpy(selection.subgraph_graph)

    @cached_property
    def cell_graph(self) -> Ints:
        return self.subgraph_graph[self.cell_subgraph]

    @abstractmethod
    def initial(self, palette: Palette) -> Colours:
        """The colours of round 0."""

    @abstractmethod
    def refine(self, palette: Palette, colours: Colours) -> Colours:
        """The colours of the next round; two cells that differ go on to differ."""

    @abstractmethod
    def seen(self, cells: Ints) -> SeenCells:
        """The cells of the same subgraph that each of these sees in a round."""

    def nodes_of(self, cell: int) -> tuple[int, ...]:
        """The node of a cell, or its couple of nodes, numbered within its graph."""
        start = numpy(self.graphs.node_start)[self.cell_graph[cell]]
        return (int(self.cell_node[cell] - start),)

    def subgraph_colours(self, palette: Palette, colours: Colours) -> Colours:
        r""":math:`c_S = \mathrm{HASH}(\{\{c_{v,S} : v \in S\}\})`, one colour per subgraph."""
        return palette.multiset(self.cell_subgraph, colours, self.subgraph_graph.size)

    def graph_colours(self, palette: Palette, colours: Colours) -> Colours:
        r""":math:`c_G = \{\{c_S : S \in \mathcal{G}\}\}`, one colour per graph: what a test compares."""
        return palette.multiset(self.subgraph_graph, self.subgraph_colours(palette, colours), len(self.graphs))

    def only(self, kept: np.ndarray) -> "ColourRefinement":
        """The same refinement for the graphs where `kept` is true."""
        ids = torch.from_numpy(np.flatnonzero(kept))
        taken = self.graphs.take(ids)
        return type(self)(taken, self.selection.take(ids, self.graphs), self.labels.take(self.graphs, ids))


def numpy(tensor: Tensor) -> Ints:
    return tensor.detach().cpu().numpy()
